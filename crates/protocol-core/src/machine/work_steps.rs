//! The steps of work: its begin, its stop and its end.

use alloc::vec::Vec;
use core::num::NonZeroU32;
use core::time::Duration;

use super::action::{Action, ResponseKind};
use super::state::Machine;
use super::table::{CallInput, CallPhase, RequestInput};
use super::works::{Part, RUNNING, STOPPING, Work, WorkName};
use crate::cause::{Cause, Settlement, WorkOutcome};
use crate::dialect::signs::{News, StopMark, WorkPart};
use crate::handle::{CallId, RequestHandle, WorkId};

impl<C, R: Default> Machine<C, R> {
    /// Takes what a request says about work. Its receiver runs the work that it begins, and its sender the
    /// work that it is nested in.
    pub(crate) fn work_in_request(&mut self, part: &WorkPart, request: Part) {
        let is_ours = matches!(request, Part::Call(_));
        match part.news {
            News::Begun => self.begin_work(part.named(!is_ours), Some(request)),
            News::Nested { is_cancelled } => {
                let name = part.named(is_ours);
                // The peer sent it before it read the stop. A later run is not hit.
                let is_late = self.are_stopping(&name);
                if self.works.nested.len() < self.config.limits.works {
                    self.works.nested.insert((name, request), is_cancelled);
                }
                if is_late {
                    self.stop_nested(request, is_cancelled);
                }
            }
            News::Stop | News::Ended | News::Asked => self.work_in_news(part, is_ours, None),
        }
    }

    /// Takes what a notification or a result says about work. Its sender runs the work that it begins. `call` is
    /// the call whose result it is.
    pub(crate) fn work_in_news(&mut self, part: &WorkPart, is_ours: bool, call: Option<CallId>) {
        match part.news {
            News::Begun => self.begin_work(part.named(is_ours), call.map(Part::Call)),
            News::Stop => {
                let cause = if is_ours { Cause::Caller } else { Cause::Peer };
                self.stop_work(&part.named(!is_ours), cause, None);
            }
            News::Ended => {
                let outcome =
                    if part.is_stopped { WorkOutcome::Stopped } else { WorkOutcome::Finished };
                self.end_work_named(&part.named(is_ours), outcome);
            }
            // Only a request is nested in work.
            News::Nested { .. } | News::Asked => {}
        }
    }

    /// Queues a report of work, if the host wants to see those.
    fn queue_report(&mut self, news: Action<C>) {
        if self.config.show_work {
            self.actions.push_back(news);
        }
    }

    /// Begins work, unless as much is in progress as [`Limits::works`](crate::Limits::works) allows.
    fn begin_work(&mut self, name: WorkName, begun_by: Option<Part>) {
        if self.works.rows.len() >= self.config.limits.works || self.is_closed() {
            return;
        }
        let work = self.works.insert(name, begun_by);
        self.queue_report(Action::WorkBegan { work });
    }

    // Stop

    /// Stops every run with this name, and what is nested in it. `grace` bounds the time until they have ended.
    pub(crate) fn stop_work(&mut self, name: &WorkName, cause: Cause, grace: Option<Duration>) {
        let runs = self.works.named(name, RUNNING);
        for &work in &runs {
            self.stop_run(work, cause);
            self.bound_work(work, grace);
        }
        let nested = if runs.is_empty() { Vec::new() } else { self.works.nested_in(name) };
        for (part, is_cancelled) in nested {
            self.stop_nested(part, is_cancelled);
        }
    }

    /// Bounds the time until stopped work has ended. The shortest bound holds.
    pub(crate) fn bound_work(&mut self, work: WorkId, grace: Option<Duration>) {
        if let Some(grace) = grace.filter(|_| self.is_stopping(work)) {
            self.works.set_due(work, Some(self.now + grace));
        }
    }

    /// Bounds the wait for the response to a stopped call, or for the end of the work that goes on after it.
    pub(crate) fn bound_call(&mut self, call: CallId, cause: Cause, grace: Option<Duration>) {
        let Some(grace) = grace else { return };
        if let Some(key) = self.calls.find(call) {
            // Its cancel may have been refused, and it is no time-out all the same.
            self.calls.record_ending(key, Settlement::Cancelled, cause);
            self.shorten_grace(key, grace);
        } else if let Some(work) = self.work_of_call(call) {
            self.bound_work(work, Some(grace));
        }
    }

