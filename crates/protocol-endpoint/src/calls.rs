//! Calls: their waiters and their outcomes, each in the row of its call.

use core::mem;

use protocol_core::{
    CallId, CallOptions, CancelOutcome, Cause, Refusal, SendError, Timestamp, WireId,
};
use serde_json::value::RawValue;

use crate::effects::{Effect, Effects};
use crate::error::CallOutcome;
use crate::rows::{Call, Interest, Row};
use crate::state::Endpoint;
use crate::waiters::{Line, Place};

impl<W, M> Endpoint<W, M> {
    /// Calls the peer.
    ///
    /// # Errors
    ///
    /// As [`Connection::call`](protocol_core::Connection::call).
    pub fn call(
        &mut self,
        method: &str,
        params: Option<&RawValue>,
        options: CallOptions,
        now: Timestamp,
        effects: &mut Effects<W, M>,
    ) -> Result<Call, Refusal> {
        self.now = now;
        self.send(|endpoint| endpoint.make_call(method, params, options, now), effects)
    }

    /// Calls the peer, and leaves what follows to the caller.
    pub(crate) fn make_call(
        &mut self,
        method: &str,
        params: Option<&RawValue>,
        options: CallOptions,
        now: Timestamp,
    ) -> Result<Call, Refusal> {
        let row = Row {
            number: 0,
            interest: Interest::Wake(None),
            method: self.names.keep(method),
            since: now,
        };
        let row = self.calls.insert(row);
        match self.stream.connection_mut().call(method, params, row, options, now) {
            Ok(id) => {
                self.calls.rows[row as usize].number = id.number();
                Ok(Call { id, row })
            }
            Err(SendError { reason, .. }) => {
                self.names.release(self.calls.remove(row).method);
                Err(reason)
            }
        }
    }

    /// Takes the outcome of a call, which can be done once. If it is still to come, `waiter` is woken
    /// then; the one that waited before is left in its place.
    pub fn poll_outcome(&mut self, call: Call, waiter: &mut Option<W>) -> Option<CallOutcome> {
        match &mut self.calls.find(call)?.interest {
            Interest::Settled(_) => return self.calls.take(call),
            Interest::Wake(before) if waiter.is_some() => mem::swap(before, waiter),
            // An outcome that is handed over, or that nobody wants, stays so.
            Interest::Wake(_) | Interest::HandOver(_) | Interest::Nobody => {}
        }
        None
    }

    /// Returns the waiter for the outcome of a call.
    pub fn waiting_for(&mut self, call: Call) -> Option<&W> {
        match &self.calls.find(call)?.interest {
            Interest::Wake(waiter) => waiter.as_ref(),
            _ => None,
        }
    }

    /// Hands the outcome of a call over to `waiter` once it is there.
    ///
    /// # Errors
    ///
    /// The waiter and the outcome, if it is there already.
    pub fn hand_over(
        &mut self,
        call: Call,
        waiter: W,
        effects: &mut Effects<W, M>,
    ) -> Result<(), (W, CallOutcome)> {
        if let Some(outcome) = self.calls.take(call) {
            return Err((waiter, outcome));
        }
        let Some(row) = self.calls.find(call) else {
            effects.push(Effect::Drop(waiter));
            return Ok(());
        };
        if let Interest::Wake(Some(before)) | Interest::HandOver(before) =
            mem::replace(&mut row.interest, Interest::HandOver(waiter))
        {
            effects.push(Effect::Drop(before));
        }
        Ok(())
    }

    /// Cancels a call. Its outcome comes all the same. The peer gets the reason if the dialect has a
    /// place for it.
    pub fn cancel(
        &mut self,
        call: CallId,
        cause: Cause,
        reason: Option<&str>,
        now: Timestamp,
        effects: &mut Effects<W, M>,
    ) -> CancelOutcome {
        self.now = now;
        let cancelled = self.stream.connection_mut().cancel_because(call, cause, reason, now);
        self.follow(effects);
        cancelled
    }

    /// Stops the work that a call began, by its name. A call that began none is cancelled.
    pub fn stop(
        &mut self,
        call: CallId,
        cause: Cause,
        now: Timestamp,
        effects: &mut Effects<W, M>,
    ) -> CancelOutcome {
        self.now = now;
        let stopped = self.stream.connection_mut().stop_call(call, cause, None, now);
        self.follow(effects);
        stopped
    }

    /// Gives up the outcome of a call, and cancels it if it is in flight.
    pub fn drop_call(&mut self, call: Call, now: Timestamp, effects: &mut Effects<W, M>) {
        if self.calls.forget(call, effects) {
            self.cancel(call.id, Cause::Dropped, None, now, effects);
        }
    }

    /// Gives up the outcome of a call without cancelling it.
    pub fn detach(&mut self, call: Call, now: Timestamp, effects: &mut Effects<W, M>) {
        if self.calls.forget(call, effects) {
            self.detach_call(call.id, now, effects);
        }
    }

    /// Declares that nobody waits for a call any more.
    pub fn detach_call(&mut self, call: CallId, now: Timestamp, effects: &mut Effects<W, M>) {
        self.now = now;
        self.stream.connection_mut().detach(call, now);
        self.follow(effects);
    }

    // Notifications

    /// Notifies the peer if there is room, and nobody waits for room before us.
    ///
    /// # Errors
    ///
    /// As [`Connection::notify`](protocol_core::Connection::notify). After [`Refusal::OutboxFull`] there
    /// is a notice of room for [`Line::Room`](crate::Line::Room).
    pub fn try_notify(
        &mut self,
        method: &str,
        params: Option<&RawValue>,
        effects: &mut Effects<W, M>,
    ) -> Result<(), Refusal> {
        self.notify_at(None, method, params, effects)
    }

    /// As [`try_notify`](Self::try_notify), from a place among those that wait for room. The host then
    /// leaves that place, or waits on.
    ///
    /// # Errors
    ///
    /// As [`try_notify`](Self::try_notify).
    pub fn notify_at(
        &mut self,
        place: Option<&Place>,
        method: &str,
        params: Option<&RawValue>,
        effects: &mut Effects<W, M>,
    ) -> Result<(), Refusal> {
        if !self.waiters[Line::Room as usize].is_first(place) && self.closed.is_none() {
            return Err(Refusal::OutboxFull);
        }
        self.send(|endpoint| endpoint.stream.connection_mut().notify(method, params), effects)
    }

    /// Sends the dialect's cancel for a request whose id the host knows.
    ///
    /// # Errors
    ///
    /// As [`Connection::send_cancel_request`](protocol_core::Connection::send_cancel_request).
    pub fn send_cancel_request(
        &mut self,
        id: &WireId,
        effects: &mut Effects<W, M>,
    ) -> Result<(), Refusal> {
        self.send(|endpoint| endpoint.stream.connection_mut().send_cancel_request(id), effects)
    }
}
