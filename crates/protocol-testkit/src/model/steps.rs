//! The steps that commands and inputs share.

use std::borrow::Cow;
use std::time::Duration;

use protocol_core::machine::CallPhase;
use protocol_core::{
    CancelOutcome, CancelRefusal, CancelRule, Cancellers, CapabilityRule, Cause, CloseReason,
    Envelope, Grace, MessageOrder, News, RequestPhase, ResponseRule, Role, Settlement, Timestamp,
};
use serde_json::Value;

use super::seen::{starts_operation, token_member};
use super::{
    Answer, Asked, Conclusion, Exchange, Id, Leaving, Life, Model, Origin, Sent, Settles, Told,
    abp, reading,
};

impl Model {
    pub(super) fn tell(&mut self, told: Told) {
        // `Closed` is the last event (G7).
        if !self.is_told_closed {
            self.is_told_closed = matches!(told, Told::Closed { .. });
            self.told.push_back(told);
        }
    }

    /// A shutdown is over when nothing is in flight any more (G5).
    pub(super) fn finish_drain(&mut self) {
        if self.life == Life::Draining && self.calls.is_empty() && self.unanswered() == 0 {
            self.life = Life::Closed;
            self.tell(Told::Closed { reason: CloseReason::Shutdown });
        }
    }

    // Calls

    /// Returns the next number of the row.
    pub(super) const fn issue(&mut self) -> u32 {
        self.issued += 1;
        self.issued
    }

    /// Returns whether every message has a number.
    pub(super) fn counts_all(&self) -> bool {
        self.config.dialect.envelope == Envelope::Dap
    }

    /// Returns whether there is a message that cancels.
    pub(super) fn has_cancel(&self) -> bool {
        !matches!(self.config.dialect.cancel, CancelRule::Local | CancelRule::ClosedStream)
    }

    /// Returns the reason that we may send no cancel at all.
    pub(super) fn refusal(&self) -> Option<CancelRefusal> {
        let is_client_only = matches!(self.config.dialect.cancellers, Cancellers::Client { .. });
        match self.exchange {
            _ if is_client_only && self.config.role == Role::Server => Some(CancelRefusal::NotOurs),
            Exchange::NotNeeded | Exchange::Done { peers: true, .. } => None,
            Exchange::Awaited => Some(CancelRefusal::BeforeExchange),
            Exchange::Done { peers: false, .. } => Some(CancelRefusal::Undeclared),
        }
    }

    pub(super) fn refusal_of(&self, call: u32) -> Option<CancelRefusal> {
        self.calls[&call].uncancellable.or_else(|| self.refusal())
    }

    /// Cancels a call for any cause but a timer (G5).
    pub(super) fn cancel_call(
        &mut self,
        number: u32,
        cause: Cause,
        now: Timestamp,
    ) -> CancelOutcome {
        let Some(call) = self.calls.get(&number) else { return CancelOutcome::AlreadySettled };
        let patience = match call.patience.unwrap_or(self.config.dialect.grace) {
            Grace::Await => None,
            Grace::Settle(patience) => Some(patience),
        };
        // Nobody waits any more: the wait is bounded, whatever the call asked for (G12).
        let is_left_alone = matches!(cause, Cause::Dropped | Cause::Shutdown);
        let bound = self.config.abandoned_grace;
        let patience = match patience {
            patience if !is_left_alone => patience,
            patience => Some(patience.map_or(bound, |patience| patience.min(bound))),
        };
        match self.refusal_of(number).filter(|_| call.phase == CallPhase::Sent) {
            Some(why) => {
                // The stop of a task follows the response that names it, unless it is the host's. Over HTTP nobody reads
                // that response once the call has settled.
                let dialect = &self.config.dialect;
                let mut signs = dialect.work.iter().flat_map(|rule| &*rule.signs);
                let is_ours = signs.any(|it| it.news == News::Stop && it.state.is_none());
                let is_read = dialect.order == MessageOrder::Kept;
                let awaits_name = why == CancelRefusal::Params && is_ours && is_read;
                if is_left_alone || awaits_name {
                    self.record(number, Settlement::Cancelled, cause);
                }
                match patience {
                    _ if is_left_alone => self.wait_at_most(number, bound, now),
                    Some(Duration::ZERO) if awaits_name => self.settle_unanswered(number),
                    Some(patience) if awaits_name => self.wait_at_most(number, patience, now),
                    _ => {}
                }
                if awaits_name { CancelOutcome::AwaitsToken } else { CancelOutcome::Refused(why) }
            }
            None => self.give_up(number, Settlement::Cancelled, cause, patience, now),
        }
    }

