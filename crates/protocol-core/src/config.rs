//! The choices of a host for one connection, and for one call.

use core::time::Duration;

use crate::dialect::{Dialect, Grace, Role};
use crate::handle::{RequestHandle, first_serial};
use crate::limits::Limits;

/// The configuration of a [`Connection`](crate::Connection).
///
/// ```
/// use protocol_core::{Config, Connection, Dialect, Refusal, SendError, Timestamp};
///
/// let mut config = Config::client(Dialect::LSP_3_17);
/// config.limits.calls = 1;
/// let mut client: Connection<()> = Connection::new(config);
///
/// client.call("initialize", None, (), Default::default(), Timestamp::ZERO)?;
/// let second = client.call("shutdown", None, (), Default::default(), Timestamp::ZERO);
/// assert_eq!(second, Err(SendError { reason: Refusal::TooManyCalls, data: () }));
/// # Ok::<(), SendError<()>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Config {
    /// The protocol to speak.
    pub dialect: Dialect,
    /// The side of the connection that we are, where the dialect tells its sides apart.
    pub role: Role,
    /// The bounds of the connection's memory.
    pub limits: Limits,
    /// The number of this connection among those of its host; 0 by default.
    ///
    /// [`CallId`](crate::CallId) and [`RequestHandle`](crate::RequestHandle) carry its low 20 bits. Two
    /// connections that are equal in these bits accept each other's handles; all others refuse them.
    ///
    /// So a host with several connections gives each a number of its own. Connections of `rescind-async`
    /// and `rescind-blocking` get one if theirs is 0. A relay only makes its two sides differ.
    pub connection: u32,
    /// Whether the connection closes after a request exceeded [`Limits::requests`]; false by default.
    ///
    /// Such a request gets the dialect's overload code in both cases.
    pub close_over_limit: bool,
    /// Whether the peer's cancel notifications are reported too; false by default.
    ///
    /// Each is then an [`Event::Notification`](crate::Event::Notification) that follows its effects, for
    /// traces and for a host's own routing. A cancel that ends one of our calls is not reported.
    pub show_raw_cancels: bool,
    /// Whether the host gets cancels whose token names no operation of this connection; false by
    /// default.
    ///
    /// Such a cancel is then an [`Event::Request`](crate::Event::Request), and another connection of the
    /// host may know the operation. Otherwise its response is
    /// [`code::OPERATION_NOT_FOUND`](crate::code::OPERATION_NOT_FOUND).
    pub deliver_unknown_operations: bool,
    /// Whether the begin, the stop and the end of [work](Dialect::work) are events; false by default.
    ///
    /// Requests and calls that are a part of stopped work are cancelled in both cases.
    pub show_work: bool,
    /// The Unix time at [`Timestamp::ZERO`](crate::Timestamp::ZERO), for dialects that write times into
    /// messages; 0 by default.
    pub unix_time_at_zero: Duration,
    /// The time that a call which is dropped, detached or cancelled by a shutdown may stay in flight; 30 s by
    /// default.
    pub abandoned_grace: Duration,
}

impl Config {
    /// Returns the defaults for the side that opened the connection.
    pub const fn client(dialect: Dialect) -> Self {
        Self {
            dialect,
            role: Role::Client,
            limits: Limits::DEFAULT,
            connection: 0,
            close_over_limit: false,
            show_raw_cancels: false,
            deliver_unknown_operations: false,
            show_work: false,
            unix_time_at_zero: Duration::ZERO,
            abandoned_grace: Duration::from_secs(30),
        }
    }

    /// Returns the defaults for the side that accepted the connection.
    pub const fn server(dialect: Dialect) -> Self {
        let mut config = Self::client(dialect);
        config.role = Role::Server;
        config
    }

    /// Returns whether two connections accept each other's handles, because the low 20 bits of their
    /// [numbers](Self::connection) are equal.
    pub const fn shares_handles(&self, other: &Self) -> bool {
        first_serial(self.connection) == first_serial(other.connection)
    }
}

/// The way that a connection shuts down. New requests are refused in every case.
///
/// Variants are ordered from the mildest to the hardest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Shutdown {
    /// Lets everything in flight finish, and sends no cancels.
    #[default]
    Drain,
    /// Cancels everything in flight with cause `shutdown`, and sends the responses.
    CancelAll,
    /// Settles everything at once as `connection_lost`, and sends nothing more.
    Abandon,
}

/// The options of one call. By default it has no timers and no parent.
///
/// Each timer settles the call at once, as [`Outcome::TimedOut`](crate::Outcome::TimedOut) unless it was
/// cancelled before. The peer still gets the dialect's cancel (G5).
///
/// ```
/// use core::time::Duration;
/// use protocol_core::{CallOptions, Config, Connection, Dialect, Timestamp};
///
/// let mut client: Connection<()> = Connection::new(Config::client(Dialect::MCP));
/// let options = CallOptions::default().timeout(Duration::from_secs(30));
/// client.call("tools/list", None, (), options, Timestamp::ZERO)?;
/// let (due, _) = client.poll_timeout().expect("the call has a timer");
/// assert_eq!(due, Timestamp::from_millis(30_000));
/// # Ok::<(), protocol_core::SendError<()>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct CallOptions {
    /// The time from the call to a timeout with cause `deadline`, or `None` for no limit.
    pub timeout: Option<Duration>,
    /// The time without progress until a timeout with cause `idle_timeout`, or `None` for no limit.
    pub idle_timeout: Option<Duration>,
    /// The time from the call to a timeout with cause `hard_cap`, or `None` for no limit.
    ///
    /// Progress renews neither this nor [`timeout`](Self#structfield.timeout); only their causes differ.
    pub hard_cap: Option<Duration>,
    /// The wait for a response after a cancel, or `None` for the dialect's
    /// [`grace`](crate::Dialect::grace) (G12).
    pub grace: Option<Grace>,
    /// The peer's request that the call is made for: a cancellation of that request cancels the call
    /// (G6).
    pub parent: Option<RequestHandle>,
}

/// Defines a method for each field that sets it.
macro_rules! setters {
    ($($field:ident: $type:ty),*) => {$(
        #[doc = concat!("Sets the field [`", stringify!($field), "`](Self#structfield.",
            stringify!($field), ").")]
        #[must_use]
        pub fn $field(mut self, $field: impl Into<Option<$type>>) -> Self {
            self.$field = $field.into();
            self
        }
    )*};
}

impl CallOptions {
    setters! {
        timeout: Duration, idle_timeout: Duration, hard_cap: Duration,
        grace: Grace, parent: RequestHandle
    }

    /// Returns whether a field is set that the row of a call has no room for.
    pub(crate) const fn needs_extras(&self) -> bool {
        !matches!(self, Self { timeout: None, idle_timeout: None, hard_cap: None, grace: None, .. })
    }
}
