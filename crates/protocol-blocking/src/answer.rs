//! Running a handler on one request: its response, and undoing what it did if it fails.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use protocol_async::hooks::{UndoStack, UndoStep};
use protocol_async::{CallError, UndoEnd, UndoLimits, UndoRefused, Undone};
use protocol_core::{CallOptions, Cause, Refusal, Timestamp};
use serde_json::value::RawValue;

use crate::handler::{
    Answer, BeforeStart, Cancelled, Failure, Handler, Notification, Request, Responder,
    unless_it_panics,
};
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
pub(crate) fn undoing<H: Handler + ?Sized>(
    handler: &H,
    request: &Request,
    responder: &mut dyn Responder,
) -> Answer {
    let limits = handler.undo_limits();
    let mut undoable = Undoable { responder, limits, stack: UndoStack::new() };
    let answer = || handler.request(request, &mut undoable);
    let answer = catch_unwind(AssertUnwindSafe(answer))
        .unwrap_or_else(|panic| Err(Failure::panicked(&request.method, &*panic)));
    let mut left = undoable.stack.end();
    if answer.is_ok() {
        while let Some(kept) = left.next(Timestamp::ZERO) {
            let _ = unless_it_panics(|| drop(kept));
        }
        return answer;
    }
    if !left.is_empty() {
        // Another thread reads meanwhile. The request may be cancelled, which changes nothing any more.
        let _ = undoable.responder.checkpoint();
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

/// The powers of a handler whose work can be undone.
struct Undoable<'r> {
    responder: &'r mut dyn Responder,
    limits: UndoLimits,
    stack: UndoStack<Undo>,
}

impl Responder for Undoable<'_> {
    fn checkpoint(&mut self) -> Result<(), Cancelled> {
        self.responder.checkpoint()
    }

    fn sleep(&mut self, duration: Duration) -> Result<(), Cancelled> {
        self.responder.sleep(duration)
    }

    fn notify(&mut self, method: &str, params: Option<&RawValue>) -> Result<(), Refusal> {
        self.responder.notify(method, params)
    }

    fn take_notification(&mut self, method: &str) -> Option<Notification> {
        self.responder.take_notification(method)
    }

    fn call(
        &mut self,
        method: &str,
        params: Option<&RawValue>,
        options: CallOptions,
    ) -> Result<Box<RawValue>, CallError> {
        self.responder.call(method, params, options)
    }

    fn undo_with(&mut self, undo: Undo) -> Result<(), UndoRefused> {
        let time = undo.time;
        self.stack.push(undo, time, self.limits).map_err(|(refused, _)| refused)
    }
}
