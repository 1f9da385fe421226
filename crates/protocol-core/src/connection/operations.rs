//! Operations on the wire: requests that are answered at once with a token, and go on.

use alloc::string::ToString;

use super::Connection;
use crate::cause::Cause;
use crate::dialect::{CancelRule, CancelTarget};
use crate::error::Refusal;
use crate::event::TransmitKind;
use crate::machine::RequestHandle;
use crate::operations::{
    CancelReason, Cleanup, OperationEvent, OperationToken, Operations, Urgency,
};
use crate::wire::encode;

impl<O, I: Default> Connection<O, I> {
    /// Answers a request with the token of an operation that goes on, made of 16 random bytes. From
    /// now on whoever shows the token can cancel it, and [`respond`](Self::respond) only ends it:
    /// what the operation made is the host's to tell.
    ///
    /// # Errors
    ///
    /// [`Refusal::AlreadyAnswered`], [`Refusal::NoOperation`] if the dialect knows no operation that
    /// such a request starts, [`Refusal::TokenInUse`], [`Refusal::OutboxFull`] or
    /// [`Refusal::TooLarge`].
    pub fn begin_operation(
        &mut self,
        request: RequestHandle,
        entropy: [u8; 16],
    ) -> Result<OperationToken, Refusal> {
        let phase = self.machine.request_phase(request);
        if !phase.is_some_and(crate::RequestPhase::is_unanswered) {
            return Err(Refusal::AlreadyAnswered);
        }
        let special = self.specials.get(request.slot()).ok_or(Refusal::NoOperation)?;
        let method = special.starts.ok_or(Refusal::NoOperation)?;
        let CancelRule::Request { target: CancelTarget::Operation { token: member, .. }, .. } =
            self.config().dialect.cancel
        else {
            return Err(Refusal::NoOperation);
        };
        if special.operation.is_some() {
            return Err(Refusal::AlreadyAnswered);
        }
        let token = OperationToken::from_bytes(entropy);
        let is_withheld = self.machine.withholds_answer(request);
        let batch = special.batch;
        let id = self.machine.request_id(request).expect("it has a phase").clone();
        let staged = self.stage(|out| {
            encode::result(out, id.token(), |out| {
                encode::cancel_params(out, member, |out| token.write_json(out), None);
            });
        })?;
        if let Err(refusal) = self.machine.begin_operation(request, token.wire_id()) {
            self.outbox.discard(staged);
            return Err(refusal);
        }
        let kind = self.operations.kind(method, Cleanup::NotNeeded);
        let operation = self.operations.register(kind, entropy, request, self.now);
        if let Some(special) = self.specials.get_mut(request.slot()) {
            special.operation = operation.ok();
            special.batch = None;
        }
        match batch {
            // Nothing is sent once the connection is abandoned (G7).
            _ if is_withheld => self.outbox.discard(staged),
            None => {
                self.outbox.commit(staged, TransmitKind::Response);
            }
            Some(batch) => self.keep_back(batch, staged),
        }
        if let Some(batch) = batch {
            self.settle_member(batch);
        }
        if phase == Some(crate::RequestPhase::Cancelled) {
            let cause = self.machine.request_cause(request).unwrap_or(Cause::Internal);
            self.tell_of_cancel(request, cause);
        }
        Ok(token)
    }

    /// The token of the operation that a request has begun, until [`respond`](Self::respond) ends it.
    #[must_use]
    pub fn operation(&self, request: RequestHandle) -> Option<OperationToken> {
        self.operations.token(self.specials.get(request.slot())?.operation?)
    }

    /// The operations of the peer's requests: their tokens, their metrics.
    #[must_use]
    pub const fn operations(&self) -> &Operations<RequestHandle> {
        &self.operations
    }

    /// Tells the client that an operation of its was cancelled.
    pub(super) fn tell_of_cancel(&mut self, request: RequestHandle, cause: Cause) {
        let special = self.specials.get(request.slot());
        let Some(operation) = special.and_then(|special| special.operation) else { return };
        let reason = match cause {
            Cause::Peer | Cause::Caller => CancelReason::ClientRequested,
            Cause::Deadline | Cause::IdleTimeout | Cause::HardCap => CancelReason::Timeout,
            Cause::Shutdown => CancelReason::ServerShutdown,
            Cause::Dropped | Cause::Parent | Cause::PeerGone | Cause::Internal => {
                CancelReason::Error(cause.as_str().into())
            }
        };
        // It is live as long as its request is.
        let _ = self.operations.cancel(operation, reason, Urgency::Forced, self.now);
        while let Some(event) = self.operations.poll_event() {
            let OperationEvent::Cancelled { token, reason, .. } = event else { continue };
            self.send_told(token, &reason);
        }
    }

    fn send_told(&mut self, token: OperationToken, reason: &CancelReason) {
        let CancelRule::Request { target: CancelTarget::Operation { told, .. }, .. } =
            self.config().dialect.cancel
        else {
            return;
        };
        if self.machine.is_closed() {
            return;
        }
        let stamp = self.stamp();
        // At most one an operation, so it is taken above the limit (G8).
        let staged = self.outbox.stage(usize::MAX, |out| {
            encode::told(out, told, |out| token.write_json(out), &reason.to_string(), stamp);
        });
        let staged = staged.expect("no limit was given");
        self.outbox.commit(staged, TransmitKind::Notification);
    }
}
