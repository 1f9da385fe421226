//! Envelopes, JSON-RPC 2.0's and ABP's: bytes to [`decode::Message`]s and back.

pub(crate) mod abp;
pub(crate) mod decode;
pub(crate) mod encode;
mod raw;
mod scan;

#[cfg(feature = "std")]
pub use raw::write_value;
pub(crate) use scan::value;
