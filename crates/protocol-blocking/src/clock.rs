use std::time::{Duration, Instant};

use protocol_core::Timestamp;

/// The clock of one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn now(self) -> Timestamp {
        Timestamp::ZERO + self.0.elapsed()
    }

    /// Returns the time until `due`, or zero if that has passed.
    pub(crate) fn until(self, due: Timestamp) -> Duration {
        due.since(self.now())
    }
}
