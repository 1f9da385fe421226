//! The registry of live operations.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use hashbrown::HashTable;
use protocol_core::Timestamp;
use slab::Slab;

use crate::error::{CheckError, NotFound, RegisterError, RegisterProblem, TooManyKinds};
use crate::metrics::{Cleanup, Kind, Metrics};
use crate::operation::{Ended, OperationId, OperationInfo, Urgency};
use crate::reason::CancelReason;
use crate::table::{Input, Status, Step};
use crate::token::OperationToken;

/// A registry of every live operation; see the [crate](crate) for the life of one.
///
/// `T` is the host's data on each operation, such as its client and its worker. `P` is the partial
/// result that a worker stores as it goes on. Both come back by value exactly once, in [`Ended`].
///
/// - *Commands*: [`declare`](Self::declare), [`register`](Self::register),
///   [`keep_partial`](Self::keep_partial), [`cancel`](Self::cancel),
///   [`cancel_all`](Self::cancel_all).
/// - *Inputs*: [`finish`](Self::finish), [`worker_lost`](Self::worker_lost),
///   [`handle_timeout`](Self::handle_timeout).
/// - *Getters*: the rest.
///
/// All may be called at any time, in any order. A method that returns an error has changed nothing
/// but the count of requested cancellations.
///
/// # Time
///
/// No method gets slower with the number of kinds. All but [`cancel_all`](Self::cancel_all) and
/// [`list`](Self::list) take amortised constant time, or logarithmic time in the number of
/// operations that are stopping.
///
/// # Memory
///
/// A live operation takes one row, at most a quarter of a spare row, and an entry in the index of
/// tokens. With 8 bytes of data and no partial result that is at most 128 bytes, and at most 48
/// more while the operation is stopping.
///
/// A kind takes at most 140 bytes and its name. Memory that is owned by the host's data, a partial
/// result or the text of an error comes on top.
#[derive(Clone, Debug)]
pub struct Operations<T, P = ()> {
    /// The number that every id of this registry carries.
    registry: u32,
    limits: Limits,
    rows: Slab<Row<T, P>>,
    /// The slots of the rows by token. Invariant: exactly one entry for each row.
    by_token: HashTable<u32>,
    /// The indices of the kinds by name. Invariant: exactly one entry for each kind.
    by_name: HashTable<u16>,
    /// The index of the kind of the latest registration, which is compared before the index is searched.
    latest_kind: usize,
    /// The ends of grace periods. Invariant: exactly one entry for each row that is stopping.
    grace_ends: BTreeSet<(Timestamp, OperationId)>,
    metrics: Metrics,
    /// The serial number of the last registration.
    last_serial: u64,
}

/// The bounds of a registry's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Limits {
    /// The most operations that may be live at once. The default is 1,000,000, and values above
    /// 2^32 - 1 mean that.
    pub operations: usize,
    /// The most kinds that may be declared. The default is 1,000, and values above 65,536 mean that.
    pub kinds: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { operations: 1_000_000, kinds: 1_000 }
    }
}

#[derive(Clone, Debug)]
struct Row<T, P> {
    serial: u64,
    token: OperationToken,
    started: Timestamp,
    /// The end of the grace period. Invariant: meaningful only while the row is stopping.
    grace_end: Timestamp,
    /// Invariant: `Some` if and only if the row is not active.
    reason: Option<CancelReason>,
    kind: u16,
    status: Status,
    data: T,
    partial: Option<P>,
}

/// Creates an empty registry with the default limits and the number 0.
impl<T, P> Default for Operations<T, P> {
    fn default() -> Self {
        Self::new(Limits::default(), 0)
    }
}

impl<T, P> Operations<T, P> {
    /// Creates an empty registry.
    ///
    /// `registry` is a number that the host gives to no other registry of the process. Ids carry it,
    /// so that a registry refuses the ids of another one. A process with a single registry can use
    /// any number. A clone keeps the number, and accepts the ids of the original.
    #[must_use]
    pub fn new(limits: Limits, registry: u32) -> Self {
        Self {
            registry,
            limits,
            rows: Slab::new(),
            by_token: HashTable::new(),
            by_name: HashTable::new(),
            latest_kind: 0,
            grace_ends: BTreeSet::new(),
            metrics: Metrics::default(),
            last_serial: 0,
        }
    }

