//! The calls and requests in flight, for people and dashboards.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use protocol_core::machine::{CallPhase, RequestPhase};
use protocol_core::{CancelRefusal, Cause, Timestamp};

use crate::state::Endpoint;

/// One call or request in flight. Never holds any params.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InFlight {
    /// The direction: a call of ours, or a request of the peer's.
    pub direction: Direction,
    /// The position among the calls, or the requests, of the connection, counted from 1. For a call it is
    /// the id on the wire.
    pub number: u64,
    /// The name of its method, cut if it is long.
    pub method: String,
    /// The time for which it has been in flight.
    pub age: Duration,
    /// The phase that it has reached.
    pub phase: Phase,
    /// The reason for its cancellation, if it was cancelled.
    pub cause: Option<Cause>,
    /// The reason why we can't cancel this call, if we can't. One that has not left can be withdrawn, and a request has
    /// none.
    pub refusal: Option<CancelRefusal>,
}

/// The direction of something in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// A call of ours.
    Call,
    /// A request of the peer's.
    Request,
}

/// The phase that a call or a request has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// A call whose request has not left.
    Queued,
    /// A call that waits for its response.
    Sent,
    /// A cancelled call that waits for its response.
    Cancelling,
    /// A request that is being served.
    Running,
    /// A cancelled request that waits for its response.
    Cancelled,
}

impl<W, M> Endpoint<W, M> {
    /// Lists at most `limit` calls and at most `limit` requests in flight, oldest first.
    #[must_use]
    pub fn in_flight(&self, limit: usize, now: Timestamp) -> Vec<InFlight> {
        let (core, machine) = (self.core(), self.core().machine());
        let calls = core.calls().take(limit).filter_map(|(call, row)| {
            let row = self.calls.row(*row)?;
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
                method: self.names.get(row.method).to_owned(),
                age: now.since(row.since),
                phase,
                cause: machine.call_cause(call),
                refusal: machine.call_refusal(call).filter(|_| phase != Phase::Queued),
            })
        });
        let requests = core.requests().take(limit).filter_map(|(request, entry)| {
            let phase = match machine.request_phase(request)? {
                RequestPhase::Responded => return None,
                phase if phase.is_cancelled() => Phase::Cancelled,
                _ => Phase::Running,
            };
            Some(InFlight {
                direction: Direction::Request,
                number: request.number(),
                method: self.names.get(entry.method?).to_owned(),
                age: now.since(entry.since),
                phase,
                cause: machine.request_cause(request),
                refusal: None,
            })
        });
        calls.chain(requests).collect()
    }
}
