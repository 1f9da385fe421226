//! Calls that start an operation, which goes on after its token was the answer.

use std::borrow::Cow;
use std::thread;
use std::time::{Duration, Instant};

use protocol_async::CallError;
use protocol_blocking::threaded::{Peer, SentRequest, Wait};
use protocol_core::{CancelRule, Cause, Dialect};
use serde_json::json;
use serde_json::value::RawValue;

use super::attempt::Attempt;

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
    // A `Value` would round numbers.
    let arguments = params.map_or("null", RawValue::get);
    let params = format!(r#"{{"name":{},"arguments":{arguments}}}"#, json!(method));
    Some((start.clone(), RawValue::from_string(params).ok()?))
}

/// Cancels the operation whose token is the answer, and says what became of that.
///
/// It is cancelled when it is due, or earlier by Ctrl-C or by a notification. Once the time for everything is over it is
/// cancelled too, and nothing is waited for. The answer to the cancel is waited for no longer than the grace. An answer
/// without a token is what it is.
pub(super) fn cancel(
    dialect: &Dialect,
    peer: &Peer,
    answer: Box<RawValue>,
    due: Option<Instant>,
    attempt: &Attempt<'_>,
) -> Result<Box<RawValue>, CallError> {
    let CancelRule::Operation { method, token, .. } = &dialect.cancel else { return Ok(answer) };
    let said: serde_json::Value = serde_json::from_str(answer.get()).unwrap_or_default();
    let Some(value) = said.get(&**token) else { return Ok(answer) };
    let is_over = || attempt.left().is_some_and(|left| left.is_zero());
    let timed_out = CallError::TimedOut { cause: Cause::Deadline };
    let cancel = || -> SentRequest { peer.call(method, json!({ &**token: value })) };
    while attempt.interrupts.first_cancel().is_none() {
        if is_over() {
            cancel().detach();
            return Err(timed_out);
        }
        let now = Instant::now();
        if due.is_some_and(|due| due <= now) {
            attempt.interrupts.cancelled(now);
            attempt.report.cancelling();
            break;
        }
        let left = due.map_or(TICK, |due| due - now);
        thread::sleep(left.min(TICK));
    }
    let mut cancelled = cancel();
    let answered = match [attempt.left(), attempt.args.grace].into_iter().flatten().min() {
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
