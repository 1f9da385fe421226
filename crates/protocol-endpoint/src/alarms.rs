//! Alarms: waiters for a time of the host's own.

use protocol_core::Timestamp;

use crate::effects::{Effect, Effects};
use crate::state::Endpoint;

/// The name of an alarm that is set.
#[derive(Debug, PartialEq, Eq)]
pub struct AlarmId((Timestamp, u64));

impl<W, M> Endpoint<W, M> {
    /// Sets an alarm, which wakes the waiter at this time.
    ///
    /// The endpoint is not over before all alarms went off or were cleared. [`memory`](Self::memory) counts one
    /// for each request.
    pub fn set_alarm(&mut self, due: Timestamp, waiter: W, effects: &mut Effects<W, M>) -> AlarmId {
        self.last_alarm += 1;
        let alarm = (due, self.last_alarm);
        self.alarms.insert(alarm, waiter);
        self.follow(effects);
        AlarmId(alarm)
    }

    /// Clears an alarm. Nothing happens if it went off.
    pub fn clear_alarm(&mut self, alarm: &AlarmId, effects: &mut Effects<W, M>) {
        effects.add(self.alarms.remove(&alarm.0).map(Effect::Drop));
        self.follow(effects);
    }

    /// Returns the waiter of an alarm, unless it went off.
    pub fn waiting_for_alarm(&self, alarm: &AlarmId) -> Option<&W> {
        self.alarms.get(&alarm.0)
    }

    /// Returns the time of the next alarm.
    pub(crate) fn alarm_due(&self) -> Option<Timestamp> {
        self.alarms.first_key_value().map(|((due, _), _)| *due)
    }

    /// Wakes the waiters whose time has come.
    pub(crate) fn wake_alarms(&mut self, effects: &mut Effects<W, M>) {
        while self.alarm_due().is_some_and(|due| due <= self.now) {
            effects.wake(self.alarms.pop_first().map(|(_, waiter)| waiter));
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use heap::Heap;
    use protocol_core::{Config, Dialect};

    use super::*;
    use crate::options::Options;

    fn endpoint<W>() -> Endpoint<W, ()> {
        Endpoint::new(Options::new(Config::server(Dialect::ACP_V1)))
    }

    fn at(nanos: u64) -> Timestamp {
        Timestamp::ZERO + Duration::from_nanos(nanos)
    }

    #[test]
    fn alarms_go_off_in_the_order_of_their_times_and_no_earlier() {
        let (mut endpoint, mut effects) = (endpoint(), Effects::new());
        let set = [30, 10, 20, 10].map(|due| endpoint.set_alarm(at(due), due, &mut effects));
        endpoint.clear_alarm(&set[2], &mut effects);
        assert_eq!(effects.drain().count(), 1, "its waiter is given back");
        assert_eq!(endpoint.handle_timeout(at(29), &mut effects), Some(at(30)));
        assert_eq!(effects.drain().count(), 2);
        assert_eq!(endpoint.waiting_for_alarm(&set[1]), None);
        assert_eq!(endpoint.waiting_for_alarm(&set[0]), Some(&30));
    }

    #[test]
    fn g08_no_alarm_takes_more_than_its_row() {
        let (mut endpoint, mut effects) = (endpoint(), Effects::new());
        let heap = Heap::of_thread();
        for due in 0..897 {
            endpoint.set_alarm(at(due), (), &mut effects);
        }
        let (peak, most) = (heap.peak(), 897 * 3 * size_of::<(AlarmId, ())>());
        assert!(peak <= most, "{peak} bytes were held, and {most} counted");
    }
}
