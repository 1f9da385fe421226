//! The keep-alive, which asks the peer whether it is still there.

use alloc::borrow::Cow;
use alloc::string::String;
use core::error::Error;
use core::fmt;
use core::time::Duration;

use protocol_core::{CallId, Dialect, Timestamp};

use crate::mcp;

/// A request at an interval that asks the peer whether it is still there, for
/// [`Options::keep_alive`](crate::Options::keep_alive).
///
/// Any response will do, even an error. If none comes within the [patience](Self::patience), the connection
/// ends as if the peer had gone ([`CloseReason::PeerGone`](protocol_core::CloseReason::PeerGone)). Calls then
/// settle as [`CallError::ConnectionLost`](crate::CallError::ConnectionLost), with the reason in words.
/// [`Endpoint::end_reason`](crate::Endpoint::end_reason) returns
/// [`EndReason::Unanswered`](crate::EndReason::Unanswered).
///
/// The request must be one that a peer responds to at once, even while it works on others. MCP has `ping` up
/// to its revision 2025-11-25. A protocol without such a request has no keep-alive, since silence may be a
/// handler that takes its time.
///
/// Nothing is sent
///
/// - before the revision is agreed on, or if the revision has no such request,
/// - during a shutdown, which makes no calls,
/// - while [`Limits::calls`](protocol_core::Limits::calls) calls are in flight, since they have deadlines of
///   their own.
///
/// ```
/// use protocol_endpoint::{KeepAlive, Options};
/// use protocol_core::{Config, Dialect};
/// use core::time::Duration;
///
/// # fn main() -> Result<(), protocol_endpoint::NoKeepAlive> {
/// let dialect = Dialect::MCP_2025_11_25;
/// let mut options = Options::new(Config::client(dialect.clone()));
/// options.keep_alive = Some(KeepAlive::every(Duration::from_secs(30), &dialect)?);
///
/// // LSP has nothing to ask with.
/// assert!(KeepAlive::every(Duration::from_secs(30), &Dialect::LSP_3_17).is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct KeepAlive {
    /// `None` stands for the request of the MCP revision that is spoken.
    method: Option<Cow<'static, str>>,
    pub(crate) every: Duration,
    pub(crate) patience: Duration,
}

/// The error of a protocol that has no request to ask a peer whether it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NoKeepAlive;

/// The error of a connection that ended because the peer did not respond to a [`KeepAlive`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unanswered {
    /// The method of the request.
    pub method: String,
    /// The time within which no response came.
    pub patience: Duration,
}

impl KeepAlive {
    /// Returns a keep-alive that sends the protocol's own request at this interval, of at least 1 ms.
    ///
    /// # Errors
    ///
    /// Returns [`NoKeepAlive`] if neither the dialect nor a revision that it may become has such a request.
    pub fn every(interval: Duration, dialect: &Dialect) -> Result<Self, NoKeepAlive> {
        let revisions = dialect.revisions.iter().map(|(_, revision)| revision);
        let has_ping = revisions.chain([dialect]).any(|dialect| mcp::ping(dialect).is_some());
        has_ping.then(|| Self::new(interval, None)).ok_or(NoKeepAlive)
    }

    /// Returns a keep-alive that sends a request of the host's own protocol at this interval, of at least
    /// 1 ms.
    ///
    /// The request has no params. The peer must respond to it at once, even while it works on others.
    #[must_use]
    pub fn by(method: impl Into<Cow<'static, str>>, interval: Duration) -> Self {
        Self::new(interval, Some(method.into()))
    }

    fn new(every: Duration, method: Option<Cow<'static, str>>) -> Self {
        // A keep-alive that is due again at once would leave no time for anything else.
        let every = every.max(Duration::from_millis(1));
        Self { method, every, patience: Duration::from_secs(20) }
    }

    /// Sets the time to wait for a response, which includes the time until the request is sent; 20 s.
    #[must_use]
    pub fn patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Returns the method to ask with in this dialect.
    pub(crate) fn method(&self, dialect: &Dialect) -> Option<&str> {
        self.method.as_deref().or_else(|| mcp::ping(dialect))
    }
}

/// A keep-alive and its state.
pub(crate) struct Heart {
    pub(crate) how: KeepAlive,
    pub(crate) beat: Beat,
    pub(crate) due: Timestamp,
}

#[derive(Clone, Copy)]
pub(crate) enum Beat {
    NotBegun,
    Resting,
    /// The call that asks, or `None` if there has been no room for it, and the time of that.
    Asked(Option<CallId>, Timestamp),
}

impl fmt::Display for NoKeepAlive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the protocol has no request by which a peer could be asked whether it is there",
        )
    }
}

impl Error for NoKeepAlive {}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, patience } = self;
        write!(f, "the keep-alive {method:?} was not answered within {patience:?}")
    }
}

impl Error for Unanswered {}
