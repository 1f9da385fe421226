//! Permits: decisions that have changed nothing yet. Dropping one changes nothing.

use super::action::ResponseKind;
use super::calls::{Call, Idle};
use super::requests::RequestExtras;
use super::state::Machine;
use super::table::{CallPhase, RequestPhase, RequestStep};
use super::works::Part;
use crate::cause::Cause;
use crate::config::CallOptions;
use crate::dialect::facts::Facts;
use crate::envelope::Addressee;
use crate::handle::{CallId, RequestHandle};
use crate::id::WireId;
use crate::slot::Slot;
use crate::time::Timestamp;

/// A call that may be made.
#[derive(Debug)]
#[must_use = "the call is made by `commit`"]
pub struct NewCall<'m, C, R> {
    /// The machine, which is as it was.
    pub(crate) machine: &'m mut Machine<C, R>,
    pub(super) options: &'m CallOptions,
    pub(super) id: CallId,
}

impl<C, R: Default> NewCall<'_, C, R> {
    /// Returns the id that the call gets; its request is to be sent under the number of it.
    pub const fn id(&self) -> CallId {
        self.id
    }

    /// Makes the call. On behalf of a request that is cancelled already, it is made and withdrawn.
    pub fn commit(self, facts: Facts, data: C, now: Timestamp) -> CallId {
        let Self { machine, options, id } = self;
        let now = machine.advance_clock(now);
        let parent = options.parent.map(|parent| parent.slot);
        let (phase, ending, refusal, extras) = (CallPhase::Queued, None, facts.refusal, None);
        let key = machine.calls.insert(Call { id, data, parent, phase, ending, refusal, extras });
        let part = facts.work.clone();
        if options.needs_extras() || !facts.is_plain() {
            facts.progress_tokens.iter().for_each(|token| machine.calls.tokens.claim(token));
            machine.calls.change_extras(key, |extras| {
                extras.facts = facts;
                extras.grace = options.grace;
                extras.deadline = options.timeout.map(|timeout| now + timeout);
                extras.idle = options.idle_timeout.map(|after| Idle { after, since: now });
                extras.hard_cap = options.hard_cap.map(|cap| now + cap);
            });
        }
        if let Some(parent) = options.parent {
            machine.requests.add_child(parent, id);
        }
        // It may settle the call, and the parent has to know of it by then.
        if let Some(part) = part {
            machine.work_in_request(&part, Part::Call(id));
        }
        let phase = options.parent.and_then(|parent| machine.request_phase(parent));
        if phase.is_some_and(RequestPhase::is_cancelled) {
            machine.cancel(id, Cause::Parent, now);
        }
        id
    }
}

/// A request that may get its response, or be ended without one.
#[derive(Debug)]
#[must_use = "the request is settled by `commit`"]
pub struct Responding<'m, C, R> {
    /// The machine, which is as it was.
    pub(crate) machine: &'m mut Machine<C, R>,
    pub(super) request: RequestHandle,
    /// The phase afterwards.
    pub(super) next: RequestPhase,
    pub(super) step: RequestStep,
    /// The kind of response that is sent, if one is.
    pub(crate) response: Option<ResponseKind>,
}

impl<C, R: Default> Responding<'_, C, R> {
    /// Returns what becomes of the response.
    pub const fn step(&self) -> RequestStep {
        self.step
    }

    /// Returns the id that the response names. An operation has none.
    pub fn id(&self) -> Option<&WireId> {
        self.machine.request_id(self.request)
    }

    /// Returns the address of the response.
    #[inline(always)]
    pub(crate) fn addressee(&self) -> Addressee<'_> {
        let origin = self.extras().and_then(|extras| extras.origin.as_deref());
        Addressee { id: self.id().map_or("null", WireId::as_json), origin }
    }

    /// Returns the batch that the request is in.
    pub(crate) fn batch(&self) -> Option<Slot> {
        self.extras()?.batch
    }

    pub(crate) fn extras(&self) -> Option<&RequestExtras> {
        let requests = &self.machine.requests;
        requests.extras(requests.get(self.request)?)
    }

    /// Settles the request, and returns the host's data.
    #[inline]
    #[must_use = "it is the host's data"]
    pub fn commit(self) -> R {
        let Self { machine, request, next, step, response } = self;
        let remembered = machine.config.limits.abandoned_ids;
        let (before, id, data) = machine.requests.end(request.slot, next);
        let ends_in_silence = matches!(step, RequestStep::Withhold | RequestStep::SendEnd);
        let limit = ends_in_silence.then_some(remembered);
        if let Some(part) = machine.requests.end_extras(request.slot, before, limit) {
            machine.leave_work_of_request(&part, request, response);
        }
        // The id is free again, but a cancel that is acknowledged may still name it.
        let is_acknowledged = machine.cancels_are_acknowledged() && !before.is_operation();
        if let Some(id) = id.filter(|_| is_acknowledged) {
            machine.requests.finished.insert(id, before, remembered);
        }
        machine.end_tree(request);
        data
    }
}

/// A request that may get the token of an operation as its response.
#[derive(Debug)]
#[must_use = "the operation is begun by `commit`"]
pub struct NewOperation<'m, C, R> {
    /// The permit to respond, for its getters.
    pub(crate) request: Responding<'m, C, R>,
    /// Invariant: no operation has it.
    pub(crate) token: WireId,
}

impl<C, R: Default> NewOperation<'_, C, R> {
    /// Settles the request with the token of the operation, which goes on.
    pub fn commit(self) {
        let Responding { machine, request, next, .. } = self.request;
        machine.requests.begin_operation(request.slot, next, self.token);
    }
}
