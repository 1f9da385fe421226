//! What a host chooses: dialect, limits, and what happens at a limit.

use core::time::Duration;

use crate::dialect::{Dialect, Grace, Role};

/// What a [`Connection`](crate::Connection) is made from.
///
/// ```
/// use protocol_core::{Config, Dialect};
///
/// let mut config = Config::server(Dialect::LSP_3_17);
/// config.limits.requests = 256;
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Config {
    /// The protocol to speak.
    pub dialect: Dialect,
    /// Which side we are, where the dialect tells its sides apart.
    pub role: Role,
    /// What bounds the memory (G8).
    pub limits: Limits,
    /// Whether the connection closes once a request over [`Limits::requests`] was refused; false. The
    /// request is answered with the dialect's overload code either way.
    pub close_over_limit: bool,
    /// Whether the host sees each cancel notification of the peer's as an
    /// [`Event::Notification`](crate::Event::Notification) too, after what it did, for traces and for
    /// routing of its own; false. It is obeyed either way. What ends one of our calls is not shown,
    /// being no cancel of a request.
    pub show_raw_cancels: bool,
    /// Whether the host gets and answers, as an ordinary [`Event::Request`](crate::Event::Request), a
    /// cancel whose token names no operation that was begun on this connection: the operation may be one
    /// that another connection of the host knows. False: it is answered with
    /// [`code::OPERATION_NOT_FOUND`](crate::code::OPERATION_NOT_FOUND).
    pub deliver_unknown_operations: bool,
    /// The Unix time at [`Timestamp::ZERO`](crate::Timestamp::ZERO), for the dialects that write times
    /// into messages; 0.
    pub unix_time_at_zero: Duration,
    /// How long a dropped or detached call may stay in flight before it is released; 30 s (G12).
    pub abandoned_grace: Duration,
}

impl Config {
    /// The side that opened the connection, with every default.
    #[must_use]
    pub const fn client(dialect: Dialect) -> Self {
        Self::of(dialect, Role::Client)
    }

    /// The side that was connected to, with every default.
    #[must_use]
    pub const fn server(dialect: Dialect) -> Self {
        Self::of(dialect, Role::Server)
    }

    const fn of(dialect: Dialect, role: Role) -> Self {
        Self {
            dialect,
            role,
            limits: Limits::DEFAULT,
            close_over_limit: false,
            show_raw_cancels: false,
            deliver_unknown_operations: false,
            unix_time_at_zero: Duration::ZERO,
            abandoned_grace: Duration::from_secs(30),
        }
    }
}

/// What bounds the memory of one connection (G8): [`Connection::memory`](crate::Connection::memory) is
/// the most bytes that it holds under these limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of one incoming message; 16 MiB. A longer one is skipped and answered -32600.
    pub message_bytes: usize,
    /// Bytes of the header block of one Content-Length frame; 8 KiB. A longer one ends the
    /// connection: nobody can tell where the next message begins.
    pub header_bytes: usize,
    /// Nesting of arrays and objects in one incoming message; 128. A deeper one is answered
    /// -32600.
    pub depth: usize,
    /// Bytes of the id of an incoming request; 1,024. A longer one is answered -32600, id null.
    pub id_bytes: usize,
    /// Members of one incoming batch; 1,000.
    pub batch_members: usize,
    /// Our calls in flight, dropped and detached ones included; 65,536.
    pub calls: usize,
    /// The peer's requests in flight, cancelled but unanswered ones included; 65,536.
    pub requests: usize,
    /// Bytes of messages waiting to be sent, and of answers that batches keep back; 64 MiB. Cancels
    /// are taken above it. Answers kept back that take up half of it leave before their batch is
    /// complete.
    pub unsent_bytes: usize,
    /// Messages waiting to be sent; 262,144. Cancels are taken above it.
    pub unsent_messages: usize,
    /// How many of the calls that were settled without an answer are remembered, so that a late
    /// answer is told from a duplicate, and how many progress tokens of cancelled requests, where
    /// nothing further may be sent for those; 4,096 each. As many answered requests, where a cancel
    /// of one is acknowledged, and cancels of settled calls that still wait for their acknowledgement
    /// or their token.
    pub abandoned_ids: usize,
    /// How many cancels that came before their requests are remembered, where the transport can
    /// reorder; 1,024. The oldest is forgotten first.
    pub early_cancels: usize,
}

impl Limits {
    /// The defaults, as each field documents them.
    pub const DEFAULT: Self = Self {
        message_bytes: 16 << 20,
        header_bytes: 8 << 10,
        depth: 128,
        id_bytes: 1_024,
        batch_members: 1_000,
        calls: 65_536,
        requests: 65_536,
        unsent_bytes: 64 << 20,
        unsent_messages: 256 << 10,
        abandoned_ids: 4_096,
        early_cancels: 1_024,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// What one call asks for beyond its method and params.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct CallOptions {
    /// Settle as timed out, cause `deadline`, this long after the call. Default: never.
    pub timeout: Option<Duration>,
    /// Settle as timed out, cause `idle_timeout`, when this long passes without progress.
    pub idle_timeout: Option<Duration>,
    /// Settle as timed out, cause `hard_cap`, this long after the call whatever progress arrives.
    pub hard_cap: Option<Duration>,
    /// What to do after a cancel. Default: the dialect's.
    pub grace: Option<Grace>,
    /// The request this call is made for: when that is cancelled, so is the call (G6).
    pub parent: Option<crate::RequestHandle>,
}

impl CallOptions {
    /// Whether any time is set that a call's row has no place for.
    pub(crate) const fn has_times(&self) -> bool {
        let has_timeout = self.timeout.is_some() || self.idle_timeout.is_some();
        has_timeout || self.hard_cap.is_some() || self.grace.is_some()
    }

    /// Sets [`timeout`](Self::timeout).
    #[must_use]
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.timeout = timeout.into();
        self
    }

    /// Sets [`idle_timeout`](Self::idle_timeout).
    #[must_use]
    pub fn idle_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.idle_timeout = timeout.into();
        self
    }

    /// Sets [`hard_cap`](Self::hard_cap).
    #[must_use]
    pub fn hard_cap(mut self, cap: impl Into<Option<Duration>>) -> Self {
        self.hard_cap = cap.into();
        self
    }

    /// Sets [`grace`](Self::grace).
    #[must_use]
    pub fn grace(mut self, grace: impl Into<Option<Grace>>) -> Self {
        self.grace = grace.into();
        self
    }

    /// Sets [`parent`](Self::parent).
    #[must_use]
    pub fn parent(mut self, parent: impl Into<Option<crate::RequestHandle>>) -> Self {
        self.parent = parent.into();
        self
    }
}

/// How a connection shuts down (G5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Shutdown {
    /// Nothing new; what is in flight finishes, and no cancels are sent.
    #[default]
    Drain,
    /// Nothing new; everything in flight is cancelled, cause `shutdown`, and answered.
    CancelAll,
    /// Everything settles now as `connection_lost`; nothing more is sent.
    Abandon,
}
