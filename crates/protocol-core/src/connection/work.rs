//! Work: stops that are sent, and what messages report of it.

use core::time::Duration;

use protocol_json::Value;
use serde_json::value::RawValue;

use super::Connection;
use crate::cause::Cause;
use crate::config::Config;
use crate::dialect::signs::{Carrier, WorkPart};
use crate::envelope::{Context, OutgoingMessage, ResponseBody};
use crate::error::Refusal;
use crate::event::{Event, TransmitKind};
use crate::handle::{CallId, WorkId};
use crate::machine::{CancelOutcome, WorkName};
use crate::outbox::Lane;
use crate::time::Timestamp;

impl<O, I: Default> Connection<O, I> {
    /// Stops work by its name. Legal at any time, also for work that has ended: nothing is sent then.
    ///
    /// The peer is sent the stop of the dialect if it runs the work, once. The call that began the work is cancelled by
    /// that, and the requests that are a part of it are too. Every other run with the same name is stopped with it.
    ///
    /// `grace` is the time from now on that the work may take to end, or `None` for no limit.
    ///
    /// # Errors
    ///
    /// [`Refusal::Closed`], [`Refusal::NoCancel`], [`Refusal::Uncancellable`], [`Refusal::OutboxFull`] or [`Refusal::TooLarge`].
    /// A stop with a [`state`](crate::Sign::state) is the host's to send, so it is [`Refusal::NoCancel`] here.
    pub fn stop(
        &mut self,
        work: WorkId,
        cause: Cause,
        grace: Option<Duration>,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        let Some(name) = self.machine.work_name(work).cloned() else { return Ok(()) };
        if self.machine.is_closed() {
            return Err(Refusal::Closed);
        }
        self.machine.advance_clock(now);
        if self.machine.is_stopping(work) {
            self.machine.bound_work(work, grace);
            return Ok(());
        }
        if self.machine.stop_has_to_be_sent(&name) {
            let most = self.unsent.free(&self.config().limits);
            let number = self.send_stop(&name, most)?;
            self.machine.number_stop(work, number);
        }
        self.machine.stop_work(&name, cause, grace);
        self.run_actions();
        Ok(())
    }

    /// Stops the work that a call or its result began, by its name. A call that began none is cancelled.
    ///
    /// Legal at any time, also on a settled call, whose work may go on. If the stop can't be sent, a call in flight is
    /// cancelled instead. `grace` bounds the wait for the response, or for the end of the work after it.
    pub fn stop_call(
        &mut self,
        call: CallId,
        cause: Cause,
        grace: Option<Duration>,
        now: Timestamp,
    ) -> CancelOutcome {
        use CancelOutcome::{AlreadySent, NotStopped, Sent, Withdrawn};
        self.machine.advance_clock(now);
        let sent = if self.machine.is_queued(call) { Withdrawn } else { Sent };
        let outcome = match self.machine.work_of_call(call) {
            Some(work) if self.machine.is_stopping(work) => AlreadySent,
            Some(work) if self.stop(work, cause, None, now).is_ok() => sent,
            Some(_) if self.machine.call_phase(call).is_none() => NotStopped,
            _ => self.cancel(call, cause, now),
        };
        self.machine.bound_call(call, cause, grace);
        outcome
    }

    /// Sends the stop of the dialect in at most so many bytes, and returns its number if it is a request.
    fn send_stop(&mut self, name: &WorkName, most: usize) -> Result<Option<u32>, Refusal> {
        let machine = &self.machine;
        let Config { dialect, limits, .. } = machine.config();
        let stop = dialect.stop_of(name.rule).ok_or(Refusal::NoCancel)?;
        let is_cancel = dialect.cancel.has_method(&stop.method);
        if let Some(why) = machine.cancel_refusal().filter(|_| is_cancel) {
            return Err(Refusal::Uncancellable(why));
        }
        let member = stop.name.last().ok_or(Refusal::NoCancel)?;
        let members = [(&**member, Some(Value::Token(name.name.as_json())))];
        let number = (stop.carrier == Carrier::Request).then(|| machine.next_number());
        let message = OutgoingMessage::cancel(number, &stop.method, &members);
        // Behind all others: the request that began the work may still be waiting.
        let (context, kind) = (Context::of(machine), TransmitKind::Cancel);
        let pushed = self.unsent.outbox.push(most, &context, &message, Lane::Bulk, kind, number);
        pushed.map_err(|len| self.unsent.note_refused(len, limits))?;
        if number.is_some() {
            self.machine.number_ownerless_cancel();
        } else {
            self.machine.skip_number();
        }
        Ok(number)
    }

    /// Takes the news of a notification about work. Its event comes after the marks (G3), and before the end.
    #[cold]
    pub(super) fn receive_work(&mut self, part: &WorkPart, event: Event<'static, O>) {
        let held = self.machine.set_holds_close(true);
        self.machine.work_in_news(part, false, None);
        self.run_actions();
        self.push_event(event);
        self.machine.set_holds_close(held);
        self.run_actions();
    }

    /// Receives the response to a message that no call waits for: it may be a stop. An error refuses that.
    #[cold]
    pub(super) fn receive_response_to_stop(&mut self, number: u32, body: &ResponseBody<'_>) {
        match body.result() {
            Some(result) => self.work_in_result(result, false, None),
            None => self.machine.refuse_stop(number),
        }
    }

    /// Receives a late response. The call may have been given up.
    #[cold]
    pub(super) fn receive_late(&mut self, number: u32, body: &ResponseBody<'_>) {
        let Some(result) = body.result() else { return };
        if let Some((call, cause)) = self.machine.take_given_up(number) {
            self.work_in_response(call, result, Some(cause));
        }
    }

    /// Takes what the result of a call reports about work. The work of a call that was given up is stopped for the same
    /// cause. Such a stop needs no room.
    #[cold]
    pub(super) fn work_in_response(&mut self, call: CallId, result: &RawValue, why: Option<Cause>) {
        self.work_in_result(result, false, Some(call));
        let Some(cause) = why else { return };
        let Some(name) = self.machine.unwanted_work(call) else { return };
        // If the stop is the host's to send, the work goes on, and is watched for a while. A refusal of this stop is not
        // waited for, because nobody would look at the work again.
        if self.send_stop(&name, usize::MAX).is_ok() {
            self.machine.stop_work(&name, cause, None);
            self.run_actions();
        }
    }

    /// Takes what the result of a request reports about work.
    #[cold]
    pub(super) fn work_in_result(&mut self, result: &RawValue, is_ours: bool, of: Option<CallId>) {
        let Config { dialect, limits, .. } = self.config();
        if let Some(part) = dialect.work_in(Carrier::Result, "", Some(result), limits.id_bytes) {
            self.machine.work_in_news(&part, is_ours, of);
        }
    }

    pub(super) fn report_work_began(&mut self, work: WorkId) {
        let Some(WorkName { runs_here, rule, name }) = self.machine.work_name(work) else { return };
        let Some(rule) = self.config().dialect.work.get(usize::from(*rule)) else { return };
        let (kind, name, runs_here) = (rule.kind.clone(), name.clone(), *runs_here);
        self.push_event(Event::WorkBegan { work, kind, name, runs_here });
    }
}
