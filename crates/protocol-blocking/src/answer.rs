//! Running a handler on one request: its response, and undoing what it did if it fails.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use protocol_async::hooks::UndoStep;
use protocol_async::{UndoEnd, Undone};
use protocol_core::{Cause, Timestamp};

use crate::handler::{Answer, BeforeStart, Failure, Handler, Request, Responder, unless_it_panics};
use crate::undo::Undo;

/// Runs a handler on one request, unless that was cancelled already; a panic is an answer (B33).
pub(crate) fn answer<H: Handler + ?Sized>(
    handler: &H,
    request: &Request,
    responder: &mut dyn Responder,
    cancelled: Option<Cause>,
    rule: BeforeStart,
) -> Answer {
    let answer = || {
        if cancelled.is_some() {
            let skips = |rule| rule == BeforeStart::Skipped;
            if skips(rule) || skips(handler.cancelled_before_start(request)) {
                return Err(Failure::Cancelled);
            }
        }
        undoing(handler, request, responder)
    };
    catch_unwind(AssertUnwindSafe(answer))
        .unwrap_or_else(|panic| Err(Failure::panicked(&request.method, &*panic)))
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
    let answer = catch_unwind(AssertUnwindSafe(|| handler.request(request, responder)))
        .unwrap_or_else(|panic| Err(Failure::panicked(&request.method, &*panic)));
    let Some(undoing) = responder.undoing() else { return answer };
    let mut left = undoing.stack.end();
    if answer.is_ok() {
        while let Some(kept) = left.next(Timestamp::ZERO) {
            let _ = unless_it_panics(|| drop(kept));
        }
        return answer;
    }
    if !left.is_empty() {
        // Another thread reads meanwhile. The request may be cancelled, which changes nothing any more.
        let _ = responder.checkpoint();
    }
    // The clock of a step is the thread's: its time begins at zero.
    while let Some(UndoStep { step: Undo { step, .. }, number, due }) = left.next(Timestamp::ZERO) {
        let until = Instant::now() + due.since(Timestamp::ZERO);
        let undone = catch_unwind(AssertUnwindSafe(|| step(until)))
            .unwrap_or_else(|panic| Err(Failure::panicked(&request.method, &*panic)));
        let mut undone = Undone::of(number, undone);
        if undone.is_done() && Instant::now() > until {
            undone.end = UndoEnd::OutOfTime;
        }
        let _ = unless_it_panics(|| handler.undone(request, &undone));
    }
    answer
}
