//! The rules by which an event on one side becomes something on the other side.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use protocol_core::{
    CallId, CancelOutcome, Cause, CloseReason, Envelope, ErrorObject, News, Outcome, Refusal,
    RequestHandle, Response, Shutdown, WireId, WorkId, WorkName, code,
};
use serde_json::value::RawValue;

use crate::event::{RelayEvent, Side};
use crate::ids::IdPlace;
use crate::params::only_member;
use crate::relay::{Relay, pop};
use crate::responses::{HOP_GONE, MALFORMED, NAMES_NO_REQUEST, NOT_A_METHOD, error, too_slow};

/// The wait for a response to a nested request, such as a request for permission, once its work was stopped.
const NESTED_GRACE: Duration = Duration::from_secs(1);

impl Relay {
    // Requests and notifications

    /// Makes a call on the other side of a request.
    pub(crate) fn forward_request(
        &mut self,
        side: Side,
        request: RequestHandle,
        method: &str,
        params: Option<&RawValue>,
        chosen: Option<&RawValue>,
    ) {
        let progress = self.progress_to_cancel(method, params);
        if self.names_an_id(method) && progress.is_none() {
            self.report(side, RelayEvent::CancelDropped { method: method.into() });
            return self.queue_own_response(side, request, NOT_A_METHOD);
        }
        let translated = match self.translate(side, method, params) {
            Ok(translated) => translated.or(progress),
            Err(reason) => return self.refuse(side, request, reason, NAMES_NO_REQUEST),
        };
        let params = translated.as_deref().or(params);
        // No progress comes under a token that the agent did not choose.
        let chosen = self.both_speak(Envelope::Abp).then(|| chosen.unwrap_or(RawValue::NULL));
        let (options, now) = (self.guards[side as usize].options(method), self.now);
        let far = self.connection_mut(side.other());
        match far.forward_call(method, params, chosen, request, options, now) {
            Ok(call) => {
                let data = self.connection_mut(side).request_data_mut(request);
                *data.expect("only the relay responds to requests") = Some(call);
            }
            Err(refused) => {
                let code = self.dialect(side).overload_code;
                let overload = error(code, "The request was refused: the next hop takes no more");
                self.refuse(side, request, refused.reason, overload);
            }
        }
    }

    /// Reports that a request could not be forwarded, and responds to it.
    fn refuse(
        &mut self,
        side: Side,
        request: RequestHandle,
        reason: Refusal,
        response: Response<'static>,
    ) {
        let id = self.id_of(side, request);
        self.report(side, RelayEvent::RequestRefused { id, reason });
        self.queue_own_response(side, request, response);
    }

    /// Forwards a notification as it is, unless it is a cancel.
    pub(crate) fn forward_notification(
        &mut self,
        side: Side,
        method: &str,
        params: Option<&RawValue>,
    ) {
        if self.dialect(side).cancel.has_method(method) {
            return self.report_if_ignored(side, params);
        }
        if self.names_an_id(method) && !self.announces_cancelled_operation(side, method) {
            return self.report(side, RelayEvent::CancelDropped { method: method.into() });
        }
        let forwarded = self.translate(side, method, params).and_then(|translated| {
            let far = self.connection_mut(side.other());
            far.notify(method, translated.as_deref().or(params))
        });
        if let Err(reason) = forwarded {
            self.report(side, RelayEvent::NotificationDropped { method: method.into(), reason });
            if self.stops_work(side, method) {
                self.cancel_unstopped(side);
            }
        }
    }

    /// Translates the id of a client's request in a server's params, if they name one.
    fn translate(
        &mut self,
        side: Side,
        method: &str,
        params: Option<&RawValue>,
    ) -> Result<Option<Box<RawValue>>, Refusal> {
        let params = params.filter(|_| side == Side::Down);
        let place = IdPlace::find(self.dialect(side), Some(method));
        let Some((place, params)) = place.zip(params) else { return Ok(None) };
        place.translate(params, |number| self.translate_id(side, number))
    }

    /// Returns the id that a request has on the other side, from the number of its call on this side.
    fn translate_id(&mut self, side: Side, number: &str) -> Option<String> {
        let call = self.connection(side).machine().call_numbered(number.parse().ok()?)?;
        let request = *self.connection_mut(side).call_data_mut(call)?;
        Some(self.id_of(side.other(), request).as_json().to_owned())
    }

    // Cancels

    /// Returns the params of DAP's cancel with nothing but the progress that it names. A progress has one
    /// name on every hop. The request that it may name beside that is cancelled where it came from.
    fn progress_to_cancel(&self, method: &str, params: Option<&RawValue>) -> Option<Box<RawValue>> {
        let speak_dap = self.both_speak(Envelope::Dap);
        let is_cancel = speak_dap && self.dialect(Side::Up).cancel.has_method(method);
        only_member(params.filter(|_| is_cancel)?, "progressId")
    }

    fn both_speak(&self, envelope: Envelope) -> bool {
        Side::BOTH.into_iter().all(|side| self.dialect(side).envelope == envelope)
    }

