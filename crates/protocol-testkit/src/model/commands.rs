//! The commands of the host.

use protocol_core::machine::CallPhase;
use protocol_core::{
    CallOptions, CancelOutcome, CancelRule, Cancellers, Cause, CloseReason, Envelope, MessageOrder,
    Refusal, RequestPhase, ResponseRule, Role, Shutdown, Timestamp, code,
};
use serde_json::Value;

use super::{Asked, Call, Conclusion, Life, Model, Sent, Told, reading};

impl Model {
    /// Returns the reasons to refuse this call. The connection may give any of them.
    pub(crate) fn call_refusals(&self, parent: Option<u64>) -> Vec<Refusal> {
        let is_for_a_request = parent.is_some_and(|parent| self.awaits_response(parent));
        that_apply([
            (parent.is_some() && !is_for_a_request, Refusal::UnknownParent),
            (self.is_closed(), Refusal::Closed),
            (self.life == Life::Draining && !is_for_a_request, Refusal::ShuttingDown),
            (self.calls.len() >= self.config.limits.calls, Refusal::TooManyCalls),
        ])
    }

    /// Returns whether a request waits for its answer.
    pub(crate) fn awaits_response(&self, request: u64) -> bool {
        let request = self.requests.get(&request);
        request.is_some_and(super::Request::awaits_response)
    }

    /// Makes a call of the host, and returns its number. `parent` counts requests from 1.
    pub(crate) fn call(
        &mut self,
        (method, params): (&str, &Value),
        options: &CallOptions,
        parent: Option<u64>,
        now: Timestamp,
    ) -> u32 {
        let (number, dialect) = (self.issue(), self.config.dialect.clone());
        // Elsewhere it tells nothing apart, not even states.
        let asked = match dialect.envelope {
            Envelope::Abp => Asked::by(method),
            Envelope::JsonRpc | Envelope::Dap => Asked::Other,
        };
        let idle = options.idle_timeout;
        let tokens = idle.map(|_| reading::tokens_of_call(&dialect, number, params));
        let call = Call {
            phase: CallPhase::Queued,
            ending: None,
            patience: options.grace,
            deadline: options.timeout.map(|timeout| now + timeout),
            idle: idle.map(|idle| (idle, now + idle)),
            hard_cap: options.hard_cap.map(|cap| now + cap),
            grace: None,
            tokens: tokens.unwrap_or_default(),
            parent,
            uncancellable: self.uncancellable(asked, method, params),
            peer_may_end: self.config.role == Role::Client && self.server_may_end(method),
            asked,
            settles: self.settles(method, params),
            cancel: None,
        };
        self.calls.insert(number, call);
        self.queue(Sent::Request(number));
        self.bulk.back_mut().expect("just queued").call = Some(number);
        if let Some(request) = parent.and_then(|parent| self.requests.get_mut(&parent)) {
            request.was_parent = true;
            if request.is_cancelled() {
                self.cancel_call(number, Cause::Parent, now);
            }
        }
        self.finish_drain();
        number
    }

    /// Cancels a call of the host. Returns what must be reported to have become of it.
    pub(crate) fn cancel(&mut self, call: u32, cause: Cause, now: Timestamp) -> CancelOutcome {
        let outcome = self.cancel_call(call, cause, now);
        self.finish_drain();
        outcome
    }

    /// Gives up the host's interest in a call.
    ///
    /// The call is released after the grace for abandoned ones (G12).
    pub(crate) fn detach(&mut self, number: u32, now: Timestamp) {
        if self.calls.contains_key(&number) {
            self.wait_at_most(number, self.config.abandoned_grace, now);
            if let Some(parent) = self.call_mut(number).parent.take() {
                self.end_tree(parent);
            }
        }
    }

    /// Returns whether the host's answer to this request is not sent. Either it must be withheld, or the
    /// request goes on as an operation and its token was the answer.
    pub(crate) fn withholds(&self, request: u64) -> bool {
        let request = self.requests.get(&request);
        request.is_some_and(|it| it.is_operation() || it.phase == RequestPhase::Silenced)
    }

    /// Returns whether a result that answers this request settles the revision that is spoken.
    pub(crate) fn settles_revision(&self, request: u64) -> bool {
        let request = self.requests.get(&request);
        request.is_some_and(|request| request.settles.names_revision.is_some())
    }

    /// Returns whether the acknowledgement of its cancel said that this request is cancelled, and there is
    /// nothing else that its answer may say (F20).
    fn is_bound_to_say_cancelled(&self, request: &super::Request) -> bool {
        let dialect = &self.config.dialect;
        let is_acknowledged = matches!(&dialect.cancel, CancelRule::Request { .. });
        is_acknowledged
            && dialect.response == ResponseRule::Required
            && !dialect.partial_results
            && request.phase == RequestPhase::Cancelled
            && request.cause != Some(Cause::PeerGone)
    }

