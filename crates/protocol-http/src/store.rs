//! Events that are kept for clients that come back.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The id of an event: its exchange, and its number there. The first event of an exchange has number 1, and the one that
/// primes a client has 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventId {
    pub(crate) exchange: u64,
    pub(crate) number: u64,
}

impl EventId {
    pub(crate) fn text(self) -> String {
        format!("{}-{}", self.exchange, self.number)
    }

    pub(crate) fn read(text: &str) -> Option<Self> {
        let (exchange, number) = text.split_once('-')?;
        let id = Self { exchange: exchange.parse().ok()?, number: number.parse().ok()? };
        (id.text() == text).then_some(id)
    }
}

/// The events of one session, oldest first, up to a number of bytes.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    events: VecDeque<(EventId, Vec<u8>)>,
    bytes: usize,
    most_bytes: usize,
}

/// The bytes that an event counts beside its data.
const EVENT: usize = size_of::<(EventId, Vec<u8>)>();

impl Store {
    pub(crate) const fn new(most_bytes: usize) -> Self {
        Self { events: VecDeque::new(), bytes: 0, most_bytes }
    }

    /// Returns the bytes that the events count.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Drops all events.
    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.most_bytes);
    }

    /// Keeps an event, and drops the oldest ones for which there is no room, those that are unsent last.
    pub(crate) fn keep(&mut self, id: EventId, data: Vec<u8>, is_unsent: impl Fn(EventId) -> bool) {
        self.bytes += data.len() + EVENT;
        self.events.push_back((id, data));
        while self.bytes > self.most_bytes {
            let oldest = self.events.iter().position(|(id, _)| !is_unsent(*id)).unwrap_or(0);
            let Some((_, data)) = self.events.remove(oldest) else { break };
            self.bytes -= data.len() + EVENT;
        }
    }

    /// Returns the events of an exchange after this one that are kept.
    pub(crate) fn after(&self, last: EventId) -> impl Iterator<Item = &(EventId, Vec<u8>)> {
        let is_after = move |id: &EventId| id.exchange == last.exchange && id.number > last.number;
        self.events.iter().filter(move |(id, _)| is_after(id))
    }

    /// Returns whether none of the events after this one was dropped.
    ///
    /// `latest` is the number of the last event of an exchange that is open. Of one that is over only the kept events are
    /// known, and the last one is among them if any is.
    pub(crate) fn has_all_after(&self, last: EventId, latest: Option<u64>) -> bool {
        let mut kept =
            self.events.iter().map(|(id, _)| id).filter(|it| it.exchange == last.exchange);
        let first = kept.next().map(|id| id.number);
        let latest = latest.or(kept.next_back().map(|id| id.number).or(first));
        latest.is_some_and(|latest| match latest > last.number {
            true => first.is_some_and(|first| first <= last.number + 1),
            false => latest == last.number,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn id(exchange: u64, number: u64) -> EventId {
        EventId { exchange, number }
    }

    fn numbers(store: &Store, last: EventId, latest: Option<u64>) -> Option<Vec<u64>> {
        store
            .has_all_after(last, latest)
            .then(|| store.after(last).map(|(id, _)| id.number).collect())
    }

    #[test]
    fn an_id_is_read_only_as_it_was_written() {
        assert_eq!(EventId::read("12-3"), Some(id(12, 3)));
        for text in ["", "1", "1-", "-1", "01-1", "1-+1", "1-1-1", " 1-1", "99999999999999999999-1"]
        {
            assert_eq!(EventId::read(text), None, "{text}");
        }
    }

    #[test]
    fn events_come_again_without_a_gap_or_not_at_all() {
        let mut store = Store::new(3 * (EVENT + 1));
        for number in 1..=3 {
            store.keep(id(7, number), Vec::from(*b"x"), |_| false);
        }
        assert_eq!(numbers(&store, id(7, 0), None), Some(Vec::from([1, 2, 3])));
        assert_eq!(numbers(&store, id(7, 3), None), Some(Vec::new()));
        assert_eq!(numbers(&store, id(7, 4), None), None, "it was never sent");
        store.keep(id(8, 1), Vec::from(*b"x"), |_| false);
        assert_eq!(numbers(&store, id(7, 0), None), None, "the first one is gone");
        assert_eq!(numbers(&store, id(7, 1), Some(3)), Some(Vec::from([2, 3])));
        assert_eq!(numbers(&store, id(9, 0), Some(0)), Some(Vec::new()));
        assert_eq!(numbers(&store, id(9, 0), None), None);
    }

    #[test]
    fn an_unsent_event_outlives_the_sent_ones_and_goes_only_for_other_unsent_ones() {
        let mut store = Store::new(2 * (EVENT + 1));
        let is_unsent = |id: EventId| id.exchange == 7;
        for number in 1..=3 {
            store.keep(id(7 + number % 2, number), Vec::from(*b"x"), is_unsent);
        }
        assert_eq!(numbers(&store, id(7, 1), Some(2)), Some(Vec::from([2])));
        assert_eq!(numbers(&store, id(8, 2), Some(3)), Some(Vec::from([3])));
        for number in 4..=5 {
            store.keep(id(7, number), Vec::from(*b"x"), is_unsent);
        }
        assert_eq!(numbers(&store, id(7, 3), Some(5)), Some(Vec::from([4, 5])));
    }
}
