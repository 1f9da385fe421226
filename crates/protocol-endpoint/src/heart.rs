//! The keep-alive of a connection.
//!
//! | beat | when it is due | becomes |
//! |---|---|---|
//! | not begun | at once | resting |
//! | resting | after the interval | asked; still resting, if there is nothing to ask with |
//! | asked | when there is room for a question that had none | resting, and due at once |
//! | | after the interval or the patience, with a response | resting |
//! | | after the interval, without a response | the same |
//! | | after the patience, without a response | the end of the connection |

use alloc::borrow::ToOwned;

use protocol_core::{CallOptions, Refusal, Timestamp};

use crate::effects::Effects;
use crate::keep_alive::{Beat, KeepAlive, Unanswered};
use crate::state::{EndReason, Endpoint};

impl<W, M> Endpoint<W, M> {
    /// Advances the keep-alive, if it is due.
    pub(crate) fn beat(&mut self, now: Timestamp, effects: &mut Effects<W, M>) {
        let Some(mut heart) = self.heart.take_if(|heart| heart.due <= now) else { return };
        let KeepAlive { every, patience, .. } = heart.how;
        (heart.beat, heart.due) = match heart.beat {
            Beat::NotBegun => (Beat::Resting, now + every),
            Beat::Resting => match self.ask(&heart.how, now, effects) {
                Beat::Resting => (Beat::Resting, now + every),
                asked => (asked, now + every.min(patience)),
            },
            Beat::Asked(Some(call), at) if self.core().machine().call_phase(call).is_none() => {
                (Beat::Resting, now.max(at + every))
            }
            asked @ Beat::Asked(_, at) if now < at + patience => (asked, at + patience),
            Beat::Asked(..) => return self.end_unanswered(&heart.how, now),
        };
        self.heart = Some(heart);
    }

    /// Asks the peer, if there is a request to ask with. Nobody waits for the outcome.
    fn ask(&mut self, how: &KeepAlive, now: Timestamp, effects: &mut Effects<W, M>) -> Beat {
        let Some(method) = how.method(self.dialect()).map(ToOwned::to_owned) else {
            return Beat::Resting;
        };
        match self.make_call(&method, None, CallOptions::default(), now) {
            Ok(call) => {
                self.calls.forget(call, effects);
                Beat::Asked(Some(call.id), now)
            }
            // The core promises a notice of room.
            Err(Refusal::OutboxFull) => {
                self.is_full = true;
                Beat::Asked(None, now)
            }
            Err(_) => Beat::Resting,
        }
    }

    /// Makes a question that had no room due now. It is called when there is room again.
    pub(crate) fn beat_again(&mut self) {
        let Some(heart) = &mut self.heart else { return };
        if let Beat::Asked(None, _) = heart.beat {
            heart.beat = Beat::Resting;
            heart.due = self.now;
        }
    }

    fn end_unanswered(&mut self, how: &KeepAlive, now: Timestamp) {
        let method = how.method(self.dialect()).unwrap_or_default().to_owned();
        let unanswered = Unanswered { method, patience: how.patience };
        self.end_by(EndReason::Unanswered(unanswered));
        self.stream.connection_mut().handle_eof(now);
    }
}
