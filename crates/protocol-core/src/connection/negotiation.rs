//! Which side declared that it can be asked to cancel.

use serde_json::value::RawValue;

use super::batches::BatchKey;
use crate::dialect::{CapabilityRule, Role, Text};
use crate::machine::{CancelRefusal, Machine, PeerCancels};
use crate::outbox::Ticket;
use crate::wire::decode;

/// What was declared in an exchange that is still under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Declared {
    Yes,
    No,
}

/// Who may ask whom to cancel, once the exchange is known to both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Conclusion {
    ours: Declared,
    peers: Declared,
}

/// The exchange of capabilities, seen from whichever side we are.
#[derive(Clone, Debug)]
pub(super) struct Negotiation {
    rule: CapabilityRule,
    /// What our answer to the exchange concludes, while its batch keeps it back.
    kept_back: Option<(BatchKey, Conclusion)>,
    /// Our answer to the exchange, while it waits to be sent: no cancel may overtake it.
    unsent: Option<Ticket>,
}

impl Negotiation {
    pub(super) const fn new(rule: CapabilityRule) -> Self {
        Self { rule, kept_back: None, unsent: None }
    }

    /// What the client declares in the params of a request, if that is the exchange.
    #[inline]
    pub(super) fn client_declares(
        &self,
        method: &str,
        params: Option<&RawValue>,
    ) -> Option<Declared> {
        match &self.rule {
            CapabilityRule::Declared { exchange, client, .. } if exchange == method => {
                Some(declared(params, client))
            }
            _ => None,
        }
    }

    /// What the server's answer to the exchange concludes for `role`, which we have in it.
    pub(super) fn conclusion(
        &self,
        role: Role,
        client: Declared,
        result: &RawValue,
    ) -> Option<Conclusion> {
        let CapabilityRule::Declared { server, .. } = &self.rule else { return None };
        let server = declared(Some(result), server);
        Some(match role {
            Role::Client => Conclusion { ours: client, peers: server },
            Role::Server => Conclusion { ours: server, peers: client },
        })
    }

    /// Our answer to the exchange waits in the outbox.
    pub(super) fn queued(&mut self, machine: &mut Machine, conclusion: Conclusion, answer: Ticket) {
        conclusion.take_effect(machine);
        self.unsent = Some(answer);
    }

    /// Our answer to the exchange waits for the others of its batch.
    pub(super) fn kept_back(&mut self, batch: BatchKey, conclusion: Conclusion) {
        self.kept_back = Some((batch, conclusion));
    }

    /// The answers of a batch wait in the outbox.
    pub(super) fn batch_queued(&mut self, machine: &mut Machine, batch: BatchKey, answers: Ticket) {
        if let Some((_, conclusion)) = self.kept_back.take_if(|(kept, _)| *kept == batch) {
            self.queued(machine, conclusion, answers);
        }
    }

    /// A message has left.
    pub(super) fn sent(&mut self, message: Ticket) {
        self.unsent.take_if(|unsent| *unsent == message);
    }

    /// Whether our answer to the exchange still waits in the outbox.
    pub(super) fn is_unsent(&self) -> bool {
        self.unsent.is_some()
    }
}

impl Conclusion {
    pub(super) fn take_effect(self, machine: &mut Machine) {
        let refusal = (self.peers == Declared::No).then_some(CancelRefusal::Undeclared);
        let cancels = match self.ours {
            Declared::Yes => PeerCancels::Obeyed,
            Declared::No => PeerCancels::Ignored,
        };
        machine.exchanged(refusal, cancels);
    }
}

fn declared(value: Option<&RawValue>, path: &[Text]) -> Declared {
    match decode::path(value, path).map(RawValue::get) {
        Some("true") => Declared::Yes,
        _ => Declared::No,
    }
}
