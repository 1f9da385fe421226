//! The keep-alive of a connection.
//!
//! | beat | when it is due | becomes |
//! |---|---|---|
//! | not begun | at once | resting |
//! | resting | after the interval | asked; still resting, if there is nothing to ask with |
//! | asked | when there is room for what had none | resting, and due at once |
//! | | after the interval or the patience, with an answer | resting |
//! | | after the interval, without one | the same |
//! | | after the patience, without one | the end of the connection |

use std::io;

use protocol_core::{CallId, CallOptions, Refusal, Timestamp};

use super::State;
use crate::keep_alive::{KeepAlive, Unanswered};
use crate::outcome::{HandOver, Interest};
use crate::sync::Arc;

/// A keep-alive, and how far it has come.
pub(super) struct Heart {
    how: KeepAlive,
    beat: Beat,
    due: Timestamp,
}

#[derive(Clone, Copy)]
enum Beat {
    NotBegun,
    Resting,
    /// Asked at that time.
    Asked(Question, Timestamp),
}

#[derive(Clone, Copy)]
enum Question {
    Sent(CallId),
    /// There has been no room for it.
    Unsent,
}

impl Heart {
    pub(super) fn new(how: KeepAlive) -> Box<Self> {
        Box::new(Self { how, beat: Beat::NotBegun, due: Timestamp::ZERO })
    }
}

impl State {
    /// When there is something to do for the keep-alive.
    pub(super) fn beat_due(&self) -> Option<Timestamp> {
        let heart = self.heart.as_ref()?;
        self.closed.is_none().then_some(heart.due)
    }

    /// Does what is due for the keep-alive.
    pub(super) fn beat(&mut self, now: Timestamp) {
        let Some(mut heart) = self.heart.take_if(|heart| heart.due <= now) else { return };
        let KeepAlive { every, patience, .. } = heart.how;
        (heart.beat, heart.due) = match heart.beat {
            Beat::NotBegun => (Beat::Resting, now + every),
            Beat::Resting => match self.ask(&heart.how) {
                Some(question) => (Beat::Asked(question, now), now + every.min(patience)),
                None => (Beat::Resting, now + every),
            },
            Beat::Asked(question, at) if self.is_answered(question) => {
                (Beat::Resting, now.max(at + every))
            }
            asked @ Beat::Asked(_, at) if now < at + patience => (asked, at + patience),
            Beat::Asked(..) => return self.end_unanswered(&heart.how, now),
        };
        self.heart = Some(heart);
    }

    /// Asks, if there is anything to ask with.
    fn ask(&mut self, how: &KeepAlive) -> Option<Question> {
        let method = how.method(&self.core().config().dialect)?.to_owned();
        let interest = Interest::Handed(HandOver::NOBODY);
        match self.call(&method, None, interest, CallOptions::default()) {
            Ok(call) => Some(Question::Sent(call)),
            // It is promised to be told when there is room.
            Err(Refusal::OutboxFull) => {
                self.is_full = true;
                Some(Question::Unsent)
            }
            Err(_) => None,
        }
    }

    fn is_answered(&self, question: Question) -> bool {
        match question {
            Question::Sent(call) => self.core().machine().call_phase(call).is_none(),
            Question::Unsent => false,
        }
    }

    /// There is room again: what had none is asked now.
    pub(super) fn beat_again(&mut self) {
        let Some(heart) = &mut self.heart else { return };
        if let Beat::Asked(Question::Unsent, _) = heart.beat {
            heart.beat = Beat::Resting;
            heart.due = self.now;
        }
    }

    fn end_unanswered(&mut self, how: &KeepAlive, now: Timestamp) {
        let core = self.stream.connection_mut();
        let method = how.method(&core.config().dialect).unwrap_or_default().to_owned();
        let unanswered = Unanswered { method, patience: how.patience };
        let error = io::Error::new(io::ErrorKind::TimedOut, unanswered);
        self.error.get_or_insert_with(|| Arc::new(error));
        core.handle_eof(now);
    }
}
