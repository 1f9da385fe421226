//! The operations that requests start, in a dialect that answers those with a token at once.
//!
//! A host that wants to know them gives a [`SharedOperations`] to each of its connections in
//! [`Options::operations`](crate::Options::operations). From then on it is told of each
//! operation by the connection: when it begins, when it is cancelled and why, when its request is
//! answered, when its responder is dropped without an answer. The functions of this module are how
//! a connection tells it; a host that drives the core by itself calls them in its place.

use std::collections::BTreeMap;
use std::fmt;

use protocol_core::{Cause, Connection, Refusal, RequestHandle, Response};
use protocol_core::{Timestamp, code};
use protocol_operations::{
    CancelReason, Cleanup, Ended, Limits, Metrics, OperationInfo, OperationToken, Operations,
    Urgency,
};
use serde_json::value::RawValue;

use crate::answer::RpcError;
use crate::contain::contain;
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

/// What a clean-up handler is told: an operation that was cancelled, and whose worker no longer runs.
/// Its partial result is what its request was answered with after the cancel, which nobody else
/// is told.
pub type CancelledOperation = Ended<Option<Handler>, Box<RawValue>>;

/// Cleans up after a cancelled operation; see [`SharedOperations::clean_up`].
#[derive(Clone)]
pub struct Handler(Arc<dyn Fn(&CancelledOperation) + Send + Sync>);

struct Shared {
    operations: Mutex<Operations<Option<Handler>, Box<RawValue>>>,
    now: Box<dyn Fn() -> Timestamp + Send + Sync>,
}

impl SharedOperations {
    /// No operations yet. `now` reads the clock that they are timed by.
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self::with_limits(Limits::default(), now)
    }

    /// As [`new`](Self::new), with limits over all connections. What does not fit is refused with
    /// the dialect's overload code.
    pub fn with_limits(
        limits: Limits,
        now: impl Fn() -> Timestamp + Send + Sync + 'static,
    ) -> Self {
        let operations = Mutex::new(Operations::new(limits, 0));
        let shared = Arc::new(Shared { operations, now: Box::new(now) });
        Self { shared, handlers: BTreeMap::new() }
    }

    /// Cleans up after each cancelled operation that a request with this method started, once, when
    /// its request is answered or its responder is dropped. No lock is held then; a panic is
    /// contained. It counts for the connections that are given this value or a later clone of it.
    #[must_use]
    pub fn clean_up(
        mut self,
        method: &str,
        handler: impl Fn(&CancelledOperation) + Send + Sync + 'static,
    ) -> Self {
        self.handlers.insert(method.into(), Handler(Arc::new(handler)));
        self
    }

    /// Shows every operation that is under way, oldest first. They are locked meanwhile: do
    /// not use any connection of theirs.
    pub fn for_each(&self, each: impl FnMut(OperationInfo<'_>)) {
        let now = (self.shared.now)();
        lock(&self.shared.operations).list(now).for_each(each);
    }

    /// Counts of all connections.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        lock(&self.shared.operations).metrics().clone()
    }

    fn begin(&self, method: &str, entropy: [u8; 16]) -> Result<(), String> {
        let mut operations = lock(&self.shared.operations);
        let handler = self.handlers.get(method).cloned();
        let cleanup = match handler {
            Some(_) => Cleanup::Wanted,
            None => Cleanup::NotNeeded,
        };
        operations.declare(method, cleanup).map_err(|error| error.to_string())?;
        let registered = operations.register(method, entropy, handler, (self.shared.now)());
        registered.map(|_| ()).map_err(|error| error.problem.to_string())
    }

    fn cancel(&self, token: [u8; 16], reason: CancelReason) {
        let mut operations = lock(&self.shared.operations);
        let Some(operation) = operations.find(OperationToken::from_bytes(token)) else { return };
        // The core has told its client, and its marker tells its handler to stop.
        let _ = operations.cancel(operation, reason, Urgency::Forced, (self.shared.now)());
    }

    fn end(&self, token: [u8; 16], how: End<'_>) -> Option<CleanUp> {
        let mut operations = lock(&self.shared.operations);
        let operation = operations.find(OperationToken::from_bytes(token))?;
        let ended = match how {
            End::Answered(partial) => {
                if let Some(partial) = partial.filter(|_| operations.is_cancelled(operation)) {
                    operations.keep_partial(operation, partial.to_owned()).ok()?;
                }
                operations.finish(operation)
            }
            End::WorkerGone => operations.worker_lost(operation),
        };
        let ended = ended.ok()?;
        (ended.cleanup == Cleanup::Wanted).then(|| CleanUp(Box::new(ended)))
    }
}

