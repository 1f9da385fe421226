//! Steps that are done again until they show something.

use serde_json::Value;

use super::{Made, Play};
use crate::check::Name;
use crate::form::form;
use crate::judge::rules::Rule;
use crate::judge::rules::judge;
use crate::play::steps::Step;
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

    /// Ends the check unless two requests that are alike have results of one form, after which nothing is said of a server
    /// whose results vary.
    pub(super) fn repeats(&self, name: Name, other: Name) -> Result<(), Stop> {
        let (one, other) = (self.success(self.made(name)?), self.success(self.made(other)?));
        match one.map(form).zip(other.map(form)) {
            Some((one, other)) if one == other => Ok(()),
            // Then they may do so in the run with the cancels.
            _ if self.is_control => missed("the results of the same request vary"),
            _ => lacks("the results of the same request vary"),
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
