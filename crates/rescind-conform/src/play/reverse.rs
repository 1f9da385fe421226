//! Steps about what the server asks of us.

use super::Play;
use crate::check::Name;
use crate::client::reply;
use crate::play::steps::Step;
use crate::session::{Session, Waited};
use crate::stop::{Stop, lacks};
use crate::wire::{Asked, Heard, Outcome};

impl Play<'_> {
    pub(super) fn wait_until_cancel_read(&mut self, name: Name, later: Name) -> Result<(), Stop> {
        let (id, later) = (self.made(name)?.id.clone(), self.made(later)?.id.clone());
        self.wait(&format!("a sign that the cancel of request {id} was read"), |session| {
            session.has_read_cancel(&id, &later)
        })
    }

    /// Looks whether a cancel has an effect: at once, or when the request that it waits for is answered.
    pub(super) fn is_heeded(&mut self, name: Name) -> Result<(), Stop> {
        let id = self.made(name)?.id.clone();
        if self.session.is_answered(&id) || self.session.cancels().next().is_some() {
            return Ok(());
        }
        let theirs = self.theirs_for.get(&name);
        let asked = self.session.asked_of_us(0).find(|asked| Some(&asked.id) == theirs).cloned();
        if let Some(asked) = asked {
            let own = self.session.own_number();
            let response = self.session.wire.answer(&asked, &own);
            self.write(vec![response], false);
        }
        match self.wants_answers() {
            true => self.wait_for_response(&id, &format!("an answer to request {id}"))?,
            false => self.perform(&[Step::Natural('u'), Step::Next])?,
        }
        let is_ignored = |(_, outcome): (_, &Outcome)| !outcome.is_cancelled();
        let is_in_vain = self.session.answers_to(&id).next().is_some_and(is_ignored);
        match is_in_vain {
            true => self.has_no_effect(&format!("the cancel of request {id} has no effect")),
            false => Ok(()),
        }
    }

    pub(super) fn wait_until_acknowledged(&mut self, name: Name) -> Result<(), Stop> {
        let made = self.made(name)?.clone();
        let says = |heard: &Heard| match heard {
            Heard::Acknowledged { id, .. } => *id == made.id,
            Heard::Answer { id, .. } => made.cancel_id.as_ref() == Some(id),
            _ => false,
        };
        let what = format!("a response to the cancel of {}", made.id);
        self.wait(&what, |session| session.heard().any(|(_, heard)| says(heard)))
    }

    /// Leaves unanswered what the server asks for our requests. What it asks by itself once the session is open, it has asked
    /// before it responds to the next request.
    pub(super) fn hold_reverse(&mut self) -> Result<(), Stop> {
        self.next()?;
        self.asks_from = self.session.record.len();
        self.session.answers = false;
        Ok(())
    }

    pub(super) fn wait_until_asked_for(&mut self, name: Name) -> Result<(), Stop> {
        let known: Vec<String> = self.theirs_for.values().cloned().collect();
        let from = self.asks_from;
        // Requests that are alike make it ask alike.
        let before = self.session.asked_of_us(from).find(|it| known.contains(&it.id));
        let alike = before.map(|it| it.method.clone());
        let is_new = |it: &&Asked| {
            !known.contains(&it.id) && alike.as_ref().is_none_or(|alike| *alike == it.method)
        };
        let asked =
            |session: &Session| session.asked_of_us(from).find(is_new).map(|it| it.id.clone());
        let own = self.made(name)?.id.clone();
        let run = self.runs.get(&name).cloned();
        let is_over = |session: &Session| match &run {
            Some(run) => !run.ends(session).is_empty(),
            None => session.is_answered(&own),
        };
        let waited = self.session.wait(|session| asked(session).is_some() || is_over(session));
        if matches!(waited, Waited::Ended | Waited::Late) {
            self.waited(waited, "it asked something")?;
        }
        let theirs = asked(&self.session).ok_or_else(|| {
            // A server that is still at work may ask later: that is no evidence that it asks nothing.
            Stop::NotExercised(match self.session.said(&own) {
                Some(said) => {
                    format!("the server asked nothing of us that may wait: request {own} is answered with {said}")
                }
                None if waited == Waited::Done => "the server asked nothing of us that may wait".into(),
                None => format!("{} passed without a request of the server", self.session.waited()),
            })
        })?;
        self.theirs_for.insert(name, theirs);
        Ok(())
    }

    /// Answers what the server had asked of us and has cancelled.
    pub(super) fn answer_withdrawn(&mut self) -> Result<(), Stop> {
        let asked = self.session.heard().find_map(|(_, heard)| match heard {
            Heard::Request(asked) if self.session.cancels().any(|(_, id)| id == asked.id) => {
                Some(asked.clone())
            }
            _ => None,
        });
        let Some(asked) = asked else {
            return lacks("the server has not cancelled what it had asked of us");
        };
        let own = self.session.own_number();
        let wire = &self.session.wire;
        let crossed = || wire.answer(&asked, &own);
        let response = reply::cancelled(wire, &asked, &own).unwrap_or_else(crossed);
        self.write(vec![response], false);
        Ok(())
    }
}
