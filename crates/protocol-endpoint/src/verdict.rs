//! Decisions of the core about messages, for logs and recordings.

use crate::account::Grant;
use crate::budget::OverBudget;
use protocol_core::{
    CallId, Cause, CloseReason, Connection, Event, Outcome, Settlement, Violation, WireId,
};

/// A decision of the core. It holds nothing of a payload.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Verdict {
    /// A call of ours ended.
    Settled {
        /// The call that ended.
        call: CallId,
        /// The way in which it ended.
        settlement: Settlement,
        /// The reason, if it was cancelled, timed out or lost.
        cause: Option<Cause>,
        /// The code of the peer's error.
        code: Option<i64>,
    },
    /// A request of the peer's was cancelled.
    Cancelled {
        /// The id of the request. The token of an operation is a secret, so it is omitted.
        id: Option<WireId>,
        /// The reason for the cancellation.
        cause: Cause,
    },
    /// The peer broke a rule. For example, it responded late, twice, or to nothing that we asked.
    Violation {
        /// The rule that the peer broke.
        violation: Violation,
        /// The id of the message that broke it, if it can be read.
        id: Option<WireId>,
    },
    /// The peer overspent a budget, which ends the connection.
    OverBudget {
        /// The act, and the budget for it.
        over: OverBudget,
    },
    /// An account of memory gave the connection another grant.
    Granted {
        /// The new grant.
        grant: Grant,
    },
    /// The connection closed: nothing more comes in.
    Closed {
        /// The reason why the connection closed.
        reason: CloseReason,
    },
}

impl Verdict {
    /// Returns the verdict that an event reports, if it reports one.
    #[must_use]
    pub fn of<O, I: Default>(event: &Event<'_, O>, core: &Connection<O, I>) -> Option<Self> {
        match event {
            Event::Settled { call, outcome, .. } => Some(Self::Settled {
                call: *call,
                settlement: outcome.settlement(),
                cause: outcome.cause(),
                code: match outcome {
                    Outcome::Error(error) | Outcome::Cancelled { error: Some(error), .. } => {
                        Some(error.code)
                    }
                    _ => None,
                },
            }),
            Event::Cancelled { request, cause, .. } => Some(Self::Cancelled {
                id: core.machine().request_id(*request).cloned(),
                cause: *cause,
            }),
            Event::Violation { violation, id } => {
                Some(Self::Violation { violation: *violation, id: id.clone() })
            }
            Event::Closed { reason } => Some(Self::Closed { reason: *reason }),
            _ => None,
        }
    }
}
