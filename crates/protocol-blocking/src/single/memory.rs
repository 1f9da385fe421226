//! How much memory a host on one thread may hold: the formula of G8 over its layers.

use std::sync::Mutex;

use protocol_async::hub::Inbox;
use protocol_async::{CallError, Memory, Options, Request};
use protocol_core::{Cause, Connection};
use serde_json::value::RawValue;

use super::call::Place;

/// The most bytes of heap that a [`Host`](super::Host) with these options holds at any moment, layer by
/// layer (G8), beside what its transport and its handlers keep.
///
/// It serves one request at a time, so one is at work and one answer waits, which is of the handler's
/// making: longer than [`Limits::unsent_bytes`](protocol_core::Limits::unsent_bytes) it is replaced. Of what
/// became of calls it keeps as much as the host has made calls and not taken their outcomes
/// ([`OwnCall`](super::OwnCall)): a message for each of [`Limits::calls`](protocol_core::Limits::calls)
/// here.
///
/// `docs/memory.md` has a host in 64 KiB.
#[must_use]
pub fn memory(options: &Options) -> Memory {
    type Outcome = Result<Box<RawValue>, CallError>;

    let limits = &options.config.limits;
    let message = limits.message_bytes.saturating_add(limits.header_bytes);
    let place = size_of::<Mutex<Option<Outcome>>>() + size_of::<[usize; 2]>();
    let mut memory = options.memory();
    memory.core = Connection::<Place, Option<Cause>>::memory(limits);
    // What is dropped is told in a list of its own.
    memory.handles = limits.calls.saturating_mul(place + 3 * size_of::<u64>());
    memory.inbox = Inbox::memory(options.inbox_bytes).saturating_add(message);
    memory.work = message + size_of::<Request>();
    memory.answers = limits.unsent_bytes;
    memory.results = limits.calls.saturating_mul(message);
    memory.corked = 0;
    // A buffer that grows holds what it had beside that.
    memory.writing = limits.unsent_bytes.saturating_add(options.pipe_bytes).saturating_mul(3);
    memory
}
