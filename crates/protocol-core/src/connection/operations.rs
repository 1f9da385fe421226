//! Operations on the wire: requests that are answered at once with a token, and go on.

use alloc::format;

use serde_json::value::RawValue;

use super::{Connection, context};
use crate::cause::Cause;
use crate::dialect::CancelRule;
use crate::error::Refusal;
use crate::event::TransmitKind;
use crate::id::WireId;
use crate::machine::{RequestHandle, RequestStep};
use crate::outbox::Lane;
use crate::wire::decode;
use crate::wire::encode::{Draft, To, Value};

impl<O, I: Default> Connection<O, I> {
    /// Answers a request with the token of an operation that goes on: 16 random bytes, on the wire 32
    /// hexadecimal digits, written in upper case and read in either. From now on whoever shows the token
    /// can cancel it, and [`respond`](Self::respond) only ends it: what the operation made is the host's
    /// to tell.
    ///
    /// # Errors
    ///
    /// [`Refusal::AlreadyResponded`], [`Refusal::NoOperation`] if the dialect knows no operation that
    /// such a request starts, [`Refusal::TokenInUse`], [`Refusal::OutboxFull`] or
    /// [`Refusal::TooLarge`].
    pub fn begin_operation(
        &mut self,
        request: RequestHandle,
        token: [u8; 16],
    ) -> Result<(), Refusal> {
        let (step, id, incoming) =
            self.machine.answer_step(request).ok_or(Refusal::AlreadyResponded)?;
        let rare = incoming.rare.map(|slot| &self.rares[slot.get()]);
        let rare = rare.filter(|rare| rare.starts_operation).ok_or(Refusal::NoOperation)?;
        let batch = rare.batch;
        let CancelRule::Operation { token: member, .. } = &self.machine.config().dialect.cancel
        else {
            return Err(Refusal::NoOperation);
        };
        let token = id_of(token);
        self.machine.admit_operation(request, &token)?;
        let to = To { id: id.map_or("null", WireId::token), origin: rare.origin.as_deref() };
        let members = &[(&**member, Some(Value::Token(token.token())))];
        let draft = Draft::Result { to, members };
        let context = context(&self.machine, self.now);
        // Nothing is sent once the connection is abandoned (G7).
        let sent = match step {
            RequestStep::Withhold => Ok(None),
            _ => self.unsent.answer(&context, &draft, TransmitKind::Response, batch),
        };
        let sent = sent.map_err(|len| self.unsent.promise_room(len, &context.config.limits))?;
        let cause = self.machine.request_cause(request);
        self.machine.begin_operation(request, token)?;
        self.answered(batch, sent, None);
        self.leave_batch(request);
        if let Some(cause) = cause {
            self.tell_of_cancel(request, cause);
        }
        Ok(())
    }

    /// The token of the operation that a request has begun, until [`respond`](Self::respond) ends it.
    #[must_use]
    pub fn operation(&self, request: RequestHandle) -> Option<[u8; 16]> {
        let digits = self.machine.operation_token(request)?.token().trim_matches('"');
        u128::from_str_radix(digits, 16).ok().map(u128::to_be_bytes)
    }

    /// Tells the client that an operation of its was cancelled. At most one notice an operation, so it
    /// is taken above the limit (G8).
    pub(super) fn tell_of_cancel(&mut self, request: RequestHandle, cause: Cause) {
        let Some(token) = self.machine.operation_token(request) else { return };
        let config = self.machine.config();
        let CancelRule::Operation { notification: told, .. } = &config.dialect.cancel else {
            return;
        };
        if self.machine.is_closed() {
            return;
        }
        let context = context(&self.machine, self.now);
        let members = [
            ("requestId", Some(Value::Token(token.token()))),
            ("reason", Some(Value::Text(reason_of(cause)))),
            ("timestamp", Some(context.stamp())),
        ];
        let draft = Draft::Notification { method: told, params: Some(Value::Object(&members)) };
        let (lane, kind) = (Lane::Bulk, TransmitKind::Notification);
        let pushed = self.unsent.outbox.push(usize::MAX, &context, &draft, lane, kind, None);
        debug_assert!(pushed.is_ok(), "there is always room above the limit");
    }
}

/// The id that the machine knows an operation by: its token on the wire.
fn id_of(token: [u8; 16]) -> WireId {
    let token = format!("\"{:032X}\"", u128::from_be_bytes(token));
    WireId::scanned(&token).expect("a string is an id")
}

/// The same of a token that the peer wrote, if it can be one of ours.
pub(super) fn token_id(token: &RawValue) -> Option<WireId> {
    let digits = decode::string(token)?;
    let is_token = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let token = u128::from_str_radix(&digits, 16).ok().filter(|_| is_token)?;
    Some(id_of(token.to_be_bytes()))
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
