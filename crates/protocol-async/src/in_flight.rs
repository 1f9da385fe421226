//! What is in flight, for people and dashboards.

use std::time::Duration;

use protocol_core::Cause;
use protocol_core::machine::{CallPhase, RequestPhase};

use crate::cancellation::Cancellation;
use crate::state::State;

/// One call or request in flight. Never holds any params.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InFlight {
    /// Whose it is.
    pub direction: Direction,
    /// Counts the calls, or the requests, of the connection from 1. For a call it is the id on the
    /// wire.
    pub number: u64,
    /// The name of its method, cut if it is long.
    pub method: String,
    /// How long it has been in flight.
    pub age: Duration,
    /// How far it has come.
    pub phase: Phase,
    /// Why it was cancelled, if it was.
    pub cause: Option<Cause>,
}

/// Whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// A call of ours.
    Call,
    /// A request of the peer's.
    Request,
}

/// How far a call or a request has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// A call whose request has not left.
    Queued,
    /// A call that waits for its answer.
    Sent,
    /// A cancelled call that waits for its answer.
    Cancelling,
    /// A request that is being served.
    Running,
    /// A cancelled request that waits for its answer.
    Cancelled,
}

/// Lists at most `limit` calls and at most `limit` requests, oldest first.
pub(crate) fn list(state: &State, limit: usize) -> Vec<InFlight> {
    let (core, now) = (state.core(), state.now);
    let machine = core.machine();
    let calls = core.calls().take(limit).filter_map(|(call, entry)| {
        let phase = match machine.call_phase(call)? {
            CallPhase::Queued => Phase::Queued,
            CallPhase::Sent => Phase::Sent,
            CallPhase::CancelQueued
            | CallPhase::Cancelling
            | CallPhase::AwaitingToken
            | CallPhase::TokenCancelQueued
            | CallPhase::AwaitingAcknowledgement => Phase::Cancelling,
        };
        Some(InFlight {
            direction: Direction::Call,
            number: u64::from(call.number()),
            method: state.names.get(entry.method).to_owned(),
            age: now.since(entry.since),
            phase,
            cause: machine.call_cause(call),
        })
    });
    let requests = core.requests().take(limit).filter_map(|(request, entry)| {
        let phase = match machine.request_phase(request)? {
            RequestPhase::Running | RequestPhase::Operation => Phase::Running,
            RequestPhase::Cancelled | RequestPhase::Silenced | RequestPhase::OperationCancelled => {
                Phase::Cancelled
            }
            RequestPhase::Responded => return None,
        };
        Some(InFlight {
            direction: Direction::Request,
            number: request.number(),
            method: state.names.get(entry.method?).to_owned(),
            age: now.since(entry.since),
            phase,
            cause: entry.marker.as_ref().and_then(Cancellation::cause),
        })
    });
    calls.chain(requests).collect()
}
