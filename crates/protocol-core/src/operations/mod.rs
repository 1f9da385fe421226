//! The registry of operations that outlive the request that started them: erlmcp's tokens.
//!
//! A request is answered at once with an [`OperationToken`]; the work goes on, and whoever shows the
//! token may cancel it. Pure like the rest: entropy and time are inputs, and what is to be done
//! comes out of [`Operations::poll_event`].
//!
//! ```
//! use core::time::Duration;
//! use protocol_core::operations::{
//!     CancelReason, Cleanup, Operations, OperationEvent, Urgency,
//! };
//! use protocol_core::Timestamp;
//!
//! let mut operations: Operations<&str> = Operations::new(Default::default());
//! let kind = operations.kind("tool/call", Cleanup::Wanted);
//! let entropy = [0x5a; 16]; // from the operating system
//! let id = operations.register(kind, entropy, "my worker", Timestamp::ZERO)?;
//! let token = operations.token(id).expect("it is active");
//!
//! // The client shows the token.
//! let found = operations.find(token).expect("it is active");
//! operations.cancel(found, CancelReason::ClientRequested, Urgency::Forced, Timestamp::ZERO)?;
//! assert!(operations.is_cancelled(id));
//! let mut events = core::iter::from_fn(|| operations.poll_event());
//! assert!(matches!(events.next(), Some(OperationEvent::Cancelled { .. })));
//! assert!(matches!(events.next(), Some(OperationEvent::Cleanup { .. })));
//! assert!(matches!(events.next(), Some(OperationEvent::Stop { .. })));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod metrics;

use alloc::boxed::Box;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use slab::Slab;

use crate::index::Index;
use crate::time::Timestamp;
pub use crate::token::{InvalidToken, OperationToken};
pub use metrics::{DURATION_BUCKETS_MS, KindMetrics, Metrics};

/// Every live operation; see the [module](self).
///
/// `T` is the host's data on each: its client, its worker. It comes back by value exactly once,
/// from [`finish`](Self::finish).
#[derive(Clone, Debug)]
pub struct Operations<T> {
    limits: OperationLimits,
    entries: Slab<Entry<T>>,
    by_token: Index<OperationToken>,
    kinds: Vec<Kind>,
    /// When a graceful cancel becomes a forced one.
    forced: BTreeSet<(Timestamp, OperationId)>,
    events: VecDeque<OperationEvent>,
    metrics: Metrics,
    /// Counts registrations: the generation that makes a reused slot safe.
    last: u32,
}

/// What bounds the memory of a registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct OperationLimits {
    /// Operations that are not finished; 1,000,000.
    pub operations: usize,
}

impl Default for OperationLimits {
    fn default() -> Self {
        Self { operations: 1_000_000 }
    }
}

/// Names one operation, in this process: cheaper to look up than its token, and no secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId {
    generation: u32,
    slot: u32,
}

/// Names an operation type, such as `tool/call`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KindId(u16);

/// Whether the host wants to clean up after cancelled operations of a type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Cleanup {
    /// Nothing is left behind.
    #[default]
    NotNeeded,
    /// One [`OperationEvent::Cleanup`] for each cancelled operation.
    Wanted,
}

#[derive(Clone, Debug)]
struct Kind {
    name: Box<str>,
    cleanup: Cleanup,
}

#[derive(Clone, Debug)]
struct Entry<T> {
    token: OperationToken,
    generation: u32,
    kind: KindId,
    state: State,
    started: Timestamp,
    data: T,
}

#[derive(Clone, Debug)]
enum State {
    Active,
    /// Cancelled; the worker finishes the unit of work in hand until this time.
    Stopping {
        until: Timestamp,
        reason: CancelReason,
    },
    /// Cancelled, and its worker is to stop now.
    Cancelled {
        reason: CancelReason,
    },
}

/// Why an operation was cancelled.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CancelReason {
    /// The client asked.
    ClientRequested,
    /// It took too long.
    Timeout,
    /// The server is going down.
    ServerShutdown,
    /// Something it needs failed.
    Error(Box<str>),
}

