//! The sending side.

use std::future::Future;
use std::task::{Context, Poll};

use protocol_core::{CallOptions, Dialect, Limits, Refusal, Shutdown, Timestamp, WireId};
use protocol_endpoint::{InFlight, Line};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::closed::Closed;
use crate::json::written;
use crate::lease::Lease;
use crate::method::Method;
use crate::sent::SentRequest;
use crate::shared::Inner;
use crate::sleep::Sleep;
use crate::spanned;
use crate::spans::RequestSpan;
use crate::sync::Arc;
use crate::wait::WaitFor;

/// The peer, to be called and notified from anywhere. Clones share the connection.
#[derive(Clone, Debug)]
pub struct Peer {
    pub(crate) lease: Arc<Lease>,
}

impl Peer {
    pub(crate) fn new(lease: Arc<Lease>) -> Self {
        Self { lease }
    }

    /// Calls the peer. It never blocks and never fails at once: a refusal is the call's outcome.
    pub fn call<T>(&self, method: &str, params: impl Serialize) -> SentRequest<T> {
        self.call_with(method, params, CallOptions::default())
    }

    /// As [`call`](Self::call), with timers, a grace or a parent.
    pub fn call_with<T>(
        &self,
        method: &str,
        params: impl Serialize,
        options: CallOptions,
    ) -> SentRequest<T> {
        written(&params, |params| self.call_raw(method, Some(params), options))
            .unwrap_or_else(|_| SentRequest::refused(Refusal::InvalidParams.into()))
    }

    /// Calls the peer with the name and the types of a [`Method`], as [`call`](Self::call) does.
    pub fn call_method<M: Method<Params: Serialize>>(
        &self,
        params: M::Params,
    ) -> SentRequest<M::Result> {
        self.call(M::NAME, params)
    }

    /// As [`call_with`](Self::call_with), with params that are JSON already.
    pub fn call_raw<T>(
        &self,
        method: &str,
        params: Option<&RawValue>,
        options: CallOptions,
    ) -> SentRequest<T> {
        let span = spanned::call(&self.lease, method, &options);
        let called = self.lease.at(|inner, now, effects| {
            let call = inner.endpoint.call(method, params, options, now, effects)?;
            inner.spans.call_begins(call.id, span.clone(), now);
            Ok(call)
        });
        match called {
            Ok(call) => {
                span.accepted(call.id.number());
                SentRequest::sent(self.lease.clone(), call)
            }
            Err(refusal) => {
                span.refused(&refusal);
                SentRequest::refused(refusal.into())
            }
        }
    }

    /// Notifies the peer, and waits for room in the outbox if there is none.
    ///
    /// Its place in the queue for room is taken when it is first polled. No later notification overtakes
    /// it, so one whose future is kept and not polled holds up all others.
    ///
    /// # Errors
    ///
    /// As [`try_notify`](Self::try_notify), without [`Refusal::OutboxFull`].
    pub async fn notify(&self, method: &str, params: impl Serialize) -> Result<(), Refusal> {
        let sent = self.try_notify(method, &params);
        if sent != Err(Refusal::OutboxFull) {
            return sent;
        }
        // Written once for all that is still to be tried.
        let params = to_raw_value(&params).map_err(|_| Refusal::InvalidParams)?;
        self.notify_raw(method, Some(&params)).await
    }

    /// As [`notify`](Self::notify), with params that are JSON already.
    ///
    /// # Errors
    ///
    /// As [`notify`](Self::notify).
    pub async fn notify_raw(&self, method: &str, params: Option<&RawValue>) -> Result<(), Refusal> {
        WaitFor::new(&self.lease, Line::Room, |inner: &mut Inner, place, effects: &mut _| {
            let sent = inner.endpoint.notify_at(place, method, params, effects);
            (sent != Err(Refusal::OutboxFull)).then_some(sent)
        })
        .await
    }

    /// Notifies the peer with the name and the params of a [`Method`], as [`notify`](Self::notify) does.
    ///
    /// # Errors
    ///
    /// As [`notify`](Self::notify).
    pub async fn notify_method<M: Method<Params: Serialize, Result = ()>>(
        &self,
        params: M::Params,
    ) -> Result<(), Refusal> {
        self.notify(M::NAME, params).await
    }

    /// Notifies the peer if there is room, and nobody waits for room before us. It never blocks.
    ///
    /// # Errors
    ///
    /// As [`Connection::notify`](protocol_core::Connection::notify). After [`Refusal::OutboxFull`],
    /// [`ready`](Self::ready) waits for room.
    pub fn try_notify(&self, method: &str, params: impl Serialize) -> Result<(), Refusal> {
        written(&params, |params| self.try_notify_raw(method, Some(params)))
            .unwrap_or(Err(Refusal::InvalidParams))
    }

