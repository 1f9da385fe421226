//! How much memory a connection may hold, layer by layer: the formula of G8, as code. docs/memory.md
//! says what becomes of what does not fit.

use std::fmt;

use protocol_core::Limits;

use crate::afterwards::Afterward;
use crate::cancellation::Cancellation;
use crate::inbox::Inbox;
use crate::message::Request;
use crate::names::Names;
use crate::options::Options;
use crate::outcome::Outcomes;
use crate::outgoing::SHORTEST;
use crate::shared::Shared;
use crate::spans::Spans;
use crate::state::{Core, WaitingAnswers};

/// A queue, a buffer or a table that grows holds at most so much for each entry or byte in it: up to two
/// for one, and what it had beside that while it moves.
const GROWN: usize = 3;

/// The most bytes of heap that one connection holds at any moment, layer by layer.
///
/// This is the bound of guarantee G8 over all layers.
///
/// Each field is a sum of limits times the size of what is kept. What a host's own code keeps is not in
/// it: what a handler makes of what it is asked, what a trace writes down, the tasks of a runtime.
///
/// ```
/// use protocol_async::Options;
/// use protocol_core::{Config, Dialect};
///
/// let mut options = Options::new(Config::server(Dialect::LSP_3_17));
/// options.inbox_bytes = 1 << 20;
/// let memory = options.memory();
/// assert!(memory.inbox < 20 << 20, "it, and one message that is alone");
/// assert!(memory.total() > memory.core);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Memory {
    /// The core: [`Connection::memory`](protocol_core::Connection::memory).
    pub core: usize,
    /// What is kept beside each call and request: markers, names, spans, and who is told.
    pub handles: usize,
    /// Arrivals that nobody has taken: [`Options::inbox_bytes`].
    pub inbox: usize,
    /// Requests at work: [`Options::work_bytes`].
    pub work: usize,
    /// Answers that wait for room: [`Options::answer_bytes`].
    pub answers: usize,
    /// Outcomes of calls that nobody has taken: [`Options::result_bytes`], and a row for each call in
    /// flight. A host that keeps the handles of calls that are over keeps a row more for each.
    pub results: usize,
    /// What is held back by a [`Cork`](crate::Cork): [`Limits::unsent_bytes`] once more.
    pub corked: usize,
    /// Bytes that were read and are no whole message yet.
    pub reading: usize,
    /// Messages on their way out.
    pub writing: usize,
    /// What the transport keeps by itself, such as a WebSocket's buffers. 0 unless the host says more.
    pub transport: usize,
    /// Lines of a log or a recording on their way. The libraries keep none, so 0 unless the host says
    /// more.
    pub logs: usize,
}

impl Options {
    /// The most bytes of heap that a connection with these options holds over two streams of bytes.
    #[must_use]
    pub fn memory(&self) -> Memory {
        let limits = &self.config.limits;
        let Limits { calls, requests, batch_members, unsent_bytes, .. } = *limits;
        let message = longest(limits);
        let told = GROWN * size_of::<Afterward>();
        let spare = GROWN * size_of::<Cancellation>();
        Memory {
            core: Core::memory(limits),
            handles: sum(&[
                (1, FIXED),
                (calls, Names::ROW + Spans::CALL + told),
                (requests, Names::ROW + Spans::REQUEST + told + spare + Cancellation::HEAP),
                (batch_members, told),
            ]),
            inbox: Inbox::memory(self.inbox_bytes).saturating_add(message),
            work: self.work_bytes.saturating_add(message + size_of::<Request>()),
            answers: sum(&[(1, self.answer_bytes), (requests, GROWN * WaitingAnswers::ROW)]),
            results: sum(&[(1, self.result_bytes), (1, message), (calls, Outcomes::ROW)]),
            corked: written(unsent_bytes),
            // What an `InputBuffer` says of itself.
            reading: sum(&[(3, message), (2, self.pipe_bytes)]),
            // The last message that is taken may begin just below the bound.
            writing: written(unsent_bytes.saturating_add(self.pipe_bytes)),
            transport: 0,
            logs: 0,
        }
    }
}

/// What is there once: the state with its lock, the clock, and tables that begin with a few places.
const FIXED: usize = size_of::<Shared>() + (4 << 10);

impl Memory {
    /// The same over a transport that keeps messages apart, such as a WebSocket, which itself keeps so
    /// much.
    #[must_use]
    pub const fn over(self, transport: usize) -> Self {
        Self { reading: 0, transport, ..self }
    }

    /// Each layer with its bytes.
    #[must_use]
    pub const fn rows(&self) -> [(&'static str, usize); 11] {
        [
            ("core", self.core),
            ("handles", self.handles),
            ("inbox", self.inbox),
            ("work", self.work),
            ("answers", self.answers),
            ("results", self.results),
            ("corked", self.corked),
            ("reading", self.reading),
            ("writing", self.writing),
            ("transport", self.transport),
            ("logs", self.logs),
        ]
    }

    /// All of it.
    #[must_use]
    pub fn total(&self) -> usize {
        self.rows().iter().fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }
}

/// One row a line, and the sum.
impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, bytes) in self.rows() {
            writeln!(f, "{name:<10}{bytes:>14}")?;
        }
        write!(f, "{:<10}{:>14}", "total", self.total())
    }
}

/// One message with its framing.
const fn longest(limits: &Limits) -> usize {
    limits.message_bytes.saturating_add(limits.header_bytes)
}

/// Messages of so many bytes, with where each ends, in buffers that grow.
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
        // What else is in its message counts for nothing.
        let params = "x".repeat(options.config.limits.message_bytes - 100);
        let params = to_raw_value(&params).ok();
        let longest = Request { method: "work".into(), params, options: None };
        assert!(options.memory().work >= 1_000 + longest.bytes());
    }
}
