//! Serving: arrivals are taken one by one, and handlers run while nothing is borrowed.

use std::io;
use std::time::Duration;

use protocol_async::CallError;
use protocol_async::hooks::unless_it_panics;
use protocol_core::{CallOptions, CloseReason, Refusal, RequestHandle, Response, Shutdown};
use protocol_endpoint::Arrived;
use serde_json::value::RawValue;

use super::host::{Endpoint, Host, Reading};
use super::transport::Transport;
use crate::answer;
use crate::handler::{BeforeStart, Cancelled, Handler, Notification, Responder, report_failure};
use crate::undo::Undoing;

impl<T: Transport> Host<T> {
    /// Serves until the connection closes, and every response is written.
    ///
    /// A closed peer that does not read is waited for, for
    /// [`Options::patience`](protocol_endpoint::Options::patience).
    ///
    /// # Errors
    ///
    /// Those of [`Transport::wait`]. A peer that hangs up is no error: see [`error`](Self::error).
    pub fn run(&mut self, handler: &(impl Handler + ?Sized)) -> io::Result<CloseReason> {
        loop {
            // Responses to requests that came together leave together.
            while self.serve_next(handler) {}
            self.settle();
            if self.can_serve() {
                continue;
            }
            if let Some(reason) = self.over()? {
                return Ok(reason);
            }
            self.turn(Reading::MayBlock, None);
        }
    }

    /// Takes one step of a loop of the host's own: reads what is there, serves at most one arrival, and
    /// writes. Returns `Some` once the connection is over.
    ///
    /// A step waits for nothing but that one handler, so the host's own work has its turn between two
    /// arrivals. [`wait`](Self::wait) waits for the next step, and returns at once while arrivals are
    /// queued. While a response has no room, nothing is served. Cancels are marked all the same. It needs a
    /// transport whose readiness is [`Told`](super::Readiness::Told): of any other it reads nothing.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub fn tick(&mut self, handler: &(impl Handler + ?Sized)) -> io::Result<Option<CloseReason>> {
        self.checkpoint();
        self.serve_next(handler);
        self.checkpoint();
        if self.endpoint.arrivals() == 0 { self.over() } else { Ok(None) }
    }

    /// Returns the reason for the end, once everything is written.
    fn over(&mut self) -> io::Result<Option<CloseReason>> {
        let reason = self.endpoint.closed().filter(|_| self.endpoint.is_over());
        self.failure.take().map_or(Ok(reason), Err)
    }

    /// Serves the next arrival. Returns whether there is one whose turn has come.
    fn serve_next(&mut self, handler: &(impl Handler + ?Sized)) -> bool {
        if !self.can_serve() {
            return false;
        }
        let Some(arrived) = self.with(Endpoint::take) else { return false };
        // A panic of the host's code or of its destructors ends here.
        let _ = unless_it_panics(|| self.serve_arrived(arrived, handler));
        true
    }

    fn serve_arrived(&mut self, arrived: Arrived, handler: &(impl Handler + ?Sized)) {
        match arrived {
            Arrived::Request(handle, request) => {
                // The endpoint has skipped those that the dialect has skipped.
                let cancelled = self.endpoint.cause(handle).map(|_| BeforeStart::Delivered);
                let undoing = Some(Undoing::default());
                let responder = &mut AtWork { host: self, request: Some(handle), undoing };
                let answer = answer::answer(handler, &request, responder, cancelled);
                let response = match &answer {
                    Ok(result) => Response::Result(result),
                    Err(failure) if self.endpoint.is_cancellation(handle, failure) => {
                        Response::Cancelled
                    }
                    Err(failure) => {
                        report_failure(handler, &request, failure);
                        failure.as_response()
                    }
                };
                self.with(|endpoint, effects| endpoint.respond(handle, response, effects));
            }
            Arrived::Notification(notification) => {
                let responder = &mut AtWork { host: self, request: None, undoing: None };
                if handler.notification(&notification, responder).is_break() {
                    self.shutdown(Shutdown::CancelAll);
                }
            }
            Arrived::Violation(violation, id) => handler.violation(violation, id.as_ref()),
            Arrived::Missed(_) => {}
        }
    }
}

/// The access of a handler to the host that runs it.
struct AtWork<'h, T> {
    host: &'h mut Host<T>,
    /// `None` for a notification, which can't be cancelled.
    request: Option<RequestHandle>,
    /// `None` for a notification, which has nothing to undo.
    undoing: Option<Undoing>,
}

impl<T: Transport> Responder for AtWork<'_, T> {
    fn checkpoint(&mut self) -> Result<(), Cancelled> {
        self.host.checkpoint();
        let cause = self.request.and_then(|request| self.host.endpoint.cause(request));
        cause.map_or(Ok(()), |cause| Err(Cancelled { cause }))
    }

    fn sleep(&mut self, duration: Duration) -> Result<(), Cancelled> {
        let end = self.host.clock.now() + duration;
        loop {
            self.checkpoint()?;
            let left = self.host.clock.until(end);
            if left.is_zero() {
                return Ok(());
            }
            self.host.turn(Reading::WhatIsThere, Some(left));
        }
    }

    fn notify_raw(&mut self, method: &str, params: Option<&RawValue>) -> Result<(), Refusal> {
        self.host.notify(method, params)
    }

    fn take_notification(&mut self, method: &str) -> Option<Notification> {
        self.host.endpoint.take_notification(method)
    }

    fn call_raw(
        &mut self,
        method: &str,
        params: Option<&RawValue>,
        options: CallOptions,
    ) -> Result<Box<RawValue>, CallError> {
        self.host.call(method, params, options.parent(self.request))
    }

    fn undoing(&mut self) -> Option<&mut Undoing> {
        self.undoing.as_mut()
    }
}
