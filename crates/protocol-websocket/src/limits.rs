//! What a listener allows its clients.

use std::time::Duration;

/// How many clients a [`Listener`](crate::Listener) has, and how long they may take.
///
/// What one connection may hold, and how often it may do what costs it nothing, is bounded by its own
/// [`Limits`](protocol_core::Limits) and [`Options`](protocol_async::Options) beside these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListenerLimits {
    /// Connections at the same time; 1,024. One more is answered 503. A connection counts from its first
    /// byte until its last handler is done, so a client that comes and goes gathers no work here.
    pub connections: usize,
    /// Connections of one address at the same time; 64. One more is answered 429. All addresses of an
    /// IPv6 network of 64 bits count as one: whoever has one of them has them all.
    pub connections_per_address: usize,
    /// How long a client may take to ask for a WebSocket; 10 s. Then it is answered 408.
    pub handshake_time: Duration,
    /// Bytes of what it asks with; 16 KiB. More is answered 431.
    pub handshake_bytes: usize,
    /// How long a message may take from its first byte to its last; 60 s.
    pub message_time: Duration,
    /// How long what waits in the write buffer, at most 256 KiB, may take to leave; 60 s. A client that reads
    /// no faster, or not at all, is sent away, whatever it says meanwhile: what waits for it is memory.
    pub write_time: Duration,
    /// Bytes of unfinished messages, of all connections together; 256 MiB. A frame counts whole once its header
    /// announces it, for room is made for it then. The connection whose message would pass it is ended. The
    /// first 64 KiB of each are not counted, and one connection is charged no more than twice
    /// [`Limits::message_bytes`](protocol_core::Limits::message_bytes), which is all it can hold: one whose
    /// message is more than that is ended. All connections of one address have a quarter, or one such message
    /// if that is more.
    pub unfinished_bytes: usize,
    /// After so long without a byte a client is sent a ping; 30 s. `None`: never.
    pub ping_every: Option<Duration>,
    /// How long it may be silent after that; 30 s.
    pub ping_time: Duration,
    /// After so long without a message either way, pings and pongs aside, a connection is ended; 1 hour.
    /// While a request or a call is in flight it is not, for that may take a person's time. `None`: never.
    pub idle_time: Option<Duration>,
}

impl ListenerLimits {
    /// The defaults, as each field documents them.
    pub const DEFAULT: Self = Self {
        connections: 1_024,
        connections_per_address: 64,
        handshake_time: Duration::from_secs(10),
        handshake_bytes: 16 << 10,
        message_time: Duration::from_secs(60),
        write_time: Duration::from_secs(60),
        unfinished_bytes: 256 << 20,
        ping_every: Some(Duration::from_secs(30)),
        ping_time: Duration::from_secs(30),
        idle_time: Some(Duration::from_secs(60 * 60)),
    };
}

impl Default for ListenerLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
