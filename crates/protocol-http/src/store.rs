//! Events that are kept for clients that come back.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use protocol_core::WireId;

use crate::post::call_of;
use crate::refusal::Refusal;

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
    events: VecDeque<Event>,
    bytes: usize,
    most_bytes: usize,
}

/// An event that is kept.
#[derive(Clone, Debug)]
struct Event {
    id: EventId,
    data: Vec<u8>,
    part: Part,
}

/// The part that an event has in a call, where it may have to wait for a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// It has none, or never waits.
    Nothing,
    /// It is a request of ours.
    Request,
    /// It is a response.
    Response,
    /// It is a response that is too short to be replaced by an error.
    ShortResponse,
}

/// The bytes that an event counts beside its data.
const EVENT: usize = size_of::<Event>();
/// The longest response that is never replaced by an error, and the most bytes of such an error.
const SHORT: usize = 512;
/// The bytes of a response that is never dropped.
#[cfg(feature = "server")]
pub(crate) const SHORT_RESPONSE: usize = SHORT + EVENT;

impl Part {
    pub(crate) fn of(data: &[u8]) -> Self {
        match call_of(data) {
            None => Self::Nothing,
            Some((_, true)) => Self::Request,
            Some(_) if data.len() > SHORT => Self::Response,
            Some(_) => Self::ShortResponse,
        }
    }
}

impl Store {
    pub(crate) const fn new(most_bytes: usize) -> Self {
        Self { events: VecDeque::new(), bytes: 0, most_bytes }
    }

    /// Returns the bytes that the events count.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Keeps an event, and drops others for which there is no room. Returns the requests among them that were unsent.
    pub(crate) fn keep(
        &mut self,
        id: EventId,
        data: Vec<u8>,
        part: Part,
        is_unsent: impl Fn(EventId) -> bool,
    ) -> Vec<WireId> {
        self.bytes += data.len() + EVENT;
        self.events.push_back(Event { id, data, part });
        self.shrink(self.most_bytes, is_unsent)
    }

    /// Drops events above a number of bytes: those that were sent, then those that have no part in a call, then the others.
    /// Returns the requests among the last. A response is replaced by an error, so that no call waits for ever.
    pub(crate) fn shrink(
        &mut self,
        most_bytes: usize,
        is_unsent: impl Fn(EventId) -> bool,
    ) -> Vec<WireId> {
        let mut lost = Vec::new();
        while let Some(oldest) = self.events.front() {
            if self.bytes <= most_bytes || is_unsent(oldest.id) {
                break;
            }
            self.bytes -= oldest.data.len() + EVENT;
            self.events.pop_front();
        }
        self.drop_above(most_bytes, |it| !is_unsent(it.id));
        self.drop_above(most_bytes, |it| it.part == Part::Nothing);
        while self.bytes > most_bytes {
            // The longest, so that few calls are lost.
            let events = self.events.iter().enumerate();
            let long = events.filter(|(_, it)| it.part != Part::ShortResponse);
            let Some((at, _)) = long.max_by_key(|(_, it)| it.data.len()) else { break };
            let Some(Event { id, data, .. }) = self.events.remove(at) else { break };
            self.bytes -= data.len() + EVENT;
            match call_of(&data) {
                Some((call, true)) => lost.push(call),
                Some((call, false)) => {
                    let data = Refusal::LOST.body(Some(&call), &[], None).into_bytes();
                    self.bytes += data.len() + EVENT;
                    self.events.insert(at, Event { id, data, part: Part::ShortResponse });
                }
                None => {}
            }
        }
        lost
    }

    /// Drops the oldest of some events, as long as there are more bytes than these.
    fn drop_above(&mut self, most_bytes: usize, may_go: impl Fn(&Event) -> bool) {
        if self.bytes <= most_bytes {
            return;
        }
        let bytes = &mut self.bytes;
        self.events.retain(|it| {
            let goes = *bytes > most_bytes && may_go(it);
            *bytes -= if goes { it.data.len() + EVENT } else { 0 };
            !goes
        });
    }

    /// Returns the events of an exchange after this one that are kept.
    pub(crate) fn after(&self, last: EventId) -> impl Iterator<Item = (EventId, &[u8])> {
        let is_after = move |id: EventId| id.exchange == last.exchange && id.number > last.number;
        self.events.iter().filter(move |it| is_after(it.id)).map(|it| (it.id, &*it.data))
    }

    /// Returns the exchange of each unsent event that has a part in a call.
    pub(crate) fn calls(&self, is_unsent: impl Fn(EventId) -> bool) -> impl Iterator<Item = u64> {
        let calls = self.events.iter().filter(|it| it.part != Part::Nothing).map(|it| it.id);
        calls.filter(move |id| is_unsent(*id)).map(|id| id.exchange)
    }

    /// Returns whether none of the events after this one was dropped.
    ///
    /// `latest` is the number of the last event of an exchange that is open. Of one that is over only the kept events are
    /// known, and the last one is among them if any is.
    pub(crate) fn has_all_after(&self, last: EventId, latest: Option<u64>) -> bool {
        let kept = self.events.iter().map(|it| it.id).filter(|it| it.exchange == last.exchange);
        let latest = latest.or_else(|| kept.clone().next_back().map(|id| id.number));
        let missed = latest.and_then(|latest| latest.checked_sub(last.number));
        missed == Some(kept.filter(|id| id.number > last.number).count() as u64)
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
            store.keep(id(7, number), Vec::from(*b"x"), Part::Nothing, |_| false);
        }
        assert_eq!(numbers(&store, id(7, 0), None), Some(Vec::from([1, 2, 3])));
        assert_eq!(numbers(&store, id(7, 3), None), Some(Vec::new()));
        assert_eq!(numbers(&store, id(7, 4), None), None, "it was never sent");
        store.keep(id(8, 1), Vec::from(*b"x"), Part::Nothing, |_| false);
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
            store.keep(id(7 + number % 2, number), Vec::from(*b"x"), Part::Nothing, is_unsent);
        }
        assert_eq!(numbers(&store, id(7, 1), Some(2)), Some(Vec::from([2])));
        assert_eq!(numbers(&store, id(8, 2), Some(3)), Some(Vec::from([3])));
        for number in 4..=5 {
            store.keep(id(7, number), Vec::from(*b"x"), Part::Nothing, is_unsent);
        }
        assert_eq!(numbers(&store, id(7, 3), Some(5)), Some(Vec::from([4, 5])));
    }
}
