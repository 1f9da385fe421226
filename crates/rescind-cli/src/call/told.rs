//! The output of `--json`: one object, however the call ended. Its members are named as in a recording.

use std::process::ExitStatus;
use std::time::{Duration, Instant};

use protocol_async::{CallError, RpcError};
use serde::Serialize;
use serde_json::value::RawValue;

use super::ended::Ended;

/// The outcome of a call. Times are whole microseconds.
#[derive(Debug, Default, Serialize)]
pub(super) struct Told<'a> {
    pub(super) method: &'a str,
    pub(super) outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cause: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) result: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<Error<'a>>,
    /// More in words, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) why: Option<String>,
    /// From the call to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) duration: Option<u64>,
    /// From the call to its cancel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cancelled: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cancel_to_settle: Option<u64>,
    /// From the start of the program to the end of the call.
    pub(super) total: u64,
    pub(super) notifications: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) server: Option<ServerEnd>,
    pub(super) exit_code: u8,
}

/// A peer's error.
#[derive(Debug, Serialize)]
pub(super) struct Error<'a> {
    code: i64,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a RawValue>,
}

/// The end of a server that we started.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ServerEnd {
    Code(i32),
    #[cfg(unix)]
    Signal(i32),
}

impl<'a> Told<'a> {
    /// Returns the facts that follow from how a call ended. Those of its circumstances are empty.
    pub(super) fn of(ended: &'a Ended, begun: Instant, waits_for: &str) -> Self {
        let at = match ended {
            Ended::Called(called) => called.settled,
            Ended::TimedOut(at) => *at,
            Ended::Failed(_) | Ended::GaveUp => Instant::now(),
        };
        let waits = || Some(format!("waiting for {waits_for}"));
        let (outcome, cause, why) = match ended {
            Ended::Failed(error) => ("unreachable", None, Some(error.clone())),
            Ended::TimedOut(_) => ("timed_out", Some("deadline"), waits()),
            Ended::GaveUp => ("cancelled", Some("caller"), waits()),
            Ended::Called(called) => match &called.outcome {
                Ok(_) => ("result", None, None),
                Err(error) => outcome(error),
            },
        };
        let total = microseconds(at - begun);
        let mut told = Self { outcome, cause, why, total, ..Self::default() };
        let Ended::Called(called) = ended else { return told };
        match &called.outcome {
            Ok(result) => told.result = Some(result),
            Err(CallError::Error(error) | CallError::Cancelled { error: Some(error), .. }) => {
                told.error = Some(Error::of(error));
            }
            Err(_) => {}
        }
        told.duration = Some(microseconds(called.settled - called.sent));
        told.cancelled = called.cancelled.map(|at| microseconds(at - called.sent));
        told.cancel_to_settle = called.cancelled.map(|at| microseconds(called.settled - at));
        told
    }
}

impl<'a> Error<'a> {
    fn of(error: &'a RpcError) -> Self {
        Self { code: error.code, message: &error.message, data: error.data.as_deref() }
    }
}

/// The outcome, its cause, and more in words.
fn outcome(error: &CallError) -> (&'static str, Option<&'static str>, Option<String>) {
    match error {
        CallError::Error(_) => ("error", None, None),
        CallError::Cancelled { cause, .. } => ("cancelled", Some(cause.as_str()), None),
        CallError::TimedOut { cause } => ("timed_out", Some(cause.as_str()), None),
        CallError::ConnectionLost { cause, how } => {
            ("connection_lost", Some(cause.as_str()), how.as_deref().map(Into::into))
        }
        CallError::Malformed => ("malformed", None, None),
        other => ("connection_lost", None, Some(other.to_string())),
    }
}

impl ServerEnd {
    pub(super) fn of(status: ExitStatus) -> Option<Self> {
        #[cfg(unix)]
        if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
            return Some(Self::Signal(signal));
        }
        status.code().map(Self::Code)
    }
}

fn microseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