impl CancelReason {
    /// The name in `snake_case`, without the error.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::ClientRequested => "client_requested",
            Self::Timeout => "timeout",
            Self::ServerShutdown => "server_shutdown",
            Self::Error(_) => "error",
        }
    }
}

impl fmt::Display for CancelReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(error) => write!(f, "error: {error}"),
            _ => f.write_str(self.as_str()),
        }
    }
}

/// How quickly a cancelled operation has to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Urgency {
    /// It finishes the unit of work in hand; after the grace it is forced.
    Graceful(Duration),
    /// Its worker is to be stopped now.
    Forced,
}

/// What is to be done, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OperationEvent {
    /// Tell the client: `notifications/cancelled`. Once for each cancelled operation.
    Cancelled {
        /// Which.
        operation: OperationId,
        /// Its token, which names it to the client.
        token: OperationToken,
        /// Why.
        reason: CancelReason,
    },
    /// Clean up after it. Once for each cancelled operation of a type that wants it.
    Cleanup {
        /// Which.
        operation: OperationId,
        /// Its token.
        token: OperationToken,
        /// Its type.
        kind: KindId,
        /// Why it was cancelled.
        reason: CancelReason,
    },
    /// Stop its worker now.
    Stop {
        /// Which.
        operation: OperationId,
    },
}

/// Where an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// At work.
    Active,
    /// Cancelled, and finishing the unit of work in hand.
    Stopping,
    /// Cancelled.
    Cancelled,
}

impl Status {
    /// The name in `snake_case`. To clients a stopping operation is cancelled.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Stopping | Self::Cancelled => "cancelled",
        }
    }
}

/// What can be told about an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OperationInfo<'a> {
    /// Its token.
    pub token: OperationToken,
    /// The name of its type.
    pub kind: &'a str,
    /// When it was registered.
    pub started: Timestamp,
    /// How long ago that was.
    pub duration: Duration,
    /// Where it is.
    pub status: Status,
    /// Why it was cancelled, if it was.
    pub reason: Option<&'a CancelReason>,
}

/// Why an operation could not be registered; the data comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterError<T> {
    /// Why.
    pub reason: RegisterProblem,
    /// What the host gave with the operation.
    pub data: T,
}

/// See [`RegisterError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RegisterProblem {
    /// [`OperationLimits::operations`] are live.
    TooMany,
    /// A live operation has that token: the entropy is none.
    TokenInUse,
}

/// No such operation: it never was, or it is finished. On the wire error -32001.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotFound;

/// Why work should not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckError {
    /// The operation was cancelled.
    Cancelled,
    /// No such operation.
    NotFound,
}

impl<T> Operations<T> {
    /// An empty registry.
    #[must_use]
    pub fn new(limits: OperationLimits) -> Self {
        Self {
            limits,
            entries: Slab::new(),
            by_token: Index::new(),
            kinds: Vec::new(),
            forced: BTreeSet::new(),
            events: VecDeque::new(),
            metrics: Metrics::default(),
            last: 0,
        }
    }

    /// Names an operation type, or changes whether it wants clean-up.
    ///
    /// # Panics
    ///
    /// After 65,535 types: they are the host's own, never the peer's.
    pub fn kind(&mut self, name: &str, cleanup: Cleanup) -> KindId {
        if let Some(index) = self.kinds.iter().position(|kind| &*kind.name == name) {
            self.kinds[index].cleanup = cleanup;
            return KindId(index as u16);
        }
        let id = u16::try_from(self.kinds.len()).expect("types are the host's own, and few");
        self.kinds.push(Kind { name: name.into(), cleanup });
        self.metrics.add_kind(name);
        KindId(id)
    }

