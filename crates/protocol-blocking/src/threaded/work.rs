//! A handler at work on one of our threads.

use std::time::Duration;

use protocol_async::hooks::unless_it_panics;
use protocol_async::{Arrival, CallError, Cancellation, Incoming};
use protocol_core::{CallOptions, Refusal, Shutdown};
use serde_json::value::RawValue;

use crate::answer;
use crate::handler::{Cancelled, Handler, Notification, Responder, report_failure};
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
    pub(super) fn serve(self, arrival: Arrival, handler: &(impl Handler + ?Sized)) {
        let _ = unless_it_panics(|| self.serve_arrival(arrival, handler));
    }

    fn serve_arrival(mut self, arrival: Arrival, handler: &(impl Handler + ?Sized)) {
        match arrival {
            Arrival::Request(request, responder) => {
                let rule =
                    responder.is_cancelled().then(|| responder.peer().dialect().before_start);
                let undoing = Some(Undoing::default());
                let at_work = &mut AtWork { responder: Some(&responder), undoing, ..self };
                let answer = responder.in_span(|| {
                    let answer = answer::answer(handler, &request, at_work, rule);
                    let failure = answer.as_ref().err();
                    if let Some(failure) = failure.filter(|it| !responder.is_cancellation(it)) {
                        report_failure(handler, &request, failure);
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

    /// Returns the marker of the request. That of a notification is never set.
    fn marker(&self) -> Cancellation {
        self.responder.map(protocol_async::Responder::cancellation).unwrap_or_default()
    }
}

impl Responder for AtWork<'_, '_> {
    fn checkpoint(&mut self) -> Result<(), Cancelled> {
        (self.let_read)();
        self.marker().checkpoint()
    }

    fn sleep(&mut self, duration: Duration) -> Result<(), Cancelled> {
        (self.let_read)();
        let mut cancelled = self.marker().cancelled();
        block_on_for(&mut cancelled, duration).map_or(Ok(()), |cause| Err(Cancelled { cause }))
    }

    fn notify_raw(&mut self, method: &str, params: Option<&RawValue>) -> Result<(), Refusal> {
        let peer = self.incoming.peer();
        let sent = peer.try_notify_raw(method, params);
        if sent != Err(Refusal::OutboxFull) {
            return sent;
        }
        (self.let_read)();
        let sent = block_on(self.marker().unless_cancelled(peer.notify_raw(method, params)));
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
        let options = options.parent(self.responder.map(protocol_async::Responder::handle));
        block_on(self.incoming.peer().call_raw(method, params, options))
    }

    fn undoing(&mut self) -> Option<&mut Undoing> {
        self.undoing.as_mut()
    }
}
