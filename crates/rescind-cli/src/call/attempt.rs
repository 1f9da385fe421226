//! One run of the command, as far as it is known before there is a server.

use std::time::{Duration, Instant};

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

impl From<String> for Unreached {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}
