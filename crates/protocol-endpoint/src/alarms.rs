//! Alarms: waiters for a time of the host's own.

use alloc::collections::BTreeMap;

use protocol_core::Timestamp;

use crate::effects::Effects;

/// The name of an alarm that is set.
#[derive(Debug, PartialEq, Eq)]
pub struct AlarmId(Key);

/// The time of an alarm, and its number.
type Key = (Timestamp, u64);

/// The alarms of an endpoint, in the order of their times. An alarm that went off is gone.
#[derive(Debug)]
pub(crate) struct Alarms<W> {
    set: BTreeMap<Key, W>,
    last: u64,
}

impl<W> Alarms<W> {
    /// The bytes of one alarm.
    pub(crate) const ROW: usize = size_of::<(Key, W)>();

    pub(crate) const fn new() -> Self {
        Self { set: BTreeMap::new(), last: 0 }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.set.is_empty()
    }

    /// Returns the time of the next alarm.
    pub(crate) fn due(&self) -> Option<Timestamp> {
        self.set.first_key_value().map(|((due, _), _)| *due)
    }

    pub(crate) fn set(&mut self, due: Timestamp, waiter: W) -> AlarmId {
        self.last += 1;
        self.set.insert((due, self.last), waiter);
        AlarmId((due, self.last))
    }

    /// Returns the waiter, unless it was woken.
    pub(crate) fn clear(&mut self, alarm: &AlarmId) -> Option<W> {
        self.set.remove(&alarm.0)
    }

    pub(crate) fn waiting(&self, alarm: &AlarmId) -> Option<&W> {
        self.set.get(&alarm.0)
    }

    /// Wakes the waiters whose time has come.
    pub(crate) fn go_off<M>(&mut self, now: Timestamp, effects: &mut Effects<W, M>) {
        while self.due().is_some_and(|due| due <= now) {
            effects.wake(self.set.pop_first().map(|(_, waiter)| waiter));
        }
    }
}

#[cfg(test)]
mod tests {
    use heap::Heap;

    use super::*;

    #[test]
    fn alarms_go_off_in_the_order_of_their_times_and_no_earlier() {
        let at = |nanos| Timestamp::ZERO + core::time::Duration::from_nanos(nanos);
        let (mut alarms, mut effects) = (Alarms::new(), Effects::<_, ()>::new());
        let set = [30, 10, 20, 10].map(|due| alarms.set(at(due), due));
        assert_eq!(alarms.clear(&set[2]), Some(20));
        alarms.go_off(at(29), &mut effects);
        assert_eq!((effects.drain().count(), alarms.due()), (2, Some(at(30))));
        assert_eq!((alarms.waiting(&set[1]), alarms.waiting(&set[0])), (None, Some(&30)));
    }

    #[test]
    fn g08_no_alarm_takes_more_than_its_row() {
        let heap = Heap::of_thread();
        let mut alarms = Alarms::new();
        for due in 0..897 {
            alarms.set(Timestamp::ZERO + core::time::Duration::from_nanos(due), ());
        }
        let (peak, most) = (heap.peak(), 897 * 3 * Alarms::<()>::ROW);
        assert!(peak <= most, "{peak} bytes were held, and {most} counted");
    }
}
