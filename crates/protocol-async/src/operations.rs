//! Operations: work that a request starts in a dialect that responds with a token at once.
//!
//! A host that wants to know them sets the same [`SharedOperations`] in the
//! [`Options::operations`](crate::Options::operations) of each of its connections. The connections then
//! keep it up to date. They report when an operation begins, when and why it is cancelled, and how it
//! ends.

use std::collections::BTreeMap;
use std::fmt;

use protocol_core::{Timestamp, code};
use protocol_endpoint::{OperationEnd, RpcError};
use protocol_operations::{
    CancelReason, Cleanup, Ended, Limits, Metrics, OperationInfo, OperationToken, Operations,
    Urgency,
};
use serde_json::value::RawValue;

use crate::catch_panic::catch_panic;
use crate::outside::Entropy;
use crate::sync::{Arc, Mutex, lock};

/// The operations of every connection of a server. Clones share them.
///
/// ```
/// use protocol_async::SharedOperations;
/// use protocol_async::Options;
/// use protocol_core::{Config, Dialect, Timestamp};
/// use std::time::Instant;
///
/// let start = Instant::now();
/// let clock = move || Timestamp::ZERO + start.elapsed();
/// let operations = SharedOperations::new(clock).clean_up("tool/call", |ended| {
///     println!("cleaning up after {:?}, which left {:?}", ended.token, ended.partial);
/// });
///
/// let mut options = Options::new(Config::server(Dialect::ERLMCP)); // of each connection
/// options.operations = Some(operations.clone());
///
/// println!("{}", operations.metrics().prometheus());
/// operations.for_each(|info| println!("{} since {:?}", info.kind, info.duration));
/// ```
#[derive(Clone)]
pub struct SharedOperations {
    shared: Arc<Shared>,
    handlers: BTreeMap<String, Handler>,
}

/// An operation that was cancelled, and whose worker no longer runs. A clean-up handler gets it.
///
/// Its partial result is the response to its request after the cancel, which nobody else gets.
pub type CancelledOperation = Ended<Option<Handler>, Box<RawValue>>;

/// A handler that cleans up after a cancelled operation; see [`SharedOperations::clean_up`].
#[derive(Clone)]
pub struct Handler(Arc<dyn Fn(&CancelledOperation) + Send + Sync>);

struct Shared {
    operations: Mutex<Operations<Option<Handler>, Box<RawValue>>>,
    now: Box<dyn Fn() -> Timestamp + Send + Sync>,
}

impl SharedOperations {
    /// Returns a registry without operations. `now` reads the clock that times them.
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self::with_limits(Limits::default(), now)
    }

    /// As [`new`](Self::new), with limits over all connections. A request that does not fit gets the
    /// dialect's overload code.
    pub fn with_limits(
        limits: Limits,
        now: impl Fn() -> Timestamp + Send + Sync + 'static,
    ) -> Self {
        let operations = Mutex::new(Operations::new(limits, 0));
        let shared = Arc::new(Shared { operations, now: Box::new(now) });
        Self { shared, handlers: BTreeMap::new() }
    }

    /// Sets the handler that cleans up after each cancelled operation of requests with this method.
    ///
    /// It runs once, when the request gets its response or its responder is dropped. No lock is held
    /// then, and a panic is caught. It counts for connections that get this value or a later clone of it.
    #[must_use]
    pub fn clean_up(
        mut self,
        method: &str,
        handler: impl Fn(&CancelledOperation) + Send + Sync + 'static,
    ) -> Self {
        self.handlers.insert(method.into(), Handler(Arc::new(handler)));
        self
    }

    /// Shows every operation that is under way, oldest first. They are locked meanwhile, so `each` must
    /// not use a connection of theirs.
    pub fn for_each(&self, each: impl FnMut(OperationInfo<'_>)) {
        let now = (self.shared.now)();
        lock(&self.shared.operations).list(now).for_each(each);
    }

    /// Returns counts of all connections.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        lock(&self.shared.operations).metrics().clone()
    }

    fn begin(&self, method: &str, entropy: [u8; 16]) -> Result<(), String> {
        let now = (self.shared.now)();
        let mut operations = lock(&self.shared.operations);
        let handler = self.handlers.get(method).cloned();
        // Another clone may have a handler for operations of this kind.
        operations.declare(method, Cleanup::Wanted).map_err(|error| error.to_string())?;
        let registered = operations.register(method, entropy, handler, now);
        registered.map(|_| ()).map_err(|error| error.problem.to_string())
    }

    #[doc(hidden)]
    pub fn cancel(&self, token: [u8; 16], reason: CancelReason) {
        let now = (self.shared.now)();
        let mut operations = lock(&self.shared.operations);
        let Some(operation) = operations.find(OperationToken::from_bytes(token)) else { return };
        // The core has told its client, and its marker tells its handler to stop.
        let _ = operations.cancel(operation, reason, Urgency::Forced, now);
    }

    /// Ends an operation. Returns its clean-up, to be run once nothing is locked.
    #[doc(hidden)]
    #[must_use]
    pub fn end(&self, token: [u8; 16], end: OperationEnd) -> Option<impl FnOnce() + use<>> {
        let mut operations = lock(&self.shared.operations);
        let operation = operations.find(OperationToken::from_bytes(token))?;
        let ended = match end {
            OperationEnd::Responded(partial) => {
                if let Some(partial) = partial.filter(|_| operations.is_cancelled(operation)) {
                    operations.keep_partial(operation, partial).ok()?;
                }
                operations.finish(operation)
            }
            OperationEnd::WorkerGone => operations.worker_lost(operation),
        };
        let ended = ended.ok()?;
        let is_wanted = ended.cleanup == Cleanup::Wanted;
        is_wanted.then_some(move || {
            if let Some(Handler(handler)) = &ended.data {
                catch_panic(|| handler(&ended));
            }
        })
    }
}

/// Registers the operation that a request with this method starts. Returns the bytes of its token.
///
/// # Errors
///
/// Returns the response that the request gets instead.
#[doc(hidden)]
pub fn register(
    operations: Option<&SharedOperations>,
    method: &str,
    entropy: Entropy,
    overload_code: i64,
) -> Result<[u8; 16], RpcError> {
    let entropy = entropy().ok_or_else(|| {
        RpcError::new(code::INTERNAL_ERROR, "there is no entropy to make a token of")
    })?;
    if let Some(operations) = operations {
        let begun = operations.begin(method, entropy);
        begun.map_err(|problem| RpcError::new(overload_code, problem))?;
    }
    Ok(entropy)
}

impl fmt::Debug for SharedOperations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedOperations").finish_non_exhaustive()
    }
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handler").finish_non_exhaustive()
    }
}
