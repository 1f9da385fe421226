//! The most memory that a host on one thread may hold.

use protocol_async::{Memory, Options, Request};
use protocol_endpoint::Call;

use super::host::Endpoint;

/// Returns the most bytes of heap that a [`Host`](super::Host) with these options holds at any moment.
///
/// This is the bound of guarantee G8. Each layer has its field. The memory of the transport and of handlers comes on top of it.
///
/// One request is at work at a time, so [`Options::work_bytes`](protocol_endpoint::Options::work_bytes)
/// is not in it. Each [`OwnCall`](super::OwnCall) that a host keeps above
/// [`Limits::calls`](protocol_core::Limits::calls) takes a place more.
///
/// `docs/memory.md` has a host in 64 KiB.
#[must_use]
pub fn memory(options: &Options) -> Memory {
    let limits = &options.config.limits;
    let mut memory = Endpoint::memory(&options.endpoint);
    // The list of dropped calls, which grows.
    let own = limits.calls.saturating_add(4).saturating_mul(3 * size_of::<Call>());
    memory.handles = memory.handles.saturating_add(own);
    let message = limits.message_bytes.saturating_add(limits.header_bytes);
    memory.work = message.saturating_add(size_of::<Request>());
    memory.corked = 0;
    memory
}