    /// The host answered a request that was unanswered: with a result, or an error of that code.
    pub(crate) fn respond(&mut self, number: u64, answer: Result<&Value, i64>) {
        let request = &self.requests[&number];
        if self.withholds(number) {
            if request.phase == RequestPhase::Silenced {
                self.silenced.extend(self.number_of_peer(&request.id));
            }
            self.settle_request(number, None, None);
        } else {
            let answer = match self.is_bound_to_say_cancelled(request) {
                true => Err(code::REQUEST_CANCELLED),
                false => answer,
            };
            let said = Self::answer_to(request.origin.as_ref(), &request.id, answer.err());
            let settles = request.settles.clone();
            let concludes = answer.ok().map(|result| self.conclusion(&settles, result, false));
            let is_any = |it: &Conclusion| it.declared.is_some() || it.rules.is_some();
            self.settle_request(number, Some(said), concludes.filter(is_any));
        }
        self.finish_drain();
    }

    /// Returns the reason that we can't end this request.
    pub(crate) fn end_refusal(&self, request: u64) -> Option<Refusal> {
        let dialect = &self.config.dialect;
        // It could come before the result that gives it a meaning there.
        let may_mean_nothing =
            dialect.order == MessageOrder::MayChange && dialect.cancellers == Cancellers::Both;
        match self.requests.get(&request).filter(|_| self.awaits_response(request)) {
            None => Some(Refusal::AlreadyResponded),
            Some(request) if !request.we_may_end || may_mean_nothing => Some(Refusal::NotOursToEnd),
            Some(_) => match dialect.cancel {
                CancelRule::Notification { .. } | CancelRule::ClosedStream => None,
                CancelRule::Local | CancelRule::Request { .. } | CancelRule::Operation { .. } => {
                    Some(Refusal::NoCancel)
                }
                ref other => panic!("the model does not know {other:?}"),
            },
        }
    }

    /// The host ended a request without an answer. The peer is told, unless it asked for it.
    pub(crate) fn end(&mut self, number: u64) {
        let request = &self.requests[&number];
        let is_running = matches!(request.phase, RequestPhase::Running | RequestPhase::Cancelled);
        let is_told = is_running && self.has_cancel();
        if is_told {
            let cancel = Sent::Cancel(request.id.clone());
            self.queue(cancel);
        } else {
            // The end of a stream is up to HTTP.
            self.silenced.extend(self.number_of_peer(&request.id));
        }
        self.settle_request(number, None, None);
        self.finish_drain();
    }

    /// The host cancels a request for a reason of its own.
    pub(crate) fn cancel_request(&mut self, request: u64, cause: Cause, now: Timestamp) {
        self.mark(request, cause, now);
        self.finish_drain();
    }

    /// Returns the reasons to refuse this notification.
    pub(crate) fn notify_refusals(&self, method: &str, params: &Value) -> Vec<Refusal> {
        let token = reading::token(&self.config.dialect, method, params);
        that_apply([
            (self.is_closed(), Refusal::Closed),
            (token.is_some_and(|token| self.has_fallen_silent(&token)), Refusal::Withheld),
        ])
    }

    /// Returns whether a progress token belongs to cancelled requests alone, or to one that ended in
    /// silence.
    fn has_fallen_silent(&self, token: &String) -> bool {
        let mut owners = self
            .requests
            .values()
            .filter(|request| request.tokens.contains(token))
            .map(|request| request.phase)
            .peekable();
        match owners.peek() {
            None => self.retired.contains(token),
            Some(_) => owners.all(|phase| {
                matches!(phase, RequestPhase::Silenced | RequestPhase::OperationCancelled)
            }),
        }
    }

    /// The host sent a notification.
    pub(crate) fn notify(&mut self, method: &str) {
        self.queue(Sent::Notification(method.into()));
    }

    /// Shuts the host's connection down.
    ///
    /// Its calls are awaited, cancelled or abandoned, as `how` says (G5).
    pub(crate) fn shutdown(&mut self, how: Shutdown, now: Timestamp) {
        let was_closed = self.is_closed();
        match how {
            Shutdown::Abandon => self.life = Life::Abandoned,
            _ if was_closed => {}
            Shutdown::Drain | Shutdown::CancelAll => self.life = Life::Draining,
        }
        if how == Shutdown::Abandon && !was_closed {
            self.lose_calls(Cause::Shutdown);
        }
        if how != Shutdown::Drain {
            self.mark_all(Cause::Shutdown, now);
            for call in self.calls.keys().copied().collect::<Vec<_>>() {
                self.cancel_call(call, Cause::Shutdown, now);
            }
        }
        if how == Shutdown::Abandon {
            self.tell(Told::Closed { reason: CloseReason::Shutdown });
            // Nothing more is sent.
            self.cancels.clear();
            self.bulk.clear();
            self.batches.values_mut().for_each(|batch| batch.answers.clear());
        }
        self.finish_drain();
    }
}

fn that_apply<const N: usize>(refusals: [(bool, Refusal); N]) -> Vec<Refusal> {
    refusals.into_iter().filter_map(|(applies, refusal)| applies.then_some(refusal)).collect()
}
