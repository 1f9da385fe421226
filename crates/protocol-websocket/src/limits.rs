//! The limits that a listener has for its clients.

use std::time::Duration;

use protocol_async::AccountLimits;

/// Limits of the clients of a [`Listener`](crate::Listener): their number and their time.
///
/// What one connection may hold, and how often it may do what costs it nothing, is bounded by its own
/// [`Limits`](protocol_core::Limits) and [`Options`](protocol_async::Options) beside these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListenerLimits {
    /// Connections at the same time; 1,024. The response to one more is 503. A connection counts from its first
    /// byte until its last handler is done, so a client that comes and goes gathers no work here.
    pub connections: usize,
    /// Connections of one address at the same time; 64. The response to one more is 429. All addresses of an
    /// IPv6 network of 64 bits count as one, because one customer has them all.
    pub connections_per_address: usize,
    /// The longest time until a client asks for a WebSocket; 10 s. Then the response is 408.
    pub handshake_time: Duration,
    /// Bytes of that request; 16 KiB. If it is longer, the response is 431.
    pub handshake_bytes: usize,
    /// The longest time of a message from its first byte to its last; 60 s.
    pub message_time: Duration,
    /// The longest time that bytes stay in the write buffer of at most 256 KiB; 60 s. A client that reads no faster
    /// is sent away, even if it goes on sending, because the buffer is memory.
    pub write_time: Duration,
    /// Bytes of unfinished messages, of all connections together; 256 MiB. A frame counts whole once its header
    /// announces it, because room is made for it then. The first 64 KiB of each message do not count. The
    /// connection whose message would pass the limit is ended. So is one whose message is longer than twice
    /// [`Limits::message_bytes`](protocol_core::Limits::message_bytes). All connections of one address have a
    /// quarter, or one such message if that is more.
    pub unfinished_bytes: usize,
    /// The memory that all connections hold; 256 MiB. Their [`Account`](protocol_async::Account) keeps
    /// [within](protocol_async::AccountLimits::within) it. When its pool runs out, connections that hold more than
    /// their share get no new requests, then they are not read. At last the one ends that is large and has not read
    /// for longest.
    pub memory_bytes: usize,
    /// The silence after which a client is sent a ping; 30 s. `None`: never.
    pub ping_every: Option<Duration>,
    /// The longest silence after a ping; 30 s.
    pub ping_time: Duration,
    /// The time without a message either way, pings and pongs aside, after which a connection is ended; 1 hour.
    /// One with a request or a call in flight is not, because that may take a person's time. At least 10 ms;
    /// `None`: never.
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
        memory_bytes: AccountLimits::DEFAULT.pool_bytes,
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
