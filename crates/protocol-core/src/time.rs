//! Time as an input.

use core::ops::Add;
use core::time::Duration;

/// A moment, in nanoseconds since a start that the host chooses.
///
/// The core never reads a clock. A host passes `now` into every method that needs it, from any
/// clock that doesn't run backwards; a `now` before an earlier one is harmless, it only makes
/// timers late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The host's start of time.
    pub const ZERO: Self = Self(0);

    /// The moment `millis` milliseconds after the start; saturates after 584 years.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Whole milliseconds since the start.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// The time from `earlier` to `self`; zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Saturates at the end of time, 584 years after the start.
impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }
}
