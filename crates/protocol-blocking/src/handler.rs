//! The handlers that a host writes, the same for every way of running them.

use std::ops::ControlFlow;
use std::time::Duration;

use protocol_async::hooks::{HandlerFailed, StandardError, clip, unless_it_panics, written};
pub use protocol_async::{
    Answer, Cancelled, Failure, Internal, InvalidParams, Notification, Request,
};
use protocol_async::{CallError, UndoLimits, UndoRefused, Undone};
pub use protocol_core::BeforeStart;
#[cfg(doc)]
use protocol_core::Shutdown;
use protocol_core::{CallOptions, Refusal, Violation, WireId};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::undo::{Undo, Undoing};

/// The place for trouble that no handler of this process takes.
static STANDARD_ERROR: StandardError = StandardError::new("the methods of Handler");

/// Serves what the peer sends. A panic in one of its methods harms nothing but the message at hand.
///
/// By default, trouble is written on standard error, a hundred lines in a process: what
/// [`violation`](Self::violation), [`invalid_params`](Self::invalid_params), [`failed`](Self::failed) and
/// [`undone`](Self::undone) see.
///
/// A closure `Fn(&Request, &mut dyn Responder) -> Answer` is a handler that ignores notifications.
pub trait Handler {
    /// Answers a request. Long work calls [`Responder::checkpoint`] now and then. A panic answers
    /// this request -32603.
    ///
    /// # Errors
    ///
    /// [`Failure::Cancelled`] responds as the dialect responds to cancelled requests, and
    /// [`Failure::Error`] with that error. [`Failure::InvalidParams`] responds that the params are not
    /// understood. [`Failure::Internal`], which `?` makes of errors of one's own, keeps their reason back.
    fn request(&self, request: &Request, responder: &mut dyn Responder) -> Answer;

    /// Takes a notification, and may notify, call and sleep meanwhile. `Break` ends serving, as if by
    /// [`Shutdown::CancelAll`]. Ignores it by default, as `$/` notifications ask for.
    fn notification(
        &self,
        notification: &Notification,
        responder: &mut dyn Responder,
    ) -> ControlFlow<()> {
        let _ = (notification, responder);
        ControlFlow::Continue(())
    }

    /// Sees what the peer did wrong, for logs; the core has answered it already. Writes it on standard
    /// error by default.
    fn violation(&self, violation: Violation, id: Option<&WireId>) {
        match id {
            Some(id) => STANDARD_ERROR.write(&format_args!("id {id}: {violation}")),
            None => STANDARD_ERROR.write(&violation),
        }
    }

    /// Sees the params for which a request was answered -32602, with the reason that the peer is not
    /// told. For logs. Writes the method and the place on standard error by default.
    fn invalid_params(&self, invalid: &InvalidParams) {
        STANDARD_ERROR.write(invalid);
    }

    /// Sees why a request was answered -32603, by a panic or an error of the host's own of which the
    /// peer is told nothing. For logs. Writes it on standard error by default.
    fn failed(&self, request: &Request, failure: &Internal) {
        STANDARD_ERROR.write(&HandlerFailed(&request.method, failure));
    }

    /// Sees the outcome of each step that undoes a request. Writes it on standard error by default, unless
    /// the step is done.
    fn undone(&self, request: &Request, undone: &Undone) {
        if !undone.is_done() {
            STANDARD_ERROR.write(&format_args!("{:?}: {undone}", clip(&request.method)));
        }
    }

    /// Returns the bounds of the steps that undo a request.
    fn undo_limits(&self) -> UndoLimits {
        UndoLimits::default()
    }

    /// Says what to do with a request that was cancelled while it waited for its turn.
    /// It is not called if the dialect has such requests skipped.
    fn cancelled_before_start(&self, request: &Request) -> BeforeStart {
        let _ = request;
        BeforeStart::Skipped
    }
}

impl<F: Fn(&Request, &mut dyn Responder) -> Answer> Handler for F {
    fn request(&self, request: &Request, responder: &mut dyn Responder) -> Answer {
        self(request, responder)
    }
}

/// The powers of a handler while it runs.
///
/// The facade's `rescind::Responder` is another type: the handle of [`protocol_async`] that owes a response.
pub trait Responder {
    /// Takes what has arrived, without blocking, and marks cancels. Other requests stay queued. Nothing
    /// cancels a notification.
    ///
    /// # Errors
    ///
    /// [`Cancelled`] if this handler's own request was cancelled.
    fn checkpoint(&mut self) -> Result<(), Cancelled>;