    /// Gives a call up, and tells the peer if there is a way (G4, G5). The outcome says what became of
    /// the cancel (F11).
    pub(super) fn give_up(
        &mut self,
        number: u32,
        settlement: Settlement,
        cause: Cause,
        patience: Option<Duration>,
        now: Timestamp,
    ) -> CancelOutcome {
        self.record(number, settlement, cause);
        // Without a cancel it settles at once. If only this one can't be cancelled, it goes on.
        let may_wait = self.has_cancel() || self.refusal_of(number).is_some();
        let waits = may_wait && patience != Some(Duration::ZERO);
        let outcome = match self.calls[&number].phase {
            CallPhase::Queued => CancelOutcome::Withdrawn,
            CallPhase::Sent if !self.has_cancel() => CancelOutcome::Settled,
            CallPhase::Sent if token_member(&self.config.dialect).is_some() => {
                // There is nothing to name in it before the answer.
                self.call_mut(number).phase = CallPhase::AwaitingToken;
                CancelOutcome::AwaitsToken
            }
            CallPhase::Sent => {
                self.queue_cancel(number);
                CancelOutcome::Sent
            }
            CallPhase::AwaitingToken => CancelOutcome::AwaitsToken,
            _ if waits => CancelOutcome::AlreadySent,
            _ => CancelOutcome::Settled,
        };
        match patience {
            _ if !waits || outcome == CancelOutcome::Withdrawn => self.settle_unanswered(number),
            Some(patience) => self.wait_at_most(number, patience, now),
            None => {}
        }
        outcome
    }

    /// The first cause wins (B22).
    pub(super) fn record(&mut self, number: u32, settlement: Settlement, cause: Cause) {
        self.call_mut(number).ending.get_or_insert((settlement, cause));
    }

    pub(super) fn wait_at_most(&mut self, number: u32, patience: Duration, now: Timestamp) {
        let call = self.call_mut(number);
        let due = now + patience;
        call.grace = Some(call.grace.map_or(due, |grace| grace.min(due)));
    }

    /// Settles a call as recorded; if it has not left, it never will (G4).
    pub(super) fn settle_unanswered(&mut self, number: u32) {
        let call = &self.calls[&number];
        let (settlement, cause) = call.ending.expect("an ending is recorded first");
        if call.phase == CallPhase::Queued {
            self.bulk.retain(|leaving| leaving.call != Some(number));
        }
        self.remember_unanswered(number);
        self.settle(number, settlement, Some(cause));
    }

    /// A call is over (G1).
    pub(super) fn settle(&mut self, number: u32, settlement: Settlement, cause: Option<Cause>) {
        let call = self.calls.remove(&number).expect("it is in flight");
        self.tell(Told::Settled { call: number, settlement, cause });
        if let Some(parent) = call.parent {
            self.end_tree(parent);
        }
    }

    pub(super) fn call_mut(&mut self, number: u32) -> &mut super::Call {
        self.calls.get_mut(&number).expect("it is in flight")
    }

    /// The loss of the connection overrides what was recorded.
    pub(super) fn lose_calls(&mut self, cause: Cause) {
        for number in self.calls.keys().copied().collect::<Vec<_>>() {
            self.call_mut(number).ending = Some((Settlement::ConnectionLost, cause));
            self.settle_unanswered(number);
        }
    }

    // Requests

    /// Marks a request cancelled, and cancels the calls made on its behalf (G3, G6). Only the peer's own cancel
    /// asks for silence, where the dialect wants that; an abandoned connection says nothing more.
    pub(super) fn mark(&mut self, number: u64, cause: Cause, now: Timestamp) {
        let is_silent = self.life == Life::Abandoned
            || cause == Cause::Peer && self.config.dialect.response != ResponseRule::Required;
        let Some(request) = self.requests.get_mut(&number) else { return };
        request.phase = match request.phase {
            RequestPhase::Running if is_silent => RequestPhase::Silenced,
            RequestPhase::Running => RequestPhase::Cancelled,
            RequestPhase::Operation => RequestPhase::OperationCancelled,
            RequestPhase::Cancelled if is_silent => {
                request.phase = RequestPhase::Silenced;
                return self.leave_batch(number);
            }
            _ => return,
        };
        request.cause = Some(cause);
        self.tell(Told::Cancelled { request: number, cause });
        self.tell_client(number, cause);
        if is_silent && self.requests[&number].phase == RequestPhase::Silenced {
            // Nobody waits for its answer any more (B32, F19).
            self.leave_batch(number);
        }
        for call in self.children(number) {
            self.cancel_call(call, Cause::Parent, now);
        }
    }

    /// Returns the number of the peer's call with this id, if one of ours may have written that.
    pub(super) fn number_of_peer(&self, id: &Id) -> Option<u32> {
        reading::our_number(&serde_json::from_str(id).ok()?, self.config.dialect.envelope)
    }

