//! The sending side.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::mem;

use protocol_core::{
    CallError, CallId, CallOptions, CancelOutcome, Cause, Dialect, Params, Refusal, Shutdown,
    Timestamp, WireId,
};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::afterwards::Afterwards;
use crate::hub::{Shared, State};
use crate::in_flight::{self, InFlight};
use crate::json::written;
use crate::lease::Lease;
use crate::sent::{CancellationHandle, SentRequest};
use crate::sync::{Arc, Mutex, MutexGuard, Weak, lock};
use crate::turn::waits_for_peer;
use crate::waiters::{Line, WaitFor};

/// Calls and notifies the peer, from anywhere. Clones share the connection.
#[derive(Clone, Debug)]
pub struct Peer {
    lease: Arc<Lease>,
}

impl Peer {
    pub(crate) fn new(lease: Arc<Lease>) -> Self {
        Self { lease }
    }

    /// Calls the peer. Never blocks and never fails at once: a refusal is the call's outcome.
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

    /// As [`call_with`](Self::call_with), with params as they are to be on the wire.
    pub fn call_raw<T>(
        &self,
        method: &str,
        params: Option<&RawValue>,
        options: CallOptions,
    ) -> SentRequest<T> {
        match self.lease.shared().call(method, params, options) {
            Ok((call, slot)) => SentRequest::sent(self.lease.clone(), call, slot),
            Err(refusal) => SentRequest::refused(refusal.into()),
        }
    }

    /// Prepares a call without sending it: so that others can hold its
    /// [`CancellationHandle`] before it exists for the peer.
    pub fn prepare<T>(
        &self,
        method: &str,
        params: impl Serialize,
        options: CallOptions,
    ) -> PreparedRequest<T> {
        PreparedRequest {
            peer: self.clone(),
            method: method.into(),
            params: to_raw_value(&params).map_err(|_| Refusal::InvalidParams),
            options,
            preparation: Arc::new(Preparation(Mutex::new(Prepared::Waiting))),
            result: PhantomData,
        }
    }

    /// Notifies the peer, and waits for room in the outbox if there is none.
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
        loop {
            self.ready().await;
            let sent = self.try_notify_raw(method, Some(&params));
            if sent != Err(Refusal::OutboxFull) {
                return sent;
            }
        }
    }

    /// Notifies the peer if there is room. Never blocks.
    ///
    /// # Errors
    ///
    /// As [`Connection::notify`](protocol_core::Connection::notify). After
    /// [`Refusal::OutboxFull`], [`ready`](Self::ready) waits for room.
    pub fn try_notify(&self, method: &str, params: impl Serialize) -> Result<(), Refusal> {
        written(&params, |params| self.try_notify_raw(method, Some(params)))
            .unwrap_or(Err(Refusal::InvalidParams))
    }

    /// As [`try_notify`](Self::try_notify), with params as they are to be on the wire.
    ///
    /// # Errors
    ///
    /// As [`try_notify`](Self::try_notify).
    pub fn try_notify_raw(&self, method: &str, params: Option<&RawValue>) -> Result<(), Refusal> {
        self.lease
            .shared()
            .send(|state, _| state.stream.connection_mut().notify(method, Params::from(params)))
    }

    /// Sends the dialect's cancel for a request whose id on this connection the host knows: for
    /// routing of its own. [`SentRequest::cancel`] knows the id by itself.
    ///
    /// # Errors
    ///
    /// As [`Connection::send_cancel_request`](protocol_core::Connection::send_cancel_request).
    pub fn send_cancel_request(&self, id: &WireId) -> Result<(), Refusal> {
        self.lease.shared().send(|state, _| state.stream.connection_mut().send_cancel_request(id))
    }

    /// The dialect that the connection speaks.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        self.lease.shared().lock().core().config().dialect.clone()
    }

    /// Shuts the connection down.
    pub fn shutdown(&self, how: Shutdown) {
        self.lease.shared().shutdown(how);
    }

    /// Holds writing back: what is sent until the cork is dropped leaves in one write, in order.
    /// It counts as sent at once, so cancelling it sends a cancel. Once it is more than
    /// [`Limits::unsent_bytes`](protocol_core::Limits::unsent_bytes) it leaves all the same.
    #[must_use = "dropping it ends it"]
    pub fn cork(&self) -> Cork {
        let mut state = self.lease.shared().lock();
        state.corks += 1;
        self.lease.shared().settle(state, &mut Afterwards::default());
        Cork { lease: self.lease.clone() }
    }

    /// Waits until everything queued is written, or never will be.
    pub fn flushed(&self) -> impl Future<Output = ()> + Send + Unpin + '_ {
        self.wait_for_room(State::is_flushed)
    }

    /// After [`Refusal::OutboxFull`], waits until there is room for what was refused, or the
    /// connection is closed.
    pub fn ready(&self) -> impl Future<Output = ()> + Send + Unpin + '_ {
        self.wait_for_room(|state| !state.is_full)
    }

    fn wait_for_room(
        &self,
        there: fn(&State) -> bool,
    ) -> impl Future<Output = ()> + Send + Unpin + '_ {
        const ROOM: Line = |state| &mut state.room;
        WaitFor { shared: self.lease.shared(), line: ROOM, check: holds(there), place: None }
    }

    /// What the connection's clock says.
    pub(crate) fn now(&self) -> Timestamp {
        self.lease.shared().now()
    }

    /// What is in flight both ways, oldest first, at most `limit` of each. Never any params.
    #[must_use]
    pub fn in_flight(&self, limit: usize) -> Vec<InFlight> {
        self.lease.shared().command(|core, now| in_flight::list(core, now, limit))
    }
}