/// How an operation ends.
enum End<'a> {
    /// Its request was answered; with this, if that was a result.
    Answered(Option<&'a RawValue>),
    WorkerGone,
}

/// A clean-up that is to be run once nothing is locked.
#[must_use = "it is to be run"]
pub struct CleanUp(Box<CancelledOperation>);

impl CleanUp {
    /// Runs it; a panic of the host's handler is contained.
    pub fn run(self) {
        if let Some(Handler(handler)) = &self.0.data {
            contain(|| handler(&self.0));
        }
    }
}

/// Answers a new request with the token of the operation that it starts, if it starts one.
///
/// # Errors
///
/// What to answer it with instead.
pub fn begin<O, I: Default>(
    core: &mut Connection<O, I>,
    operations: Option<&SharedOperations>,
    request: RequestHandle,
    method: &str,
    entropy: Entropy,
) -> Result<(), RpcError> {
    if core.config().dialect.starts_operation(method).is_none() {
        return Ok(());
    }
    let entropy = entropy().ok_or_else(|| {
        RpcError::new(code::INTERNAL_ERROR, "there is no entropy to make a token of")
    })?;
    let overload = core.config().dialect.overload_code;
    if let Some(operations) = operations {
        operations.begin(method, entropy).map_err(|problem| RpcError::new(overload, problem))?;
    }
    let begun = core.begin_operation(request, entropy);
    if let (Err(_), Some(operations)) = (&begun, operations) {
        // It was not cancelled, so there is nothing to clean up.
        let _ = operations.end(entropy, End::WorkerGone);
    }
    match begun {
        Ok(_) | Err(Refusal::AlreadyResponded) => Ok(()),
        Err(refusal) => Err(RpcError::new(overload, refusal.to_string())),
    }
}

/// A request was marked cancelled, and with it the operation that it started.
pub fn cancelled<O, I: Default>(
    core: &Connection<O, I>,
    operations: Option<&SharedOperations>,
    request: RequestHandle,
    cause: Cause,
) {
    let Some(operations) = operations else { return };
    if let Some(token) = core.operation(request) {
        operations.cancel(token, cause.into());
    }
}

/// Answers a request, and ends the operation that it started. Gives the data back that the core has
/// on the request, and what is to be run once nothing is locked.
///
/// # Errors
///
/// As [`Connection::respond`]; the operation goes on then.
#[inline]
pub fn respond<O, I: Default>(
    core: &mut Connection<O, I>,
    operations: Option<&SharedOperations>,
    request: RequestHandle,
    reply: Response<'_>,
) -> Result<(I, Option<CleanUp>), Refusal> {
    let Some(operations) = operations else {
        return core.respond(request, reply).map(|data| (data, None));
    };
    let token = core.operation(request);
    let data = core.respond(request, reply)?;
    let result = match reply {
        Response::Result(result) => Some(result),
        _ => None,
    };
    Ok((data, token.and_then(|token| operations.end(token, End::Answered(result)))))
}

/// Whoever served a request is gone without an answer.
pub fn worker_gone<O, I: Default>(
    core: &Connection<O, I>,
    operations: Option<&SharedOperations>,
    request: RequestHandle,
) -> Option<CleanUp> {
    operations?.end(core.operation(request)?, End::WorkerGone)
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

impl fmt::Debug for CleanUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CleanUp").field(&self.0.token).finish()
    }
}