    /// As [`try_notify`](Self::try_notify), with params that are JSON already.
    ///
    /// # Errors
    ///
    /// As [`try_notify`](Self::try_notify).
    pub fn try_notify_raw(&self, method: &str, params: Option<&RawValue>) -> Result<(), Refusal> {
        self.lease.with(|inner, effects| inner.endpoint.try_notify(method, params, effects))
    }

    /// Sends the dialect's cancel for a request whose id on this connection the host knows. It is for
    /// hosts that route by themselves; [`SentRequest::cancel`] knows the id.
    ///
    /// # Errors
    ///
    /// As [`Connection::send_cancel_request`](protocol_core::Connection::send_cancel_request).
    pub fn send_cancel_request(&self, id: &WireId) -> Result<(), Refusal> {
        self.lease.with(|inner, effects| inner.endpoint.send_cancel_request(id, effects))
    }

    /// Returns the dialect that the connection speaks.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        self.lease.lock().endpoint.dialect().clone()
    }

    /// Returns the limits of the connection.
    #[must_use]
    pub fn limits(&self) -> Limits {
        *self.lease.lock().endpoint.limits()
    }

    /// Shuts the connection down.
    pub fn shutdown(&self, how: Shutdown) {
        self.lease.shutdown(how);
    }

    /// Holds writing back: messages that are sent until the cork is dropped leave in one write, in order.
    ///
    /// They count as sent at once, so cancelling one sends a cancel. Above
    /// [`Limits::unsent_bytes`](protocol_core::Limits::unsent_bytes) they leave all the same.
    #[must_use = "dropping it ends it"]
    pub fn cork(&self) -> Cork {
        self.lease.with(|inner, _| inner.endpoint.cork());
        Cork { lease: self.lease.clone() }
    }

    /// Waits until everything queued is written, or never will be.
    pub fn flushed(&self) -> impl Future<Output = ()> + Send + Unpin + '_ {
        WaitFor::new(&self.lease, Line::Flushed, |inner: &mut Inner, _, _: &mut _| {
            inner.endpoint.is_flushed().then_some(())
        })
    }

    /// Waits until the connection is closed, and returns how. Nothing comes any more then, and every call
    /// has settled. Like every handle, it keeps the connection going as long as it waits.
    pub fn closed(&self) -> impl Future<Output = Closed> + Send + Unpin + '_ {
        WaitFor::new(&self.lease, Line::End, |inner: &mut Inner, _, _: &mut _| inner.how_closed())
    }

    /// Returns whether the connection is closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.lease.lock().endpoint.closed().is_some()
    }

    /// After [`Refusal::OutboxFull`], waits until there is room for the message that was refused, or the
    /// connection is closed. Waiters are served in the order in which they began to wait, and after all
    /// that wait in [`notify`](Self::notify).
    pub fn ready(&self) -> impl Future<Output = ()> + Send + Unpin + '_ {
        WaitFor::new(&self.lease, Line::Ready, |inner: &mut Inner, place, _: &mut _| {
            inner.endpoint.has_room(place).then_some(())
        })
    }

    /// Is ready when the [`Account`](crate::Account) of the connection lets it read. A transport of whole
    /// messages asks before it reads, and keeps its own time meanwhile.
    pub fn poll_may_read(&self, cx: &Context<'_>) -> Poll<()> {
        if self.lease.poll_may_read(cx.waker()) { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Charges the [`Account`](crate::Account) of the connection with an unfinished message of this many
    /// bytes, which a transport of whole messages holds. It counts until the next such note.
    pub fn note_unfinished(&self, bytes: usize) {
        self.lease.note_unfinished(bytes);
    }

    /// Returns the span of a notification that is about to be handled.
    #[doc(hidden)]
    #[must_use]
    pub fn span_of_notification(&self, method: &str) -> RequestSpan {
        spanned::notification(&self.lease, method)
    }

    /// Returns the time of the connection's clock, which is that of its
    /// [`Timer`](crate::Timer).
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.lease.now()
    }

    /// Returns a future that is ready at this time of the connection's clock.
    #[doc(hidden)]
    #[must_use]
    pub fn sleep_until(&self, due: Timestamp) -> Sleep {
        Sleep::new(self.lease.clone(), due)
    }

    /// Lists the calls and the requests in flight, oldest first, at most `limit` of each. It never holds
    /// any params.
    #[must_use]
    pub fn in_flight(&self, limit: usize) -> Vec<InFlight> {
        self.lease.at(|inner, now, _| inner.endpoint.in_flight(limit, now))
    }
}

/// A hold on writing; see [`Peer::cork`].
#[derive(Debug)]
pub struct Cork {
    lease: Arc<Lease>,
}

impl Drop for Cork {
    fn drop(&mut self) {
        self.lease.with(|inner, effects| inner.endpoint.uncork(effects));
    }
}
