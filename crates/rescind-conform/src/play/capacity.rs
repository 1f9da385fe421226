//! The server after many cancels.

use std::time::Instant;

use super::{Made, Play, Taken};
use crate::check::Id;
use crate::stop::Stop;

/// The numbers of slow requests that are tried at once, the most first. One more takes half as long, and comes after them.
const TRIED: [usize; 4] = [15, 7, 3, 1];
/// The number of slow requests that are at work at the same time to be cancelled.
const AT_ONCE: usize = 20;

impl Play<'_> {
    /// Returns whether the slow request takes as long as it is asked to.
    pub(super) fn is_adjustable(&self) -> bool {
        let asks = |ms| self.facts.slow.as_ref().map(|slow| slow.request.lasting(ms));
        asks(1) != asks(100_000)
    }

    pub(super) fn each_cancelled(&mut self, count: usize) -> Result<(), Stop> {
        for number in 0..count {
            let at = self.begin_slow(self.slow_ms);
            let id = self.crowd[at].id.clone();
            self.next()?;
            if self.session.is_answered(&id) {
                return Err(Stop::Missed("a request was done before it could be cancelled".into()));
            }
            let cancel = self.cancel_of_crowd(at, self.session.record.len());
            self.write(vec![cancel], false);
            self.next()?;
            if self.wants_answers() {
                self.wait_for_response(&id, &format!("an answer to request {id}"))?;
            }
            let says_cancelled =
                self.session.answers_to(&id).next().is_none_or(|(_, it)| it.is_cancelled());
            if number == 0 && !says_cancelled && self.wants_answers() && !self.is_control {
                let why = "the first cancelled request is answered with its result";
                return Err(Stop::NotExercised(why.into()));
            }
        }
        // All work that went on is done by now, and its responses are read.
        self.settle_all(&self.crowd_ids())
    }

    pub(super) fn compare_capacity(&mut self, cancels: usize) -> Result<(), Stop> {
        if !self.is_adjustable() {
            return Err(Stop::NotExercised("nobody can ask it to take its time".into()));
        }
        let mut before = self.take_at_once(TRIED[0])?;
        for count in &TRIED[1..] {
            if before.before_short == 0 && before.refusal.is_none() {
                break;
            }
            before = self.take_at_once(*count)?;
        }
        for _ in 0..cancels / AT_ONCE {
            let all: Vec<usize> = (0..AT_ONCE).map(|_| self.begin_slow(self.slow_ms / 2)).collect();
            self.next()?;
            let at = self.session.record.len();
            let cancels = all.iter().map(|made| self.cancel_of_crowd(*made, at)).collect();
            self.write(cancels, false);
            self.next()?;
        }
        self.wait_for_crowd()?;
        let after = self.take_at_once(before.count)?;
        self.capacity = Some((before, after));
        Ok(())
    }

    /// Makes a slow request, and returns its place in the crowd.
    pub(super) fn begin_slow(&mut self, ms: u64) -> usize {
        let made = self.make(Id::Fresh);
        let messages = self.slow(&made, ms);
        self.write(messages, false);
        self.crowd.push(made);
        self.crowd.len() - 1
    }

    /// Makes so many slow requests and a short one in one write, and waits for all of them.
    fn take_at_once(&mut self, count: usize) -> Result<Taken, Stop> {
        self.open_sessions(count + 1);
        let all: Vec<Made> = (0..=count).map(|_| self.make(Id::Fresh)).collect();
        let mut messages = Vec::new();
        for (number, made) in all.iter().enumerate() {
            let ms = if number == count { self.slow_ms / 2 } else { self.slow_ms };
            messages.extend(self.slow(made, ms));
        }
        let (begun, delays) = (Instant::now(), self.session.delays());
        self.write(messages, false);
        self.wait(&format!("an answer to {} slow requests", count + 1), |session| {
            all.iter().all(|made| session.is_answered(&made.id))
        })?;
        let was_late = delays.grown(&self.session.delays()) > begun.elapsed() / 4;
        let firsts: Vec<_> =
            all.iter().filter_map(|made| self.session.answers_to(&made.id).next()).collect();
        let short = firsts.last().map_or(0, |(at, _)| *at);
        let before_short = firsts.iter().filter(|(at, _)| *at < short);
        let refusal = firsts.iter().find(|(_, outcome)| !outcome.is_result());
        let refusal = refusal.map(|(_, outcome)| outcome.to_string());
        Ok(Taken { count, before_short: before_short.count(), refusal, was_late })
    }
}