    fn stop_run(&mut self, work: WorkId, cause: Cause) {
        let Some(row) = self.works.set_cause(work, Some(cause)) else { return };
        let begun_by = row.begun_by;
        self.queue_report(Action::WorkStopped { work, cause });
        match begun_by {
            Some(Part::Request(request)) => {
                self.mark_cancelled(request, RequestInput::Cancel, Cause::Stopped);
            }
            // The stop says so to the peer, which has still to respond.
            Some(Part::Call(call)) => {
                if let Some(key) = self.calls.find(call) {
                    self.cancel_with(key, CallInput::Stop, cause);
                }
            }
            None => {}
        }
    }

    /// Takes the late result to the call with this number, and returns the call and the cause if it was given up. Work
    /// that the call itself began has begun again.
    #[cold]
    pub(crate) fn take_given_up(&mut self, number: u32) -> Option<(CallId, Cause)> {
        let (call, part, cause) = self.calls.given_up.take(&number)?;
        if part.news == News::Begun {
            self.begin_work(part.named(false), Some(Part::Call(call)));
        }
        Some((call, cause))
    }

    /// Bounds the work of a call that was given up, unless it was stopped. Returns its name if it has to be stopped: no
    /// run with that is still wanted, and none that began later was stopped, which stopped this one too.
    #[cold]
    pub(crate) fn unwanted_work(&mut self, call: CallId) -> Option<WorkName> {
        let work = self.work_of_call(call).filter(|work| !self.is_stopping(*work))?;
        self.works.set_due(work, Some(self.now + self.config.abandoned_grace));
        let name = self.work_name(work)?.clone();
        let row = |it: WorkId| &self.works.rows[&it];
        let is_wanted =
            self.works.named(&name, RUNNING).into_iter().any(|it| row(it).due.is_none());
        let is_later = |it| row(it).begun_by > Some(Part::Call(call));
        let is_stopped = self.works.named(&name, STOPPING).into_iter().any(is_later);
        (!is_wanted && !is_stopped).then_some(name)
    }

    fn stop_nested(&mut self, part: Part, is_cancelled: bool) {
        match part {
            Part::Request(request) => {
                self.mark_cancelled(request, RequestInput::Cancel, Cause::Stopped);
            }
            Part::Call(call) if is_cancelled => {
                self.cancel(call, Cause::Stopped, self.now);
            }
            Part::Call(_) => {}
        }
    }

    /// Takes a stop back that was refused, or was never sent: the work goes on.
    pub(super) fn resume_work(&mut self, name: &WorkName) {
        for work in self.works.named(name, STOPPING) {
            self.works.set_cause(work, None);
            self.works.set_due(work, None);
            self.queue_report(Action::WorkResumed { work });
        }
    }

    /// Notes the number of the request that stopped work.
    pub(crate) fn number_stop(&mut self, work: WorkId, number: Option<u32>) {
        if let Some(row) = self.works.rows.get_mut(&work) {
            row.stop = number.and_then(NonZeroU32::new);
        }
    }

    /// Takes the peer's refusal of the stop with this number.
    pub(crate) fn refuse_stop(&mut self, number: u32) {
        let refused =
            self.works.rows.values().find(|row| row.stop.is_some_and(|it| it.get() == number));
        if let Some(name) = refused.map(|row| row.name.clone()) {
            self.resume_work(&name);
        }
    }

    // End

    /// Releases a request or call that had a part in some work. `outcome` is `None` if the work that it began
    /// goes on.
    fn leave_work(&mut self, part: &WorkPart, of: Part, outcome: Option<WorkOutcome>) {
        let runs_here = matches!(of, Part::Call(_));
        self.works.nested.remove(&(part.named(runs_here), of));
        if let (Some(&work), Some(outcome)) = (self.works.begun.get(&of), outcome) {
            self.end_work(work, outcome);
        }
        if !runs_here {
            self.works.begun.remove(&of);
        }
    }

