//! A handler at work on one of our threads.

use std::thread;
use std::time::Duration;

use protocol_async::{Arrival, CallError, Incoming, Peer};
use protocol_core::{CallOptions, Refusal, Shutdown};
use serde_json::value::RawValue;

use crate::handler::{self, BeforeStart, Cancelled, Handler, Notification, Responder};
use crate::park::{block_on, block_on_for};

/// Serves one arrival.
pub(super) fn serve(
    incoming: &Incoming,
    arrival: Arrival,
    handler: &(impl Handler + ?Sized),
    rule: BeforeStart,
    at_desk: Option<AtDesk<'_, '_>>,
) {
    match arrival {
        Arrival::Request(request, responder) => {
            let peer = responder.peer();
            let cancelled = responder.cancellation().cause();
            let mut at_work = AtWork { incoming, peer, responder: Some(&responder), at_desk };
            let answer = responder
                .in_span(|| handler::answer(handler, &request, &mut at_work, cancelled, rule));
            responder.answer(answer);
        }
        Arrival::Notification(notification) => {
            let mut at_work = AtWork { incoming, peer: incoming.peer(), responder: None, at_desk };
            if handler::notify(handler, &notification, &mut at_work).is_break() {
                incoming.peer().shutdown(Shutdown::CancelAll);
            }
        }
        Arrival::Violation { violation, id } => handler::report(handler, violation, id.as_ref()),
        _ => {}
    }
}

/// The desk that a handler works at.
pub(super) struct AtDesk<'s, 'r> {
    /// Takes a notification ahead of its turn.
    pub(super) take_notification: &'s dyn Fn(&str) -> Option<Notification>,
    /// Lets another thread read, if the calling thread does.
    pub(super) let_read: Option<&'s mut (dyn FnMut() + 'r)>,
}

/// The powers of a handler on one of our threads.
struct AtWork<'s, 'r> {
    incoming: &'s Incoming,
    peer: Peer,
    /// `None` for a notification, which can't be cancelled.
    responder: Option<&'s protocol_async::Responder>,
    at_desk: Option<AtDesk<'s, 'r>>,
}

impl AtWork<'_, '_> {
    /// Lets another thread read: the handler is about to ask for what only reading brings.
    fn let_read(&mut self) {
        let at_desk = self.at_desk.as_mut();
        if let Some(let_read) = at_desk.and_then(|at_desk| at_desk.let_read.take()) {
            let_read();
        }
    }
}

impl Responder for AtWork<'_, '_> {
    fn checkpoint(&mut self) -> Result<(), Cancelled> {
        self.let_read();
        self.responder.map_or(Ok(()), |responder| responder.cancellation().checkpoint())
    }

    fn sleep(&mut self, duration: Duration) -> Result<(), Cancelled> {
        self.let_read();
        let Some(responder) = self.responder else {
            thread::sleep(duration);
            return Ok(());
        };
        let mut cancelled = responder.cancellation().cancelled();
        block_on_for(&mut cancelled, duration).map_or(Ok(()), |cause| Err(Cancelled { cause }))
    }

    fn notify(&mut self, method: &str, params: Option<&RawValue>) -> Result<(), Refusal> {
        self.peer.try_notify_raw(method, params)
    }

    fn take_notification(&mut self, method: &str) -> Option<Notification> {
        self.let_read();
        match &self.at_desk {
            Some(at_desk) => (at_desk.take_notification)(method),
            None => self.incoming.take_notification(method),
        }
    }

    fn call(
        &mut self,
        method: &str,
        params: Option<&RawValue>,
        options: CallOptions,
    ) -> Result<Box<RawValue>, CallError> {
        self.let_read();
        let options = match self.responder {
            Some(responder) => options.parent(responder.handle()),
            None => options,
        };
        block_on(self.peer.call_raw(method, params, options))
    }
}
