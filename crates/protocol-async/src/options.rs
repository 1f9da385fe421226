//! What a connection is made from.

use std::fmt;
use std::time::Duration;

use protocol_core::Config;

use crate::budget::Budgets;
use crate::keep_alive::KeepAlive;
use crate::noise::Noise;
use crate::operations::SharedOperations;
use crate::outside::{self, Entropy};
use crate::verdict::Observer;

/// Bytes of one read.
pub(crate) const PIPE_BYTES: usize = 64 << 10;
/// How long a peer that does not read is waited for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// What a connection is made from.
#[non_exhaustive]
pub struct Options {
    /// What the core is made from.
    pub config: Config,
    /// Bytes of arrivals that wait to be taken; 64 MiB. Above it notifications are counted and not
    /// kept ([`Arrival::Missed`](crate::Arrival::Missed)), and requests are answered with the
    /// dialect's overload code.
    pub inbox_bytes: usize,
    /// Requests at work: taken to be served, and not answered; 16,384. One more is answered with the
    /// dialect's overload code when its turn comes. Cancels get through (G3).
    pub work_requests: usize,
    /// Bytes of what the requests at work ask, which is mostly params; 64 MiB. A request that does not
    /// fit is answered in the same way. One that is alone always fits, so
    /// [`Limits::message_bytes`](protocol_core::Limits::message_bytes) bounds it.
    pub work_bytes: usize,
    /// Bytes of answers that wait for room among those to be sent
    /// ([`Limits::unsent_bytes`](protocol_core::Limits::unsent_bytes)); 64 MiB. An answer above it is
    /// replaced by the dialect's overload code, and so is each request that comes then. Reading goes
    /// on, so cancels get through (G3).
    pub answer_bytes: usize,
    /// Bytes of what became of calls, and waits until whoever made them takes it; 256 MiB. An outcome
    /// above it is let go ([`CallError::Untaken`](crate::CallError::Untaken)); one that is alone always
    /// fits.
    pub result_bytes: usize,
    /// Bytes asked for in one read, and of the messages that are taken to be written ahead of the peer's
    /// reading; 64 KiB, and at least one byte.
    pub pipe_bytes: usize,
    /// How often the peer may do what costs it next to nothing. Over it the connection ends
    /// ([`OverBudget`](crate::OverBudget)).
    pub budgets: Budgets,
    /// How long a peer that does not read is waited for once nothing else keeps the connection alive;
    /// 5 s.
    pub patience: Duration,
    /// Asks the peer every so often whether it is still there; nobody does. A host on one thread never does.
    pub keep_alive: Option<KeepAlive>,
    /// Sees every message.
    pub trace: Option<Trace>,
    /// Sees what the core decides.
    pub observer: Option<Observer>,
    /// Sees what a server says that is no message. Without it, and in a host on one thread, that is an
    /// [`Arrival::Violation`](crate::Arrival::Violation).
    pub noise: Option<Noise>,
    /// What unforgeable tokens are made of; the operating system's.
    pub entropy: Entropy,
    /// Where the operations that requests start are kept, for a dialect that has any.
    pub operations: Option<SharedOperations>,
}

/// Sees every message, without framing. It runs while the connection is locked: it must not use
/// any handle of it, and should be quick.
pub type Trace = Box<dyn FnMut(Way, &[u8]) + Send>;

/// Which way a message went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From us to the peer.
    Sent,
    /// From the peer to us.
    Received,
}

impl Options {
    /// Returns the options of a connection, with the default of every field but `config`.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            inbox_bytes: 64 << 20,
            work_requests: 16_384,
            work_bytes: 64 << 20,
            answer_bytes: 64 << 20,
            result_bytes: 256 << 20,
            pipe_bytes: PIPE_BYTES,
            budgets: Budgets::default(),
            patience: PATIENCE,
            keep_alive: None,
            trace: None,
            observer: None,
            noise: None,
            entropy: outside::entropy,
            operations: None,
        }
    }
}

impl From<Config> for Options {
    fn from(config: Config) -> Self {
        Self::new(config)
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("config", &self.config)
            .field("inbox_bytes", &self.inbox_bytes)
            .field("work_requests", &self.work_requests)
            .field("work_bytes", &self.work_bytes)
            .field("answer_bytes", &self.answer_bytes)
            .field("result_bytes", &self.result_bytes)
            .field("pipe_bytes", &self.pipe_bytes)
            .field("budgets", &self.budgets)
            .field("patience", &self.patience)
            .field("keep_alive", &self.keep_alive)
            .finish_non_exhaustive()
    }
}
