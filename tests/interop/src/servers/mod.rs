//! The same servers, side by side: with this library, and with what is usual.

pub mod acp_ours;
pub mod acp_sdk;
pub mod lsp_ours;
pub mod lsp_tower;
