//! Steps that are done again until they show something.

use std::time::Duration;

use serde_json::Value;

use super::items::Item;
use super::{Made, Play};
use crate::check::Name;
use crate::form::form;
use crate::judge::rules::Rule;
use crate::judge::rules::judge;
use crate::play::steps::Step;
use crate::session::{Session, Waited};
use crate::stop::{Stop, lacks, missed};
use crate::wire::Outcome;

impl Play<'_> {
    /// Does these steps in rounds. What is judged in the end is the last round that says something.
    pub(super) fn rounds(
        &mut self,
        steps: &[Step],
        until: Option<Rule>,
        in_time: Option<(Name, Name)>,
    ) -> Result<(), Stop> {
        let mut unclear = None;
        let mut against = None;
        let rounds = self.facts.rounds();
        // One round is enough where a request can be asked to take long: its cancel comes in time.
        let in_time = in_time.filter(|_| rounds > 1);
        for _ in 0..rounds {
            let performed = self.perform(steps);
            self.see_lateness();
            match (performed, until) {
                (Err(stop @ (Stop::NotExercised(_) | Stop::Missed(_))), _) => unclear = Some(stop),
                (Err(stop), _) => return Err(stop),
                (Ok(()), None) => return Ok(()),
                (Ok(()), Some(rule)) if judge(self, &[rule]).is_none() => return Ok(()),
                (Ok(()), Some(_)) if in_time.is_none_or(|names| self.was_in_time(names)) => {
                    against = Some(self.named.clone());
                }
                (Ok(()), Some(_)) => {
                    let why = "the request was done before its cancel was read";
                    unclear = Some(Stop::Missed(why.into()));
                }
            }
        }
        match (against, unclear) {
            (Some(named), _) => self.named = named,
            (None, Some(stop)) => return Err(stop),
            (None, None) => {}
        }
        Ok(())
    }

    /// Ends the check unless the results of two requests have one form or, if they should not be, have two.
    pub(super) fn compare_results(
        &self,
        name: Name,
        other: Name,
        is_same: bool,
    ) -> Result<(), Stop> {
        let (one, other) = (self.success(self.made(name)?), self.success(self.made(other)?));
        let results = one.map(form).zip(other.map(form));
        let why = match is_same {
            _ if results.is_none() => "a request that was not cancelled has failed",
            true => "the results of the same request vary",
            false => "another text has the same result",
        };
        match results {
            Some((one, other)) if (one == other) == is_same => Ok(()),
            // It may be so in the run with the cancels too.
            _ if self.is_control => missed(why),
            _ => lacks(why),
        }
    }

    pub(super) fn wait_partway(
        &mut self,
        name: Name,
        hundredths: u32,
        like: Name,
    ) -> Result<(), Stop> {
        let Some(whole) = self.took(like) else { return lacks("nobody knows how long it takes") };
        let begun = self.session.since(self.begun_at(name)?);
        let left = (whole * hundredths / 100).saturating_sub(begun);
        let (made, run) = (self.made(name)?.clone(), self.runs.get(&name).cloned());
        let is_over = |session: &Session| match &run {
            Some(run) => run.is_over(session),
            None => session.answers_from(&made.id, made.works_from).next().is_some(),
        };
        match self.session.wait_for(left, &mut |session| is_over(session)) {
            Waited::TimedOut => Ok(()),
            // A turn may be shorter than another. Its stop comes late then.
            Waited::Done if run.is_some() => Ok(()),
            Waited::Done => missed("it was done before it could be cancelled"),
            other => self.waited(other, "a cancel"),
        }
    }

    /// Does a slow request in half of the time. If it is refused it is tried again after a while: work that is over for us may
    /// hold its place for a moment.
    pub(super) fn half(&mut self, name: Name) -> Result<(), Stop> {
        for _ in 0..2 {
            self.send(&[Item::SlowFor(name, 50)], false)?;
            self.answering(|play| play.wait_for_answer(name))?;
            if self.success(self.made(name)?).is_some() {
                break;
            }
            self.pause();
        }
        Ok(())
    }

    /// Lets the server do what it still has to, for as long as a slow request takes.
    pub(super) fn pause(&mut self) {
        let slow = self.facts.slow.as_ref();
        let time = slow.map_or(Duration::ZERO, |slow| slow.lasts(self.slow_ms));
        self.session.wait_for(time, &mut |_| false);
    }

    pub(super) fn said_cancelled(&mut self, name: Name) -> Result<(), Stop> {
        let made = self.made(name)?.clone();
        let mut answers = self.session.answers_from(&made.id, made.works_from);
        let is_said = self.is_control || answers.any(|(_, outcome)| outcome.is_cancelled());
        drop(answers);
        match is_said {
            true => Ok(()),
            false => self.has_no_effect(&format!("the cancel of {made} has no effect")),
        }
    }

    /// Returns the result of a request, if it does not say that the work failed.
    pub(crate) fn success<'p>(&'p self, made: &'p Made) -> Option<&'p Value> {
        let (_, outcome) = self.session.answers_from(&made.id, made.works_from).next()?;
        match outcome {
            Outcome::Result(result) if !outcome.is_failure() => Some(result),
            _ => None,
        }
    }

    /// Whether a request was still at work when one that was sent with its cancel was answered.
    fn was_in_time(&self, (cancelled, with): (Name, Name)) -> bool {
        let at = |name| self.session.answered_at(&self.named.get(&name)?.id);
        at(cancelled).zip(at(with)).is_none_or(|(cancelled, with)| with < cancelled)
    }
}
