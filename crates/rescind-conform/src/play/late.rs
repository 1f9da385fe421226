//! Responses that come late, and a machine that is late.

use std::time::{Duration, Instant};

use super::items::Item;
use super::{Made, Play};
use crate::check::{Id, Name};
use crate::lateness::Stretch;
use crate::session::{Session, Waited, What};
use crate::stop::{Fault, Stop, TOO_LATE, holds_if, lacks, missed, unclear};
use crate::work_record::Run;

/// The time in which a response comes that is owed when all others are there, on a machine that is not late.
const LATE: Duration = Duration::from_secs(2);
/// The machine is late for work if it was late by more than this part of the time that the work takes.
const PART: u32 = 4;

/// So many cancelled requests that are over only with the next message are no chance.
const ALONE: usize = 2;

impl Play<'_> {
    /// Waits for the responses that are owed, and reports the wait as missed if the machine was late.
    pub(crate) fn wait_for_late_answers(&mut self) -> Result<(), Stop> {
        let wants_all = self.wants_answers();
        let owed: Vec<String> = (self.crowd.iter().chain(self.named.values()))
            .filter(|made| wants_all || made.cancelled_at.is_none())
            .map(|made| made.id.clone())
            .collect();
        let stopped = |run: &&Run| !run.stops.is_empty();
        let runs: Vec<Run> = self.runs.values().filter(stopped).cloned().collect();
        let all_came = |session: &Session| {
            owed.iter().all(|id| session.is_answered(id))
                && runs.iter().all(|run| run.is_over(session))
        };
        self.session.wait_unless_late(LATE, all_came).unless_late()
    }

    /// Cancels a request and sends nothing until it is over. If only the next message ends it, that may be chance, so it is
    /// tried again, and waited for much longer than it took.
    pub(super) fn settle_alone(&mut self, name: Name) -> Result<(), Stop> {
        let slow = self.facts.slow.as_ref().map(|slow| slow.lasts(self.slow_ms));
        let mut quiet = LATE + 2 * slow.unwrap_or_default();
        // An answer would be the next message.
        self.session.answers = false;
        for _ in 0..ALONE {
            self.send(&[Item::Slow(name, Id::Fresh), Item::Cancel(name)], true)?;
            let (id, sent) = (self.made(name)?.id.clone(), Instant::now());
            let waited = self.session.wait_unless_late(quiet, |it| it.is_answered(&id));
            if waited != Waited::TimedOut {
                self.waited(waited, "the end of a cancelled request")?;
                return self.has_sent_nothing_since(name);
            }
            self.session.note("nothing was sent meanwhile");
            self.next()?;
            if self.session.wait_for(LATE, &mut |it| it.is_answered(&id)) != Waited::Done {
                return self.settle(name);
            }
            quiet = LATE + 2 * sent.elapsed();
        }
        self.is_prompted = true;
        Ok(())
    }

    fn has_sent_nothing_since(&self, name: Name) -> Result<(), Stop> {
        let cancelled_at = self.made(name)?.cancelled_at.unwrap_or(usize::MAX);
        let mut since = self.session.record.iter().skip(cancelled_at.saturating_add(1));
        match since.any(|entry| matches!(entry.what, What::Sent(_))) {
            true => missed("the server asked something of us, and had an answer"),
            false => Ok(()),
        }
    }

    pub(super) fn end(&mut self, after: &str) -> Result<(), Stop> {
        let waited = self.session.wait(|_| false);
        waited.unless_late()?;
        if waited != Waited::Ended {
            let waited = self.session.waited();
            return Err(Stop::Stuck(format!("its output has not ended {waited} after {after}")));
        }
        let (patience, ending) = (self.session.patience, Stretch::begin());
        let child = self.session.child();
        self.ended = child.map_or(Some(true), |child| child.ends(patience));
        match self.ended {
            None if ending.lateness() > patience / PART => Err(Stop::too_late()),
            _ => Ok(()),
        }
    }

    /// Returns whether the subject reads on while it is at work for us, as far as that is known.
    pub(crate) fn may_read_on(&self) -> bool {
        match (&self.client, &self.facts.slow) {
            (Some(client), _) => client.facts.ask_is_slow,
            (None, slow) => slow.as_ref().is_ok_and(|slow| slow.reads_on || slow.was_late),
        }
    }

    /// Returns whether a request that is answered at this place took less than half of the time that it was asked to take. A late
    /// machine only makes it longer.
    pub(crate) fn ended_before_half(&self, made: &Made, at: usize) -> bool {
        let takes_time = self.client.as_ref().is_none_or(|client| client.facts.ask_takes_time);
        let is_slow = takes_time && self.is_adjustable();
        let slow = self.facts.slow.as_ref().ok().filter(|_| is_slow);
        slow.zip(made.works_from).is_some_and(|(slow, from)| {
            self.session.between(from, at) < slow.lasts(made.asked_ms) / 2
        })
    }

    /// The same of a request that was cancelled before.
    pub(crate) fn was_cut_short(&self, made: &Made, at: usize) -> bool {
        made.cancelled_at < Some(at) && self.ended_before_half(made, at)
    }

    /// Ends the check because a cancel had no effect. On a late machine it may have been read too late to have one.
    pub(super) fn has_no_effect(&mut self, why: &str) -> Result<(), Stop> {
        self.see_lateness();
        let may_be_late = !self.is_control && self.was_late();
        if may_be_late { Err(Stop::too_late()) } else { lacks(why) }
    }

    /// Notes how late the machine was since the session was opened.
    pub(crate) fn see_lateness(&mut self) {
        self.lateness = self.begun.lateness();
    }

    /// Returns whether the machine was so late that work may have ended before a message was read that was sent meanwhile.
    pub(crate) fn was_late(&self) -> bool {
        self.is_late(self.lateness)
    }

    /// Reports a fault unless `holds`: broken for this reason, or unclear if the machine was late.
    pub(crate) fn holds_on_time(
        &self,
        holds: bool,
        why: impl FnOnce() -> String,
    ) -> Result<(), Fault> {
        if !holds && self.was_late() { unclear(TOO_LATE) } else { holds_if(holds, why) }
    }

    /// Returns whether a message that was sent there may have been read too late to change what ended here.
    ///
    /// On a late machine it may, if the end came within the longest delay seen: the message's own, or the machine's.
    pub(crate) fn came_late(&self, sent_at: usize, ended_at: usize) -> bool {
        let read_at = self.read_by(sent_at, ended_at);
        let took = read_at.map_or(Duration::ZERO, |at| self.session.between(sent_at, at));
        let late = took.max(self.lateness);
        let left = read_at.map_or(Duration::ZERO, |at| self.session.between(at, ended_at));
        self.is_at_all_late() && self.is_late(late) && left < late
    }

    /// Returns the place where a message was seen to be read, or the end if it was not seen before that. If nothing was asked
    /// between them, nothing shows it.
    fn read_by(&self, sent_at: usize, ended_at: usize) -> Option<usize> {
        let asked = self.nexts.iter().chain(&self.reads).filter(|next| next.sent_at >= sent_at);
        let asked = asked.filter(|next| next.sent_at < ended_at);
        let read = asked.map(|next| self.session.answered_at(&next.id).unwrap_or(ended_at));
        read.min().map(|at| at.min(ended_at))
    }

    pub(super) fn is_late(&self, lateness: Duration) -> bool {
        lateness > Duration::from_millis(self.slow_ms) / PART
    }

    /// Returns whether the machine was later than an idle one is.
    fn is_at_all_late(&self) -> bool {
        self.is_late(self.lateness * PART)
    }
}
