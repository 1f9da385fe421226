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

/// The events of one session, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Store {
    events: VecDeque<Event>,
    /// The bytes that the events count.
    pub(crate) bytes: usize,
}

/// An event that is kept.
#[derive(Clone, Debug)]
struct Event {
    id: EventId,
    data: Vec<u8>,
    /// Whether it is a request or a response that may have to wait for a stream.
    is_call: bool,
    /// Whether it is a response that is never dropped, since an error in its place is no shorter.
    is_short: bool,
    /// Whether it was sent on a stream. In ACP an unsent response is all that tells its client how the request ended.
    is_sent: bool,
}

/// The bytes that an event counts beside its data.
const EVENT: usize = size_of::<Event>();
/// The most bytes of an error in place of a response, or of a response that is no longer, beside its id.
#[cfg(feature = "server")]
pub(crate) const SHORT_RESPONSE: usize = 512 + EVENT;

impl Store {
    /// Keeps an event. Those for which there is no room are dropped by [`shrink`](Self::shrink).
    pub(crate) fn keep(&mut self, id: EventId, data: Vec<u8>, is_call: bool, is_sent: bool) {
        self.bytes += data.len() + EVENT;
        self.events.push_back(Event { id, data, is_call, is_short: false, is_sent });
    }

    /// Drops events above a number of bytes: those that were sent, then those that have no part in a call, then the others.
    /// Returns the requests among the last. A response is replaced by an error, so that no call waits for ever.
    ///
    /// If streams are not shared, the oldest events go first, because no client may ever ask for the unsent ones.
    pub(crate) fn shrink(&mut self, most_bytes: usize, is_shared: bool) -> Vec<WireId> {
        let mut lost = Vec::new();
        self.drop_above(most_bytes, |it| it.is_sent || !is_shared);
        self.drop_above(most_bytes, |it| !it.is_call);
        while self.bytes > most_bytes {
            // The newest first, so that what has found room keeps it.
            let Some(at) = self.events.iter().rposition(|it| !it.is_short) else { break };
            let event = &mut self.events[at];
            self.bytes -= event.data.len() + EVENT;
            match call_of(&event.data) {
                Some((call, false)) => {
                    let error = Refusal::LOST.body(Some(&call), &[], None).into_bytes();
                    if error.len() < event.data.len() {
                        event.data = error;
                    }
                    event.is_short = true;
                    self.bytes += event.data.len() + EVENT;
                }
                request => {
                    lost.extend(request.map(|(call, _)| call));
                    self.events.remove(at);
                }
            }
        }
        lost
    }

    /// Drops the oldest of some events, as long as there are more bytes than these.
    fn drop_above(&mut self, most_bytes: usize, may_go: impl Fn(&Event) -> bool) {
        while self.bytes > most_bytes && self.events.front().is_some_and(&may_go) {
            let gone = self.events.pop_front();
            self.bytes -= gone.map_or(0, |it| it.data.len() + EVENT);
        }
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

    /// Marks as sent, and returns, the events of an exchange after this number, or else the unsent ones.
    pub(crate) fn send(&mut self, exchange: u64, after: Option<u64>) -> Vec<(EventId, Vec<u8>)> {
        let its = self.events.iter_mut().filter(|it| it.id.exchange == exchange);
        let these = its.filter(|it| after.map_or(!it.is_sent, |after| it.id.number > after));
        let sent = these.map(|it| {
            it.is_sent = true;
            (it.id, it.data.clone())
        });
        sent.collect()
    }

    /// Returns the exchange of each part of a call that was not sent.
    pub(crate) fn unsent_calls(&self) -> impl Iterator<Item = u64> {
        self.events.iter().filter(|it| it.is_call && !it.is_sent).map(|it| it.id.exchange)
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

    fn keep(store: &mut Store, id: EventId, most: usize, is_sent: bool) {
        store.keep(id, Vec::from(*b"x"), false, is_sent);
        store.shrink(most, true);
    }

    fn numbers(store: &Store, last: EventId, latest: Option<u64>) -> Option<Vec<u64>> {
        let sent = || store.clone().send(last.exchange, Some(last.number));
        let has_all = store.has_all_after(last, latest);
        has_all.then(|| sent().into_iter().map(|(id, _)| id.number).collect())
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
        let (mut store, most) = (Store::default(), 3 * (EVENT + 1));
        for number in 1..=3 {
            keep(&mut store, id(7, number), most, true);
        }
        assert_eq!(numbers(&store, id(7, 0), None), Some(Vec::from([1, 2, 3])));
        assert_eq!(numbers(&store, id(7, 3), None), Some(Vec::new()));
        assert_eq!(numbers(&store, id(7, 4), None), None, "it was never sent");
        keep(&mut store, id(8, 1), most, true);
        assert_eq!(numbers(&store, id(7, 0), None), None, "the first one is gone");
        assert_eq!(numbers(&store, id(7, 1), Some(3)), Some(Vec::from([2, 3])));
        assert_eq!(numbers(&store, id(9, 0), Some(0)), Some(Vec::new()));
        assert_eq!(numbers(&store, id(9, 0), None), None);
    }

    #[test]
    fn an_unsent_event_outlives_the_sent_ones_and_goes_only_for_other_unsent_ones() {
        let (mut store, most) = (Store::default(), 2 * (EVENT + 1));
        for number in 1..=3 {
            keep(&mut store, id(7 + number % 2, number), most, number % 2 == 1);
        }
        assert_eq!(numbers(&store, id(7, 1), Some(2)), Some(Vec::from([2])));
        assert_eq!(numbers(&store, id(8, 2), Some(3)), Some(Vec::from([3])));
        for number in 4..=5 {
            keep(&mut store, id(7, number), most, false);
        }
        assert_eq!(numbers(&store, id(7, 3), Some(5)), Some(Vec::from([4, 5])));
    }

    #[test]
    fn where_streams_are_not_shared_the_oldest_event_goes_first() {
        let (mut store, most) = (Store::default(), 2 * (EVENT + 1));
        for number in 1..=3 {
            store.keep(id(7, number), Vec::from(*b"x"), false, number > 1);
            store.shrink(most, false);
        }
        assert_eq!(numbers(&store, id(7, 1), Some(3)), Some(Vec::from([2, 3])));
    }
}