    /// Declares a kind of operations, or changes whether a declared one wants clean-up.
    ///
    /// The host chooses the names of kinds, never the peer.
    ///
    /// # Errors
    ///
    /// Returns [`TooManyKinds`] if the kind is new and [`Limits::kinds`] are declared.
    pub fn declare(&mut self, kind: &str, cleanup: Cleanup) -> Result<(), TooManyKinds> {
        if let Some(index) = self.kind(kind) {
            self.metrics.kinds[index].cleanup = cleanup;
            return Ok(());
        }
        let index = u16::try_from(self.metrics.kinds.len()).map_err(|_| TooManyKinds)?;
        if usize::from(index) >= self.limits.kinds {
            return Err(TooManyKinds);
        }
        let kinds = &mut self.metrics.kinds;
        kinds.push(Kind::new(kind, cleanup));
        let hash = |&index: &u16| hash_of_name(&kinds[usize::from(index)].name);
        self.by_name.insert_unique(hash(&index), index, hash);
        Ok(())
    }

    /// Registers an operation of a declared kind. Its token is made of 16 bytes of entropy, which
    /// nobody may be able to guess.
    ///
    /// # Errors
    ///
    /// Returns the [`RegisterProblem`] and the data.
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
            // By itself a slab doubles, and the documented bound of memory allows a quarter.
            self.rows.reserve_exact(self.rows.len() / 4 + 4);
        }
        self.latest_kind = kind;
        self.last_serial += 1;
        let slot = self.rows.vacant_key() as u32;
        self.rows.insert(Row {
            serial: self.last_serial,
            token,
            started: now,
            grace_end: now,
            reason: None,
            kind: kind as u16,
            status: Status::Active,
            data,
            partial: None,
        });
        let hash = |&slot: &u32| hash_of_token(self.rows[slot as usize].token);
        self.by_token.insert_unique(hash(&slot), slot, hash);
        let kind = &mut self.metrics.kinds[kind];
        kind.registered += 1;
        kind.active += 1;
        Ok(self.id(self.last_serial, slot))
    }

    /// Returns the index of the kind if such an operation may be registered now.
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

    /// Stores the partial result of a worker, and returns the previous one. If the operation is cut
    /// short, [`Ended::partial`] has the last one.
    ///
    /// # Errors
    ///
    /// Returns [`NotFound`] if the operation is not live.
    pub fn keep_partial(
        &mut self,
        operation: OperationId,
        partial: P,
    ) -> Result<Option<P>, NotFound> {
        let row = self.row_mut(operation).ok_or(NotFound)?;
        Ok(row.partial.replace(partial))
    }

    /// Cancels an operation. Returns [`Step::Notify`], [`Step::NotifyAndStop`], [`Step::Stop`] or
    /// [`Step::Nothing`] for the host to do.
    ///
    /// The reason of the first cancellation stays. A second one has an effect only if it is forced
    /// and the first was graceful.
    ///
    /// # Errors
    ///
    /// Returns [`NotFound`] if the operation is not live.
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
                self.apply(operation, Input::GracefulCancel, now + grace)
            }
            Urgency::Graceful(_) | Urgency::Forced => {
                self.apply(operation, Input::ForcedCancel, now)
            }
        };
        if matches!(step, Step::Notify | Step::NotifyAndStop) {
            self.metrics.count_cancel(kind, &reason, ran);
            self.rows[operation.slot as usize].reason = Some(reason);
        }
        Ok(step)
    }

    /// Cancels every operation, for example when the server shuts down. Returns the step for each,
    /// oldest first, without those that need none.
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

    /// Ends an operation whose worker reports that it is done, or that it has stopped.
    ///
    /// # Errors
    ///
    /// Returns [`NotFound`] if the operation is not live.
    pub fn finish(&mut self, operation: OperationId) -> Result<Ended<T, P>, NotFound> {
        self.end(operation, Input::Finished)
    }

    /// Ends an operation whose worker has disappeared without a report: it died, or it was killed.
    ///
    /// # Errors
    ///
    /// Returns [`NotFound`] if the operation is not live.
    pub fn worker_lost(&mut self, operation: OperationId) -> Result<Ended<T, P>, NotFound> {
        self.end(operation, Input::WorkerLost)
    }

    /// Forces the next operation whose grace period has expired, and returns its id. The host stops
    /// its worker now, and calls this again until it returns `None`.
    #[must_use = "the worker is to be stopped"]
    pub fn handle_timeout(&mut self, now: Timestamp) -> Option<OperationId> {
        let &(grace_end, operation) = self.grace_ends.first()?;
        if grace_end > now {
            return None;
        }
        let step = self.apply(operation, Input::GraceExpired, now);
        debug_assert_eq!(step, Step::Stop, "only operations that are stopping have a grace period");
        Some(operation)
    }

    /// Returns the time at which [`handle_timeout`](Self::handle_timeout) has to be called next.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        self.grace_ends.first().map(|&(grace_end, _)| grace_end)
    }

    /// Checks whether the worker should go on, in a few nanoseconds.
    ///
    /// # Errors
    ///
    /// Returns a [`CheckError`] if it should not.
    pub fn check(&self, operation: OperationId) -> Result<(), CheckError> {
        match self.row(operation).map(|row| row.status) {
            Some(Status::Active) => Ok(()),
            Some(Status::Stopping | Status::Cancelled) => Err(CheckError::Cancelled),
            None => Err(CheckError::NotFound),
        }
    }

    /// Returns whether the operation was cancelled and has not ended.
    #[must_use]
    pub fn is_cancelled(&self, operation: OperationId) -> bool {
        self.check(operation) == Err(CheckError::Cancelled)
    }

    /// Returns the live operation that this token names.
    #[must_use]
    pub fn find(&self, token: OperationToken) -> Option<OperationId> {
        let matches = |&slot: &u32| self.rows[slot as usize].token == token;
        let &slot = self.by_token.find(hash_of_token(token), matches)?;
        Some(self.id(self.rows[slot as usize].serial, slot))
    }

    /// Returns the token of a live operation.
    #[must_use]
    pub fn token(&self, operation: OperationId) -> Option<OperationToken> {
        self.row(operation).map(|row| row.token)
    }

    /// Returns the host's data on a live operation.
    #[must_use]
    pub fn data(&self, operation: OperationId) -> Option<&T> {
        self.row(operation).map(|row| &row.data)
    }

    /// Returns the host's data on a live operation, for changing it.
    pub fn data_mut(&mut self, operation: OperationId) -> Option<&mut T> {
        self.row_mut(operation).map(|row| &mut row.data)
    }

    /// Returns a view of a live operation.
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

    /// Returns a view of every live operation, oldest first.
    pub fn list(&self, now: Timestamp) -> impl Iterator<Item = OperationInfo<'_>> {
        self.oldest_first().into_iter().filter_map(move |operation| self.info(operation, now))
    }

    /// Returns the number of live operations, including cancelled ones that have not ended.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns whether no operation is live.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the counts since the registry was created.
    #[must_use]
    pub const fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    const fn id(&self, serial: u64, slot: u32) -> OperationId {
        OperationId { serial, slot, registry: self.registry }
    }

    /// Returns the index of a kind. Most hosts register many operations of one kind in a row.
    #[inline]
    fn kind(&self, name: &str) -> Option<usize> {
        let latest = self.metrics.kinds.get(self.latest_kind);
        match latest.is_some_and(|kind| &*kind.name == name) {
            true => Some(self.latest_kind),
            false => self.kind_in_index(name),
        }
    }

    #[inline(never)]
    fn kind_in_index(&self, name: &str) -> Option<usize> {
        let matches = |&index: &u16| &*self.metrics.kinds[usize::from(index)].name == name;
        self.by_name.find(hash_of_name(name), matches).map(|&index| usize::from(index))
    }

    fn row(&self, id: OperationId) -> Option<&Row<T, P>> {
        let row = self.rows.get(id.slot as usize);
        row.filter(|row| row.serial == id.serial && self.registry == id.registry)
    }

    fn row_mut(&mut self, id: OperationId) -> Option<&mut Row<T, P>> {
        let row = self.rows.get_mut(id.slot as usize);
        row.filter(|row| row.serial == id.serial && self.registry == id.registry)
    }

    /// Applies an input that does not end the operation, which is live. If it is stopping
    /// afterwards, its grace period ends at `grace_end`.
    fn apply(&mut self, operation: OperationId, input: Input, grace_end: Timestamp) -> Step {
        let row = &mut self.rows[operation.slot as usize];
        let transition = row.status.on(input);
        let Some(next) = transition.next else { return transition.step };
        if next != row.status {
            if row.status == Status::Stopping {
                self.grace_ends.remove(&(row.grace_end, operation));
            }
            if next == Status::Stopping {
                self.grace_ends.insert((grace_end, operation));
            }
            row.grace_end = grace_end;
            row.status = next;
        }
        transition.step
    }

    fn end(&mut self, operation: OperationId, input: Input) -> Result<Ended<T, P>, NotFound> {
        self.row(operation).ok_or(NotFound)?;
        let row = self.rows.remove(operation.slot as usize);
        let same_slot = |&slot: &u32| slot == operation.slot;
        if let Ok(entry) = self.by_token.find_entry(hash_of_token(row.token), same_slot) {
            entry.remove();
        }
        if row.status == Status::Stopping {
            self.grace_ends.remove(&(row.grace_end, operation));
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
        let ids = self.rows.iter().map(|(slot, row)| self.id(row.serial, slot as u32));
        let mut ids: Vec<_> = ids.collect();
        ids.sort_unstable();
        ids
    }
}

/// Returns eight bytes of a token. They need no hashing, because they are random and the host's.
fn hash_of_token(token: OperationToken) -> u64 {
    let [.., a, b, c, d, e, f, g, h] = token.to_bytes();
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// Hashes the name of a kind with FNV-1a. The host chooses the names, so nobody can make them
/// collide.
fn hash_of_name(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests;
