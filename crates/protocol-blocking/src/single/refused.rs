//! Requests that are refused: too much waits to be served.

use protocol_core::{Refusal, RequestHandle, Response};

use super::{Host, Room};

/// Room for so many is kept when there are none.
const KEPT: usize = 64;

impl<T> Host<T> {
    /// Refuses a request, at once or when there is room for that. Nothing but its name is kept until then,
    /// for a peer that floods us may read nothing at all (G8).
    pub(super) fn refuse(&mut self, request: RequestHandle) {
        self.refused.push_back(request);
        self.answer_refused();
    }

    /// Gives the refusals that there is room for.
    pub(super) fn answer_refused(&mut self) {
        let core = self.stream.connection_mut();
        let code = core.config().dialect.overload_code;
        let message = "The request was refused: too much waits to be served";
        while self.room == Room::There {
            let Some(&request) = self.refused.front() else { break };
            let refused = core.respond(request, Response::Error { code, message, data: None });
            if matches!(refused, Err(Refusal::OutboxFull)) {
                self.room = Room::Promised;
            } else {
                self.refused.pop_front();
            }
        }
        if self.refused.is_empty() {
            self.refused.shrink_to(KEPT);
        }
    }

    /// Whether an answer waits for room.
    pub(super) fn owes_answer(&self) -> bool {
        self.unanswered.is_some() || !self.refused.is_empty()
    }
}
