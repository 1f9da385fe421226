//! Time as an input.

use core::ops::Add;
use core::time::Duration;

/// A moment, in nanoseconds since a start that the host chooses.
///
/// The core never reads a clock. The host passes `now` to every method that depends on time, and any
/// monotonic clock will do.
///
/// Time never goes back inside the core. A `now` before the latest one seen is treated as that latest
/// time. So a timer fires late where the clock stands still or goes back, and never early.
///
/// ```
/// use core::time::Duration;
/// use protocol_core::Timestamp;
///
/// let start = Timestamp::from_millis(250);
/// let due = start + Duration::from_secs(2);
/// assert_eq!(due.as_millis(), 2_250);
/// assert_eq!(due.since(start), Duration::from_secs(2));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The start of the host's time.
    pub const ZERO: Self = Self(0);

    /// Returns the moment `millis` milliseconds after the start. It saturates after 584 years.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Returns the whole milliseconds since the start, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Returns the time from `earlier` to `self`, or zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Saturates 584 years after the start.
impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }
}
