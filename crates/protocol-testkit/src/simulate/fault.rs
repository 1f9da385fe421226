//! The faults that a handler can have.

use std::fmt;

/// The kind of fault that a run met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// A message that is forbidden: a second answer, an answer to nothing, an answer although the dialect wants
    /// silence, or a second cancel.
    Wire,
    /// A request is never answered.
    Unanswered,
    /// A request was cancelled and goes on, longer than [`Script::cancel_within`](super::Script::cancel_within).
    IgnoredCancel,
    /// A request was cancelled, and a call that was made for it was not.
    OrphanedCall,
    /// Something waits for ever. When nothing happens any more and the peer has hung up, every task must have
    /// ended.
    WaitsForEver,
    /// Tasks go on and on for nothing, or write message after message while no time passes.
    BusyLoop,
    /// A panic, also one that was caught and answered.
    Panicked,
    /// Something is left of a connection that is over, in its tables or in memory.
    Leak,
    /// An answer that differs from that of the [reference](super::Script::reference).
    Difference,
    /// A condition that must [always](super::Simulation::always) hold does not.
    Invariant,
    /// A condition that is [checked](super::Simulation::check) in the end does not hold.
    Check,
    /// Something was not tested: a check looked for it by name, and no run had it. Or every run refused a request of
    /// the script, was [excused](super::Simulation::excuse), or there was no run.
    Unmatched,
}

/// A fault and its particulars.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) fault: Fault,
    pub(super) what: String,
}

impl Problem {
    pub(super) fn new(fault: Fault, what: impl Into<String>) -> Self {
        Self { fault, what: what.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Wire => "wrong message",
            Self::Unanswered => "unanswered",
            Self::IgnoredCancel => "ignored cancel",
            Self::OrphanedCall => "orphaned call",
            Self::WaitsForEver => "waits for ever",
            Self::BusyLoop => "busy loop",
            Self::Panicked => "panicked",
            Self::Leak => "leak",
            Self::Difference => "difference",
            Self::Invariant => "invariant",
            Self::Check => "check",
            Self::Unmatched => "unmatched",
        })
    }
}
