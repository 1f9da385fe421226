//! Operations on the wire: requests that are answered at once with a token, and go on.

use super::Connection;
use crate::cause::Cause;
use crate::dialect::CancelRule;
use crate::error::Refusal;
use crate::event::TransmitKind;
use crate::id::WireId;
use crate::machine::RequestHandle;
use crate::outbox::{Lane, Room};
use crate::token::OperationToken;
use crate::wire::encode::{Context, Draft, To};

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
        let (_, id, rare) = self.machine.answer_step(request).ok_or(Refusal::AlreadyAnswered)?;
        let rare = rare.filter(|rare| rare.starts_operation);
        let rare = rare.ok_or(Refusal::NoOperation)?;
        let batch = rare.batch;
        let CancelRule::Operation { token: member, .. } = &self.machine.config().dialect.cancel
        else {
            return Err(Refusal::NoOperation);
        };
        let token = OperationToken::from_bytes(entropy);
        self.machine.admit_operation(request, &token.wire_id())?;
        let to = To { id: id.map_or("null", WireId::token), origin: rare.origin.as_deref() };
        let draft = Draft::TokenResult { to, member, token };
        let context = Context { config: self.machine.config(), now: self.now };
        // Nothing is sent once the connection is abandoned (G7).
        let sent = match self.machine.withholds_answer(request) {
            true => Ok(None),
            false => self.unsent.answer(&context, &draft, TransmitKind::Response, batch),
        };
        let sent = sent.map_err(|full| self.unsent.promise_room(full, &context.config.limits))?;
        let cause = self.machine.request_cause(request);
        self.machine.begin_operation(request, token.wire_id())?;
        if let Some(batch) = batch {
            self.answered(Some(batch), sent, None);
            self.settle_member(batch);
        }
        if let Some(rare) = self.machine.request_rare_mut(request) {
            rare.batch = None;
        }
        if let Some(cause) = cause {
            self.tell_of_cancel(request, cause);
        }
        Ok(token)
    }

    /// The token of the operation that a request has begun, until [`respond`](Self::respond) ends it.
    #[must_use]
    pub fn operation(&self, request: RequestHandle) -> Option<OperationToken> {
        let id = self.machine.operation_token(request)?.token();
        id.trim_matches('"').parse().ok()
    }

    /// Tells the client that an operation of its was cancelled. At most one notice an operation, so it
    /// is taken above the limit (G8).
    pub(super) fn tell_of_cancel(&mut self, request: RequestHandle, cause: Cause) {
        let Some(token) = self.machine.operation_token(request) else { return };
        let config = self.machine.config();
        let CancelRule::Operation { told, .. } = &config.dialect.cancel else { return };
        if self.machine.is_closed() {
            return;
        }
        let draft = Draft::Told { method: told, token: token.token(), reason: reason_of(cause) };
        let context = Context { config, now: self.now };
        let (lane, kind) = (Lane::Bulk, TransmitKind::Notification);
        let pushed = self.unsent.outbox.push(Room::UNLIMITED, &context, &draft, lane, kind, None);
        debug_assert!(pushed.is_ok(), "there is always room above the limit");
    }
}

/// Why an operation was cancelled, in the words of its protocol.
const fn reason_of(cause: Cause) -> &'static str {
    match cause {
        Cause::Peer | Cause::Caller => "client_requested",
        Cause::Deadline | Cause::IdleTimeout | Cause::HardCap => "timeout",
        Cause::Shutdown => "server_shutdown",
        Cause::Dropped => "error: dropped",
        Cause::Parent => "error: parent",
        Cause::PeerGone => "error: peer_gone",
        Cause::Internal => "error: internal",
    }
}
