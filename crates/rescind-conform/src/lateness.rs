//! How late the machine is, by a beat beside the checks.

use std::collections::VecDeque;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::stopped::{self, Delays};

/// The time between two beats. One that comes later than this is late.
const BEAT: Duration = Duration::from_millis(5);
/// A message passes so many threads: our writer, the server's reader, worker and writer, and our reader. Each may be late.
const THREADS: u32 = 5;
/// The late beats that are remembered, which are those of some minutes.
const KEPT: usize = 10_000;

static BEATS: LazyLock<Mutex<Beats>> = LazyLock::new(|| {
    thread::spawn(beat);
    Mutex::new(Beats { last: Instant::now(), late: VecDeque::new() })
});

struct Beats {
    last: Instant,
    /// When they came, and how late.
    late: VecDeque<(Instant, Duration)>,
}

impl Beats {
    fn take(&mut self, now: Instant) {
        let late = (now - self.last).saturating_sub(BEAT);
        self.last = now;
        if late > BEAT {
            self.late.truncate(KEPT - 1);
            self.late.push_front((now, late));
        }
    }

    /// Returns by how much the worst beat since then was late. The next may be late already.
    fn worst_since(&self, begun: Instant, now: Instant) -> Duration {
        let next = (now - self.last).saturating_sub(BEAT);
        let since = self.late.iter().take_while(|(at, _)| *at > begun);
        since.map(|(_, late)| *late).chain([next]).max().unwrap_or_default()
    }
}

fn beat() {
    loop {
        thread::sleep(BEAT);
        beats(|beats| beats.take(Instant::now()));
    }
}

fn beats<T>(with: impl FnOnce(&mut Beats) -> T) -> T {
    with(&mut BEATS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A stretch of time, which lasts until now, and the process that is looked at in it.
#[derive(Clone, Debug)]
pub(crate) struct Stretch {
    process: Option<u32>,
    begun: Instant,
    delays: Delays,
    busy: Option<u64>,
}

impl Stretch {
    pub(crate) fn begin(process: Option<u32>) -> Self {
        LazyLock::force(&BEATS);
        let (delays, busy) = (Delays::until_now(process), process.map(stopped::busy));
        Self { process, delays, busy, begun: Instant::now() }
    }

    pub(crate) fn lasted(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Returns the time for which a thread of the process, or this one, has waited for a processor.
    pub(crate) fn delayed(&self) -> Duration {
        self.delays.grown(&Delays::until_now(self.process))
    }

    /// Returns whether the process has worked in it, or would if it were given a processor.
    pub(crate) fn has_worked(&self) -> bool {
        stopped::is_at_work(self.process, self.busy)
    }

    /// Returns by how much something that was to happen in it may have come too late.
    pub(crate) fn lateness(&self) -> Duration {
        let worst = beats(|beats| beats.worst_since(self.begun, Instant::now()));
        self.delayed().max(worst * THREADS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_beat_since_then_counts_and_one_that_has_not_come_yet() {
        let begun = Instant::now();
        let at = |millis| begun + Duration::from_millis(millis);
        let mut beats = Beats { last: begun, late: VecDeque::new() };
        for millis in [5, 10, 75, 90, 95] {
            beats.take(at(millis));
        }
        let worst_since = |since, now| beats.worst_since(at(since), at(now)).as_millis();
        assert_eq!((worst_since(0, 98), worst_since(80, 98)), (60, 10));
        assert_eq!((worst_since(92, 98), worst_since(92, 140)), (0, 40));
    }
}
