//! What a connection is made from.

use std::fmt;
use std::time::Duration;

use protocol_core::Config;

use crate::noise::Noise;
use crate::operations::SharedOperations;
use crate::outside::{self, Entropy};

/// What a connection is made from.
#[non_exhaustive]
pub struct Options {
    /// What the core is made from.
    pub config: Config,
    /// Bytes of arrivals that wait to be taken; 64 MiB. Above it notifications are counted and not
    /// kept ([`Arrival::Missed`](crate::Arrival::Missed)), and requests are answered with the
    /// dialect's overload code.
    pub inbox_bytes: usize,
    /// Bytes of answers that wait for room among those to be sent
    /// ([`Limits::unsent_bytes`](protocol_core::Limits::unsent_bytes)); 64 MiB. An answer above it is
    /// replaced by the dialect's overload code, and so is each request that comes then. Reading goes
    /// on, so cancels get through (G3).
    pub answer_bytes: usize,
    /// How long a peer that does not read is waited for once nothing else keeps the connection alive;
    /// 5 s.
    pub patience: Duration,
    /// Sees every message.
    pub trace: Option<Trace>,
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
    /// Every default.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            inbox_bytes: 64 << 20,
            answer_bytes: 64 << 20,
            patience: Duration::from_secs(5),
            trace: None,
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
            .field("answer_bytes", &self.answer_bytes)
            .field("patience", &self.patience)
            .finish_non_exhaustive()
    }
}
