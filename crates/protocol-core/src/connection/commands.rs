//! What the host asks of a connection.

use alloc::vec::Vec;

use super::{Cargo, Connection, Incoming, Outgoing, put};
use crate::cause::Cause;
use crate::config::{CallOptions, Shutdown};
use crate::dialect::CancelRule;
use crate::error::{Refusal, SendError};
use crate::event::{Params, Reply, TransmitKind};
use crate::id::WireId;
use crate::machine::{CallId, CancelOutcome, RequestHandle};
use crate::outbox::{Full, Staged};
use crate::time::Timestamp;
use crate::wire::encode;

impl<O, I: Default> Connection<O, I> {
    /// Calls the peer. An accepted call settles exactly once, with `data` (G1).
    ///
    /// # Errors
    ///
    /// [`Refusal::Closed`], [`Refusal::ShuttingDown`], [`Refusal::TooManyCalls`],
    /// [`Refusal::UnknownParent`], [`Refusal::InvalidParams`], [`Refusal::OutboxFull`] or
    /// [`Refusal::TooLarge`], with `data` given back.
    pub fn call(
        &mut self,
        method: &str,
        params: Params<'_>,
        data: O,
        options: CallOptions,
        now: Timestamp,
    ) -> Result<CallId, SendError<O>> {
        let params = match structured(params) {
            Ok(params) => params,
            Err(reason) => return Err(SendError { reason, data }),
        };
        let number = match self.machine.admit_call(&options) {
            Ok(number) => number,
            Err(reason) => return Err(SendError { reason, data }),
        };
        let staged = match self.stage(|out| encode::request(out, number, method, params)) {
            Ok(staged) => staged,
            Err(reason) => return Err(SendError { reason, data }),
        };
        let call = self.machine.call(&options, now).expect("admit_call said so");
        put(&mut self.outgoing, call.slot(), Outgoing { data, unsent: None });
        if options.idle_timeout.is_some() {
            self.progress.watch(self.machine.config().dialect.progress, call, params);
        }
        self.carry_out_command(Cargo::Staged { message: staged, batch: None });
        Ok(call)
    }

    /// Sends a notification.
    ///
    /// # Errors
    ///
    /// [`Refusal::Closed`], [`Refusal::InvalidParams`], [`Refusal::OutboxFull`] or
    /// [`Refusal::TooLarge`].
    pub fn notify(&mut self, method: &str, params: Params<'_>) -> Result<(), Refusal> {
        let params = structured(params)?;
        if self.machine.is_closed() {
            return Err(Refusal::Closed);
        }
        let staged = self.stage(|out| encode::notification(out, method, params))?;
        self.outbox.commit(staged, TransmitKind::Notification, None);
        Ok(())
    }

    /// Cancels a call, with [`Cause::Caller`], or with [`Cause::Dropped`] if nobody waits for it
    /// any more (G5). Legal at any time, also on a settled call.
    pub fn cancel(&mut self, call: CallId, cause: Cause, now: Timestamp) -> CancelOutcome {
        let outcome = self.machine.cancel(call, cause, now);
        self.carry_out_command(Cargo::Nothing);
        outcome
    }

    /// Sends the dialect's cancel for a request whose id on this connection the host knows, for
    /// routing of its own. Changes nothing here: [`cancel`](Self::cancel) is what cancels our calls.
    ///
    /// # Errors
    ///
    /// [`Refusal::NoCancel`], [`Refusal::Closed`], [`Refusal::OutboxFull`] or
    /// [`Refusal::TooLarge`].
    pub fn send_cancel_request(&mut self, id: &WireId) -> Result<(), Refusal> {
        let CancelRule::Notification { method, id: member } = self.config().dialect.cancel else {
            return Err(Refusal::NoCancel);
        };
        if self.machine.is_closed() {
            return Err(Refusal::Closed);
        }
        let staged = self.stage(|out| {
            encode::cancel(out, method, member, |out| out.extend_from_slice(id.token().as_bytes()));
        })?;
        // Behind all others: its request may still be waiting (G4).
        self.outbox.commit(staged, TransmitKind::Cancel, None);
        Ok(())
    }

