//! Deadlines, idle timeouts, hard caps and graces: four real timers a call (B21).

use core::time::Duration;

use crate::cause::Cause;
use crate::time::Timestamp;

/// Why [`poll_timeout`](crate::Connection::poll_timeout) wants to be called back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
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
    /// The cause that the timer records, unless the call was cancelled before: that of a grace is for
    /// calls that were detached.
    pub(super) const fn cause(self) -> Cause {
        match self {
            Self::Deadline => Cause::Deadline,
            Self::IdleTimeout => Cause::IdleTimeout,
            Self::HardCap => Cause::HardCap,
            Self::Grace => Cause::Dropped,
        }
    }
}

/// The timers of one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct CallTimers {
    pub(super) deadline: Option<Timestamp>,
    pub(super) idle: Option<Timestamp>,
    /// So long after progress the idle timeout is.
    pub(super) idle_after: Duration,
    pub(super) hard_cap: Option<Timestamp>,
    pub(super) grace: Option<Timestamp>,
}

impl CallTimers {
    /// The first of them to fire.
    pub(super) fn next(&self) -> Option<(Timestamp, TimerReason)> {
        [
            (self.deadline, TimerReason::Deadline),
            (self.idle, TimerReason::IdleTimeout),
            (self.hard_cap, TimerReason::HardCap),
            (self.grace, TimerReason::Grace),
        ]
        .into_iter()
        .filter_map(|(due, reason)| Some((due?, reason)))
        .min()
    }
}
