//! The steps that are for clients alone.

use std::process::ExitStatus;
use std::time::Duration;

use super::facts::{Client, ClientFacts, End};
use super::reply;
use super::serve::Serving;
use crate::check::Reply;
use crate::play::Play;
use crate::session::{Session, Waited};
use crate::stop::{Stop, missed};

impl<'a> Play<'a> {
    /// Begins a play with a client.
    pub(crate) fn with_client(
        session: Session,
        facts: &'a ClientFacts,
        seed: u64,
        ask_ms: u64,
    ) -> Self {
        let mut play = Self::new(session, &facts.common, seed, ask_ms);
        play.client = Some(Client { facts, end: None });
        play
    }

    /// Does something with our side of the session.
    pub(crate) fn serve(&mut self, does: fn(&mut Serving)) -> Result<(), Stop> {
        self.session.serving.iter_mut().for_each(does);
        Ok(())
    }

    pub(crate) fn hold(&mut self) -> Result<(), Stop> {
        match self.session.wait(|session| session.held().is_some()) {
            Waited::Done => Ok(()),
            _ if self.session.has_ended() => {
                let status = self.session.how_it_ended();
                Err(Stop::Ended(format!("the client ended before it made its request{status}")))
            }
            _ => missed("the client has made no request that could be held"),
        }
    }

    pub(crate) fn is_not_yet_cancelled(&self) -> Result<(), Stop> {
        let why = "the client cancelled its request before it had read what was sent";
        if self.session.is_cancelled() { missed(why) } else { Ok(()) }
    }

    /// Sends the message that makes the client cancel, if the options have one. Returns whether they do.
    fn pull_trigger(&mut self) -> bool {
        let Some(serving) = &self.session.serving else { return false };
        let Some(trigger) = serving.options.trigger.clone() else { return false };
        self.session.notify(&trigger);
        true
    }

    pub(crate) fn wait_for_cancel(&mut self) -> Result<(), Stop> {
        self.pull_trigger();
        self.wait("a cancel", Session::is_cancelled)
    }

    pub(crate) fn let_it_cancel(&mut self) -> Result<(), Stop> {
        let was_triggered = self.pull_trigger();
        let Some(Client { facts, .. }) = self.client else { return Ok(()) };
        if was_triggered && facts.answers {
            // Not judged: before the session is open a client need not answer.
            let id = self.ask_quick();
            self.session.wait_for(self.session.patience, &mut |session| session.is_answered(&id));
        }
        let took = facts.cancels.unwrap_or_default();
        self.session.listen(took * 2 + Duration::from_millis(200)).unless_late()
    }

    /// Returns the status of the process, if it is one.
    pub(crate) fn status(&self) -> Option<ExitStatus> {
        self.session.child()?.status(self.session.patience)
    }

    /// Returns whether the client, which has ended, ends so when nothing is wrong.
    pub(crate) fn ends_as_usual(&self) -> bool {
        let Some(Client { facts, end: given }) = self.client else { return false };
        let cancelled = self.session.is_cancelled().then_some(End::Cancelled);
        if cancelled.or(given).is_none() {
            return facts.gives_up;
        }
        // A cancelled request that got an answer of another kind all the same may end the client as that does.
        let usual = facts.ends.iter().filter(|(end, _)| [cancelled, given].contains(&Some(*end)));
        let status = self.status();
        usual.into_iter().any(|(_, usual)| *usual == status)
    }

    /// Returns the id of the request that is held, or of what a server has asked of us.
    pub(crate) fn their_id(&self) -> String {
        let held = self.session.held().map(|held| &held.asked.id);
        held.or(self.theirs_for.values().next()).cloned().unwrap_or_else(|| "0".into())
    }

    /// The messages of an answer, which will stand there in the record.
    pub(crate) fn answer(&mut self, with: Reply, at: usize) -> Result<Option<String>, Stop> {
        let own = self.session.own_number();
        let wire = &self.session.wire;
        let Some(serving) = &mut self.session.serving else { return Ok(None) };
        let Some(held) = &mut serving.held else { return Ok(None) };
        let asked = &held.asked;
        let result_of =
            |asked| reply::answer(wire, asked, &reply::result(&serving.options, asked), &own);
        let (message, end) = match with {
            Reply::Result => (Some(result_of(asked)), End::Result),
            Reply::Error(code) => (Some(reply::error(wire, asked, code, &own)), End::Error),
            Reply::Cancelled => (reply::cancelled(wire, asked, &own), End::Cancelled),
            Reply::OtherType => {
                let why = || format!("its id {} looks like none of another type", asked.id);
                let id = other_type(&asked.id).ok_or_else(|| Stop::NotExercised(why()))?;
                return Ok(Some(result_of(&asked.under(&id))));
            }
            Reply::Unknown(id) => {
                let result = serde_json::json!({});
                return Ok(Some(reply::answer(wire, &asked.under(id), &result, &own)));
            }
            Reply::NoId => return Ok(Some(reply::error(wire, &asked.under("null"), -32600, &own))),
        };
        held.answered_at.get_or_insert(at);
        if let Some(client) = &mut self.client {
            client.end = Some(end);
        }
        Ok(message)
    }

    pub(crate) fn next_or_end(&mut self) -> Result<(), Stop> {
        let read = self.next();
        self.unless_it_ended(read)
    }

    /// Excuses a client that has not answered the last request because it ended as it does when nothing is wrong.
    pub(crate) fn unless_it_ended(&mut self, read: Result<(), Stop>) -> Result<(), Stop> {
        match read {
            // Its answer is owed by nobody any more.
            Err(Stop::NotExercised(_)) if self.session.has_ended() && self.ends_as_usual() => {
                self.nexts.pop();
                Ok(())
            }
            other => other,
        }
    }
}

/// The id that looks like this one and has the other type; `None` for a text that is no number.
pub(crate) fn other_type(id: &str) -> Option<String> {
    match id.strip_prefix('"').and_then(|id| id.strip_suffix('"')) {
        None => Some(format!("\"{id}\"")),
        Some(text) => Some(text.parse::<u64>().ok()?.to_string()).filter(|number| number == text),
    }
}
