//! Permits: decisions that have changed nothing yet. Dropping one changes nothing.

use super::calls::Idle;
use super::requests::RequestExtras;
use super::state::Machine;
use super::table::{RequestPhase, RequestStep};
use super::works::Part;
use crate::cause::{Cause, WorkOutcome};
use crate::dialect::facts::Facts;
use crate::dialect::signs::{Mark, News};
use crate::event::Response;
use crate::handle::{CallId, RequestHandle};
use crate::id::WireId;
use crate::options::CallOptions;
use crate::time::Timestamp;

/// A call that may be made.
#[derive(Debug)]
#[must_use = "the call is made by `commit`"]
pub struct NewCall<'m, C, R> {
    pub(super) machine: &'m mut Machine<C, R>,
    pub(super) options: &'m CallOptions,
    pub(super) id: CallId,
}

impl<C, R: Default> NewCall<'_, C, R> {
    /// Returns the id that the call gets; its request is to be sent under the number of it.
    pub const fn id(&self) -> CallId {
        self.id
    }

    /// Returns the machine, which is as it was.
    pub const fn machine(&self) -> &Machine<C, R> {
        self.machine
    }

    /// Makes the call. On behalf of a request that is cancelled already, it is made and withdrawn.
    pub fn commit(self, facts: Facts, data: C, now: Timestamp) -> CallId {
        let Self { machine, options, id } = self;
        let now = machine.advance_clock(now);
        let parent = options.parent.map(|parent| parent.slot);
        let key = machine.calls.insert(id, parent, facts.refusal, data);
        let part = facts.work.clone();
        if options.needs_extras() || !facts.is_plain() {
            machine.calls.peer_may_end += usize::from(facts.server_may_end);
            facts.progress_tokens.iter().for_each(|token| machine.calls.tokens.claim(token));
            machine.calls.change_extras(key, |extras| {
                extras.facts = facts;
                extras.grace = options.grace;
                extras.deadline = options.timeout.map(|timeout| now + timeout);
                extras.idle = options.idle_timeout.map(|after| Idle { after, since: now });
                extras.hard_cap = options.hard_cap.map(|cap| now + cap);
            });
        }
        if let Some(part) = part {
            machine.join_work(&part, Part::Call(id));
        }
        if let Some(parent) = options.parent {
            machine.requests.add_child(parent, id);
            if machine.request_phase(parent).is_some_and(RequestPhase::is_cancelled) {
                machine.cascade_cancel(id, Cause::Parent);
            }
        }
        id
    }
}

/// A request that may get its response, or be ended without one.
#[derive(Debug)]
#[must_use = "the request is settled by `commit`"]
pub struct Responding<'m, C, R> {
    pub(super) machine: &'m mut Machine<C, R>,
    pub(super) request: RequestHandle,
    /// The phase afterwards.
    pub(super) next: RequestPhase,
    pub(super) step: RequestStep,
}

impl<C, R: Default> Responding<'_, C, R> {
    /// Returns what becomes of the response.
    pub const fn step(&self) -> RequestStep {
        self.step
    }

    /// Returns the machine, which is as it was.
    pub const fn machine(&self) -> &Machine<C, R> {
        self.machine
    }

    /// Returns the id that the response names. An operation has none.
    pub fn id(&self) -> Option<&WireId> {
        self.machine.request_id(self.request)
    }

    pub(crate) fn extras(&self) -> Option<&RequestExtras> {
        let requests = &self.machine.requests;
        requests.extras(requests.get(self.request)?)
    }

    /// Returns the mark that is sent in place of error -32800, if the request is a part of stopped work.
    #[cold]
    pub(crate) fn stopped(&self, response: &Response<'_>) -> Option<&Mark> {
        if !matches!(response, Response::Cancelled) {
            return None;
        }
        let part = self.extras()?.facts.work.as_deref()?;
        let is_stopped = self.machine.is_stopped(self.request, part);
        self.machine.config.dialect.mark_of(part).filter(|_| is_stopped)
    }

    /// Takes what the response says of the work. An error ends work that the request began, and refuses a stop.
    #[cold]
    pub(crate) fn respond_for_work(&mut self, response: &Response<'_>) {
        let Some(part) = self.extras().and_then(|extras| extras.facts.work.clone()) else { return };
        let work = self.machine.work_of_request(self.request);
        let mark = self.machine.config.dialect.mark_of(&part);
        match (response, work) {
            (Response::Result(result), Some(work)) => {
                let is_there = mark.is_some_and(|mark| mark.is_in(result));
                self.machine.confirm_end(work, is_there);
            }
            (Response::Result(_), None) => {}
            (_, None) if part.news == News::Stop => self.machine.resume_work(&part.named(true)),
            (Response::Cancelled, Some(work)) if self.machine.is_stopping(work) => {
                self.machine.end_work(work, WorkOutcome::Stopped);
            }
            (_, Some(work)) => self.machine.end_work(work, WorkOutcome::Failed),
            (_, None) => {}
        }
    }

    /// Settles the request, and returns the host's data.
    #[inline]
    #[must_use = "it is the host's data"]
    pub fn commit(self) -> R {
        self.machine.finish_request(self.request, self.step)
    }
}

/// A request that may get the token of an operation as its response.
#[derive(Debug)]
#[must_use = "the operation is begun by `commit`"]
pub struct NewOperation<'m, C, R> {
    pub(super) request: Responding<'m, C, R>,
    /// Invariant: no operation has it.
    pub(crate) token: WireId,
}

impl<'m, C, R: Default> NewOperation<'m, C, R> {
    /// Returns the permit to respond, for its getters.
    pub const fn request(&self) -> &Responding<'m, C, R> {
        &self.request
    }

    /// Settles the request with the token of the operation, which goes on.
    pub fn commit(self) {
        let Responding { machine, request, next, .. } = self.request;
        machine.requests.begin_operation(request.slot, next, self.token);
    }
}
