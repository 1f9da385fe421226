//! The same servers, side by side: with this library, and with the usual one.

pub mod acp_ours;
pub mod acp_sdk;
pub mod lsp_ours;
pub mod lsp_tower;
