//! Deadlines, idle timeouts, hard caps and graces: four real timers a call (B21).

use alloc::collections::{BTreeMap, BTreeSet};
use core::time::Duration;

use super::CallId;
use crate::cause::Cause;
use crate::time::Timestamp;

/// Why [`poll_timeout`](crate::Connection::poll_timeout) wants to be called back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TimerReason {
    /// A call's deadline.
    Deadline,
    /// A call's idle timeout.
    IdleTimeout,
    /// A call's hard cap.
    HardCap,
    /// The end of a call's grace after it was cancelled, dropped or detached.
    Grace,
}

impl TimerReason {
    /// The cause that the timer records, if it cancels on its own account.
    pub(super) const fn cause(self) -> Option<Cause> {
        match self {
            Self::Deadline => Some(Cause::Deadline),
            Self::IdleTimeout => Some(Cause::IdleTimeout),
            Self::HardCap => Some(Cause::HardCap),
            Self::Grace => None,
        }
    }
}

/// The timers of one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct CallTimers {
    pub(super) deadline: Option<Timestamp>,
    pub(super) idle: Option<Idle>,
    pub(super) hard_cap: Option<Timestamp>,
    pub(super) grace: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Idle {
    pub(super) after: Duration,
    pub(super) due: Timestamp,
}

impl CallTimers {
    fn next(&self) -> Option<(Timestamp, TimerReason)> {
        [
            (self.deadline, TimerReason::Deadline),
            (self.idle.map(|idle| idle.due), TimerReason::IdleTimeout),
            (self.hard_cap, TimerReason::HardCap),
            (self.grace, TimerReason::Grace),
        ]
        .into_iter()
        .filter_map(|(due, reason)| Some((due?, reason)))
        .min()
    }
}

/// Every timer of every call, by due time. Calls without timers cost nothing here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Timers {
    by_call: BTreeMap<CallId, CallTimers>,
    /// Invariant: holds `(next due, reason, call)` for each entry of `by_call`, and nothing else.
    due: BTreeSet<(Timestamp, CallId, TimerReason)>,
}

impl Timers {
    /// Changes the timers of one call.
    pub(super) fn update(&mut self, call: CallId, change: impl FnOnce(&mut CallTimers)) {
        let mut timers = self.remove(call).unwrap_or_default();
        change(&mut timers);
        if let Some((due, reason)) = timers.next() {
            self.by_call.insert(call, timers);
            self.due.insert((due, call, reason));
        }
    }

    /// Forgets the timers of one call.
    #[inline]
    pub(super) fn remove(&mut self, call: CallId) -> Option<CallTimers> {
        if self.by_call.is_empty() { None } else { self.remove_some(call) }
    }

    fn remove_some(&mut self, call: CallId) -> Option<CallTimers> {
        let timers = self.by_call.remove(&call)?;
        let (due, reason) = timers.next().expect("a call without timers has no entry");
        self.due.remove(&(due, call, reason));
        Some(timers)
    }

    /// The next timer to fire: by time, then in the order the calls were made.
    pub(super) fn next(&self) -> Option<(Timestamp, CallId, TimerReason)> {
        self.due.first().copied()
    }

    pub(super) fn assert_consistent(&self) {
        debug_assert_eq!(self.by_call.len(), self.due.len(), "one due entry a call");
    }
}