    /// Gives up interest in a call without cancelling it; it still settles, if need be after
    /// [`Config::abandoned_grace`](crate::Config::abandoned_grace). Legal at any time.
    pub fn detach(&mut self, call: CallId, now: Timestamp) {
        self.machine.detach(call, now);
        self.carry_out_command(Cargo::Nothing);
    }

    /// The host saw progress of a call: its idle timeout starts anew. Progress that the dialect
    /// itself describes is seen without this.
    pub fn progress(&mut self, call: CallId, now: Timestamp) {
        self.machine.progress(call, now);
    }

    /// Answers a request, and gives its data back (G2). Where the dialect wants silence after a
    /// cancel, the answer is withheld.
    ///
    /// Requests can be answered after the connection closed: the peer may still be reading.
    ///
    /// # Errors
    ///
    /// [`Refusal::AlreadyAnswered`], [`Refusal::OutboxFull`] or [`Refusal::TooLarge`].
    pub fn respond(&mut self, request: RequestHandle, reply: Reply<'_>) -> Result<I, Refusal> {
        let phase = self.machine.request_phase(request);
        if !phase.is_some_and(crate::RequestPhase::is_unanswered) {
            return Err(Refusal::AlreadyAnswered);
        }
        let (machine, limit) = (&self.machine, self.stage_limit());
        let id = machine.request_id(request).expect("it has a phase").token();
        let dialect = &machine.config().dialect;
        let staged = self.outbox.stage(limit, |out| encode::response(out, id, reply, dialect));
        let staged = staged.map_err(|full| self.refuse_answer(request, full))?;
        self.machine.respond(request).expect("it is unanswered");
        let incoming = self.incoming[request.slot()].take();
        let Incoming { data, batch } = incoming.expect("an unanswered request has data");
        self.carry_out_command(Cargo::Staged { message: staged, batch });
        if let Some(batch) = batch {
            self.settle_member(batch);
        }
        Ok(data)
    }

    /// Cancels a request for a reason of our own, [`Cause::Internal`] or [`Cause::Shutdown`]: it
    /// is marked cancelled exactly as if the peer had asked. Legal at any time.
    pub fn cancel_request(&mut self, request: RequestHandle, cause: Cause, now: Timestamp) {
        self.machine.cancel_request(request, cause, now);
        self.carry_out_command(Cargo::Nothing);
    }

    /// Shuts down (G5). `Closed` follows when nothing is in flight any more.
    pub fn shutdown(&mut self, how: Shutdown, now: Timestamp) {
        self.machine.shutdown(how, now);
        self.carry_out_command(Cargo::Nothing);
        if how == Shutdown::Abandon {
            self.outbox.clear();
            self.batches.forget_answers();
        }
    }

    fn stage(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<Staged, Refusal> {
        let limit = self.stage_limit();
        self.outbox.stage(limit, write).map_err(|full| self.promise_room(full))
    }

    /// The answer of a batch member that only the end of its own batch could make room for is too
    /// large: waiting would be for ever.
    fn refuse_answer(&mut self, request: RequestHandle, full: Full) -> Refusal {
        let incoming = self.incoming[request.slot()].as_ref();
        let is_member = incoming.is_some_and(|incoming| incoming.batch.is_some());
        if is_member && full.len > self.stage_limit() {
            return Refusal::TooLarge;
        }
        self.promise_room(full)
    }

    fn promise_room(&mut self, full: Full) -> Refusal {
        if full.len > self.config().limits.unsent_bytes {
            return Refusal::TooLarge;
        }
        self.wanted = Some(self.wanted.map_or(full.len, |wanted| wanted.max(full.len)));
        Refusal::OutboxFull
    }
}

/// Params as JSON-RPC wants them: absent, an array or an object.
fn structured(params: Params<'_>) -> Result<Params<'_>, Refusal> {
    match params {
        Params::Raw(raw) if raw.get() == "null" => Ok(Params::Absent),
        Params::Raw(raw) if !raw.get().starts_with(['{', '[']) => Err(Refusal::InvalidParams),
        params => Ok(params),
    }
}
