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

/// How a tool is called by its name alone: the method and the params of the request that starts its
/// operation. `None` if the method is one of the protocol, or starts none.
pub(super) fn of_tool(
    dialect: &Dialect,
    method: &str,
    params: Option<&RawValue>,
) -> Option<(Cow<'static, str>, Box<RawValue>)> {
    let CancelRule::Operation { starts, .. } = &dialect.cancel else { return None };
    let start = starts.first().filter(|_| !method.contains('/') && method != "initialize")?;
    let params = to_raw_value(&json!({ "name": method, "arguments": params })).ok()?;
    Some((start.clone(), params))
}

/// Cancels the operation whose token is the answer, when it is time or Ctrl-C comes, and says what
/// became of that. An answer without a token is what it is.
pub(super) fn cancel(
    dialect: &Dialect,
    peer: &Peer,
    answer: Box<RawValue>,
    due: Instant,
    interrupts: &Interrupts,
) -> Result<Box<RawValue>, CallError> {
    let CancelRule::Operation { method, token, .. } = &dialect.cancel else { return Ok(answer) };
    let said: serde_json::Value = serde_json::from_str(answer.get()).unwrap_or_default();
    let Some(value) = said.get(&**token) else { return Ok(answer) };
    while interrupts.first_cancel().is_none() {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            interrupts.cancelled(Instant::now());
            break;
        }
        thread::sleep(left.min(Duration::from_millis(10)));
    }
    let cancelled: SentRequest = peer.call(method, json!({ &**token: value }));
    cancelled.wait()?;
    Err(CallError::Cancelled { cause: Cause::Caller, error: None })
}