    /// Sleeps, and wakes at once when the request is cancelled.
    ///
    /// # Errors
    ///
    /// [`Cancelled`] if this handler's own request was cancelled.
    fn sleep(&mut self, duration: Duration) -> Result<(), Cancelled>;

    /// Queues a notification to the peer, with params that are JSON already. On threads it waits for room if
    /// there is none.
    ///
    /// On one thread it never waits, and is refused with [`Refusal::OutboxFull`]. There
    /// [`sleep`](Self::sleep) writes meanwhile.
    ///
    /// # Errors
    ///
    /// As [`Connection::notify`](protocol_core::Connection::notify), and [`Refusal::Withheld`] if the
    /// request is cancelled during the wait.
    fn notify_raw(&mut self, method: &str, params: Option<&RawValue>) -> Result<(), Refusal>;

    /// Takes the oldest waiting notification with this method ahead of its turn: for feature
    /// methods, such as `session/cancel`, that are about the work at hand.
    fn take_notification(&mut self, method: &str) -> Option<Notification>;

    /// Calls the peer on behalf of this request, with params that are JSON already, and waits. If the request
    /// is cancelled, so is the call (G6).
    ///
    /// It then waits for the peer's response, whose result still counts (B23). That is for ever if the
    /// dialect's grace awaits it and no timer is set. [`CallOptions::grace`] bounds the wait.
    ///
    /// # Errors
    ///
    /// Every outcome but a result.
    fn call_raw(
        &mut self,
        method: &str,
        params: Option<&RawValue>,
        options: CallOptions,
    ) -> Result<Box<RawValue>, CallError>;

    /// Registers a step that undoes what this request has done or is about to do.
    ///
    /// The steps run on this thread if the handler fails or panics: the latest first, each once. An `Ok`
    /// keeps what was done. The response follows the last step.
    ///
    /// A thread can't be interrupted. So a step gets the time at which it should be done, and one that
    /// takes longer is reported as out of time to [`Handler::undone`]. A responder that wraps another forwards
    /// this.
    ///
    /// # Errors
    ///
    /// Returns [`UndoRefused`] for a notification, and if there are too many steps. The step is dropped, so
    /// register it before what it undoes.
    fn undo_with(&mut self, undo: Undo) -> Result<(), UndoRefused> {
        let Undoing { stack, limits } = self.undoing().ok_or(UndoRefused::Over)?;
        let time = undo.time;
        stack.push(undo, time, *limits).map_err(|(refused, _)| refused)
    }

    /// Returns the place for the steps that undo this request. A notification has none.
    #[doc(hidden)]
    fn undoing(&mut self) -> Option<&mut Undoing> {
        None
    }
}

impl dyn Responder + '_ {
    /// Queues a notification to the peer, as [`notify_raw`](Responder::notify_raw) does.
    ///
    /// # Errors
    ///
    /// As [`notify_raw`](Responder::notify_raw).
    pub fn notify(&mut self, method: &str, params: impl Serialize) -> Result<(), Refusal> {
        written(&params, |params| self.notify_raw(method, Some(params)))
            .unwrap_or(Err(Refusal::InvalidParams))
    }

    /// Calls the peer on behalf of this request, as [`call_raw`](Responder::call_raw) does, and reads the
    /// result.
    ///
    /// # Errors
    ///
    /// As [`call_raw`](Responder::call_raw), and [`CallError::InvalidResult`].
    pub fn call<T: DeserializeOwned>(
        &mut self,
        method: &str,
        params: impl Serialize,
    ) -> Result<T, CallError> {
        self.call_with(method, params, CallOptions::default())
    }

    /// As `call`, with timers or a grace.
    ///
    /// # Errors
    ///
    /// As `call`.
    pub fn call_with<T: DeserializeOwned>(
        &mut self,
        method: &str,
        params: impl Serialize,
        options: CallOptions,
    ) -> Result<T, CallError> {
        let result = written(&params, |params| self.call_raw(method, Some(params), options))
            .unwrap_or_else(|_| Err(Refusal::InvalidParams.into()))?;
        serde_json::from_str(result.get())
            .map_err(|error| CallError::InvalidResult { problem: error.to_string() })
    }
}

/// Hands the failure of a handler to it, with the reason that the peer is not told; a panic ignores it.
pub(crate) fn report_failure<H: Handler + ?Sized>(
    handler: &H,
    request: &Request,
    failure: &Failure,
) {
    let _ = unless_it_panics(|| match failure {
        Failure::InvalidParams(invalid) => handler.invalid_params(invalid),
        Failure::Internal(failure) => handler.failed(request, failure),
        _ => {}
    });
}