    pub(super) fn mark_all(&mut self, cause: Cause, now: Timestamp) {
        for number in self.requests.keys().copied().collect::<Vec<_>>() {
            self.mark(number, cause, now);
        }
    }

    fn children(&self, request: u64) -> Vec<u32> {
        let calls = self.calls.iter().filter(|(_, call)| call.parent == Some(request));
        calls.map(|(&number, _)| number).collect()
    }

    /// A request is over when it is answered and has no calls in flight (G6).
    pub(super) fn end_tree(&mut self, number: u64) {
        let Some(request) = self.requests.get(&number) else { return };
        let was_parent = request.was_parent;
        if request.phase == RequestPhase::Responded && self.children(number).is_empty() {
            self.requests.remove(&number);
            if was_parent {
                self.tell(Told::TreeSettled { request: number });
            }
        }
    }

    /// Settles a request with its one answer, or with none. `concludes`: what holds once that answer
    /// leaves.
    pub(super) fn settle_request(
        &mut self,
        number: u64,
        answer: Option<Answer>,
        concludes: Option<Conclusion>,
    ) {
        let request = self.requests.get_mut(&number).expect("it is unanswered");
        let was_cancelled = request.is_cancelled();
        request.phase = RequestPhase::Responded;
        let id = request.id.clone();
        let (batch, tokens) = (request.batch, std::mem::take(&mut request.tokens));
        if answer.is_none() {
            for token in tokens {
                remember(&mut self.retired, token, self.config.limits.abandoned_ids);
            }
        }
        self.remember_finished(id, was_cancelled);
        if let Some(answer) = answer {
            self.queue_answer(answer, batch, concludes);
        }
        self.leave_batch(number);
        self.end_tree(number);
    }

    /// A request is no longer one that its batch waits for.
    pub(super) fn leave_batch(&mut self, number: u64) {
        let request = self.requests.get_mut(&number).expect("it is not over yet");
        if let Some(batch) = request.batch.take() {
            self.batch_mut(batch).unanswered -= 1;
            self.end_batch(batch);
        }
    }

    pub(super) fn queue_answer(
        &mut self,
        answer: Answer,
        batch: Option<u64>,
        concludes: Option<Conclusion>,
    ) {
        match batch {
            Some(batch) => {
                let batch = self.batch_mut(batch);
                batch.answers.push(answer);
                batch.concludes = concludes.or(batch.concludes.take());
            }
            None => self.queue_concluding(Sent::Answer(answer), concludes),
        }
    }

    /// Returns the answer to a request that came from there. ABP has words for two codes only.
    pub(super) fn answer_to(origin: Option<&Origin>, id: &Id, code: Option<i64>) -> Answer {
        let Some(origin) = origin else { return Answer { id: id.clone(), call: None, code } };
        let call = (origin.asked == Asked::Capability).then(|| id.clone());
        let code = code.map(|code| match origin.asked {
            Asked::Command => code,
            Asked::Capability | Asked::Other => abp::as_written(code),
        });
        Answer { id: origin.message.clone(), call, code }
    }

    pub(super) fn queue(&mut self, message: Sent) {
        self.queue_concluding(message, None);
    }

    /// Queues a message. The facts about cancels that it settles hold as soon as it is on its way.
    fn queue_concluding(&mut self, message: Sent, concludes: Option<Conclusion>) {
        let has_number = matches!(message, Sent::Request(_) | Sent::CancelRequest { .. });
        if self.counts_all() && !has_number {
            self.issue();
        }
        self.bulk.push_back(Leaving { message, call: None, concludes: concludes.is_some() });
        if let Some(concludes) = concludes {
            self.conclude(concludes);
        }
    }

    /// A cancel overtakes everything but other cancels, and the answer that tells the peer that it may
    /// be asked (G4). Where every message has a number, they leave in its order.
    pub(super) fn queue_ahead(&mut self, message: Sent, call: Option<u32>) {
        let leaving = Leaving { message, call, concludes: false };
        let is_behind = self.counts_all() || self.bulk.iter().any(|leaving| leaving.concludes);
        let lane = match is_behind {
            true => &mut self.bulk,
            false => &mut self.cancels,
        };
        lane.push_back(leaving);
    }

    /// The answers of a batch leave together, when all are there (B32).
    pub(super) fn end_batch(&mut self, number: u64) {
        let batch = &self.batches[&number];
        if batch.is_read && batch.unanswered == 0 {
            self.queue_answers(number);
            self.batches.remove(&number);
        }
    }

