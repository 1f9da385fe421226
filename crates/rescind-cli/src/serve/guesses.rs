//! Slows those who guess a token down.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// The time that an address waits once it has shown a wrong token.
const PAUSE: Duration = Duration::from_secs(1);
/// So many addresses are told apart. All others wait as one.
const ADDRESSES: usize = 1024;

/// The addresses that have shown a wrong token not long ago.
#[derive(Debug, Default)]
pub(super) struct Guesses(RefCell<BTreeMap<Option<IpAddr>, Instant>>);

impl Guesses {
    /// Notes a wrong token.
    pub(super) fn wrong(&self, from: Option<IpAddr>, now: Instant) {
        let mut until = self.0.borrow_mut();
        until.retain(|_, until| *until > now);
        let from = from.filter(|_| until.len() < ADDRESSES);
        until.insert(from, now + PAUSE);
    }

    /// Returns the time that a client of this address waits before it is listened to.
    pub(super) fn pause(&self, from: Option<IpAddr>, now: Instant) -> Duration {
        let until = self.0.borrow();
        let until = until.get(&from).or_else(|| until.get(&None));
        until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f110_an_address_waits_after_a_wrong_token_and_no_other_does() {
        let (guesses, now) = (Guesses::default(), Instant::now());
        let [one, other] = [1, 2].map(|last| Some(IpAddr::from([192, 0, 2, last])));
        assert_eq!(guesses.pause(one, now), Duration::ZERO);
        guesses.wrong(one, now);
        assert_eq!(guesses.pause(one, now), PAUSE);
        assert_eq!(guesses.pause(other, now), Duration::ZERO);
        assert_eq!(guesses.pause(one, now + PAUSE), Duration::ZERO);
    }

    #[test]
    fn f110_so_many_addresses_are_remembered() {
        let (guesses, now) = (Guesses::default(), Instant::now());
        for address in 0..10_000_u32 {
            guesses.wrong(Some(IpAddr::from(address.to_be_bytes())), now);
        }
        assert!(guesses.0.borrow().len() <= ADDRESSES + 1);
        assert_eq!(guesses.pause(Some(IpAddr::from([255; 4])), now), PAUSE);
    }
}
