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
    /// The first of them to fire.
    pub(super) fn next(&self) -> Option<(Timestamp, TimerReason)> {
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
