//! Alarms: waiters for a time of the host's own.

use alloc::vec::Vec;

use protocol_core::Timestamp;

use crate::effects::Effects;

/// The name of an alarm that is set.
#[derive(Debug, PartialEq, Eq)]
pub struct AlarmId(u64);

/// The alarms of an endpoint. An alarm that went off is gone.
#[derive(Debug)]
pub(crate) struct Alarms<W> {
    /// The number, the time and the waiter of each.
    set: Vec<(u64, Timestamp, W)>,
    last: u64,
}

impl<W> Alarms<W> {
    /// The bytes of one alarm.
    pub(crate) const ROW: usize = size_of::<(u64, Timestamp, W)>();

    pub(crate) const fn new() -> Self {
        Self { set: Vec::new(), last: 0 }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.set.is_empty()
    }

    /// Returns the time of the next alarm.
    pub(crate) fn due(&self) -> Option<Timestamp> {
        self.set.iter().map(|(_, due, _)| *due).min()
    }

    pub(crate) fn set(&mut self, due: Timestamp, waiter: W) -> AlarmId {
        self.last += 1;
        self.set.push((self.last, due, waiter));
        AlarmId(self.last)
    }

    /// Returns the waiter, unless it was woken.
    pub(crate) fn clear(&mut self, alarm: &AlarmId) -> Option<W> {
        let index = self.set.iter().position(|(id, ..)| *id == alarm.0)?;
        Some(self.set.remove(index).2)
    }

    pub(crate) fn waiting(&self, alarm: &AlarmId) -> Option<&W> {
        self.set.iter().find(|(id, ..)| *id == alarm.0).map(|(.., waiter)| waiter)
    }

    /// Wakes the waiters whose time has come.
    pub(crate) fn go_off<M>(&mut self, now: Timestamp, effects: &mut Effects<W, M>) {
        while let Some(index) = self.set.iter().position(|(_, due, _)| *due <= now) {
            effects.wake(Some(self.set.remove(index).2));
        }
    }
}
