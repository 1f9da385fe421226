//! A beat beside the checks tells how late the machine is, and the system how long a server waited for a processor.

use std::collections::VecDeque;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::process;

/// The time between two beats. One that comes later than this is late.
const BEAT: Duration = Duration::from_millis(5);
/// A message passes so many threads: our writer, the server's reader, worker and writer, and our reader. Each may be late.
const THREADS: u32 = 5;
/// The number of late beats that are remembered: those of some minutes.
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

    /// Returns by how much each beat since then was late. The next may be late already.
    fn since(&self, begun: Instant, now: Instant) -> impl Iterator<Item = Duration> {
        let next = (now - self.last).saturating_sub(BEAT);
        let since = self.late.iter().take_while(move |(at, _)| *at > begun);
        since.map(|(_, late)| *late).chain([next])
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

/// A stretch of time, which lasts until now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch {
    begun: Instant,
    /// The process that is at work in it, if it is one, and how long that had waited before.
    process: Option<(u32, Duration)>,
}

impl Stretch {
    pub(crate) fn begin() -> Self {
        Self::of(None)
    }

    /// Begins one in which a process is at work for us.
    pub(crate) fn of(process: Option<u32>) -> Self {
        LazyLock::force(&BEATS);
        let process = process.map(|process| (process, process::waited(process)));
        Self { begun: Instant::now(), process }
    }

    pub(crate) fn lasted(self) -> Duration {
        self.begun.elapsed()
    }

    /// Returns the time in it in which the machine had no processor for the beat.
    pub(crate) fn lost(self) -> Duration {
        beats(|beats| beats.since(self.begun, Instant::now()).sum())
    }

    /// Returns the longest delay that an event in it may have had.
    pub(crate) fn lateness(self) -> Duration {
        let worst = beats(|beats| beats.since(self.begun, Instant::now()).max());
        let waits =
            self.process.map(|(process, before)| process::waited(process).saturating_sub(before));
        worst.unwrap_or_default() * THREADS + waits.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beats_are_late_since_then_and_one_that_has_not_come_yet_too() {
        let begun = Instant::now();
        let at = |millis| begun + Duration::from_millis(millis);
        let mut beats = Beats { last: begun, late: VecDeque::new() };
        for millis in [5, 10, 75, 90, 95] {
            beats.take(at(millis));
        }
        let late = |since, now| -> Vec<u128> {
            beats.since(at(since), at(now)).map(|late| late.as_millis()).collect()
        };
        assert_eq!((late(0, 98), late(80, 98)), (vec![10, 60, 0], vec![10, 0]));
        assert_eq!((late(92, 98), late(92, 140)), (vec![0], vec![40]));
    }
}
