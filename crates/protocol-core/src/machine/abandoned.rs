//! The bounded memory of calls that were settled without an answer (G12, B19).

use alloc::collections::{BTreeMap, VecDeque};

/// What a response to no call in flight is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StrayResponse {
    /// We settled that call locally; this is its first answer.
    Late,
    /// That call was answered already.
    Duplicate,
    /// We never sent such a request.
    Unknown,
}

/// Remembers the last calls that were settled without an answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Abandoned {
    limit: usize,
    fates: BTreeMap<u32, Fate>,
    /// The order of abandoning. Invariant: at most `limit` long, holds each key of `fates` once, and
    /// nothing else.
    order: VecDeque<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Fate {
    /// Its request was withdrawn: the peer never saw that id.
    Withdrawn,
    /// Its request had left: the peer may still answer.
    Left,
    /// And so it did, late.
    Answered,
}

impl Abandoned {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, fates: BTreeMap::new(), order: VecDeque::new() }
    }

    pub(super) fn insert(&mut self, number: u32, fate: Fate) {
        self.fates.insert(number, fate);
        self.order.push_back(number);
        if self.order.len() > self.limit {
            let oldest = self.order.pop_front().expect("just pushed");
            self.fates.remove(&oldest);
        }
    }

    /// The number was issued anew, after 2^31 others.
    pub(super) fn reissued(&mut self, number: u32) {
        if self.fates.remove(&number).is_some() {
            self.order.retain(|&other| other != number);
        }
    }

    /// Judges a response to an issued number that is not in flight.
    pub(super) fn classify(&mut self, number: u32) -> StrayResponse {
        match self.fates.get_mut(&number) {
            Some(Fate::Withdrawn) => StrayResponse::Unknown,
            Some(fate @ Fate::Left) => {
                *fate = Fate::Answered;
                StrayResponse::Late
            }
            Some(Fate::Answered) | None => StrayResponse::Duplicate,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g12_memory_is_bounded_and_forgets_the_oldest() {
        let mut abandoned = Abandoned::new(2);
        for number in 1..=3 {
            abandoned.insert(number, Fate::Left);
        }
        assert_eq!(abandoned.order.len(), 2);
        assert_eq!(abandoned.classify(1), StrayResponse::Duplicate);
        assert_eq!(abandoned.classify(2), StrayResponse::Late);
        assert_eq!(abandoned.classify(2), StrayResponse::Duplicate);
        assert_eq!(abandoned.classify(3), StrayResponse::Late);
    }

    #[test]
    fn a_reissued_number_is_forgotten_and_no_other() {
        let mut abandoned = Abandoned::new(2);
        abandoned.insert(1, Fate::Withdrawn);
        abandoned.insert(2, Fate::Left);
        assert_eq!(abandoned.classify(1), StrayResponse::Unknown);
        abandoned.reissued(1);
        assert_eq!(abandoned.classify(1), StrayResponse::Duplicate);
        abandoned.insert(3, Fate::Left);
        abandoned.insert(4, Fate::Left);
        assert_eq!(abandoned.classify(2), StrayResponse::Duplicate, "the oldest of three");
        assert_eq!(abandoned.classify(3), StrayResponse::Late);
    }
}
