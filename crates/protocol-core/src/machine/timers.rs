//! Deadlines, idle timeouts, hard caps and graces: four real timers a call (B21).

use crate::cause::Cause;

/// The reason that [`poll_timeout`](crate::Connection::poll_timeout) wants to be called back.
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
    /// Returns the cause of a call that this timer settles, unless an earlier cancellation recorded one.
    /// Only a detached call has none at the end of its grace, so the cause of that is `dropped`.
    pub(super) const fn cause(self) -> Cause {
        match self {
            Self::Deadline => Cause::Deadline,
            Self::IdleTimeout => Cause::IdleTimeout,
            Self::HardCap => Cause::HardCap,
            Self::Grace => Cause::Dropped,
        }
    }
}