    /// Registers an operation under a token made of 16 random bytes.
    ///
    /// # Errors
    ///
    /// [`RegisterProblem`], with the data given back.
    pub fn register(
        &mut self,
        kind: KindId,
        entropy: [u8; 16],
        data: T,
        now: Timestamp,
    ) -> Result<OperationId, RegisterError<T>> {
        let token = OperationToken::from_bytes(entropy);
        let reason = if self.entries.len() >= self.limits.operations {
            Some(RegisterProblem::TooMany)
        } else if self.find(token).is_some() {
            Some(RegisterProblem::TokenInUse)
        } else {
            None
        };
        if let Some(reason) = reason {
            return Err(RegisterError { reason, data });
        }
        self.last = self.last.wrapping_add(1);
        let generation = self.last;
        let entry = Entry { token, generation, kind, state: State::Active, started: now, data };
        let slot = u32::try_from(self.entries.insert(entry)).expect("limits keep it under 2^32");
        self.by_token.insert(&token, slot, |slot| self.entries[slot as usize].token);
        self.metrics.registered(kind);
        Ok(OperationId { generation, slot })
    }

    /// Cancels an operation. One that is stopping is not cancelled again, but a forced cancel
    /// hastens a graceful one; the first reason stays.
    ///
    /// # Errors
    ///
    /// [`NotFound`].
    pub fn cancel(
        &mut self,
        operation: OperationId,
        reason: CancelReason,
        urgency: Urgency,
        now: Timestamp,
    ) -> Result<(), NotFound> {
        let entry = get_mut(&mut self.entries, operation).ok_or(NotFound)?;
        match (&entry.state, urgency) {
            (State::Active, _) => {}
            (State::Stopping { until, .. }, Urgency::Forced) => {
                self.forced.remove(&(*until, operation));
                self.force(operation);
                return Ok(());
            }
            (State::Stopping { .. } | State::Cancelled { .. }, _) => return Ok(()),
        }
        let (token, kind) = (entry.token, entry.kind);
        self.metrics.count_cancel(kind, &reason, now.since(entry.started));
        self.events.push_back(OperationEvent::Cancelled {
            operation,
            token,
            reason: reason.clone(),
        });
        if self.kinds[usize::from(kind.0)].cleanup == Cleanup::Wanted {
            let reason = reason.clone();
            self.events.push_back(OperationEvent::Cleanup { operation, token, kind, reason });
        }
        match urgency {
            Urgency::Graceful(grace) if !grace.is_zero() => {
                let until = now + grace;
                entry.state = State::Stopping { until, reason };
                self.forced.insert((until, operation));
            }
            Urgency::Graceful(_) | Urgency::Forced => {
                entry.state = State::Cancelled { reason };
                self.events.push_back(OperationEvent::Stop { operation });
            }
        }
        Ok(())
    }

    /// The operation is over: its worker is done, has stopped, or has died. Gives its data back.
    ///
    /// # Errors
    ///
    /// [`NotFound`].
    pub fn finish(&mut self, operation: OperationId) -> Result<T, NotFound> {
        get_mut(&mut self.entries, operation).ok_or(NotFound)?;
        let entry = self.entries.remove(operation.slot as usize);
        self.by_token
            .remove(&entry.token, operation.slot, |slot| self.entries[slot as usize].token);
        match entry.state {
            State::Active => self.metrics.finished(entry.kind),
            State::Stopping { until, .. } => {
                self.forced.remove(&(until, operation));
            }
            State::Cancelled { .. } => {}
        }
        Ok(entry.data)
    }

    /// Cancels every operation that is active: the server goes down.
    pub fn cancel_all(&mut self, reason: &CancelReason, urgency: Urgency, now: Timestamp) {
        for operation in self.in_order() {
            // It is live: it was just listed.
            let _ = self.cancel(operation, reason.clone(), urgency, now);
        }
    }

