//! JSON-RPC 2.0 envelopes: bytes to [`decode::Message`]s and back.

pub(crate) mod decode;
pub(crate) mod encode;
