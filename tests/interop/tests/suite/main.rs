//! Released clients, servers and SDKs, with ours on the other side.

mod acp_http;
mod acp_rust;
mod acp_typescript;
mod exports;
mod guides;
mod lsp;
mod mcp_clients;
mod mcp_conformance;
mod mcp_servers;
mod readme;
mod servers;
mod simulated;
mod tapped;
mod works;
