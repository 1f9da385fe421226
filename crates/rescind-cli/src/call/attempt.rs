//! One run of the command: what is known before there is a server, and its end.

use std::time::{Duration, Instant};

use protocol_async::CallError;
use serde_json::value::RawValue;

use super::args::CallArgs;
use super::interrupts::Interrupts;
use super::report::Report;
use crate::record::Session;

/// One run of the command.
pub(super) struct Attempt<'a> {
    pub(super) args: &'a CallArgs,
    /// The notifications that are sent just before the call.
    pub(super) notifications: Vec<(&'a str, Box<RawValue>)>,
    pub(super) report: &'a Report,
    pub(super) recording: &'a Session,
    pub(super) interrupts: &'a Interrupts,
    /// When the time is over.
    pub(super) deadline: Option<Instant>,
}

impl Attempt<'_> {
    /// Whether nothing more is to be asked: the time is over, or the user has given up.
    pub(super) fn is_over(&self) -> bool {
        self.deadline.is_some_and(|at| at <= Instant::now()) || self.interrupts.gave_up_opening()
    }

    /// Returns the time that is left, if it is limited.
    pub(super) fn left(&self) -> Option<Duration> {
        self.deadline.map(|at| at.saturating_duration_since(Instant::now()))
    }
}

/// The reason that there is no server to talk to.
pub(super) enum Unreached {
    Usage(String),
    Failed(String),
    TimedOut,
    /// Ctrl-C came between two servers.
    GaveUp,
}

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