/// A check that is about the state alone.
fn holds<'a>(
    there: fn(&State) -> bool,
) -> impl FnMut(MutexGuard<'a, State>) -> Result<(), MutexGuard<'a, State>> {
    move |state| {
        if there(&state) {
            return Ok(());
        }
        waits_for_peer();
        Err(state)
    }
}

/// Holds writing back; see [`Peer::cork`].
#[derive(Debug)]
pub struct Cork {
    lease: Arc<Lease>,
}

impl Drop for Cork {
    fn drop(&mut self) {
        let mut state = self.lease.shared().lock();
        state.corks -= 1;
        self.lease.shared().settle(state, &mut Afterwards::default());
    }
}

/// A call that is not sent yet. Dropping it sends nothing.
#[must_use = "a prepared request does nothing until it is published"]
pub struct PreparedRequest<T> {
    peer: Peer,
    method: String,
    params: Result<Box<RawValue>, Refusal>,
    options: CallOptions,
    preparation: Arc<Preparation>,
    result: PhantomData<fn() -> T>,
}

/// What a [`CancellationHandle`] of a prepared call points at. It keeps nothing alive.
pub(crate) struct Preparation(Mutex<Prepared>);

enum Prepared {
    Waiting,
    /// Before it was sent; it never is.
    Cancelled(Cause),
    Refused,
    Published {
        shared: Weak<Shared>,
        call: CallId,
    },
}

impl<T> PreparedRequest<T> {
    /// A handle that cancels the call, before it is published or after.
    #[must_use]
    pub fn cancellation_handle(&self) -> CancellationHandle {
        CancellationHandle::of_prepared(self.preparation.clone())
    }

    /// Sends the call, unless it was cancelled already: then its outcome is that, and nothing is
    /// sent.
    pub fn publish(self) -> SentRequest<T> {
        let Self { peer, method, params, options, preparation, .. } = self;
        if let Prepared::Cancelled(cause) = *lock(&preparation.0) {
            return SentRequest::refused(CallError::Cancelled { cause, error: None });
        }
        let sent: SentRequest<T> = match params {
            Ok(params) => peer.call_raw(&method, Some(&params), options),
            Err(refusal) => SentRequest::refused(refusal.into()),
        };
        let published = match sent.id() {
            Some(call) => Prepared::Published { shared: Arc::downgrade(peer.lease.shared()), call },
            None => Prepared::Refused,
        };
        let before = mem::replace(&mut *lock(&preparation.0), published);
        if let Prepared::Cancelled(cause) = before {
            // While it was being sent.
            preparation.cancel(cause);
        }
        sent
    }
}

impl Preparation {
    pub(crate) fn cancel(&self, cause: Cause) -> CancelOutcome {
        let mut prepared = lock(&self.0);
        let (shared, call) = match &*prepared {
            Prepared::Waiting => {
                *prepared = Prepared::Cancelled(cause);
                return CancelOutcome::Withdrawn;
            }
            Prepared::Cancelled(_) | Prepared::Refused => return CancelOutcome::AlreadySettled,
            Prepared::Published { shared, call } => (Weak::upgrade(shared), *call),
        };
        drop(prepared);
        shared.map_or(CancelOutcome::AlreadySettled, |shared| {
            shared.command(|core, now| core.cancel(call, cause, now))
        })
    }
}

impl<T> fmt::Debug for PreparedRequest<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedRequest").field("method", &self.method).finish_non_exhaustive()
    }
}
