//! The patience with what is seen to work.

use std::time::{Duration, Instant};

use crate::stopped::{self, Delays};

/// A target that is busy or says something gets this many times the patience. Time in which it waited for a
/// processor does not count.
const LONGER: u32 = 6;
/// The whole wait lasts at most this many times as long: a target may keep the processors busy itself.
const LONGEST: u32 = 5;
/// The machine is late if there was no processor for the target in this part of the time, or more.
const LATE: u32 = 4;
/// A remaining wait below this part of the patience is dropped.
const LEAST: u32 = 10;

/// The decision about something that was waited for in vain, although there was work on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum More {
    /// It is waited for so much longer.
    Wait(Duration),
    /// It had all the time that it gets.
    Over,
    /// It is over, and for a good part of the time there was no processor for it.
    Late,
}

/// One thing that a process is waited for, if it is one.
#[derive(Debug)]
pub(crate) struct Patience {
    process: Option<u32>,
    patience: Duration,
    begun: Instant,
    /// How busy the process was when the last wait began.
    busy: Option<u64>,
    /// When it was first waited for in vain.
    delays: Option<Delays>,
}

impl Patience {
    pub(crate) fn begin(process: Option<u32>, patience: Duration) -> Self {
        let busy = process.map(stopped::busy);
        Self { process, patience, busy, begun: Instant::now(), delays: None }
    }

    /// Decides how much longer it is waited for, if it talks or is seen to work.
    pub(crate) fn more(&mut self, talks: bool) -> More {
        let works = talks || stopped::is_at_work(self.process, self.busy);
        self.busy = self.process.map(stopped::busy);
        let now = Delays::until_now(self.process);
        let most = self.patience * LONGER;
        let elapsed = self.begun.elapsed();
        let delayed = self.delays.get_or_insert_with(|| now.clone()).grown(&now);
        let left = most.saturating_sub(elapsed.saturating_sub(delayed));
        match () {
            () if !works => More::Over,
            () if left >= self.patience / LEAST && elapsed < most * LONGEST => {
                More::Wait(left.min(self.patience))
            }
            () if delayed > elapsed / LATE => More::Late,
            () => More::Over,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_works_is_waited_for_six_times_as_long_and_no_more() {
        let second = Duration::from_secs(1);
        let after = |seconds: u64| {
            let begun =
                Instant::now().checked_sub(second * u32::try_from(seconds).unwrap()).unwrap();
            let mut patience = Patience { begun, ..Patience::begin(None, second) };
            patience.more(true)
        };
        assert_eq!(after(1), More::Wait(second));
        assert!(matches!(after(5), More::Wait(left) if left < second), "what is left of six");
        assert_eq!(after(6), More::Over);
        assert_eq!(Patience::begin(None, Duration::ZERO).more(true), More::Over);
        assert_eq!(Patience::begin(None, second).more(false), More::Over, "nobody works on it");
    }
}