    /// The answers that a batch has so far leave, if there are any.
    pub(super) fn queue_answers(&mut self, batch: u64) {
        let batch = self.batch_mut(batch);
        let (answers, concludes) = (std::mem::take(&mut batch.answers), batch.concludes.take());
        if !answers.is_empty() {
            self.queue_concluding(Sent::Answers(answers), concludes);
        }
    }

    pub(super) fn batch_mut(&mut self, number: u64) -> &mut super::Batch {
        self.batches.get_mut(&number).expect("a batch lives as long as its members")
    }

    // Sessions and capabilities

    /// Returns whether a request of this method opens the session.
    pub(super) fn opens_session(&self, method: &str) -> bool {
        self.config.dialect.session.as_deref() == Some(method)
    }

    /// Returns the declaration that a request of either side makes about its client, if it is the exchange.
    fn client_declares(&self, method: &str, params: &Value) -> Option<bool> {
        match &self.config.dialect.capability {
            CapabilityRule::Declared { exchange, client, .. } if exchange == method => {
                Some(reading::declared(params, client))
            }
            _ => None,
        }
    }

    fn server_declares(&self, result: &Value) -> bool {
        match &self.config.dialect.capability {
            CapabilityRule::Declared { server, .. } => reading::declared(result, server),
            CapabilityRule::NotNeeded => false,
            other => panic!("the model does not know {other:?}"),
        }
    }

    /// Returns the facts that a result settles in response to such a request.
    pub(super) fn settles(&self, method: &str, params: &Value) -> Settles {
        Settles {
            opens_session: self.opens_session(method),
            declares: self.client_declares(method, params),
            names_revision: self.config.names_revision(method),
        }
    }

    /// A result answers a request, which is ours or the peer's. Returns the facts about cancels that it settles.
    pub(super) fn conclusion(
        &mut self,
        settles: &Settles,
        result: &Value,
        is_ours: bool,
    ) -> Conclusion {
        self.has_session |= settles.opens_session;
        let declared =
            settles.declares.map(|client| match (client, self.server_declares(result)) {
                declared if is_ours => declared,
                (client, server) => (server, client),
            });
        let member = settles.names_revision.as_deref();
        let rules = member.and_then(|member| self.config.settled_by(&result[member]));
        Conclusion { declared, rules }
    }

    pub(super) fn conclude(&mut self, Conclusion { declared, rules }: Conclusion) {
        if let Some((ours, peers)) = declared {
            self.exchange = Exchange::Done { ours, peers };
        }
        if let Some(rules) = rules {
            // Another rule of consent begins without any.
            if rules.dialect.capability != self.config.dialect.capability {
                self.exchange = match rules.dialect.capability {
                    CapabilityRule::NotNeeded => Exchange::NotNeeded,
                    _ => Exchange::Awaited,
                };
            }
            self.config = rules;
        }
    }

    /// Returns the reason that requests with this method and these params can't be cancelled.
    pub(super) fn uncancellable(
        &self,
        asked: Asked,
        method: &str,
        params: &Value,
    ) -> Option<CancelRefusal> {
        let dialect = &self.config.dialect;
        let rule = &dialect.uncancellable;
        let has_no_call_id = dialect.envelope == Envelope::Abp && asked == Asked::Other;
        let has_no_token = token_member(dialect).is_some() && !starts_operation(dialect, method);
        if has_no_call_id || has_no_token || rule.methods.iter().any(|it| it == method) {
            return Some(CancelRefusal::Method);
        }
        let holds = |member: &Cow<'static, str>| {
            params.get(&**member).is_some_and(|value| !value.is_null())
        };
        rule.params.iter().any(holds).then_some(CancelRefusal::Params)
    }

    /// Returns whether a client's request of this method may be ended by the server.
    pub(super) fn server_may_end(&self, method: &str) -> bool {
        match &self.config.dialect.cancellers {
            Cancellers::Client { server_may_end } => server_may_end.iter().any(|it| it == method),
            Cancellers::Both => false,
            other => panic!("the model does not know {other:?}"),
        }
    }

    /// Returns whether the peer's cancels are obeyed.
    pub(super) fn obeys(&self) -> bool {
        let is_client_only = matches!(self.config.dialect.cancellers, Cancellers::Client { .. });
        match self.exchange {
            _ if is_client_only && self.config.role == Role::Client => false,
            Exchange::NotNeeded | Exchange::Done { ours: true, .. } => true,
            Exchange::Awaited | Exchange::Done { ours: false, .. } => false,
        }
    }
}

/// Adds to a bounded memory that forgets the oldest first. What comes again is the newest.
pub(super) fn remember(memory: &mut std::collections::VecDeque<Id>, id: Id, limit: usize) {
    memory.retain(|other| *other != id);
    memory.push_back(id);
    if memory.len() > limit {
        memory.pop_front();
    }
}
