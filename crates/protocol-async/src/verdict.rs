//! What the core decided about a message, for those who log or record it.

use crate::budget::OverBudget;
use protocol_core::{CallId, Cause, CloseReason, Connection, Event, Settlement, Violation, WireId};

/// Sees what the core decides. It runs while the connection is locked: it must not use any handle of it,
/// and should be quick.
pub type Observer = Box<dyn FnMut(Verdict<'_>) + Send>;

/// What the core decided. It holds nothing of a payload.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Verdict<'a> {
    /// A call of ours ended.
    Settled {
        /// The call that ended.
        call: CallId,
        /// The way in which it ended.
        settlement: Settlement,
        /// Why, if it was cancelled, timed out or lost.
        cause: Option<Cause>,
    },
    /// A request of the peer's was cancelled.
    Cancelled {
        /// Its id. The token of an operation is a secret, and not told.
        id: Option<&'a WireId>,
        /// The reason for the cancellation.
        cause: Cause,
    },
    /// The peer broke a rule: an answer was late, or a second one, or to nothing that we asked, and so
    /// on.
    Violation {
        /// The rule that the peer broke.
        violation: Violation,
        /// The id of the message that broke it, if it can be read.
        id: Option<&'a WireId>,
    },
    /// The peer did too often what it may do only so often, which ends the connection.
    OverBudget {
        /// What, and how often it might have.
        over: OverBudget,
    },
    /// Nothing comes in any more.
    Closed {
        /// The reason why the connection closed.
        reason: CloseReason,
    },
}

impl<'a> Verdict<'a> {
    /// The verdict that an event tells of, if it does.
    #[must_use]
    pub fn of<O, I: Default>(event: &'a Event<'_, O>, core: &'a Connection<O, I>) -> Option<Self> {
        match event {
            Event::Settled { call, outcome, .. } => Some(Self::Settled {
                call: *call,
                settlement: outcome.settlement(),
                cause: outcome.cause(),
            }),
            Event::Cancelled { request, cause, .. } => {
                Some(Self::Cancelled { id: core.machine().request_id(*request), cause: *cause })
            }
            Event::Violation { violation, id } => {
                Some(Self::Violation { violation: *violation, id: id.as_ref() })
            }
            Event::Closed { reason } => Some(Self::Closed { reason: *reason }),
            _ => None,
        }
    }
}
