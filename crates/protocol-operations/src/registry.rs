use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::time::Duration;

use hashbrown::HashTable;
use protocol_core::Timestamp;
use slab::Slab;

use crate::error::{CheckError, NotFound, RegisterError, RegisterProblem, TooManyKinds};
use crate::metrics::{Cleanup, Kind, Metrics};
use crate::reason::CancelReason;
use crate::table::{Input, Status, Step};
use crate::token::OperationToken;

/// Every operation that is under way; see the [crate](crate) for what one can do.
///
/// `T` is the host's data on each operation, such as its client and its worker. `P` is what a
/// worker keeps of its work as it goes on, so that a cancelled operation leaves a partial result.
/// Both come back by value exactly once, in [`Ended`].
///
/// - *Commands*: [`declare`](Self::declare), [`register`](Self::register),
///   [`keep_partial`](Self::keep_partial), [`cancel`](Self::cancel),
///   [`cancel_all`](Self::cancel_all).
/// - *Inputs*: [`finish`](Self::finish), [`worker_gone`](Self::worker_gone),
///   [`handle_timeout`](Self::handle_timeout).
/// - *Getters*: the rest. All may be called at any time, in any order. A method that returns an
///   error has changed nothing but the count of cancels asked for.
///
/// # Memory
///
/// A live operation takes one row, at most a quarter of a row that is kept free for others, and its
/// places in the index of tokens and, while it is stopping, in the list of graces: together at most
/// 128 bytes with 8 bytes of data and no partial result; a stopping one at most 48 more. What the host's
/// data, the partial result and the text of an error own comes on top.
#[derive(Clone, Debug)]
pub struct Operations<T, P = ()> {
    limits: Limits,
    rows: Slab<Row<T, P>>,
    /// The slot of each row, found by its token. Invariant: exactly one entry for each row.
    by_token: HashTable<u32>,
    /// When each graceful cancel becomes a forced one. Invariant: exactly one entry for each row
    /// that is stopping.
    graces: BTreeSet<(Timestamp, OperationId)>,
    metrics: Metrics,
    /// The serial number of the operation that was registered last.
    last: u64,
}

/// What bounds the memory of a registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Limits {
    /// Operations that have not ended; 1,000,000, and never more than 2^32.
    pub operations: usize,
    /// Kinds that are declared; 1,000, and never more than 65,536.
    pub kinds: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { operations: 1_000_000, kinds: 1_000 }
    }
}

/// Names one operation inside the process. It is no secret, it is looked up faster than the token,
/// and it never names another operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId {
    serial: u64,
    slot: u32,
}

#[derive(Clone, Debug)]
struct Row<T, P> {
    serial: u64,
    token: OperationToken,
    started: Timestamp,
    /// Until when its worker may go on, once it is stopping.
    until: Timestamp,
    /// Invariant: there if and only if it is not active.
    reason: Option<CancelReason>,
    kind: u16,
    status: Status,
    data: T,
    partial: Option<P>,
}

/// How quickly a cancelled operation has to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Urgency {
    /// Its worker may finish the unit of work in hand, and is stopped after this grace.
    Graceful(Duration),
    /// Its worker is stopped now.
    Forced,
}

/// What can be told about a live operation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OperationInfo<'a> {
    /// Its name inside the process.
    pub operation: OperationId,
    /// Its token, which names it to its client.
    pub token: OperationToken,
    /// The name of its kind.
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

/// An operation that has ended: what it leaves, handed over once.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "it may have to be cleaned up after"]
pub struct Ended<T, P = ()> {
    /// Its token.
    pub token: OperationToken,
    /// When it was registered.
    pub started: Timestamp,
    /// Why it was cancelled, if it was.
    pub reason: Option<CancelReason>,
    /// Whether it is to be cleaned up after now: it was cancelled, and its kind wants that.
    pub cleanup: Cleanup,
    /// What the host gave with it.
    pub data: T,
    /// What its worker had kept last, if it was cut short: cancelled, or its worker gone. A
    /// completed operation has no partial result, for it has a whole one.
    pub partial: Option<P>,
}