    /// Forces the operations whose grace is over.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        while let Some(&(until, operation)) = self.forced.first() {
            if until > now {
                return;
            }
            self.forced.pop_first();
            self.force(operation);
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) wants to be called next.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        self.forced.first().map(|&(until, _)| until)
    }

    /// The next thing to do.
    pub fn poll_event(&mut self) -> Option<OperationEvent> {
        self.events.pop_front()
    }

    /// Whether the work should go on. The fastest way to ask.
    ///
    /// # Errors
    ///
    /// [`CheckError`], if not.
    pub fn check(&self, operation: OperationId) -> Result<(), CheckError> {
        match self.get(operation).map(|entry| &entry.state) {
            Some(State::Active) => Ok(()),
            Some(_) => Err(CheckError::Cancelled),
            None => Err(CheckError::NotFound),
        }
    }

    /// Whether the operation was cancelled and is not finished.
    #[must_use]
    pub fn is_cancelled(&self, operation: OperationId) -> bool {
        self.check(operation) == Err(CheckError::Cancelled)
    }

    /// The live operation with this token.
    #[must_use]
    pub fn find(&self, token: OperationToken) -> Option<OperationId> {
        let slot = self.by_token.find(&token, |slot| self.entries[slot as usize].token)?;
        Some(OperationId { generation: self.entries[slot as usize].generation, slot })
    }

    /// The token of a live operation.
    #[must_use]
    pub fn token(&self, operation: OperationId) -> Option<OperationToken> {
        self.get(operation).map(|entry| entry.token)
    }

    /// The host's data on a live operation.
    pub fn data_mut(&mut self, operation: OperationId) -> Option<&mut T> {
        get_mut(&mut self.entries, operation).map(|entry| &mut entry.data)
    }

    /// What can be told about a live operation.
    #[must_use]
    pub fn info(&self, operation: OperationId, now: Timestamp) -> Option<OperationInfo<'_>> {
        let entry = self.get(operation)?;
        let (status, reason) = match &entry.state {
            State::Active => (Status::Active, None),
            State::Stopping { reason, .. } => (Status::Stopping, Some(reason)),
            State::Cancelled { reason } => (Status::Cancelled, Some(reason)),
        };
        Some(OperationInfo {
            token: entry.token,
            kind: &self.kinds[usize::from(entry.kind.0)].name,
            started: entry.started,
            duration: now.since(entry.started),
            status,
            reason,
        })
    }

    /// Every live operation, oldest first.
    pub fn list(&self, now: Timestamp) -> impl Iterator<Item = (OperationId, OperationInfo<'_>)> {
        let operations = self.in_order().into_iter();
        operations.filter_map(move |operation| Some((operation, self.info(operation, now)?)))
    }

    /// How many are live: at work, or cancelled and not finished.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether none is live.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Counts since the registry was made.
    #[must_use]
    pub const fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The metrics as Prometheus reads them.
    #[must_use]
    pub fn prometheus(&self) -> String {
        let mut text = String::new();
        self.metrics.write_prometheus(&mut text).expect("a String takes everything");
        text
    }

    fn get(&self, operation: OperationId) -> Option<&Entry<T>> {
        let entry = self.entries.get(operation.slot as usize)?;
        (entry.generation == operation.generation).then_some(entry)
    }

    fn force(&mut self, operation: OperationId) {
        let Some(entry) = get_mut(&mut self.entries, operation) else { return };
        if let State::Stopping { reason, .. } = &entry.state {
            entry.state = State::Cancelled { reason: reason.clone() };
            self.events.push_back(OperationEvent::Stop { operation });
        }
    }

    fn in_order(&self) -> Vec<OperationId> {
        let ids = self.entries.iter().map(|(slot, entry)| OperationId {
            generation: entry.generation,
            slot: u32::try_from(slot).expect("see register"),
        });
        let mut ids: Vec<OperationId> = ids.collect();
        ids.sort_unstable();
        ids
    }
}

fn get_mut<T>(entries: &mut Slab<Entry<T>>, operation: OperationId) -> Option<&mut Entry<T>> {
    entries
        .get_mut(operation.slot as usize)
        .filter(|entry| entry.generation == operation.generation)
}

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Operation not found")
    }
}

impl core::error::Error for NotFound {}

impl<T> fmt::Display for RegisterError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.reason {
            RegisterProblem::TooMany => "too many operations are live (limits.operations)",
            RegisterProblem::TokenInUse => "a live operation has that token",
        })
    }
}

impl<T: fmt::Debug> core::error::Error for RegisterError<T> {}

#[cfg(test)]
mod tests;
