//! A handler at work on one of our threads.

use std::thread;
use std::time::Duration;

use protocol_async::{Arrival, CallError, Incoming};
use protocol_core::{CallOptions, Refusal, Shutdown};
use serde_json::value::RawValue;

use crate::answer;
use crate::handler::{BeforeStart, Cancelled, Handler, Notification, Responder};
use crate::handler::{report_failure, unless_it_panics};
use crate::park::{block_on, block_on_for};
use crate::undo::Undoing;

/// The powers of a handler on one of our threads.
pub(super) struct AtWork<'s, 'r> {
    pub(super) incoming: &'s Incoming,
    /// Takes a notification ahead of its turn.
    pub(super) take_notification: &'s dyn Fn(&str) -> Option<Notification>,
    /// Lets another thread read, if the calling thread does: the handler is about to ask for what only
    /// reading brings.
    pub(super) let_read: &'s mut (dyn FnMut() + 'r),
    /// `None` for a notification, which can't be cancelled.
    pub(super) responder: Option<&'s protocol_async::Responder>,
    /// `None` for a notification, which has nothing to undo.
    pub(super) undoing: Option<Undoing>,
}

impl AtWork<'_, '_> {
    /// Serves one arrival. A panic of the host's code or of its destructors ends with it.
    pub(super) fn serve(
        self,
        arrival: Arrival,
        handler: &(impl Handler + ?Sized),
        rule: BeforeStart,
    ) {
        let _ = unless_it_panics(|| self.serve_arrival(arrival, handler, rule));
    }

    fn serve_arrival(
        mut self,
        arrival: Arrival,
        handler: &(impl Handler + ?Sized),
        rule: BeforeStart,
    ) {
        match arrival {
            Arrival::Request(request, responder) => {
                let cancelled = responder.cancellation().cause();
                let undoing = Some(Undoing::default());
                let at_work = &mut AtWork { responder: Some(&responder), undoing, ..self };
                let answer = responder.in_span(|| {
                    let answer = answer::answer(handler, &request, at_work, cancelled, rule);
                    match &answer {
                        Err(failure) if !responder.is_cancellation(failure) => {
                            report_failure(handler, &request, failure);
                        }
                        _ => {}
                    }
                    answer
                });
                responder.answer(answer);
            }
            Arrival::Notification(notification) => {
                let flow = handler.notification(&notification, &mut self);
                if flow.is_break() {
                    self.incoming.peer().shutdown(Shutdown::CancelAll);
                }
            }
            Arrival::Violation { violation, id } => handler.violation(violation, id.as_ref()),
            _ => {}
        }
    }
}

impl Responder for AtWork<'_, '_> {
    fn checkpoint(&mut self) -> Result<(), Cancelled> {
        (self.let_read)();
        self.responder.map_or(Ok(()), |responder| responder.cancellation().checkpoint())
    }

    fn sleep(&mut self, duration: Duration) -> Result<(), Cancelled> {
        (self.let_read)();
        let Some(responder) = self.responder else {
            thread::sleep(duration);
            return Ok(());
        };
        let mut cancelled = responder.cancellation().cancelled();
        block_on_for(&mut cancelled, duration).map_or(Ok(()), |cause| Err(Cancelled { cause }))
    }

    fn notify_raw(&mut self, method: &str, params: Option<&RawValue>) -> Result<(), Refusal> {
        let peer = self.incoming.peer();
        let sent = peer.try_notify_raw(method, params);
        if sent != Err(Refusal::OutboxFull) {
            return sent;
        }
        (self.let_read)();
        let waiting = peer.notify_raw(method, params);
        let Some(responder) = self.responder else { return block_on(waiting) };
        let sent = block_on(responder.cancellation().unless_cancelled(waiting));
        sent.unwrap_or(Err(Refusal::Withheld))
    }

    fn take_notification(&mut self, method: &str) -> Option<Notification> {
        (self.let_read)();
        (self.take_notification)(method)
    }

    fn call_raw(
        &mut self,
        method: &str,
        params: Option<&RawValue>,
        options: CallOptions,
    ) -> Result<Box<RawValue>, CallError> {
        (self.let_read)();
        let options = match self.responder {
            Some(responder) => options.parent(responder.handle()),
            None => options,
        };
        block_on(self.incoming.peer().call_raw(method, params, options))
    }

    fn undoing(&mut self) -> Option<&mut Undoing> {
        self.undoing.as_mut()
    }
}
