//! Inputs of the core that only the process has: entropy, the time of day, and numbers for connections.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use protocol_core::Timestamp;

/// A function that returns 16 bytes that nobody can guess, or `None` if it can't.
pub type Entropy = fn() -> Option<[u8; 16]>;

/// Returns 16 bytes of the operating system's entropy.
#[must_use]
pub fn entropy() -> Option<[u8; 16]> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(bytes)
}

/// Returns the Unix time at [`Timestamp::ZERO`] of a clock that reads `now`; zero if it is not after
/// 1970.
#[must_use]
pub fn unix_time_at_zero(now: Timestamp) -> Duration {
    let today = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    today.saturating_sub(now.since(Timestamp::ZERO))
}

/// Returns the [`Config::connection`](protocol_core::Config::connection) of a new connection: 1, 2, 3, …
/// over the whole process.
///
/// After 2^20 - 1 connections the numbers begin anew with 1, since handles carry 20 bits of them. None is
/// 0, which stands for a connection whose host chose no number.
#[must_use]
pub fn connection_number() -> u32 {
    // Not the counter of `sync`: which number a connection gets decides nothing.
    static LATEST: AtomicU32 = AtomicU32::new(0);
    numbered(LATEST.fetch_add(1, Ordering::Relaxed))
}

/// Returns the number of the connection that was made after so many others.
const fn numbered(others: u32) -> u32 {
    others % ((1 << 20) - 1) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f77_connections_have_numbers_of_their_own() {
        let last = (1 << 20) - 1;
        assert_eq!([0, 1, last - 1, last].map(numbered), [1, 2, last, 1]);
        assert!((1..=last).contains(&numbered(u32::MAX)));
        assert_ne!(connection_number(), connection_number());
    }
}
