//! The end of a call, in all of its ways.

use std::time::Instant;

use protocol_async::CallError;
use serde_json::value::RawValue;

/// The end of one run.
pub(super) enum Ended {
    /// There is no server to talk to.
    Failed(String),
    /// The time was over before the call could be sent.
    TimedOut(Instant),
    /// Ctrl-C came before the call could be sent.
    GaveUp,
    Called(Called),
}

/// The outcome of the call.
pub(super) struct Called {
    pub(super) outcome: Result<Box<RawValue>, CallError>,
    /// When its cancel was sent, and when it settled.
    pub(super) cancelled: Option<Instant>,
    pub(super) sent: Instant,
    pub(super) settled: Instant,
    pub(super) gave_up: bool,
    /// Whether the server said that it has cancelled a call which settles without an error.
    pub(super) acknowledged: bool,
}

impl Called {
    pub(super) fn not_sent(error: CallError) -> Self {
        let now = Instant::now();
        Self {
            outcome: Err(error),
            cancelled: None,
            sent: now,
            settled: now,
            gave_up: false,
            acknowledged: false,
        }
    }
}
