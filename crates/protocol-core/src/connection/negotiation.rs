//! What an exchange settles: who may ask whom to cancel, the session, the revision.

use serde_json::value::RawValue;

use super::Connection;
use super::batches::BatchKey;
use super::rows::Opening;
use crate::dialect::{CapabilityRule, Role, Text};
use crate::machine::{CancelRefusal, PeerCancels};
use crate::outbox::Ticket;
use crate::wire::decode;

/// Whether a side declared that it can be asked to cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Declared {
    Yes,
    No,
}

impl Declared {
    /// What stands at this path of a request's params or of its result.
    pub(super) fn at(value: Option<&RawValue>, path: &[Text]) -> Self {
        match decode::path(value, path).map(RawValue::get) {
            Some("true") => Self::Yes,
            _ => Self::No,
        }
    }
}

/// Who may ask whom to cancel, once the exchange is known to both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Conclusion {
    ours: Declared,
    peers: Declared,
}

/// Our answer to the exchange of capabilities, on its way to the peer.
#[derive(Clone, Debug, Default)]
pub(super) struct Negotiation {
    /// What it concludes, while its batch keeps it back.
    kept_back: Option<(BatchKey, Conclusion)>,
    /// Its place in the outbox: no cancel may overtake it.
    unsent: Option<Ticket>,
}

impl Negotiation {
    /// Our answer to the exchange waits for the others of its batch.
    pub(super) fn kept_back(&mut self, batch: BatchKey, conclusion: Conclusion) {
        self.kept_back = Some((batch, conclusion));
    }

    /// A message has left.
    #[inline]
    pub(super) fn sent(&mut self, message: Ticket) {
        self.unsent.take_if(|unsent| *unsent == message);
    }

    /// Whether our answer to the exchange still waits in the outbox.
    pub(super) const fn is_unsent(&self) -> bool {
        self.unsent.is_some()
    }
}

impl<O, I: Default> Connection<O, I> {
    /// A request of `asker`'s is answered with this result: settles what it opens, and gives what it
    /// concludes about cancels, which is known to both sides only once the answer is on its way.
    pub(super) fn open(
        &mut self,
        opening: Opening,
        asker: Role,
        result: &RawValue,
    ) -> Option<Conclusion> {
        if opening == Opening::default() {
            return None;
        }
        if opening.session() {
            self.machine.open_session();
        }
        let conclusion = self.conclusion(opening, asker, result);
        let dialect = &self.config().dialect;
        let exchange = opening.exchange().and_then(|at| dialect.exchanges().get(at));
        if let Some(dialect) = exchange.and_then(|it| dialect.settled_by(&it.method, result)) {
            self.machine.speak(dialect);
        }
        conclusion
    }

    fn conclusion(&self, opening: Opening, asker: Role, result: &RawValue) -> Option<Conclusion> {
        let CapabilityRule::Declared { server, .. } = &self.config().dialect.capability else {
            return None;
        };
        let client = opening.declares?;
        let server = Declared::at(Some(result), server);
        // Whoever asks first is the client of the exchange, whatever the role.
        Some(match asker {
            Role::Client => Conclusion { ours: client, peers: server },
            Role::Server => Conclusion { ours: server, peers: client },
        })
    }

    /// What was concluded holds from now on.
    pub(super) fn conclude(&mut self, conclusion: Option<Conclusion>) {
        let Some(Conclusion { ours, peers }) = conclusion else { return };
        let refusal = (peers == Declared::No).then_some(CancelRefusal::Undeclared);
        let cancels = match ours {
            Declared::Yes => PeerCancels::Obeyed,
            Declared::No => PeerCancels::Ignored,
        };
        self.machine.exchanged(refusal, cancels);
    }

    /// Our answer to the exchange waits in the outbox.
    pub(super) fn conclude_with(&mut self, conclusion: Option<Conclusion>, answer: Ticket) {
        if conclusion.is_some() {
            self.conclude(conclusion);
            self.negotiation.unsent = Some(answer);
        }
    }

    /// The answers of a batch wait in the outbox.
    pub(super) fn conclude_batch(&mut self, batch: BatchKey, answers: Ticket) {
        let kept_back = self.negotiation.kept_back.take_if(|(kept, _)| *kept == batch);
        self.conclude_with(kept_back.map(|(_, conclusion)| conclusion), answers);
    }
}