    /// Cancels the call that was made for a request, because the request was cancelled.
    pub(crate) fn forward_cancel(
        &mut self,
        side: Side,
        request: RequestHandle,
        reason: Option<&str>,
    ) {
        let now = self.now;
        let data = self.connection_mut(side).request_data_mut(request);
        let Some(call) = data.and_then(|call| *call) else { return };
        let far = self.connection_mut(side.other());
        let cancelled = far.cancel_because(call, Cause::Parent, reason, now);
        if let CancelOutcome::Refused(reason) = cancelled {
            let id = self.id_of(side, request);
            self.report(side, RelayEvent::CancelRefused { id, reason });
        }
    }

    /// Forwards the stop of a request's work. The message that stopped it passes by itself to a side with the same
    /// rules, and stops the call there. Otherwise the call is cancelled.
    pub(crate) fn forward_stop(&mut self, side: Side, request: RequestHandle) {
        let now = self.now;
        let began_work = self.connection(side).machine().work_of_request(request).is_some();
        if began_work {
            let id = self.id_of(side, request);
            self.report(side, RelayEvent::WorkStopped { id });
            if self.dialect(side).work == self.dialect(side.other()).work {
                return;
            }
        }
        let data = self.connection_mut(side).request_data_mut(request);
        if let Some(call) = data.and_then(|call| *call) {
            let grace = (!began_work).then_some(NESTED_GRACE);
            let far = self.connection_mut(side.other());
            let _ = far.stop_call(call, Cause::Parent, grace, now);
        }
    }

    /// Makes the stops wait that the other side was not sent, because its outbox was full. A cancel needs no room, so
    /// the calls in flight that began the work are cancelled at once.
    fn cancel_unstopped(&mut self, side: Side) {
        let unstopped = self.unstopped(side);
        for &work in &unstopped {
            let far = self.connection_mut(side.other());
            let call = far.machine().call_of_work(work);
            if let Some(&mut request) = call.and_then(|call| far.call_data_mut(call)) {
                self.forward_cancel(side, request, None);
            }
        }
        self.waiting_stops[side as usize] = unstopped.into();
    }

    fn stops_work(&self, side: Side, method: &str) -> bool {
        let mut signs = self.dialect(side).work.iter().flat_map(|rule| rule.signs.iter());
        signs.any(|sign| sign.news == News::Stop && sign.method == method)
    }

    /// Sends the stops that found no room, as far as there is some, and returns whether any left the queue. Nothing is
    /// sent for work that has ended meanwhile.
    pub(crate) fn send_waiting_stops(&mut self) -> bool {
        let (mut progressed, now) = (false, self.now);
        for side in Side::BOTH {
            while let Some(&work) = self.waiting_stops[side as usize].front() {
                let far = self.connection_mut(side.other());
                if far.stop(work, Cause::Parent, None, now) == Err(Refusal::OutboxFull) {
                    break;
                }
                pop(&mut self.waiting_stops[side as usize]);
                progressed = true;
            }
        }
        progressed
    }

    /// Returns the work that was stopped on one side, and goes on at the other side, in the order it began. It may go on
    /// after the response to the request that began it, and a notification may have begun it.
    fn unstopped(&self, side: Side) -> Vec<WorkId> {
        let [near, far] = [side, side.other()].map(|side| self.connection(side).machine());
        let stopping = near.works().filter(|&work| near.is_stopping(work));
        let names = stopping.filter_map(|work| near.work_name(work));
        // A run that goes on may be the one that goes on at the other side.
        let names = names.filter(|name| name.runs_here && near.are_stopping(name));
        let mut stopped: Vec<_> = names.map(|name| self.kind_and_name(side, name)).collect();
        stopped.sort_unstable();
        let goes_on = |name| stopped.binary_search(&self.kind_and_name(side.other(), name)).is_ok();
        let works = far.works().filter(|&work| !far.is_stopping(work));
        let is_unstopped = |work: &WorkId| {
            far.work_name(*work).is_some_and(|name| !name.runs_here && goes_on(name))
        };
        let waits = |work: &WorkId| self.waiting_stops[side as usize].binary_search(work).is_ok();
        works.filter(|work| waits(work) || is_unstopped(work)).collect()
    }