impl<T, P> Default for Operations<T, P> {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl<T, P> Operations<T, P> {
    /// An empty registry.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            rows: Slab::new(),
            by_token: HashTable::new(),
            graces: BTreeSet::new(),
            metrics: Metrics::default(),
            last: 0,
        }
    }

    /// Makes a kind of operations known, or changes whether it wants clean-up. Kinds are the host's
    /// own names, never the peer's.
    ///
    /// # Errors
    ///
    /// [`TooManyKinds`].
    pub fn declare(&mut self, kind: &str, cleanup: Cleanup) -> Result<(), TooManyKinds> {
        if let Some(index) = self.kind(kind) {
            self.metrics.kinds[index].cleanup = cleanup;
            return Ok(());
        }
        if self.metrics.kinds.len() >= self.limits.kinds.min(1 << 16) {
            return Err(TooManyKinds);
        }
        self.metrics.kinds.push(Kind::new(kind, cleanup));
        Ok(())
    }

    /// Registers an operation of a declared kind, under a token made of 16 bytes that nobody can
    /// guess.
    ///
    /// # Errors
    ///
    /// [`RegisterProblem`], with the data given back.
    pub fn register(
        &mut self,
        kind: &str,
        entropy: [u8; 16],
        data: T,
        now: Timestamp,
    ) -> Result<OperationId, RegisterError<T>> {
        let token = OperationToken::from_bytes(entropy);
        let kind = match self.admit(kind, token) {
            Ok(kind) => kind,
            Err(problem) => return Err(RegisterError { problem, data }),
        };
        if self.rows.len() == self.rows.capacity() {
            // Not twice as many, as it would be by itself: the bound of memory depends on it.
            self.rows.reserve_exact(self.rows.len() / 4 + 4);
        }
        self.last += 1;
        let slot = self.rows.vacant_key() as u32;
        self.rows.insert(Row {
            serial: self.last,
            token,
            started: now,
            until: now,
            reason: None,
            kind: kind as u16,
            status: Status::Active,
            data,
            partial: None,
        });
        self.by_token
            .insert_unique(hash(token), slot, |&slot| hash(self.rows[slot as usize].token));
        let kind = &mut self.metrics.kinds[kind];
        kind.registered += 1;
        kind.active += 1;
        Ok(OperationId { serial: self.last, slot })
    }

    /// The place of the kind, if such an operation may be registered now.
    fn admit(&self, kind: &str, token: OperationToken) -> Result<usize, RegisterProblem> {
        let kind = self.kind(kind).ok_or(RegisterProblem::UnknownKind)?;
        if self.rows.len() >= self.limits.operations.min(u32::MAX as usize) {
            return Err(RegisterProblem::TooMany);
        }
        if self.find(token).is_some() {
            return Err(RegisterProblem::TokenInUse);
        }
        Ok(kind)
    }

    /// Keeps what the worker has made so far, and gives back what was kept before. If the operation
    /// is cut short, [`Ended::partial`] has it.
    ///
    /// # Errors
    ///
    /// [`NotFound`].
    pub fn keep_partial(
        &mut self,
        operation: OperationId,
        partial: P,
    ) -> Result<Option<P>, NotFound> {
        let row = self.row_mut(operation).ok_or(NotFound)?;
        Ok(row.partial.replace(partial))
    }

    /// Cancels an operation, and says what the host is to do now: [`Step::Tell`],
    /// [`Step::TellAndStop`], [`Step::Stop`] or [`Step::Nothing`]. A second cancel changes nothing,
    /// but that a forced one hastens a graceful one; the first reason stays.
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
    ) -> Result<Step, NotFound> {
        self.metrics.count_request(&reason);
        let row = self.row(operation).ok_or(NotFound)?;
        let ran = now.since(row.started);
        let kind = usize::from(row.kind);
        let step = match urgency {
            Urgency::Graceful(grace) if !grace.is_zero() => {
                self.enter(operation, Input::CancelGracefully, now + grace)
            }
            Urgency::Graceful(_) | Urgency::Forced => self.enter(operation, Input::CancelNow, now),
        };
        if matches!(step, Step::Tell | Step::TellAndStop) {
            self.metrics.count_cancel(kind, &reason, ran);
            self.rows[operation.slot as usize].reason = Some(reason);
        }
        Ok(step)
    }

    /// Cancels every operation, as when the server goes down. Gives what the host is to do for each,
    /// oldest first; those that need nothing are left out.
    #[must_use = "each step is for the host to take"]
    pub fn cancel_all(
        &mut self,
        reason: &CancelReason,
        urgency: Urgency,
        now: Timestamp,
    ) -> Vec<(OperationId, Step)> {
        let mut steps = Vec::new();
        for operation in self.oldest_first() {
            match self.cancel(operation, reason.clone(), urgency, now) {
                Ok(Step::Nothing) | Err(NotFound) => {}
                Ok(step) => steps.push((operation, step)),
            }
        }
        steps
    }

    /// Ends an operation whose worker says that it is done, or that it has stopped.
    ///
    /// # Errors
    ///
    /// [`NotFound`].
    pub fn finish(&mut self, operation: OperationId) -> Result<Ended<T, P>, NotFound> {
        self.end(operation, Input::Finish)
    }

    /// Ends an operation whose worker is gone without a word: it died, or it was killed.
    ///
    /// # Errors
    ///
    /// [`NotFound`].
    pub fn worker_gone(&mut self, operation: OperationId) -> Result<Ended<T, P>, NotFound> {
        self.end(operation, Input::LoseWorker)
    }

    /// Forces the next operation whose grace is over, and names it: stop its worker now. To be called
    /// until it names none.
    #[must_use = "the worker is to be stopped"]
    pub fn handle_timeout(&mut self, now: Timestamp) -> Option<OperationId> {
        let &(until, operation) = self.graces.first()?;
        if until > now {
            return None;
        }
        let step = self.enter(operation, Input::GraceOver, now);
        debug_assert_eq!(step, Step::Stop, "only those that are stopping have a grace");
        Some(operation)
    }

    /// When [`handle_timeout`](Self::handle_timeout) wants to be called next.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        self.graces.first().map(|&(until, _)| until)
    }

    /// Whether the work should go on. A few nanoseconds.
    ///
    /// # Errors
    ///
    /// [`CheckError`], if it should not.
    pub fn check(&self, operation: OperationId) -> Result<(), CheckError> {
        match self.row(operation).map(|row| row.status) {
            Some(Status::Active) => Ok(()),
            Some(Status::Stopping | Status::Cancelled) => Err(CheckError::Cancelled),
            None => Err(CheckError::NotFound),
        }
    }

    /// Whether the operation was cancelled and has not ended.
    #[must_use]
    pub fn is_cancelled(&self, operation: OperationId) -> bool {
        self.check(operation) == Err(CheckError::Cancelled)
    }

    /// The live operation that this token names.
    #[must_use]
    pub fn find(&self, token: OperationToken) -> Option<OperationId> {
        let is_its = |&slot: &u32| self.rows[slot as usize].token == token;
        let &slot = self.by_token.find(hash(token), is_its)?;
        Some(OperationId { serial: self.rows[slot as usize].serial, slot })
    }

    /// The token of a live operation.
    #[must_use]
    pub fn token(&self, operation: OperationId) -> Option<OperationToken> {
        self.row(operation).map(|row| row.token)
    }

    /// The host's data on a live operation.
    #[must_use]
    pub fn data(&self, operation: OperationId) -> Option<&T> {
        self.row(operation).map(|row| &row.data)
    }

    /// The host's data on a live operation, to be changed.
    pub fn data_mut(&mut self, operation: OperationId) -> Option<&mut T> {
        self.row_mut(operation).map(|row| &mut row.data)
    }

    /// What can be told about a live operation.
    #[must_use]
    pub fn info(&self, operation: OperationId, now: Timestamp) -> Option<OperationInfo<'_>> {
        let row = self.row(operation)?;
        Some(OperationInfo {
            operation,
            token: row.token,
            kind: &self.metrics.kinds[usize::from(row.kind)].name,
            started: row.started,
            duration: now.since(row.started),
            status: row.status,
            reason: row.reason.as_ref(),
        })
    }

    /// Every live operation, oldest first.
    pub fn list(&self, now: Timestamp) -> impl Iterator<Item = OperationInfo<'_>> {
        self.oldest_first().into_iter().filter_map(move |operation| self.info(operation, now))
    }

    /// How many are live: at work, or cancelled and not ended.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether none is live.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Counts since the registry was made.
    #[must_use]
    pub const fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    fn kind(&self, name: &str) -> Option<usize> {
        self.metrics.kinds.iter().position(|kind| &*kind.name == name)
    }

    fn row(&self, operation: OperationId) -> Option<&Row<T, P>> {
        self.rows.get(operation.slot as usize).filter(|row| row.serial == operation.serial)
    }

    fn row_mut(&mut self, operation: OperationId) -> Option<&mut Row<T, P>> {
        self.rows.get_mut(operation.slot as usize).filter(|row| row.serial == operation.serial)
    }

    /// Moves a live operation to where `input` takes it, if that is not its end. It has until `until`
    /// if it is stopping then.
    fn enter(&mut self, operation: OperationId, input: Input, until: Timestamp) -> Step {
        let row = &mut self.rows[operation.slot as usize];
        let transition = row.status.on(input);
        let Some(next) = transition.next else { return transition.step };
        if next != row.status {
            if row.status == Status::Stopping {
                self.graces.remove(&(row.until, operation));
            }
            if next == Status::Stopping {
                self.graces.insert((until, operation));
            }
            row.until = until;
            row.status = next;
        }
        transition.step
    }

    fn end(&mut self, operation: OperationId, input: Input) -> Result<Ended<T, P>, NotFound> {
        self.row(operation).ok_or(NotFound)?;
        let row = self.rows.remove(operation.slot as usize);
        if let Ok(entry) = self.by_token.find_entry(hash(row.token), |&slot| slot == operation.slot)
        {
            entry.remove();
        }
        if row.status == Status::Stopping {
            self.graces.remove(&(row.until, operation));
        }
        let step = row.status.on(input).step;
        let kind = &mut self.metrics.kinds[usize::from(row.kind)];
        let (mut cleanup, mut partial) = (Cleanup::NotNeeded, row.partial);
        match step {
            Step::CleanUp => cleanup = kind.cleanup,
            Step::Lose => {
                kind.active -= 1;
                kind.lost += 1;
            }
            _ => {
                kind.active -= 1;
                kind.completed += 1;
                partial = None;
            }
        }
        if partial.is_some() {
            self.metrics.count_partial_result();
        }
        let Row { token, started, reason, data, .. } = row;
        Ok(Ended { token, started, reason, cleanup, data, partial })
    }

    fn oldest_first(&self) -> Vec<OperationId> {
        let ids = self.rows.iter().map(|(slot, row)| (row.serial, slot as u32));
        let mut ids: Vec<_> = ids.map(|(serial, slot)| OperationId { serial, slot }).collect();
        ids.sort_unstable();
        ids
    }
}

/// Eight of a token's bytes: they are random, and the host's own, so there is nothing to hash.
fn hash(token: OperationToken) -> u64 {
    let [.., a, b, c, d, e, f, g, h] = token.to_bytes();
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

#[cfg(test)]
mod tests;