    /// Ends every run with this name. One whose request has had no response goes on unless it was stopped, because the end
    /// may be that of the run before.
    fn end_work_named(&mut self, name: &WorkName, outcome: WorkOutcome) {
        for is_stopped in [RUNNING, STOPPING] {
            for work in self.works.named(name, is_stopped) {
                if is_stopped || !self.is_open(work) {
                    self.end_work(work, outcome);
                }
            }
        }
    }

    pub(crate) fn end_work(&mut self, work: WorkId, outcome: WorkOutcome) {
        let Some(Work { cause, is_confirmed, .. }) = self.works.remove(work) else { return };
        if self.config.show_work && work.0 > self.works.reported {
            // Its begin was never reported, so its stop and its end are not either.
            return self.actions.retain(|action| match *action {
                Action::WorkBegan { work: it }
                | Action::WorkStopped { work: it, .. }
                | Action::WorkResumed { work: it } => it != work,
                _ => true,
            });
        }
        let is_confirmed = outcome == WorkOutcome::Finished && is_confirmed;
        let outcome = if is_confirmed { WorkOutcome::Stopped } else { outcome };
        self.queue_report(Action::WorkEnded { work, outcome, cause });
    }

    /// Ends the work whose grace has run out.
    pub(super) fn expire_work(&mut self) {
        while let Some(&(_, work)) = self.works.due.first().filter(|(due, _)| *due <= self.now) {
            self.end_work(work, WorkOutcome::Silent);
        }
    }

    /// Ends all work: the connection is lost.
    pub(super) fn lose_work(&mut self) {
        while let Some((&work, _)) = self.works.rows.first_key_value() {
            self.end_work(work, WorkOutcome::Lost);
        }
    }

    /// Returns whether a request in flight, a call or its result has begun work.
    #[inline]
    pub(crate) fn has_begun_work(&self) -> bool {
        !self.works.begun.is_empty()
    }

    /// Returns the mark that the result of this call has if its work was stopped.
    #[cold]
    pub(crate) fn mark_of_call(&self, number: u32) -> Option<&StopMark> {
        let part = self.call_row(number)?.extras.as_ref()?.facts.work.as_deref()?;
        self.config.dialect.mark_of(part)
    }

    /// Notes that the result of the call or request that began work has the mark of a stop.
    #[cold]
    pub(super) fn confirm_stop(&mut self, part: Part) {
        let work = self.works.begun.get(&part);
        let row = work.and_then(|work| self.works.rows.get_mut(work));
        row.into_iter().for_each(|row| row.is_confirmed = true);
    }

    /// Releases a call that had a part in some work, and ends the work that it began unless that goes on. It was left
    /// without a response if the peer is silent, and may have been given up.
    #[cold]
    pub(super) fn leave_work_of_call(
        &mut self,
        part: &WorkPart,
        call: CallId,
        end: Settlement,
        has_no_response: bool,
        given_up: Option<Cause>,
    ) {
        let is_answered = matches!(end, Settlement::Result | Settlement::Malformed);
        if part.news == News::Stop && !is_answered && !has_no_response {
            return self.resume_work(&part.named(false));
        }
        let goes_on = !self.config.dialect.work_ends_with_response(part);
        let outcome = match end {
            Settlement::Result if goes_on => None,
            Settlement::Result => Some(WorkOutcome::Finished),
            Settlement::Error | Settlement::Malformed => Some(WorkOutcome::Failed),
            Settlement::Cancelled if !has_no_response => Some(WorkOutcome::Stopped),
            Settlement::Cancelled | Settlement::TimedOut => Some(WorkOutcome::Silent),
            Settlement::ConnectionLost => Some(WorkOutcome::Lost),
        };
        let is_stopping = || self.work_of_call(call).is_some_and(|work| self.is_stopping(work));
        if let Some(cause) = given_up.filter(|_| has_no_response && goes_on && !is_stopping()) {
            let (call, limit) = ((call, part.clone(), cause), self.config.limits.abandoned_ids);
            self.calls.given_up.insert(call.0.number(), call, limit);
        }
        self.leave_work(part, Part::Call(call), outcome);
    }

