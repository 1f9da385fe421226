//! What the core takes as inputs and only the operating system has: entropy, and the time of day.

use std::time::{Duration, SystemTime};

use protocol_core::Timestamp;

/// Gives 16 bytes that nobody can guess, or `None` if it can't.
pub type Entropy = fn() -> Option<[u8; 16]>;

/// The entropy of the operating system.
#[must_use]
pub fn entropy() -> Option<[u8; 16]> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(bytes)
}

/// The Unix time at [`Timestamp::ZERO`] of a clock that says `now`; zero if it is not after 1970.
#[must_use]
pub fn unix_time_at_zero(now: Timestamp) -> Duration {
    let today = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    today.saturating_sub(now.since(Timestamp::ZERO))
}
