//! Envelopes, JSON-RPC 2.0's, ABP's and DAP's: bytes to [`decode::Message`]s and back.

pub(crate) mod abp;
mod dap;
pub(crate) mod decode;
pub(crate) mod encode;
