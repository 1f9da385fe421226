//! Answers that the relay gives by itself, because the other side will not.

use super::{Relay, RelayEvent, Side};

use protocol_core::{Cause, Refusal, RequestHandle, Response, WireId, code};

pub(super) const HOP_GONE: Response<'static> = internal_error("the next hop is gone");
pub(super) const MALFORMED: Response<'static> =
    internal_error("the answer of the next hop was malformed");
/// A cancel that names an id is a notification: as a request its method is one that nobody has.
pub(super) const NOT_A_METHOD: Response<'static> = Response::Error {
    code: code::METHOD_NOT_FOUND,
    message: "method not found: cancels are notifications",
    data: None,
};

const fn internal_error(message: &'static str) -> Response<'static> {
    Response::Error { code: code::INTERNAL_ERROR, message, data: None }
}

/// The guard's answer to a request that took too long.
pub(super) const fn too_slow(cause: Cause) -> Response<'static> {
    let message = match cause {
        Cause::IdleTimeout => "the next hop was silent for too long (idle_timeout)",
        Cause::HardCap => "the next hop took too long (hard_cap)",
        _ => "the next hop did not answer in time (deadline)",
    };
    Response::Error { code: code::REQUEST_FAILED, message, data: None }
}

impl Relay {
    /// Answers a request by ourselves, as soon as there is room for the answer: `settle` gives what is
    /// owed.
    pub(super) fn owe(&mut self, side: Side, request: RequestHandle, reply: Response<'static>) {
        self.owed[side as usize].push_back((request, reply));
    }

    /// Gives the answers that are owed, as far as there is room. Returns whether any was given.
    pub(super) fn pay(&mut self) -> bool {
        let mut is_paid = false;
        for side in Side::BOTH {
            while let Some(&(request, reply)) = self.owed[side as usize].front() {
                match self.connection_mut(side).respond(request, reply) {
                    Ok(_) | Err(Refusal::AlreadyResponded) => {}
                    Err(Refusal::OutboxFull) => break,
                    Err(_) => {
                        let id = self.id_of(side, request);
                        self.report(side, RelayEvent::ResponseDropped { id });
                    }
                }
                self.owed[side as usize].pop_front();
                is_paid = true;
            }
        }
        is_paid
    }

    /// The error that says that one side has too much to do.
    pub(super) fn overload(&self, side: Side, message: &'static str) -> Response<'static> {
        Response::Error { code: self.dialect(side).overload_code, message, data: None }
    }

    /// The id that an unanswered request came with.
    pub(super) fn id_of(&self, side: Side, request: RequestHandle) -> WireId {
        let id = self.connection(side).machine().request_id(request);
        id.expect("nobody but us answers requests").clone()
    }
}
