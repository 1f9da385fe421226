//! The alarms that a host sets and clears.

use protocol_core::Timestamp;

use crate::alarms::AlarmId;
use crate::effects::{Effect, Effects};
use crate::state::Endpoint;

impl<W, M> Endpoint<W, M> {
    /// Sets an alarm, which wakes the waiter at this time.
    ///
    /// The endpoint is not over before all alarms went off or were cleared. [`memory`](Self::memory) counts one
    /// for each request.
    pub fn set_alarm(&mut self, due: Timestamp, waiter: W, effects: &mut Effects<W, M>) -> AlarmId {
        let alarm = self.alarms.set(due, waiter);
        self.follow(effects);
        alarm
    }

    /// Clears an alarm. Nothing happens if it went off.
    pub fn clear_alarm(&mut self, alarm: &AlarmId, effects: &mut Effects<W, M>) {
        let waiter = self.alarms.clear(alarm);
        effects.add(waiter.map(Effect::Drop));
        self.follow(effects);
    }

    /// Returns the waiter of an alarm, unless it went off.
    pub fn waiting_for_alarm(&self, alarm: &AlarmId) -> Option<&W> {
        self.alarms.waiting(alarm)
    }
}