    /// Returns what names work on both sides. The rules of their dialects may stand in another order.
    fn kind_and_name<'a>(
        &'a self,
        side: Side,
        WorkName { rule, name, .. }: &'a WorkName,
    ) -> (Option<&'a str>, &'a WireId) {
        let rule = self.dialect(side).work.get(usize::from(*rule));
        (rule.map(|rule| &*rule.kind), name)
    }

    /// Reports a cancel that was not obeyed, though it names a request in flight. The dialect does not
    /// let that peer cancel the request.
    fn report_if_ignored(&mut self, side: Side, params: Option<&RawValue>) {
        let Some(id) = self.dialect(side).cancel.id_in(params) else { return };
        let machine = self.connection(side).machine();
        let is_running = |request| machine.request_cause(request).is_none();
        if machine.request_named(&id).is_some_and(is_running) {
            self.report(side, RelayEvent::CancelIgnored { id });
        }
    }

    /// Returns whether messages of this method name an id in either dialect. Cancels do, and the
    /// announcement of a cancelled operation seems to. An id means nothing on another connection (B25).
    fn names_an_id(&self, method: &str) -> bool {
        Side::BOTH.into_iter().any(|side| {
            let dialect = self.dialect(side);
            dialect.is_cancel(method) || dialect.tells_of_cancels(method)
        })
    }

    /// Returns whether a notification announces to the client that an operation was cancelled. Its token
    /// may pass every hop, unless the client would take the notification for a cancel.
    fn announces_cancelled_operation(&self, side: Side, method: &str) -> bool {
        side == Side::Down
            && self.dialect(Side::Down).tells_of_cancels(method)
            && !self.dialect(Side::Up).cancel.has_method(method)
    }

    // Responses

    /// Responds to a request with the outcome of the call that was made for it.
    pub(crate) fn forward_outcome(
        &mut self,
        side: Side,
        request: RequestHandle,
        outcome: &Outcome<'_>,
    ) {
        let own = match outcome {
            Outcome::Result(result) => return self.forward_result(side, request, result),
            // The stop was sent as a cancel, or the server does not know what to respond to a stop.
            Outcome::Cancelled { error: Some(_), .. } if self.is_stopped(side, request) => {
                Response::Cancelled
            }
            Outcome::Error(error) | Outcome::Cancelled { error: Some(error), .. } => {
                return self.forward_response(side, request, self.forwarded_error(error));
            }
            // The server ended the call, as its dialect allows. The client's dialect may allow an end,
            // too. Otherwise the request was cancelled.
            Outcome::Cancelled { cause: Cause::Peer, error: None } => {
                if self.connection_mut(side).end_request(request, None).is_ok() {
                    return;
                }
                Response::Cancelled
            }
            Outcome::Cancelled { error: None, .. } => Response::Cancelled,
            Outcome::Malformed => MALFORMED,
            // `forward_end` bounds how long a peer that hung up is waited for; no guard does.
            Outcome::TimedOut { cause } if !self.connection(side).machine().is_closed() => {
                let (id, cause) = (self.id_of(side, request), *cause);
                self.report(side, RelayEvent::TimedOut { id, cause });
                too_slow(cause)
            }
            // The other side can't say any more that it stopped.
            _ if self.is_stopped(side, request) => Response::Cancelled,
            _ => HOP_GONE,
        };
        self.queue_own_response(side, request, own);
    }

    /// Forwards a result. An id in it is that of its own request.
    fn forward_result(&mut self, side: Side, request: RequestHandle, result: &RawValue) {
        let place = IdPlace::find(self.dialect(side.other()), None).filter(|_| side == Side::Up);
        let own = |_: &str| Some(self.id_of(side, request).as_json().to_owned());
        match place.map_or(Ok(None), |place| place.translate(result, own)) {
            Ok(translated) => {
                let result = translated.as_deref().unwrap_or(result);
                self.forward_response(side, request, Response::Result(result));
            }
            Err(_) => self.queue_own_response(side, request, MALFORMED),
        }
    }

    fn is_stopped(&self, side: Side, request: RequestHandle) -> bool {
        let machine = self.connection(side).machine();
        let work = machine.work_of_request(request);
        machine.request_cause(request) == Some(Cause::Stopped)
            || work.is_some_and(|work| machine.is_stopping(work))
    }

    fn forward_response(&mut self, side: Side, request: RequestHandle, response: Response<'_>) {
        if let Err(reason) = self.respond(side, request, response) {
            let id = self.id_of(side, request);
            self.report(side, RelayEvent::ResponseReplaced { id, reason });
            // To keep the response until there is room would give our memory to a peer that doesn't
            // read.
            let code = self.dialect(side).overload_code;
            let dropped = "The response was dropped: too much is unsent";
            self.queue_own_response(side, request, error(code, dropped));
        }
    }

    /// Returns an error as the other side writes it: whole, where both sides write errors in the same
    /// way. In ABP a cancelled call has no error to forward.
    fn forwarded_error<'m>(&self, error: &'m ErrorObject<'_>) -> Response<'m> {
        let [up, down] = Side::BOTH.map(|side| self.dialect(side).envelope);
        let is_error = up != Envelope::Abp || error.code != code::REQUEST_CANCELLED;
        if up == down && is_error {
            return Response::ErrorRaw(&error.raw);
        }
        let (message, data) = (&*error.message, error.data.as_deref());
        Response::Error { code: error.code, message, data }
    }

    // The end

    /// Detaches the calls that were made for a side whose input ended, and accepts no more requests for
    /// it. The detached calls go on until they settle.
    pub(crate) fn forward_end(&mut self, side: Side, reason: CloseReason) {
        let now = self.now;
        let far = self.connection_mut(side.other());
        // The end of a side cancels its requests, and `forward_cancel` their calls. This bounds how long
        // the relay waits for a peer that responds to none of them.
        let calls: Vec<CallId> = far.calls().map(|(call, _)| call).collect();
        for call in calls {
            far.detach(call, now);
        }
        far.shutdown(Shutdown::Drain, now);
        self.report(side, RelayEvent::Closed { reason });
    }
}
