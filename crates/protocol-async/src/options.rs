//! The options of a connection.

use std::fmt;
use std::ops::{Deref, DerefMut};

use protocol_core::{Config, Timestamp, Violation};
use protocol_endpoint::{Memory, Verdict, Way};

use crate::account::Account;
use crate::cancellation::Cancellation;
use crate::operations::SharedOperations;
use crate::outside::{self, Entropy};
use crate::spans::Spans;
use crate::waiter::Endpoint;

/// The options of a connection: those of its [endpoint](protocol_endpoint::Options), which are fields of
/// this type, and callbacks.
#[non_exhaustive]
pub struct Options {
    /// The limits, and the configuration of the core. `options.inbox_bytes` is one of its fields.
    pub endpoint: protocol_endpoint::Options,
    /// The callback that sees every message.
    pub trace: Option<Trace>,
    /// The callback that sees the core's decisions.
    pub observer: Option<Observer>,
    /// The callback that sees output of a server that is no message. Without it, that is an
    /// [`Arrival::Violation`](crate::Arrival::Violation).
    pub noise: Option<Noise>,
    /// The source of unforgeable tokens; the operating system's.
    pub entropy: Entropy,
    /// The registry of the operations that requests start, for a dialect that has any.
    pub operations: Option<SharedOperations>,
    /// The account of memory that the connection draws on, with others; none.
    pub account: Option<Account>,
}

/// A callback that sees every message, without framing, in the order of the connection.
///
/// It runs on one thread at a time, while no lock of the connection is held. So it may use any handle,
/// and reading and writing wait until it returns.
pub type Trace = Box<dyn FnMut(Way, &[u8]) + Send>;

/// A callback that sees the core's decisions, as [`Trace`] sees messages.
pub type Observer = Box<dyn FnMut(&Verdict) + Send>;

/// A callback that sees output of a server that is no message, as [`Trace`] sees messages. It is a line
/// on its standard output, or the rest of its input once its framing is broken.
///
/// A client does not respond to it, so nobody else learns of it.
pub type Noise = Box<dyn FnMut(Violation, &[u8]) + Send>;

/// The most bytes of a connection itself, with its lock.
pub(crate) const SHARED: usize = 4 << 10;

/// The callbacks of one connection.
pub struct Callbacks {
    pub(crate) trace: Option<Trace>,
    pub(crate) observer: Option<Observer>,
    pub(crate) noise: Option<Noise>,
}

impl Callbacks {
    pub(crate) fn is_empty(&self) -> bool {
        self.trace.is_none() && self.observer.is_none() && self.noise.is_none()
    }
}

impl fmt::Debug for Callbacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callbacks").finish_non_exhaustive()
    }
}

impl Options {
    /// Returns the options of a connection, with the default of every field but `config`.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self::of(protocol_endpoint::Options::new(config))
    }

    /// Returns the options of a connection over a socket, which anybody may open:
    /// [`protocol_endpoint::Options::socket`].
    #[must_use]
    pub fn socket(config: Config) -> Self {
        Self::of(protocol_endpoint::Options::socket(config))
    }

    fn of(endpoint: protocol_endpoint::Options) -> Self {
        Self {
            endpoint,
            trace: None,
            observer: None,
            noise: None,
            entropy: outside::entropy,
            operations: None,
            account: None,
        }
    }

    /// Completes the options with the inputs of the core that only the process has, and takes the
    /// callbacks out of them.
    #[doc(hidden)]
    pub fn prepare(&mut self, now: Timestamp) -> Callbacks {
        let config = &mut self.endpoint.config;
        if config.unix_time_at_zero.is_zero() {
            config.unix_time_at_zero = outside::unix_time_at_zero(now);
        }
        if config.connection == 0 {
            config.connection = outside::connection_number();
        }
        let shows = &mut self.endpoint.shows;
        shows.messages = self.trace.is_some();
        shows.verdicts = self.observer.is_some();
        shows.noise = self.noise.is_some();
        let (trace, observer) = (self.trace.take(), self.observer.take());
        Callbacks { trace, observer, noise: self.noise.take() }
    }

    /// Returns the most bytes of heap that a connection with these options holds over two streams of
    /// bytes (G8).
    ///
    /// Memory of the host's own code is not included: the data of handlers, the lines of a trace, the
    /// tasks of a runtime.
    ///
    /// ```
    /// use protocol_async::Options;
    /// use protocol_core::{Config, Dialect};
    ///
    /// let mut options = Options::new(Config::server(Dialect::LSP_3_17));
    /// options.inbox_bytes = 1 << 20;
    /// let memory = options.memory();
    /// assert!(memory.inbox < 20 << 20, "it, and one message that is alone");
    /// assert!(memory.total() > memory.core);
    /// ```
    #[must_use]
    pub fn memory(&self) -> Memory {
        let mut memory = Endpoint::memory(&self.endpoint);
        let limits = &self.config.limits;
        let request = Spans::REQUEST + Cancellation::HEAP + 3 * size_of::<Cancellation>();
        let handles = [
            memory.handles,
            SHARED,
            limits.calls.saturating_mul(Spans::CALL),
            limits.requests.saturating_mul(request),
        ];
        memory.handles = handles.into_iter().fold(0, usize::saturating_add);
        memory
    }
}

impl Deref for Options {
    type Target = protocol_endpoint::Options;

    fn deref(&self) -> &protocol_endpoint::Options {
        &self.endpoint
    }
}

impl DerefMut for Options {
    fn deref_mut(&mut self) -> &mut protocol_endpoint::Options {
        &mut self.endpoint
    }
}

impl From<Config> for Options {
    fn from(config: Config) -> Self {
        Self::new(config)
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}
