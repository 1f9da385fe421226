//! Asking the peer whether it is still there.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::time::Duration;

use protocol_core::Dialect;

use crate::mcp;

/// Asks the peer every so often whether it is still there, and ends the connection if it does not answer: for
/// [`Options::keep_alive`](crate::Options::keep_alive).
///
/// It asks by a request that the protocol has for that, which a peer answers at once whatever else it is
/// doing: `ping`, in the revisions of MCP up to 2025-11-25. A protocol without such a request has no
/// keep-alive, since any other silence may be a handler that takes its time. Where the revision is still to be agreed on, or
/// the one that was has none, nobody is asked; nor during a shutdown, which makes no calls, nor while as many calls as
/// [`Limits::calls`](protocol_core::Limits::calls) are in flight. Calls have deadlines of their own for that.
///
/// A host on one thread (`protocol_blocking::single`) asks nobody.
///
/// Any answer will do, an error too. What is unanswered for the [patience](Self::patience) ends the
/// connection as if the peer had gone ([`CloseReason::PeerGone`](protocol_core::CloseReason::PeerGone)):
/// calls settle as lost and say why, and [`Closed::error`](crate::Closed::error) is [`Unanswered`].
///
/// ```
/// use protocol_async::{KeepAlive, Options};
/// use protocol_core::{Config, Dialect};
/// use std::time::Duration;
///
/// # fn main() -> Result<(), protocol_async::NoKeepAlive> {
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
    /// `None`: the request of whatever MCP revision is spoken.
    method: Option<Cow<'static, str>>,
    pub(crate) every: Duration,
    pub(crate) patience: Duration,
}

/// The protocol has no request by which a peer could be asked whether it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NoKeepAlive;

/// The peer did not answer a [`KeepAlive`]: why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unanswered {
    /// The method of the request.
    pub method: String,
    /// How long the answer was waited for.
    pub patience: Duration,
}

impl KeepAlive {
    /// Asks this often, at most each millisecond, by the protocol's own request.
    ///
    /// # Errors
    ///
    /// [`NoKeepAlive`], if neither the dialect nor a revision that it may become has one.
    pub fn every(interval: Duration, dialect: &Dialect) -> Result<Self, NoKeepAlive> {
        let revisions = dialect.revisions.iter().map(|(_, revision)| revision);
        let has_ping = revisions.chain([dialect]).any(|dialect| mcp::ping(dialect).is_some());
        has_ping.then(|| Self::new(interval, None)).ok_or(NoKeepAlive)
    }

    /// Asks this often, at most each millisecond, by a request of the host's own protocol, without params. The peer must
    /// answer it at once, whatever it is doing.
    #[must_use]
    pub fn by(method: impl Into<Cow<'static, str>>, interval: Duration) -> Self {
        Self::new(interval, Some(method.into()))
    }

    fn new(every: Duration, method: Option<Cow<'static, str>>) -> Self {
        // What is due again at once would leave no time for anything else.
        let every = every.max(Duration::from_millis(1));
        Self { method, every, patience: Duration::from_secs(20) }
    }

    /// Waits this long for an answer, the time that the request takes to be sent included; 20 s.
    #[must_use]
    pub fn patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// What to ask with, in this dialect.
    pub(crate) fn method(&self, dialect: &Dialect) -> Option<&str> {
        self.method.as_deref().or_else(|| mcp::ping(dialect))
    }
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
