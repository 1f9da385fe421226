//! How long is waited for what is seen to work.

use std::time::{Duration, Instant};

use crate::stopped::Delays;

/// How many times as long something is waited for that is busy, or says something. Time in which it waited for a processor
/// does not count,
const LONGER: u32 = 6;
/// up to so many times as long: it may keep the processors busy itself.
const LONGEST: u32 = 5;
/// Less than this part of the patience is not worth waiting for.
const LEAST: u32 = 10;

/// One thing that is waited for.
#[derive(Debug)]
pub(crate) struct Patience {
    patience: Duration,
    begun: Instant,
    /// When it was first waited for in vain.
    delays: Option<Delays>,
}

impl Patience {
    pub(crate) fn begin(patience: Duration) -> Self {
        Self { patience, begun: Instant::now(), delays: None }
    }

    /// How much longer it is waited for, which did not come although there was work on it, if it is.
    pub(crate) fn more(&mut self, now: Delays) -> Option<Duration> {
        let most = self.patience * LONGER;
        let elapsed = self.begun.elapsed();
        let delayed = self.delays.get_or_insert_with(|| now.clone()).grown(&now);
        let left = most.saturating_sub(elapsed.saturating_sub(delayed));
        let is_over = left < self.patience / LEAST || elapsed >= most * LONGEST;
        (!is_over).then(|| left.min(self.patience))
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
            let mut patience = Patience { begun, ..Patience::begin(second) };
            patience.more(Delays::default())
        };
        assert_eq!(after(1), Some(second));
        assert!(after(5).is_some_and(|left| left < second), "what is left of six");
        assert_eq!(after(6), None);
        assert_eq!(
            Patience { patience: Duration::ZERO, ..Patience::begin(second) }
                .more(Delays::default()),
            None
        );
    }
}
