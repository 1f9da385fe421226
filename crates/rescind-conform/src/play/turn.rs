//! Turns of an agent: their sessions, their stops and their ends.

use std::time::Duration;

use serde_json::json;

use super::{Made, Play};
use crate::check::{Id, Item, Name};
use crate::family::{SESSION, put};
use crate::session::Waited;
use crate::stop::Stop;

/// The time after which a stopped turn is compared with another one.
const STOPPED: Duration = Duration::from_secs(2);

impl Play<'_> {
    /// Opens the sessions that these messages name, so that nothing is between these on the wire.
    pub(super) fn open_for_turns(&mut self, items: &[Item]) {
        for item in items {
            let (Item::Turn(name) | Item::TurnAfter(_, name) | Item::Stop(name)) = *item else {
                continue;
            };
            if !self.turns.contains_key(&name) {
                let opened = self.session.open_session();
                self.turns.extend(opened.map(|session| (name, session)));
            }
        }
    }

    /// Returns the prompt of a turn in the session of `before`.
    pub(super) fn turn(&mut self, name: Name, before: Name) -> String {
        let session = self.turns.get(&before).cloned().unwrap_or_default();
        let made = self.make(Id::Fresh);
        let message = self.prompt(&made, &session);
        self.turns.insert(name, session);
        self.named.insert(name, made);
        message
    }

    fn prompt(&self, made: &Made, session: &str) -> String {
        let Some(turn) = &self.facts.turn else { return String::new() };
        let params = put(&turn.lasting(self.slow_ms), &[(SESSION, json!(session))]);
        self.session.wire.request(&made.id, &turn.method, &params, "")
    }

    pub(super) fn stop(&mut self, name: Name) -> String {
        let session = self.turns.get(&name).cloned().unwrap_or_default();
        let message = self.session.wire.stop(&session);
        self.unless_control(message)
    }

    pub(super) fn wait_until_turn_started(&mut self, name: Name) -> Result<(), Stop> {
        let id = self.made(name)?.id.clone();
        let turn = self.turns.get(&name).cloned().unwrap_or_default();
        let waited = self
            .session
            .wait(|session| session.updates_of(&turn).next().is_some() || session.is_answered(&id));
        let what = format!("an update of turn {name}");
        match self.waited(waited, &what) {
            Err(Stop::Stuck(why)) => return Err(Stop::NotExercised(why)),
            waited => waited?,
        }
        match self.session.is_answered(&id) {
            true => Err(Stop::Missed("the turn was over before it could be stopped".into())),
            false => Ok(()),
        }
    }

    /// Waits for the response to a stopped turn, at most until a turn that was begun later is over.
    pub(super) fn settle_turn(&mut self, name: Name) -> Result<(), Stop> {
        let id = self.made(name)?.id.clone();
        let waited = self.session.wait_for(STOPPED, &mut |session| session.is_answered(&id));
        if waited != Waited::TimedOut {
            return self.waited(waited, "the response to a stopped turn");
        }
        let Some(session) = self.session.open_session() else {
            return Err(Stop::NotExercised("no other session is opened".into()));
        };
        let other = self.make(Id::Fresh);
        let message = self.prompt(&other, &session);
        self.session.note("another turn, which nobody stops");
        self.write(vec![message], false);
        self.wait_for_response(
            &other.id,
            &format!("the response to turn {}, which was not stopped", other.id),
        )
    }

    /// Answers what the agent asks, from now on and so far: a client that stops a turn says that it was cancelled.
    pub(super) fn answer_as_cancelled(&mut self) {
        self.session.answers = true;
        self.held_until = self.session.record.len();
        let asked = self.session.asked_of_us();
        let answers: Vec<String> =
            asked.map(|id| self.session.wire.cancelled_outcome(id)).collect();
        self.write(answers, false);
    }
}
