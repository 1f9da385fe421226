//! The server after many cancels.

use std::mem;
use std::time::Duration;

use super::{Made, Next, Play, Taken};
use crate::check::Id;
use crate::facts::Slow;
use crate::judge::rules::Rule;
use crate::judge::rules::judge;
use crate::judge::{in_time, is_early};
use crate::lateness::Stretch;
use crate::stop::{Fault, Stop, lacks, missed};

/// The numbers of slow requests that are tried at once, the most first. One more takes half as long, and comes after them.
const TRIED: [usize; 4] = [15, 7, 3, 1];

/// The number of quick requests that `Step::EachCancelled` makes before its second cancel. A table may forget what is older.
const OTHERS: usize = 16;
/// The number of requests that `Step::CancelledTogether` makes, and which of them it cancels.
const TOGETHER: usize = 5;
const CANCELLED: [usize; 3] = [0, 2, 3];

impl Play<'_> {
    /// Returns whether the slow request takes as long as it is asked to.
    pub(crate) fn is_adjustable(&self) -> bool {
        let asks = |ms| self.facts.slow.as_ref().map(|slow| slow.request.lasting(ms));
        asks(1) != asks(100_000)
    }

    /// Returns whether the slow request is done sooner if it is asked to take half of the time. Some take whole seconds.
    pub(crate) fn halves(&self) -> bool {
        let is_same = |slow: &Slow| slow.lasts(self.slow_ms / 2) >= slow.lasts(self.slow_ms);
        !self.facts.slow.as_ref().is_ok_and(is_same)
    }

    pub(super) fn each_cancelled(&mut self, count: usize) -> Result<(), Stop> {
        let mut was_refused = false;
        for number in 0..count {
            let at = self.begin_slow(self.slow_ms, true);
            let id = self.crowd[at].id.clone();
            if number == 1 && self.is_adjustable() {
                let others = (0..OTHERS).map(|_| self.make(Id::Fresh)).collect::<Vec<_>>();
                self.write(others.iter().map(|made| self.quick(made)).collect(), false);
            }
            self.next()?;
            let early = self.session.answers_to(&id).next().map(|(_, early)| early.is_failure());
            if let Some(has_failed) = early {
                match has_failed && self.is_adjustable() {
                    // Cancelled work may hold its place for a moment. The rules speak of a second refusal.
                    true if !mem::replace(&mut was_refused, true) => {
                        self.crowd.pop();
                        self.pause();
                        continue;
                    }
                    true => return Ok(()),
                    false => return missed("a request was done before it could be cancelled"),
                }
            }
            was_refused = false;
            let cancel = self.cancel_of_crowd(at, self.session.record.len());
            self.write(vec![cancel], false);
            self.next()?;
            if self.wants_answers() {
                self.wait_for_response(&id, &format!("an answer to request {id}"))?;
            }
            let is_first = at == 0 && self.wants_answers() && !self.is_control;
            if is_first && !self.is_seen_to_be_cancelled(&self.crowd[at]) {
                let why = "the first cancelled request is answered with its result".into();
                return Err(match in_time(self, &self.crowd[at]) {
                    Ok(()) => Stop::NotExercised(why),
                    Err(_) => Stop::Missed(format!("{why} before its cancel was read")),
                });
            }
            // One that is not honoured is enough, and each more may take its whole time.
            if self.wants_answers() && self.is_one_not_honoured() {
                break;
            }
        }
        // All work that went on is done by now, and its responses are read.
        self.settle_all(&self.crowd_ids())
    }

    fn is_one_not_honoured(&mut self) -> bool {
        self.see_lateness();
        matches!(judge(self, &[Rule::EachAsOthers]), Some((_, Fault::Broken(_))))
    }

    pub(super) fn cancelled_together(&mut self) -> Result<(), Stop> {
        self.open_sessions(TOGETHER)?;
        for number in 0..TOGETHER {
            // A second change of a document may end what the first began.
            self.begin_slow(self.slow_ms, number == 0);
        }
        self.next()?;
        if self.crowd.iter().any(|made| self.session.is_answered(&made.id)) {
            self.see_lateness();
            return match self.was_late() {
                true => Err(Stop::too_late()),
                false => lacks("of five requests one is answered at once"),
            };
        }
        let at = self.session.record.len();
        let cancels = CANCELLED.iter().enumerate();
        let cancels = cancels.map(|(more, chosen)| self.cancel_of_crowd(*chosen, at + more));
        let cancels = cancels.collect();
        self.write(cancels, false);
        self.wait_for_crowd()?;
        self.settle_all(&self.crowd_ids())?;
        let cancelled = || self.crowd.iter().filter(|made| made.cancelled_at.is_some());
        let needs_effect = self.wants_answers() && !self.is_control;
        if !needs_effect || cancelled().any(|made| self.is_seen_to_be_cancelled(made)) {
            return Ok(());
        }
        match self.is_adjustable() && !cancelled().all(|made| in_time(self, made).is_ok()) {
            true => missed("a request was done before its cancel was read"),
            false => self.has_no_effect("no cancel has an effect"),
        }
    }

    /// Whether the answer to a request says that it was cancelled, or shows it.
    fn is_seen_to_be_cancelled(&self, made: &Made) -> bool {
        let mut answers = self.session.answers_to(&made.id);
        answers.all(|(_, outcome)| outcome.is_cancelled()) || is_early(self, made, 't')
    }

    pub(super) fn compare_capacity(&mut self, cancels: usize) -> Result<(), Stop> {
        if !self.is_adjustable() {
            return lacks("nobody can ask it to take its time");
        }
        if !self.halves() {
            return missed("it takes whole seconds, and no shorter time");
        }
        let mut before = self.take_at_once(TRIED[0])?;
        for count in &TRIED[1..] {
            if before.before_short == 0 && before.refusal.is_none() {
                break;
            }
            before = self.take_at_once(*count)?;
        }
        if before.before_short > 0 && before.was_late {
            return Err(Stop::too_late());
        }
        let mut were_read_in_time = false;
        // More than it takes at once would be over before their cancels are read.
        for _ in 0..cancels.div_ceil(before.count) {
            let all = (0..before.count).map(|_| self.begin_slow(self.slow_ms / 2, true));
            let all: Vec<usize> = all.collect();
            self.next()?;
            let at = self.session.record.len();
            let cancels = all.iter().map(|made| self.cancel_of_crowd(*made, at)).collect();
            self.write(cancels, false);
            self.next()?;
            let is_in_time = all.iter().any(|at| in_time(self, &self.crowd[*at]).is_ok());
            if were_read_in_time && !is_in_time {
                // It takes no more requests at once, or the machine is late.
                break;
            }
            were_read_in_time |= is_in_time;
        }
        self.wait_for_crowd()?;
        // Work that can't be interrupted holds its place until it is done.
        self.settle_all(&self.crowd_ids())?;
        self.pause();
        let after = self.take_at_once(before.count)?;
        self.capacity = Some((before, after));
        self.see_lateness();
        let is_same = judge(self, &[Rule::SameCapacity]).is_none();
        let in_time = self.crowd.iter().filter(|made| in_time(self, made).is_ok()).count();
        match is_same && self.was_late() && in_time < cancels / 2 {
            true => Err(Stop::too_late()),
            false => Ok(()),
        }
    }

    /// Makes a slow request, of a document that is changed first if it `edits`, and returns its place in the crowd.
    pub(super) fn begin_slow(&mut self, ms: u64, edits: bool) -> usize {
        let works_from = Some(self.session.record.len());
        let made = Made { works_from, asked_ms: ms, ..self.make(Id::Fresh) };
        let messages = if edits { self.slow(&made) } else { vec![self.slow_unchanged(&made)] };
        self.write(messages, false);
        self.crowd.push(made);
        self.crowd.len() - 1
    }

    /// Makes so many slow requests and a short one in one write, and waits for all of them.
    fn take_at_once(&mut self, count: usize) -> Result<Taken, Stop> {
        self.open_sessions(count + 1)?;
        let all: Vec<Made> = (0..=count).map(|_| self.make(Id::Fresh)).collect();
        let sent_at = self.session.record.len();
        self.nexts.extend(all.iter().map(|made| Next { id: made.id.clone(), sent_at }));
        let mut messages = Vec::new();
        for (number, made) in all.iter().enumerate() {
            let asked_ms = if number == count { self.slow_ms / 2 } else { self.slow_ms };
            messages.extend(self.slow(&Made { asked_ms, ..made.clone() }));
        }
        let begun = Stretch::of(self.session.process());
        self.write(messages, false);
        self.wait(&format!("an answer to {} slow requests", count + 1), |session| {
            all.iter().all(|made| session.is_answered(&made.id))
        })?;
        let lateness = begun.lateness();
        let firsts: Vec<_> =
            all.iter().filter_map(|made| self.session.answers_to(&made.id).next()).collect();
        let short = firsts.last().map_or(sent_at, |(at, _)| *at);
        let behind = self.session.between(sent_at, short);
        let was_late = behind < lateness + Duration::from_millis(self.slow_ms / 2);
        let before_short = firsts.iter().filter(|(at, _)| *at < short);
        let refusal = firsts.iter().find(|(_, outcome)| !outcome.is_result());
        let refusal = refusal.map(|(_, outcome)| outcome.to_string());
        Ok(Taken { count, before_short: before_short.count(), refusal, was_late })
    }
}
