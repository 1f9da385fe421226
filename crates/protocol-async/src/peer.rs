//! The sending side.

use std::future::Future;

use protocol_core::{CallOptions, Dialect, Refusal, Shutdown, Timestamp, WireId};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::closed::Closed;
use crate::in_flight::{self, InFlight};
use crate::json::written;
use crate::lease::Lease;
use crate::outcome::Interest;
use crate::sent::SentRequest;
use crate::spanned;
use crate::spans::RequestSpan;
use crate::state::State;
use crate::sync::{Arc, MutexGuard};
use crate::turn::waits_for_peer;
use crate::wait::WaitFor;

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
        let span = spanned::call(&self.lease, method, &options);
        let called = self.lease.send(|state, now| {
            let call = state.call(method, params, Interest::default(), options)?;
            state.spans.call_begins(call, span.clone(), now);
            Ok(call)
        });
        match called {
            Ok(call) => {
                span.accepted(call.number());
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
        self.lease.send(|state, _| state.stream.connection_mut().notify(method, params))
    }

    /// Sends the dialect's cancel for a request whose id on this connection the host knows: for
    /// routing of its own. [`SentRequest::cancel`] knows the id by itself.
    ///
    /// # Errors
    ///
    /// As [`Connection::send_cancel_request`](protocol_core::Connection::send_cancel_request).
    pub fn send_cancel_request(&self, id: &WireId) -> Result<(), Refusal> {
        self.lease.send(|state, _| state.stream.connection_mut().send_cancel_request(id))
    }

    /// The dialect that the connection speaks.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        self.lease.lock().core().config().dialect.clone()
    }

    /// Shuts the connection down.
    pub fn shutdown(&self, how: Shutdown) {
        self.lease.shutdown(how);
    }

    /// Holds writing back: what is sent until the cork is dropped leaves in one write, in order.
    /// It counts as sent at once, so cancelling it sends a cancel. Once it is more than
    /// [`Limits::unsent_bytes`](protocol_core::Limits::unsent_bytes) it leaves all the same.
    #[must_use = "dropping it ends it"]
    pub fn cork(&self) -> Cork {
        self.lease.with(|state, _| state.corks += 1);
        Cork { lease: self.lease.clone() }
    }

    /// Waits until everything queued is written, or never will be.
    pub fn flushed(&self) -> impl Future<Output = ()> + Send + Unpin + '_ {
        self.wait_for_room(State::is_flushed)
    }

    /// Waits until the connection is closed, and says why: nothing comes any more, and every call has
    /// settled. Like every handle of the connection, it keeps that going as long as it waits.
    pub fn closed(&self) -> impl Future<Output = Closed> + Send + Unpin + '_ {
        fn check(state: MutexGuard<'_, State>) -> Result<Closed, MutexGuard<'_, State>> {
            state.how_closed().ok_or_else(|| {
                waits_for_peer();
                state
            })
        }
        WaitFor::new(&self.lease, |state| &mut state.ended, check)
    }

    /// Whether the connection is closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.lease.lock().closed.is_some()
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
        WaitFor::new(&self.lease, |state| &mut state.room, holds(there))
    }

    /// The span of a notification that is about to be handled.
    pub(crate) fn span_of_notification(&self, method: &str) -> RequestSpan {
        spanned::notification(&self.lease, method)
    }

    /// What the connection's clock says.
    pub(crate) fn now(&self) -> Timestamp {
        self.lease.now()
    }

    /// What is in flight both ways, oldest first, at most `limit` of each. Never any params.
    #[must_use]
    pub fn in_flight(&self, limit: usize) -> Vec<InFlight> {
        self.lease.at(|state, _| in_flight::list(state, limit))
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
        self.lease.with(|state, _| state.corks -= 1);
    }
}
