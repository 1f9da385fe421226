//! The most memory that an endpoint may hold, layer by layer.
//!
//! It is the formula of G8, as code.

use core::fmt;

use protocol_core::Limits;

use crate::alarms::AlarmId;
use crate::effects::Effect;
use crate::inbox::Inbox;
use crate::message::Request;
use crate::names::Names;
use crate::options::Options;
use crate::outgoing::SHORTEST;
use crate::responses::WaitingResponses;
use crate::rows::Calls;
use crate::state::{Core, Endpoint};

/// The places that a queue, a buffer or a table has on the heap for each entry in it, at most.
///
/// It may have two for each, and holds its old allocation beside the new one while it grows.
const GROWN: usize = 3;

/// The most bytes of heap that one connection holds at any moment, layer by layer.
///
/// This is the bound of guarantee G8 over all layers.
///
/// Each field is a sum of limits, each times the size of one entry. Memory of the host's own code is not
/// included: the data of handlers, the lines of a trace, the tasks of a runtime.
///
/// ```
/// use protocol_endpoint::{Endpoint, Options};
/// use protocol_core::{Config, Dialect};
///
/// let mut options = Options::new(Config::server(Dialect::LSP_3_17));
/// options.inbox_bytes = 1 << 20;
/// let memory = Endpoint::<(), ()>::memory(&options);
/// assert!(memory.inbox < 20 << 20, "it, and one message that is alone");
/// assert!(memory.total() > memory.core);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Memory {
    /// The tables of the core: [`Connection::memory`](protocol_core::Connection::memory).
    pub core: usize,
    /// The data beside each call and request: marks, names, spans and waiters.
    pub handles: usize,
    /// Arrivals that nobody has taken: [`Options::inbox_bytes`].
    pub inbox: usize,
    /// Requests at work: [`Options::work_bytes`].
    pub work: usize,
    /// Responses that wait for room: [`Options::response_bytes`].
    pub responses: usize,
    /// Outcomes of calls that nobody has taken: [`Options::result_bytes`], and a row for each call in
    /// flight. A host that keeps the handle of a settled call keeps one more row for it.
    pub results: usize,
    /// Messages that a [cork](Endpoint::cork) holds back: [`Limits::unsent_bytes`] once more.
    pub corked: usize,
    /// Bytes that were read and are no whole message yet.
    pub reading: usize,
    /// Messages on their way out.
    pub writing: usize,
    /// Memory of the transport itself, such as the buffers of a WebSocket. 0 unless the host sets it.
    pub transport: usize,
    /// Lines of a log or a recording on their way. The libraries keep none, so it is 0 unless the host sets
    /// it.
    pub logs: usize,
}

impl<W, M> Endpoint<W, M> {
    /// Returns the most bytes of heap that an endpoint with these options holds over two streams of
    /// bytes, with the buffers of its host.
    #[must_use]
    pub fn memory(options: &Options) -> Memory {
        let limits = &options.config.limits;
        let Limits { calls, requests, batch_members, unsent_bytes, .. } = *limits;
        // A message has its framing, too.
        let message = limits.message_bytes.saturating_add(limits.header_bytes);
        let effect = GROWN * size_of::<Effect<W, M>>();
        Memory {
            core: Core::<M>::memory(limits),
            handles: sum(&[
                (1, FIXED),
                (calls, Names::ROW + effect),
                (requests, Names::ROW + effect + GROWN * size_of::<(AlarmId, W)>()),
                (batch_members, effect),
            ]),
            inbox: Inbox::memory(options.inbox_bytes).saturating_add(message),
            work: options.work_bytes.saturating_add(message + size_of::<Request>()),
            responses: sum(&[
                (1, options.response_bytes),
                (requests, GROWN * WaitingResponses::ROW),
            ]),
            results: sum(&[(1, options.result_bytes), (1, message), (calls, Calls::<W>::ROW)]),
            corked: written(unsent_bytes),
            // As `InputBuffer` documents.
            reading: sum(&[(3, message), (2, options.pipe_bytes)]),
            // The last message that is taken may begin just below the bound.
            writing: written(unsent_bytes.saturating_add(options.pipe_bytes)),
            transport: 0,
            logs: 0,
        }
    }
}

/// The bytes of tables that begin with a few places.
const FIXED: usize = 8 << 10;

impl Memory {
    /// Returns the same for a transport that keeps messages apart, such as a WebSocket, and itself holds
    /// `transport` bytes.
    #[must_use]
    pub const fn over(self, transport: usize) -> Self {
        Self { reading: 0, transport, ..self }
    }

    /// Returns each layer with its bytes.
    #[must_use]
    pub const fn rows(&self) -> [(&'static str, usize); 11] {
        [
            ("core", self.core),
            ("handles", self.handles),
            ("inbox", self.inbox),
            ("work", self.work),
            ("responses", self.responses),
            ("results", self.results),
            ("corked", self.corked),
            ("reading", self.reading),
            ("writing", self.writing),
            ("transport", self.transport),
            ("logs", self.logs),
        ]
    }

    /// Returns the sum of all layers.
    #[must_use]
    pub fn total(&self) -> usize {
        self.rows().iter().fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }
}

/// Writes a line for each layer, and one for the sum.
impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, bytes) in self.rows() {
            writeln!(f, "{name:<10}{bytes:>14}")?;
        }
        write!(f, "{:<10}{:>14}", "total", self.total())
    }
}

/// Returns the bytes of buffers that grow, for messages of this size and the position at which each ends.
const fn written(bytes: usize) -> usize {
    let ends = bytes / SHORTEST * size_of::<usize>();
    bytes.saturating_add(ends).saturating_mul(GROWN)
}

fn sum(parts: &[(usize, usize)]) -> usize {
    parts.iter().fold(0, |sum, (times, bytes)| times.saturating_mul(*bytes).saturating_add(sum))
}

#[cfg(test)]
mod tests {
    use protocol_core::{Config, Dialect};
    use serde_json::value::to_raw_value;

    use super::*;

    #[test]
    fn f44_the_longest_request_has_room_beside_all_others() {
        let mut options = Options::new(Config::server(Dialect::ACP_V1));
        options.config.limits.header_bytes = 0;
        options.work_bytes = 1_000;
        // The rest of its message is not counted.
        let params = "x".repeat(options.config.limits.message_bytes - 100);
        let params = to_raw_value(&params).ok();
        let longest = Request { method: "work".into(), params, options: None };
        assert!(Endpoint::<(), ()>::memory(&options).work >= 1_000 + longest.bytes());
    }
}
