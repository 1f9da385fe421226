//! The patience with what is seen to work.

use std::time::Duration;

use crate::lateness::Stretch;
use crate::process;

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
    begun: Stretch,
    /// The processor time of the process when the last wait began.
    busy: Option<u64>,
}

impl Patience {
    pub(crate) fn begin(process: Option<u32>, patience: Duration) -> Self {
        Self { process, patience, busy: process.map(process::busy), begun: Stretch::begin() }
    }

    /// Decides how much longer it is waited for, if it talks or is seen to work.
    pub(crate) fn more(&mut self, talks: bool) -> More {
        let times = match self.process {
            _ if talks => LONGER,
            Some(_) if process::is_at_work(self.process, self.busy) => LONGER,
            Some(_) => return More::Over,
            // Nobody sees whether it works.
            None => 1,
        };
        self.busy = self.process.map(process::busy);
        self.after(self.begun.lasted(), self.begun.lost(), times)
    }

    /// The same after this time, of which so much was lost, of what gets so many times the patience.
    fn after(&self, lasted: Duration, lost: Duration, times: u32) -> More {
        let left = (self.patience * times).saturating_sub(lasted.saturating_sub(lost));
        match () {
            () if left >= self.patience / LEAST && lasted < self.patience * times * LONGEST => {
                More::Wait(left.min(self.patience))
            }
            () if times > 1 && lost > lasted / LATE => More::Late,
            () => More::Over,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_works_is_waited_for_six_times_as_long_and_no_more() {
        let seconds = Duration::from_secs;
        let patience = Patience::begin(None, seconds(1));
        let after = |lasted, lost| patience.after(seconds(lasted), seconds(lost), LONGER);
        assert_eq!(after(1, 0), More::Wait(seconds(1)));
        let part = patience.after(Duration::from_millis(5500), Duration::ZERO, LONGER);
        assert_eq!(part, More::Wait(Duration::from_millis(500)), "what is left of six");
        assert_eq!(after(6, 0), More::Over);
        assert_eq!(after(7, 1), More::Over);
        assert_eq!(after(8, 3), More::Wait(seconds(1)), "what was lost does not count");
        assert_eq!(after(9, 3), More::Late);
        assert_eq!(after(30, 30), More::Late, "but for five times as long");
        let unseen = |lasted, lost| patience.after(seconds(lasted), seconds(lost), 1);
        assert_eq!((unseen(1, 0), unseen(4, 3)), (More::Over, More::Over));
        assert_eq!(unseen(3, 3), More::Wait(seconds(1)), "it has had no time yet");
        let impatient = Patience::begin(None, Duration::ZERO);
        assert_eq!(impatient.after(seconds(0), seconds(0), LONGER), More::Over);
    }
}
