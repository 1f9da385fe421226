//! Steps of many requests.

use std::collections::HashSet;
use std::thread;
use std::time::{Duration, Instant};

use super::items::Item;
use super::{Made, Play};
use crate::check::Id;
use crate::judge::in_time;
use crate::judge::rules::Rule;
use crate::judge::rules::judge;
use crate::process;
use crate::session::Waited;
use crate::stop::{Stop, lacks, missed};

/// The parts of its time after which `Step::AnyMoment` cancels a request, in hundredths.
const MOMENTS: [u32; 7] = [0, 25, 50, 75, 88, 94, 110];
/// Requests for each of them.
const EACH_MOMENT: usize = 4;
/// The time in which a request is answered while there is still work on many before it.
const AT_WORK: Duration = Duration::from_secs(60);
/// The processor time of a subject that is seen to work for so long, in ticks: an eighth of it.
const TICKS: u64 = 750;
/// The least number of requests that `Step::OutputFull` makes: their answers fill any pipe.
const FILLING: usize = 5000;
/// The looks in a row at which a subject is seen to do nothing. Our own writer may be late for one.
const QUIET_LOOKS: usize = 3;

impl Play<'_> {
    /// Adds a request that is done at once.
    fn one_more(&mut self) -> String {
        let made = self.make(Id::Fresh);
        let message = self.quick(&made);
        self.crowd.push(made);
        message
    }

    pub(super) fn crowd_ids(&self) -> Vec<String> {
        self.crowd.iter().map(|made| made.id.clone()).collect()
    }

    /// Returns the cancel of one of those without a name, which will stand there in the record.
    pub(super) fn cancel_of_crowd(&mut self, chosen: usize, at: usize) -> String {
        let mut made = self.crowd[chosen].clone();
        if !self.is_control {
            made.cancelled_at = Some(at);
        }
        let message = self.cancel(&mut made, at);
        self.crowd[chosen] = made;
        message
    }

    pub(super) fn burst(&mut self, count: usize) -> Result<(), Stop> {
        let mut messages = Vec::new();
        for _ in 0..count {
            messages.push(self.one_more());
            let at = self.session.record.len() + messages.len();
            messages.push(self.cancel_of_crowd(self.crowd.len() - 1, at));
        }
        self.write(messages, self.client.is_some());
        self.wait_for_crowd()
    }

    pub(super) fn half_cancelled(&mut self, count: usize) -> Result<(), Stop> {
        let mut messages: Vec<String> = (0..count).map(|_| self.one_more()).collect();
        let mut order: Vec<usize> = (0..count).collect();
        self.rng.shuffle(&mut order);
        for &chosen in &order[..count / 2] {
            let at = self.session.record.len() + messages.len();
            messages.push(self.cancel_of_crowd(chosen, at));
        }
        self.write(messages, true);
        self.wait_for_crowd()
    }

    /// Waits until everything is answered, or, where some need not be, the next request is.
    pub(super) fn wait_for_crowd(&mut self) -> Result<(), Stop> {
        let wants_all = self.wants_answers();
        let owed = self.crowd.iter().filter(|made| wants_all || made.cancelled_at.is_none());
        let mut left: HashSet<String> = owed.map(|made| made.id.clone()).collect();
        let is_owed = !left.is_empty();
        self.next_after_crowd(is_owed)?;
        let mut looked = 0;
        self.wait("an answer to all of them", |session| {
            for (_, id, _) in session.all_answers().filter(|(at, ..)| *at >= looked) {
                left.remove(id);
            }
            looked = session.record.len();
            left.is_empty()
        })?;
        self.next_after_crowd(is_owed)
    }

    /// Makes another request. If anything `is_owed`, a subject that has answered all of it and is still at work gets a
    /// minute more.
    fn next_after_crowd(&mut self, is_owed: bool) -> Result<(), Stop> {
        let why = match self.next_or_end() {
            Err(Stop::Stuck(why)) if is_owed && judge(self, &[Rule::AllEnded]).is_none() => why,
            read => return read,
        };
        let next = self.nexts.last().map(|next| next.id.clone()).unwrap_or_default();
        let busy = self.session.busy();
        let waited = self.session.wait_unless_late(AT_WORK, |session| session.is_answered(&next));
        if waited == Waited::TimedOut {
            // The timers of a process that hangs take a little. The time of one that has ended does not count any more.
            let used = self.session.busy().unwrap_or(0).saturating_sub(busy.unwrap_or(0));
            let why = format!("{why}, though all before it are answered");
            return if used > TICKS { lacks(why) } else { Err(Stop::Stuck(why)) };
        }
        let read = self.waited(waited, "an answer to the next request");
        self.unless_it_ended(read)
    }

    pub(super) fn any_moment(&mut self) -> Result<(), Stop> {
        let ms = self.slow_ms / 2;
        let slow = self.facts.slow.as_ref();
        let natural = slow.map_or(Duration::from_millis(5), |slow| slow.lasts(ms));
        for _ in 0..EACH_MOMENT * MOMENTS.len() {
            self.begin_slow(ms, true);
        }
        let begun = Instant::now();
        let mut order: Vec<usize> = (0..self.crowd.len()).collect();
        self.rng.shuffle(&mut order);
        for (moment, chosen) in MOMENTS.iter().zip(order.chunks(EACH_MOMENT)) {
            let until = (begun + natural * *moment / 100).saturating_duration_since(Instant::now());
            self.session.wait_for(until, &mut |_| false);
            for &chosen in chosen {
                let cancel = self.cancel_of_crowd(chosen, self.session.record.len());
                self.write(vec![cancel], false);
            }
        }
        let ids = self.crowd_ids();
        if self.wants_answers() {
            self.wait("an answer to all of them", |session| {
                ids.iter().all(|id| session.is_answered(id))
            })?;
        }
        self.settle_all(&ids)?;
        // Nobody can ask a language server to take its time, and so nobody knows when it is nearly done.
        let mut moments = MOMENTS.iter().zip(order.chunks(EACH_MOMENT));
        if self.is_adjustable()
            && judge(self, &[Rule::AllEnded]).is_none()
            && moments.any(|(moment, chosen)| *moment < 100 && self.came_too_late(chosen))
        {
            return missed("requests were done before their cancels were read");
        }
        Ok(())
    }

    /// Returns whether each of these was done before its cancel was sent or, if cancels are honoured, before it was read.
    fn came_too_late(&self, chosen: &[usize]) -> bool {
        let is_honoured = |made: &Made| {
            self.session.answers_to(&made.id).next().is_none_or(|(_, it)| it.is_cancelled())
        };
        let honours = self.crowd.iter().any(is_honoured);
        chosen.iter().map(|at| &self.crowd[*at]).all(|made| {
            let answered_at = self.session.answered_at(&made.id);
            let was_done = answered_at.is_some_and(|at| made.cancelled_at > Some(at));
            was_done || honours && in_time(self, made).is_err()
        })
    }

    pub(super) fn output_full(&mut self, items: &[Item]) -> Result<(), Stop> {
        self.next()?;
        let chunks = FILLING.max(self.session.fills()) / 100;
        self.open_sessions(items.len())?;
        self.session.note("nothing is read any more");
        for chunk in 1..=chunks {
            let mut messages: Vec<String> = (0..100).map(|_| self.one_more()).collect();
            if chunk == chunks {
                for item in items {
                    let at = self.session.record.len() + messages.len();
                    messages.extend(item.texts(self, at)?);
                }
            }
            self.write(messages, false);
        }
        let at = self.session.record.len();
        self.named.values_mut().for_each(|made| made.cancelled_at = Some(at));
        // Until it does nothing any more, and wants no processor: it waits for somebody who reads, or has done all.
        let mut quiet = 0;
        for _ in 0..300 {
            let before = self.session.busy();
            thread::sleep(Duration::from_millis(200));
            let is_at_work = process::is_at_work(self.session.process(), before);
            quiet = if is_at_work { 0 } else { quiet + 1 };
            if quiet == QUIET_LOOKS {
                break;
            }
        }
        self.session.note("it is read again");
        self.wait_for_crowd()
    }
}
