//! The options of an endpoint.

use core::time::Duration;

use protocol_core::Config;

use crate::budget::Budgets;
use crate::keep_alive::KeepAlive;

/// The default of [`Options::pipe_bytes`]: 64 KiB.
pub const PIPE_BYTES: usize = 64 << 10;
/// The default of [`Options::patience`]: 5 s.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// The bytes of a message, and of unsent messages, over a socket: 4 MiB. Anybody may open many.
const SOCKET_BYTES: usize = 4 << 20;

/// The limits of an endpoint, and the configuration of its core.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The configuration of the core.
    pub config: Config,
    /// The most bytes of arrivals that wait to be taken; 64 MiB. Above it requests get the dialect's
    /// overload code, and notifications are counted and not kept
    /// ([`Arrived::Missed`](crate::Arrived::Missed)).
    pub inbox_bytes: usize,
    /// The most requests that were taken and have no response yet; 16,384. One more gets the dialect's
    /// overload code when its turn comes. Cancels get through.
    pub work_requests: usize,
    /// The most bytes of the requests at work, which are mostly params; 64 MiB. A request that does not
    /// fit gets the dialect's overload code. One that is alone always fits, so
    /// [`Limits::message_bytes`](protocol_core::Limits::message_bytes) bounds it.
    pub work_bytes: usize,
    /// The most bytes of responses that wait for room in the outbox
    /// ([`Limits::unsent_bytes`](protocol_core::Limits::unsent_bytes)); 64 MiB. A response above it is
    /// replaced by the dialect's overload code. Requests that come then get the same code. Reading goes on,
    /// so cancels get through.
    pub response_bytes: usize,
    /// The most bytes of outcomes that wait until their callers take them; 256 MiB. An outcome above it
    /// is dropped ([`CallError::Untaken`](crate::CallError::Untaken)). One that is alone always fits.
    pub result_bytes: usize,
    /// The bytes of one read, and of the messages that are taken ahead of the peer's reading; 64 KiB. 0
    /// counts as 1.
    pub pipe_bytes: usize,
    /// The budgets for acts that cost the peer next to nothing. The connection ends if the peer overspends
    /// one ([`OverBudget`](crate::OverBudget)).
    pub budgets: Budgets,
    /// The time to wait for a peer that does not read, once nothing else keeps the connection alive; 5 s.
    pub patience: Duration,
    /// The keep-alive, which asks the peer at an interval whether it is still there; off.
    pub keep_alive: Option<KeepAlive>,
    /// The things that are shown to the host; none.
    pub shows: Shows,
}

/// The things that an endpoint shows to its host as [`Shown`](crate::Shown).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shows {
    /// Whether every message is shown.
    pub messages: bool,
    /// Whether bytes of a server that are no message are shown. Otherwise they arrive as an
    /// [`Arrived::Violation`](crate::Arrived::Violation).
    pub noise: bool,
    /// Whether every decision of the core is shown.
    pub verdicts: bool,
    /// Whether the ends of requests are shown, and the moments when there is room again.
    pub responses: bool,
}

impl Options {
    /// Returns the options of an endpoint, with the default of every field but `config`.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            inbox_bytes: 64 << 20,
            work_requests: 16_384,
            work_bytes: 64 << 20,
            response_bytes: 64 << 20,
            result_bytes: 256 << 20,
            pipe_bytes: PIPE_BYTES,
            budgets: Budgets::default(),
            patience: PATIENCE,
            keep_alive: None,
            shows: Shows::default(),
        }
    }

    /// Returns the options of an endpoint that serves a socket, which anybody may open.
    ///
    /// One message has at most 4 MiB, and so have all unsent ones together. Lower limits of `config` stay.
    #[must_use]
    pub fn socket(mut config: Config) -> Self {
        let limits = &mut config.limits;
        limits.message_bytes = limits.message_bytes.min(SOCKET_BYTES);
        limits.unsent_bytes = limits.unsent_bytes.min(SOCKET_BYTES);
        Self::new(config)
    }
}

impl From<Config> for Options {
    fn from(config: Config) -> Self {
        Self::new(config)
    }
}
