//! Calls that start an operation, which goes on after its token was the answer.

use std::borrow::Cow;
use std::thread;
use std::time::{Duration, Instant};

use protocol_async::CallError;
use protocol_blocking::threaded::{Peer, SentRequest, Wait};
use protocol_core::{CancelRule, Cause, Dialect};
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use super::interrupts::Interrupts;
use super::report::Report;

/// The interval of looking whether it is time.
const TICK: Duration = Duration::from_millis(10);

/// The call of a tool by its name alone: the method and the params of the request that starts its
/// operation. `None` if the method is one of the protocol, or starts none.
pub(super) fn of_tool(
    dialect: &Dialect,
    method: &str,
    params: Option<&RawValue>,
) -> Option<(Cow<'static, str>, Box<RawValue>)> {
    let CancelRule::Operation { started_by, .. } = &dialect.cancel else { return None };
    let start = started_by.first().filter(|_| !method.contains('/') && method != "initialize")?;
    let params = to_raw_value(&json!({ "name": method, "arguments": params })).ok()?;
    Some((start.clone(), params))
}

/// When an operation is cancelled, and how long that may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// When it is time, unless Ctrl-C or a notification that cancels comes first.
    pub(super) due: Option<Instant>,
    /// When the time for everything is over: then it is cancelled too, and nothing is waited for.
    pub(super) deadline: Option<Instant>,
    /// The longest wait for the answer to the cancel.
    pub(super) grace: Option<Duration>,
}

/// Cancels the operation whose token is the answer, when it is time or Ctrl-C comes, and says what
/// became of that. An answer without a token is what it is.
pub(super) fn cancel(
    dialect: &Dialect,
    peer: &Peer,
    answer: Box<RawValue>,
    limits: Limits,
    (interrupts, report): (&Interrupts, &Report),
) -> Result<Box<RawValue>, CallError> {
    let CancelRule::Operation { method, token, .. } = &dialect.cancel else { return Ok(answer) };
    let said: serde_json::Value = serde_json::from_str(answer.get()).unwrap_or_default();
    let Some(value) = said.get(&**token) else { return Ok(answer) };
    let is_over = || limits.deadline.is_some_and(|at| at <= Instant::now());
    let timed_out = CallError::TimedOut { cause: Cause::Deadline };
    let cancel = || -> SentRequest { peer.call(method, json!({ &**token: value })) };
    while interrupts.first_cancel().is_none() {
        if is_over() {
            cancel().detach();
            return Err(timed_out);
        }
        let now = Instant::now();
        if limits.due.is_some_and(|due| due <= now) {
            interrupts.cancelled(now);
            report.cancelling();
            break;
        }
        let left = limits.due.map_or(TICK, |due| due - now);
        thread::sleep(left.min(TICK));
    }
    let mut cancelled = cancel();
    let left = limits.deadline.map(|at| at.saturating_duration_since(Instant::now()));
    let answered = match [left, limits.grace].into_iter().flatten().min() {
        None => Some(cancelled.wait()),
        Some(within) => {
            let answered = cancelled.wait_timeout(within);
            cancelled.detach();
            answered
        }
    };
    match answered {
        None if is_over() => Err(timed_out),
        Some(Err(error)) => Err(error),
        None | Some(Ok(_)) => Err(CallError::Cancelled { cause: Cause::Caller, error: None }),
    }
}
