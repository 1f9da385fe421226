//! What can be wrong with a handler.

use std::fmt;

/// What kind of fault a run met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// A message that must not have been: a second answer, an answer to nothing or where the dialect
    /// wants silence, a second cancel.
    Wire,
    /// A request is never answered.
    Unanswered,
    /// A request was cancelled and goes on, longer than [`Script::cancel_within`](super::Script::cancel_within).
    IgnoredCancel,
    /// A request was cancelled, and a call that was made for it was not.
    OrphanedCall,
    /// Something waits for what never comes: when nothing happens any more and the peer has hung up,
    /// every task must have ended.
    WaitsForEver,
    /// Somebody goes on and on and nothing comes of it.
    BusyLoop,
    /// A panic, also one that was caught and answered.
    Panicked,
    /// Something is left of a connection that is over, in its tables or in memory.
    Leak,
    /// An answer that differs from that of the [reference](super::Script::reference).
    Difference,
    /// What was to hold [always](super::Simulation::always) does not.
    Invariant,
    /// What was [checked](super::Simulation::check) in the end does not hold.
    Check,
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
        })
    }
}
