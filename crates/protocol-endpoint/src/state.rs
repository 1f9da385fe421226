//! The state of an endpoint.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use core::fmt;
use core::time::Duration;

use protocol_core::{CloseReason, Connection, StreamConnection, Timestamp};

use crate::account::Grant;
use crate::at_work::AtWork;
use crate::budget::{Buckets, OverBudget};
use crate::inbox::Inbox;
use crate::keep_alive::{Beat, Heart, Unanswered};
use crate::names::Names;
use crate::options::{Options, Shows};
use crate::outgoing::Messages;
use crate::responses::WaitingResponses;
use crate::rows::{Calls, RequestRow};
use crate::waiters::Waiters;

/// The core of an endpoint. The data of a call is its row among those of `Calls`.
pub type Core<M> = Connection<u32, RequestRow<M>>;

/// One end of a connection. A host waits with values of type `W`, and marks a cancelled request with its
/// value of type `M`.
///
/// Neither type has a bound, so an endpoint can't wake, clone or compare such a value. It drops none
/// either: each comes back as a return value or as an [`Effect`](crate::Effect).
pub struct Endpoint<W, M> {
    pub(crate) stream: StreamConnection<u32, RequestRow<M>>,
    pub(crate) calls: Calls<W>,
    /// The names of the methods in flight.
    pub(crate) names: Names,
    pub(crate) inbox: Inbox,
    pub(crate) at_work: AtWork,
    /// Responses that wait for room. Invariant: while there are any, the core has promised a notice of
    /// room.
    pub(crate) responses: WaitingResponses,
    pub(crate) buckets: Buckets,
    pub(crate) heart: Option<Box<Heart>>,
    /// The alarms that are set, by their times and their numbers.
    pub(crate) alarms: BTreeMap<(Timestamp, u64), W>,
    /// The number of the last alarm.
    pub(crate) last_alarm: u64,
    /// The queues of waiters, one for each [`Line`](crate::Line).
    pub(crate) waiters: [Waiters<W>; 5],
    pub(crate) output: OutputState<W>,
    /// Whether somebody takes arrivals.
    pub(crate) is_served: bool,
    /// Whether a message was refused, and no room was noticed since.
    pub(crate) is_full: bool,
    /// The reason for which the connection closed, once it has.
    pub(crate) closed: Option<CloseReason>,
    /// The error that ended it, if an error did.
    pub(crate) end: Option<EndReason>,
    /// The time until which the last words of the peer are read, once nothing can be written.
    pub(crate) muted: Option<Timestamp>,
    /// The time to wait for a peer that does not read.
    pub(crate) patience: Duration,
    pub(crate) shows: Shows,
    /// The latest grant of an account.
    pub(crate) grant: Grant,
    /// The bytes of an unfinished message.
    pub(crate) unfinished: usize,
    /// The bytes that the host keeps for the peer beside the endpoint.
    pub(crate) kept: usize,
    /// The latest time.
    pub(crate) now: Timestamp,
}

/// The state of the writing side.
pub(crate) struct OutputState<W> {
    /// The waiter of whoever writes. It is woken when there is something to write.
    pub(crate) writer: Option<W>,
    /// The waiter of whoever keeps the timers.
    pub(crate) timer: Option<W>,
    /// The time that it waits for.
    pub(crate) armed: Option<Timestamp>,
    /// Messages that left the outbox while there was a cork.
    pub(crate) staged: Messages,
    /// The number of corks.
    pub(crate) corks: usize,
    pub(crate) writing: Writing,
    /// The bytes of messages that are being written.
    pub(crate) taken: usize,
    /// Messages are taken out of the outbox up to this many bytes ahead of writing. The others can be
    /// withdrawn.
    pub(crate) pipe_bytes: usize,
}

/// The state of the messages that were taken to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writing {
    /// All of them are written.
    Idle,
    /// They are still being written.
    Busy {
        /// The time at which nothing else kept the connection alive.
        settled: Option<Timestamp>,
    },
    /// The connection was abandoned: nothing more is written, and nobody waits for it.
    Abandoned,
}

/// The error that ended a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndReason {
    /// The transport failed: its error, for people.
    Transport(Box<str>),
    /// The peer overspent one of the [`Budgets`](crate::Budgets).
    OverBudget(OverBudget),
    /// The peer did not respond to the [`KeepAlive`](crate::KeepAlive).
    Unanswered(Unanswered),
    /// The [`Account`](crate::Account) of all connections ran out, and this one held most of it and had
    /// not read for longest.
    Revoked,
}

const REVOKED: &str = "the memory for all connections ran out, and this one held most of it and had not \
                       read for longest";

impl<W, M> Endpoint<W, M> {
    /// Returns an endpoint that has received nothing.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let heart = |how| Box::new(Heart { how, beat: Beat::NotBegun, due: Timestamp::ZERO });
        Self {
            stream: StreamConnection::new(options.config),
            calls: Calls::new(options.result_bytes),
            names: Names::default(),
            inbox: Inbox::new(options.inbox_bytes),
            at_work: AtWork::new(options.work_requests, options.work_bytes),
            responses: WaitingResponses::new(options.response_bytes),
            buckets: Buckets::new(options.budgets),
            heart: options.keep_alive.map(heart),
            alarms: BTreeMap::new(),
            last_alarm: 0,
            waiters: [(); 5].map(|()| Waiters::new()),
            output: OutputState {
                writer: None,
                timer: None,
                armed: None,
                staged: Messages::default(),
                corks: 0,
                writing: Writing::Idle,
                taken: 0,
                pipe_bytes: options.pipe_bytes.max(1),
            },
            is_served: true,
            is_full: false,
            closed: None,
            end: None,
            muted: None,
            patience: options.patience,
            shows: options.shows,
            grant: Grant::All,
            unfinished: 0,
            kept: 0,
            now: Timestamp::ZERO,
        }
    }
}

impl fmt::Display for EndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transport(error) => f.write_str(error),
            Self::OverBudget(over) => over.fmt(f),
            Self::Unanswered(unanswered) => unanswered.fmt(f),
            Self::Revoked => f.write_str(REVOKED),
        }
    }
}

#[cfg(feature = "std")]
impl From<EndReason> for std::io::Error {
    fn from(end: EndReason) -> Self {
        match end {
            EndReason::Transport(error) => Self::other(error.into_string()),
            EndReason::OverBudget(over) => over.into(),
            EndReason::Unanswered(unanswered) => {
                Self::new(std::io::ErrorKind::TimedOut, unanswered)
            }
            EndReason::Revoked => Self::new(std::io::ErrorKind::OutOfMemory, REVOKED),
        }
    }
}

/// Omits the host's values and all payloads.
impl<W, M> fmt::Debug for Endpoint<W, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("calls_in_flight", &self.stream.connection().calls_in_flight())
            .field("requests_in_flight", &self.stream.connection().requests_in_flight())
            .field("inbox", &self.inbox.len())
            .field("closed", &self.closed)
            .finish_non_exhaustive()
    }
}
