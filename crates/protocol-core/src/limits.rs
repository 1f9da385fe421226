//! The bounds of one connection's memory.

/// The bounds of one connection's memory.
///
/// [`Connection::memory`](crate::Connection::memory) is the number of bytes that a connection holds at
/// most under these limits (G8); with the defaults that is under 512 MiB. `docs/memory.md` states the
/// share of each limit. Everything above a limit gets a response, becomes an event or is refused to the
/// host. Only remembered ids are forgotten, the oldest first. A limit of zero allows nothing.
///
/// ```
/// use protocol_core::{Connection, Limits};
///
/// let mut limits = Limits::default();
/// limits.message_bytes = 64 << 10;
/// limits.calls = 100;
/// limits.requests = 100;
/// limits.unsent_bytes = 256 << 10;
/// assert!(Connection::<()>::memory(&limits) < Connection::<()>::memory(&Limits::DEFAULT));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Limits {
    /// The bytes of one incoming message; 16 MiB by default. A longer one is skipped. At its end, its call
    /// settles as malformed, or its request gets error -32600, if its outline has the id
    /// ([`take_outline`](crate::StreamConnection::take_outline)).
    pub message_bytes: usize,
    /// The bytes of the header block of one Content-Length frame; 8 KiB by default. A longer one closes
    /// the connection, because the beginning of the next message is then unknown.
    pub header_bytes: usize,
    /// The nesting of arrays and objects in one incoming message; 128 by default. A deeper one gets
    /// error -32600.
    pub depth: usize,
    /// The bytes of the id of an incoming request; 256 by default. A request with a longer id gets
    /// error -32600 with id null.
    pub id_bytes: usize,
    /// The members of one incoming batch; 1,000 by default.
    pub batch_members: usize,
    /// Our calls in flight, including dropped and detached ones; 16,384 by default.
    pub calls: usize,
    /// The peer's requests in flight, including cancelled ones that still need a response; 16,384 by
    /// default.
    pub requests: usize,
    /// The bytes of unsent messages and of responses kept back for an incomplete batch; 64 MiB by default.
    ///
    /// Cancels, stops of calls that were given up, and notices of cancelled operations may exceed it. When the
    /// responses kept back fill half of it, those of one batch are sent before the batch is complete.
    pub unsent_bytes: usize,
    /// The number of unsent messages; 262,144 by default. The same messages may exceed it.
    pub unsent_messages: usize,
    /// The number of ids that are remembered for each of these purposes; 4,096 by default.
    ///
    /// - Calls that settled without a response, to tell a late response from a duplicate one.
    /// - Cancels of settled calls that still wait for an acknowledgement or a token.
    /// - Calls that were given up, whose late result tells of work that goes on.
    /// - Requests that had their response, in dialects that acknowledge a cancel of one.
    /// - Progress tokens of cancelled requests, in dialects that send nothing more for one.
    pub abandoned_ids: usize,
    /// The number of cancels that came before their requests, where the transport can reorder messages;
    /// 1,024 by default. The oldest is forgotten first. None is forgotten because of its age.
    pub early_cancels: usize,
    /// The runs of work in progress that are watched, and the nested requests of all of them; 1,024 by default. More
    /// pass as any other messages do, and a stop does not reach them here.
    pub works: usize,
}

impl Limits {
    /// The defaults, as each field documents them.
    pub const DEFAULT: Self = Self {
        message_bytes: 16 << 20,
        header_bytes: 8 << 10,
        depth: 128,
        id_bytes: 256,
        batch_members: 1_000,
        calls: 16_384,
        requests: 16_384,
        unsent_bytes: 64 << 20,
        unsent_messages: 256 << 10,
        abandoned_ids: 4_096,
        early_cancels: 1_024,
        works: 1_024,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
