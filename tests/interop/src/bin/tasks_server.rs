//! Our library on tokio as an MCP server with tasks, on standard input and output.

use protocol_core::{Config, Dialect};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let stdio = protocol_tokio::stdio(Config::server(Dialect::MCP_2025_11_25));
    rescind_interop::mcp::tasks::server().serve(&stdio.incoming).await;
}
