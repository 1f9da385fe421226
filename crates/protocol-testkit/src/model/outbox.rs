//! The messages that wait to leave.

use protocol_core::machine::CallPhase;

use super::{Answer, Fate, Id, Leaving, Model, Sent};

impl Model {
    /// Takes the message that must leave next, and notes that with its call or its cancel.
    pub(crate) fn transmit(&mut self) -> Option<Sent> {
        let Leaving { message, call, .. } =
            self.cancels.pop_front().or_else(|| self.bulk.pop_front())?;
        if let Some(call) = call.and_then(|call| self.calls.get_mut(&call)) {
            call.phase = match call.phase {
                CallPhase::Queued => CallPhase::Sent,
                CallPhase::CancelQueued => CallPhase::Cancelling,
                CallPhase::TokenCancelQueued => CallPhase::AwaitingAcknowledgement,
                phase => phase,
            };
        }
        if let Sent::CancelRequest { number, .. } = message {
            if let Some(fate @ Fate::CancelQueued) = self.fate_mut(number) {
                *fate = Fate::CancelSent;
            }
        }
        Some(message)
    }

    /// Forgets an answer of the connection's own for which there was no room, as it has reported. `batch` is
    /// the batch that the answer belongs to.
    pub(crate) fn drop_answer(&mut self, id: Option<&Id>, batch: Option<u64>) {
        let id = id.map_or("null", |id| id);
        let is_it = |answer: &Answer| answer.call.as_ref().unwrap_or(&answer.id) == id;
        let drop_last = |answers: &mut Vec<Answer>| {
            if let Some(place) = answers.iter().rposition(is_it) {
                answers.remove(place);
            }
        };
        if let Some(batch) = batch.and_then(|batch| self.batches.get_mut(&batch)) {
            return drop_last(&mut batch.answers);
        }
        let holds = |leaving: &Leaving| match &leaving.message {
            Sent::Answer(answer) => is_it(answer),
            Sent::Answers(answers) => answers.iter().any(is_it),
            Sent::Acknowledgement { id: acknowledged, .. } => acknowledged == id,
            _ => false,
        };
        // The same message may have queued more: answers of batches that wait for nothing, once it closed.
        let Some(place) = self.bulk.iter().rposition(holds) else { return };
        if let Sent::Answers(answers) = &mut self.bulk[place].message {
            drop_last(answers);
            if !answers.is_empty() {
                return;
            }
        }
        self.bulk.remove(place);
        self.issued -= u32::from(self.counts_all());
    }

    /// Returns the message that must leave next, if no answers leave early.
    pub(crate) fn next_to_leave(&self) -> Option<&Sent> {
        self.cancels.front().or(self.bulk.front()).map(|leaving| &leaving.message)
    }

    /// Returns the number of messages that wait to leave.
    pub(crate) fn waiting(&self) -> usize {
        self.cancels.len() + self.bulk.len()
    }

    /// Returns whether answers are kept back, until their batch is complete or their room is wanted.
    pub(crate) fn keeps_answers_back(&self) -> bool {
        self.batches.values().any(|batch| !batch.answers.is_empty())
    }

    /// The answers that are kept back for the oldest batch that has some leave now: room is wanted, and
    /// nothing else takes it (G2, G8).
    pub(crate) fn leave_early(&mut self) {
        let mut batches = self.batches.iter();
        if let Some((&number, _)) = batches.find(|(_, batch)| !batch.answers.is_empty()) {
            self.queue_answers(number);
        }
    }

    /// These answers of one batch have left before the others. Says whether they are the first of those
    /// that the batch has, or had when it was complete.
    pub(crate) fn has_left_early(&mut self, left: &[Answer]) -> bool {
        let kept_back = self.batches.values_mut().map(|batch| &mut batch.answers);
        let complete = self.bulk.iter_mut().filter_map(|leaving| match &mut leaving.message {
            Sent::Answers(answers) => Some(answers),
            _ => None,
        });
        match complete.chain(kept_back).find(|answers| answers.starts_with(left)) {
            Some(answers) => answers.drain(..left.len()),
            None => return false,
        };
        self.bulk
            .retain(|leaving| !matches!(&leaving.message, Sent::Answers(left) if left.is_empty()));
        true
    }
}
