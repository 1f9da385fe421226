//! One hop of a proxy.

use protocol_core::{CallOptions, SendError};
use protocol_endpoint::{Failure, Notification};

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
    /// has reached the request's marker already, and goes on from there under this connection's own id.
    ///
    /// # Errors
    ///
    /// As [`try_notify`](Self::try_notify), for a notification, which is returned with the error. A
    /// request that can't be forwarded gets the reason as its response.
    pub fn send_proxied(&self, arrival: Arrival) -> Result<(), SendError<Notification>> {
        match arrival {
            Arrival::Request(request, responder) => {
                let params = request.params.as_deref();
                let sent: SentRequest =
                    self.call_raw(&request.method, params, CallOptions::default());
                sent.forward_response_to(responder);
                Ok(())
            }
            Arrival::Notification(notification)
                if self.dialect().is_cancel(&notification.method) =>
            {
                Ok(())
            }
            Arrival::Notification(notification) => {
                let params = notification.params.as_deref();
                self.try_notify_raw(&notification.method, params)
                    .map_err(|reason| SendError { reason, data: notification })
            }
            Arrival::Violation { .. } | Arrival::Missed { .. } => Ok(()),
        }
    }
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
