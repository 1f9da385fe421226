//! What becomes of a call, and who is told.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::task::Waker;

use protocol_core::CallId;
use serde_json::value::RawValue;

use crate::answer::CallError;
use crate::contain::contain;

/// What becomes of a call, as the peer wrote it. Errors are large and rare.
pub(crate) type RawOutcome = Result<Box<RawValue>, Box<CallError>>;

/// What is done with an outcome: nothing, where nobody wants it. The box around it makes one word of two,
/// for it is moved with the call's row.
pub(crate) struct HandOver(Option<Box<Then>>);

type Then = Box<dyn FnOnce(RawOutcome) + Send>;

impl HandOver {
    /// Nobody wants to know.
    pub(crate) const NOBODY: Self = Self(None);

    pub(crate) fn to(then: impl FnOnce(RawOutcome) + Send + 'static) -> Self {
        Self(Some(Box::new(Box::new(then))))
    }

    /// Hands it over.
    pub(crate) fn give(self, outcome: RawOutcome) {
        if let Some(then) = self.0 {
            contain(|| then(outcome));
        }
    }
}

/// Who is told the outcome of a call in flight. Two words, for it is moved with the call's row.
pub(crate) enum Interest {
    /// A task, which then asks for it.
    Task(Waker),
    /// What it is handed to.
    Handed(HandOver),
}

/// Nobody is told: whoever wants to know asks later.
impl Default for Interest {
    fn default() -> Self {
        Self::Task(Waker::noop().clone())
    }
}

/// What became of calls that have settled, until whoever made them asks. Bounded in bytes: a result that
/// does not fit is let go, and its caller told so; one that waits alone always fits.
pub(crate) struct Outcomes {
    waiting: Map<CallId, RawOutcome>,
    bytes: usize,
    limit: usize,
}

/// A map has at most so much room for each entry, counted while it moves to a larger one.
pub(crate) const MAP: usize = 4;

/// A map by ids of our own.
pub(crate) type Map<K, V> = HashMap<K, V, BuildHasherDefault<Spread>>;

impl Outcomes {
    /// The bytes of a place, with an error that says little.
    pub(crate) const ROW: usize =
        MAP * size_of::<(CallId, RawOutcome)>() + size_of::<CallError>() + 128;

    pub(crate) fn new(limit: usize) -> Self {
        Self { waiting: Map::default(), bytes: 0, limit }
    }

    pub(crate) fn insert(&mut self, call: CallId, outcome: RawOutcome) {
        let more = size(&outcome);
        // What the peer wrote nothing of always fits, too: its place is there anyway.
        let fits = more == 0 || self.bytes == 0 || self.bytes + more <= self.limit;
        let outcome = if fits {
            self.bytes += more;
            outcome
        } else {
            Err(Box::new(CallError::Untaken))
        };
        self.waiting.insert(call, outcome);
    }

    /// Takes what became of a call, if it has settled.
    pub(crate) fn take(&mut self, call: CallId) -> Option<RawOutcome> {
        let outcome = self.waiting.remove(&call)?;
        self.bytes -= size(&outcome);
        shrink(&mut self.waiting);
        Some(outcome)
    }
}

/// What the peer wrote of it.
fn size(outcome: &RawOutcome) -> usize {
    match outcome {
        Ok(result) => result.get().len(),
        Err(error) => error.bytes(),
    }
}

/// Gives room back once little of it is needed: what a burst took is not kept for ever.
pub(crate) fn shrink<K: Eq + Hash, V>(map: &mut Map<K, V>) {
    /// Room for so many is always kept.
    const KEPT: usize = 256;

    if map.capacity() > KEPT && map.len() < map.capacity() / 8 {
        map.shrink_to((2 * map.len()).max(KEPT / 2));
    }
}

/// Hashes ids of calls: they are our own numbers, one after another, so nobody can make them collide.
#[derive(Default)]
pub(crate) struct Spread(u64);

impl Hasher for Spread {
    fn write_u64(&mut self, number: u64) {
        /// 2^64 by the golden ratio.
        const STRIDE: u64 = 0x9E37_79B9_7F4A_7C15;
        self.0 = number.wrapping_mul(STRIDE);
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(self.0 ^ u64::from(byte)));
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use protocol_core::{CallOptions, Config, Connection, Dialect, Timestamp};

    use super::*;

    #[test]
    fn g08_who_is_told_of_a_call_takes_two_words_of_its_row() {
        assert_eq!(size_of::<Interest>(), size_of::<[usize; 2]>());
    }

    #[test]
    fn g08_what_a_burst_of_outcomes_took_is_given_back() {
        let mut conn: Connection<()> = Connection::new(Config::client(Dialect::ACP_V1));
        let mut outcomes = Outcomes::new(1 << 20);
        let calls: Vec<CallId> = (0..10_000)
            .map(|_| conn.call("m", None, (), CallOptions::default(), Timestamp::ZERO).unwrap())
            .collect();
        for &call in &calls {
            outcomes.insert(call, Err(Box::new(CallError::Malformed)));
        }
        for &call in &calls {
            assert!(outcomes.take(call).is_some());
        }
        assert_eq!(outcomes.bytes, 0);
        assert!(outcomes.waiting.capacity() < 1_000, "{}", outcomes.waiting.capacity());
    }

    #[test]
    fn g08_an_outcome_without_bytes_fits_beside_one_over_the_limit() {
        let mut conn: Connection<()> = Connection::new(Config::client(Dialect::ACP_V1));
        let mut outcomes = Outcomes::new(0);
        let [large, other, next] = [(); 3]
            .map(|()| conn.call("m", None, (), CallOptions::default(), Timestamp::ZERO).unwrap());
        let result = || serde_json::value::to_raw_value("it is long").unwrap();
        outcomes.insert(large, Ok(result()));
        outcomes.insert(other, Err(Box::new(CallError::Malformed)));
        outcomes.insert(next, Ok(result()));
        let mut taken = |call| outcomes.take(call).unwrap().map_err(|error| *error);
        assert!(taken(large).is_ok());
        assert!(matches!(taken(other), Err(CallError::Malformed)));
        assert!(matches!(taken(next), Err(CallError::Untaken)));
    }
}