    /// Releases a request that had a part in some work, and ends the work that it began unless that goes on.
    /// The request has had this response, or none. An error refuses a stop.
    #[cold]
    pub(super) fn leave_work_of_request(
        &mut self,
        part: &WorkPart,
        request: RequestHandle,
        response: Option<ResponseKind>,
    ) {
        use ResponseKind::{CancelError, Result, Stopped};
        let is_stopped = self.is_stopped(request, part);
        let goes_on = !self.config.dialect.work_ends_with_response(part);
        let outcome = match response {
            Some(Result | Stopped) if goes_on => None,
            Some(Result | Stopped) => Some(WorkOutcome::Finished),
            Some(CancelError) | None if is_stopped => Some(WorkOutcome::Stopped),
            _ => Some(WorkOutcome::Failed),
        };
        match response {
            Some(Stopped) => self.confirm_stop(Part::Request(request)),
            Some(Result) | None => {}
            Some(_) if part.news == News::Stop => self.resume_work(&part.named(true)),
            _ => {}
        }
        self.leave_work(part, Part::Request(request), outcome);
    }

    // Getters

    /// Returns whether the work that a request has this part in was stopped. A request that its sender cancels by
    /// itself (ACP 2) counts as stopped.
    pub(crate) fn is_stopped(&self, request: RequestHandle, part: &WorkPart) -> bool {
        let always = || part.news == News::Nested { is_cancelled: true };
        let was_stopped = || self.request_cause(request) == Some(Cause::Stopped);
        let is_late = || self.are_stopping(&part.named(false));
        let work = self.work_of_request(request);
        work.map_or_else(|| always() || was_stopped() || is_late(), |work| self.is_stopping(work))
    }

    /// Returns the work in progress, in the order it began.
    pub fn works(&self) -> impl Iterator<Item = WorkId> {
        self.works.rows.keys().copied()
    }

    /// Returns the name of work in progress.
    pub fn work_name(&self, work: WorkId) -> Option<&WorkName> {
        self.works.rows.get(&work).map(|row| &row.name)
    }

    /// Returns whether work was stopped and has not ended.
    pub fn is_stopping(&self, work: WorkId) -> bool {
        self.works.rows.get(&work).is_some_and(|row| row.cause.is_some())
    }

    /// Returns whether runs with this name were stopped, and no other has begun since.
    pub fn are_stopping(&self, name: &WorkName) -> bool {
        let has = |is_stopped| self.works.runs(name, is_stopped).next().is_some();
        has(STOPPING) && !has(RUNNING)
    }

    /// Returns the work that a call or its result began.
    pub fn work_of_call(&self, call: CallId) -> Option<WorkId> {
        self.works.begun.get(&Part::Call(call)).copied()
    }

    /// Returns the work that a request began, until it has its response.
    pub fn work_of_request(&self, request: RequestHandle) -> Option<WorkId> {
        self.works.begun.get(&Part::Request(request)).copied()
    }

    /// Returns the call in flight that began a run, if a call did.
    pub fn call_of_work(&self, work: WorkId) -> Option<CallId> {
        let Part::Call(call) = self.works.rows.get(&work)?.begun_by? else { return None };
        self.calls.find(call).map(|_| call)
    }

    /// Returns whether the request or call that began a run has had no response.
    pub fn is_open(&self, work: WorkId) -> bool {
        match self.works.rows.get(&work).and_then(|row| row.begun_by) {
            Some(Part::Call(call)) => self.calls.find(call).is_some(),
            Some(part) => self.works.begun.contains_key(&part),
            None => false,
        }
    }

    /// Returns whether nothing of a call has left.
    pub(crate) fn is_queued(&self, call: CallId) -> bool {
        self.call_phase(call) == Some(CallPhase::Queued)
    }

    /// Returns whether the peer runs work with this name that it knows of and was not told to stop.
    pub(crate) fn stop_has_to_be_sent(&self, name: &WorkName) -> bool {
        let is_unsent = |by| matches!(by, Some(Part::Call(call)) if self.is_queued(call));
        let mut runs = self.works.named(name, RUNNING).into_iter();
        !name.runs_here && runs.any(|work| !is_unsent(self.works.rows[&work].begun_by))
    }
}
