//! One hop of a proxy.

use std::collections::BTreeMap;

use protocol_core::{
    CallOptions, Carrier, Config, Envelope, News, SendError, WorkId, WorkName, WorkPart,
};
use protocol_endpoint::{Failure, Notification, Request};
use serde_json::value::{RawValue, to_raw_value};

use crate::incoming::Arrival;
use crate::peer::Peer;
use crate::responder::Responder;
use crate::sent::SentRequest;
use crate::waiter::HandOver;

impl Peer {
    /// Forwards what another connection received. The response to a request and its cancels are forwarded
    /// too.
    ///
    /// A raw cancel is dropped, because it names an id of the other connection (B25). The cancel itself
    /// has reached the request's marker already, and goes on from there under this connection's own id. So
    /// does a stop of work, whose notification is dropped if this connection has stopped that work.
    ///
    /// In DAP a cancel is a request, and only the progress that it names is forwarded. A `progressStart`
    /// is forwarded without the id of its request. Other ids of requests pass as they are: `subscriptionId`
    /// in MCP 2026-07-28, and the `requestId` of `elicitation/create` in ACP. A host translates these with
    /// `protocol_relay::IdPlace`.
    ///
    /// # Errors
    ///
    /// As [`try_notify`](Self::try_notify), for a notification, which is returned with the error. A
    /// request that can't be forwarded gets the reason as its response.
    pub fn send_proxied(&self, arrival: Arrival) -> Result<(), SendError<Notification>> {
        match arrival {
            Arrival::Request(request, responder) => self.forward_request(request, responder),
            Arrival::Notification(notification) if !self.has_its_own(&notification) => {
                let params = self.without_id(&notification);
                let params = params.as_deref().or(notification.params.as_deref());
                return self
                    .try_notify_raw(&notification.method, params)
                    .map_err(|reason| SendError { reason, data: notification });
            }
            Arrival::Notification(_) | Arrival::Violation { .. } | Arrival::Missed { .. } => {}
        }
        Ok(())
    }

    fn forward_request(&self, mut request: Request, responder: Responder) {
        if self.lease.lock().endpoint.dialect().is_cancel(&request.method) {
            // The request that it names is cancelled where it came from.
            let mut members = members(request.params.as_deref());
            members.retain(|name, value| name == "progressId" && value.get() != "null");
            if members.is_empty() {
                return responder.respond_with_failure(request.unknown_method());
            }
            request.params = to_raw_value(&members).ok();
        }
        let (params, options) = (request.params.as_deref(), CallOptions::default());
        let sent: SentRequest = self.call_raw(&request.method, params, options);
        sent.forward_response_to(responder);
    }

    /// Returns whether this connection makes its own message of what a notification asks for: it is a
    /// cancel, or the stop of work that is stopping here.
    fn has_its_own(&self, Notification { method, params }: &Notification) -> bool {
        let inner = self.lease.lock();
        let (config, machine) = (inner.endpoint.core().config(), inner.endpoint.core().machine());
        let Config { dialect, limits, .. } = config;
        let is_stopping = |WorkPart { rule, name, .. }: WorkPart| {
            let is_it = |it: &WorkName| !it.runs_here && it.rule == rule && it.name == name;
            let is_named = |work: &WorkId| machine.work_name(*work).is_some_and(is_it);
            // The stop has reached the requests that go on, or does not mean them.
            let goes_on = |work| !machine.is_stopping(work) && !machine.is_open(work);
            let runs = || machine.works().filter(is_named);
            runs().any(|work| machine.is_stopping(work)) && !runs().any(goes_on)
        };
        let mut signs = dialect.work.iter().flat_map(|rule| rule.signs.iter());
        // Most notifications stop nothing, and are not read again.
        let may_stop = signs.any(|sign| sign.news == News::Stop && sign.method == **method);
        let params = params.as_deref().filter(|_| may_stop);
        let part = dialect.work_in(Carrier::Notification, method, params, limits.id_bytes);
        let part = part.filter(|part| part.news == News::Stop);
        dialect.is_cancel(method) || part.is_some_and(is_stopping)
    }

    /// Returns the params of the one event of DAP that names a request, without the id of that.
    fn without_id(&self, Notification { method, params }: &Notification) -> Option<Box<RawValue>> {
        let is_dap = || self.lease.lock().endpoint.dialect().envelope == Envelope::Dap;
        let params = params.as_deref().filter(|_| method == "progressStart" && is_dap());
        let mut members = members(params);
        members.remove("requestId").and_then(|_| to_raw_value(&members).ok())
    }
}

/// Returns the members of params, or none if they are no object.
fn members(params: Option<&RawValue>) -> BTreeMap<String, &RawValue> {
    params.and_then(|params| serde_json::from_str(params.get()).ok()).unwrap_or_default()
}

impl<T> SentRequest<T> {
    /// Responds to another request with the outcome, and cancels this call when that request is
    /// cancelled. This is one hop of a proxy.
    pub fn forward_response_to<R>(self, responder: Responder<R>) {
        let responder: Responder = responder.cast();
        let forwarded = self.forward_cancellation_from(&responder.cancellation());
        forwarded.hand_to(HandOver::to(move |outcome| {
            responder.answer(outcome.map_err(|error| Failure::from(*error)));
        }));
    }
}
