//! Running a handler on one request: its response, and undoing what it did if it fails.

use std::time::{Duration, Instant};

use protocol_async::hooks::{run_handler, unless_it_panics};
use protocol_async::{UndoEnd, Undone};

use crate::handler::{Answer, BeforeStart, Failure, Handler, Request, Responder};
use crate::undo::Undo;

/// Longer than any step takes. A later [`Instant`] may not exist.
const FOREVER: Duration = Duration::from_secs(u32::MAX as u64);

/// Runs a handler on one request, unless that was cancelled already: then there is the dialect's rule for it. A
/// panic is an answer (B33).
pub(crate) fn answer<H: Handler + ?Sized>(
    handler: &H,
    request: &Request,
    responder: &mut dyn Responder,
    cancelled: Option<BeforeStart>,
) -> Answer {
    let rule = |rule| match rule {
        BeforeStart::Delivered => handler.cancelled_before_start(request),
        rule => rule,
    };
    let run = || match cancelled.map(rule) {
        Some(BeforeStart::Skipped) => Err(Failure::Cancelled),
        _ => undoing(handler, request, responder),
    };
    run_handler(&request.method, run, Err)
}

/// Runs a handler on one request, and undoes what it did if it fails.
fn undoing<H: Handler + ?Sized>(
    handler: &H,
    request: &Request,
    responder: &mut dyn Responder,
) -> Answer {
    if let Some(undoing) = responder.undoing() {
        undoing.limits = handler.undo_limits();
    }
    let answer = run_handler(&request.method, || handler.request(request, responder), Err);
    let Some(undoing) = responder.undoing() else { return answer };
    let mut left = undoing.stack.end();
    if answer.is_ok() {
        while let Some(kept) = left.pop() {
            let _ = unless_it_panics(|| drop(kept));
        }
        return answer;
    }
    if !left.is_empty() {
        // Another thread reads meanwhile. The request may be cancelled, which changes nothing any more.
        let _ = responder.checkpoint();
    }
    while let Some((Undo { step, .. }, time)) = left.pop() {
        let (number, until) = (left.len() + 1, Instant::now() + time.min(FOREVER));
        let done = run_handler(&request.method, || step(until), Err);
        let mut undone = Undone::of(number, done);
        if undone.is_done() && Instant::now() > until {
            undone.end = UndoEnd::OutOfTime;
        }
        let _ = unless_it_panics(|| handler.undone(request, &undone));
        let _ = unless_it_panics(|| drop(undone));
    }
    answer
}
