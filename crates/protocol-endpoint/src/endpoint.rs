//! Events of the core: their consequences, and the waiters for them.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

use protocol_core::{
    Cause, CloseReason, Dialect, Event, Limits, Outcome, Refusal, RequestHandle, Shutdown,
    Timestamp, Violation, WireId,
};

use crate::budget::{Cheap, OverBudget, is_noise};
use crate::effects::{Effect, Effects, Shown};
use crate::error::{CallError, CallOutcome};
use crate::inbox::Arrived;
use crate::message::Notification;
use crate::state::{Core, EndReason, Endpoint, Writing};
use crate::verdict::Verdict;
use crate::waiters::{Line, Place, Waiters};

impl<W, M> Endpoint<W, M> {
    // Getters

    /// Returns the core, for its getters.
    #[inline]
    pub const fn core(&self) -> &Core<M> {
        self.stream.connection()
    }

    /// Returns the dialect that is spoken now.
    pub fn dialect(&self) -> &Dialect {
        &self.core().config().dialect
    }

    /// Returns the limits of the connection.
    pub fn limits(&self) -> &Limits {
        &self.core().config().limits
    }

    /// Returns the latest time that the endpoint was given.
    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// Returns the reason for which the connection closed. Every call has settled then.
    pub const fn closed(&self) -> Option<CloseReason> {
        self.closed
    }

    /// Returns the error that ended the connection, if an error did.
    pub const fn end_reason(&self) -> Option<&EndReason> {
        self.end.as_ref()
    }

    /// Returns whether a message was refused, and there has been no room for it since.
    pub const fn is_full(&self) -> bool {
        self.is_full
    }

    /// Shows the ends of requests, and room, from now on or no more.
    #[inline]
    pub fn show_responses(&mut self, is_shown: bool) {
        self.shows.responses = is_shown;
    }

    // Waiting

    /// Waits in a queue, at `place` or at its end. The waiter that was there before is left in `waiter`.
    ///
    /// Before it waits again, a host looks whether what it waits for is there. Room may have come with the refusal of
    /// a message, which lets out what a cork or a batch kept back. So the first who waits for it is woken at once.
    pub fn wait(
        &mut self,
        line: Line,
        place: &mut Option<Place>,
        waiter: &mut Option<W>,
        effects: &mut Effects<W, M>,
    ) {
        self.line(line).wait(place, waiter);
        if matches!(line, Line::Room | Line::Ready) && !self.is_full {
            self.wake_for_room(effects);
        }
    }

    /// Returns the waiter at a place, unless it was woken.
    pub fn waiting(&mut self, line: Line, place: Option<&Place>) -> Option<&W> {
        self.line(line).waiting(place)
    }

    /// Leaves a queue. If the waiter had been woken, the next one is, for as long as there is something
    /// for it.
    pub fn leave(&mut self, line: Line, place: &Place, effects: &mut Effects<W, M>) {
        if self.line(line).leave(place, effects) {
            match line {
                // The end of the connection is for all of them.
                Line::Arrival if !self.inbox.is_empty() || self.closed.is_some() => {
                    self.line(line).wake_one(effects);
                }
                Line::Room | Line::Ready if !self.is_full => self.wake_for_room(effects),
                _ => {}
            }
        }
    }

    /// Returns whether a waiter at this place of [`Line::Ready`] may try to send.
    ///
    /// It may if a message that was refused fits now, no message waits for room, and nobody stands before it.
    /// A waiter leaves the line before it tries, so the line itself holds no message back.
    pub fn has_room(&self, place: Option<&Place>) -> bool {
        let [room, ready] = [Line::Room, Line::Ready].map(|line| &self.waiters[line as usize]);
        (!self.is_full && room.is_empty() && ready.is_first(place)) || self.closed.is_some()
    }

    fn wake_for_room(&mut self, effects: &mut Effects<W, M>) {
        let is_empty = self.line(Line::Room).is_empty();
        self.line(if is_empty { Line::Ready } else { Line::Room }).wake_first(effects);
    }

    #[inline]
    pub(crate) const fn line(&mut self, line: Line) -> &mut Waiters<W> {
        &mut self.waiters[line as usize]
    }

    // Shutdown

    /// Shuts the connection down.
    pub fn shutdown(&mut self, how: Shutdown, now: Timestamp, effects: &mut Effects<W, M>) {
        self.now = now;
        match how {
            Shutdown::Abandon => self.abandon_all(now),
            _ => self.stream.connection_mut().shutdown(how, now),
        }
        self.cancel_after_close(effects);
        self.follow(effects);
    }

    /// Gives up everything in flight, and everything that is not written.
    pub(crate) fn abandon_all(&mut self, now: Timestamp) {
        self.stream.connection_mut().shutdown(Shutdown::Abandon, now);
        self.output.staged.clear();
        self.output.taken = 0;
        self.output.writing = Writing::Abandoned;
    }

    // Events

    /// Carries out what follows from a command or an input: takes the core's events, and wakes whoever
    /// waits for what has changed.
    pub(crate) fn follow(&mut self, effects: &mut Effects<W, M>) {
        self.dispatch_queued(effects);
        // That makes room, which is an event.
        while self.is_corked() && self.stage_transmit(effects) {
            self.dispatch_queued(effects);
        }
        self.wake_flushed(effects);
        // Mostly it is awake already.
        if self.output.writer.is_some() && (self.has_output() || self.is_over()) {
            effects.wake(self.output.writer.take());
        }
        // A task that waits for both left one waiter.
        let timer = self.output.timer.as_ref().or(self.output.writer.as_ref());
        if timer.is_some() && self.is_timer_stale() {
            let timer = self.output.timer.take();
            effects.wake(timer.or_else(|| self.output.writer.take()));
        }
    }

    pub(crate) fn wake_flushed(&mut self, effects: &mut Effects<W, M>) {
        if !self.line(Line::Flushed).is_empty() && self.is_flushed() {
            self.line(Line::Flushed).wake_all(effects);
        }
    }

    #[inline]
    pub(crate) fn dispatch_queued(&mut self, effects: &mut Effects<W, M>) {
        while let event @ Some(_) = self.stream.connection_mut().poll_event() {
            self.dispatch(event, effects);
        }
    }

    /// Carries out what follows from the bytes of one message. Noise goes to the host if it wants it.
    #[inline(always)]
    pub(crate) fn hear(
        &mut self,
        bytes: &[u8],
        event: Option<Event<'_, u32>>,
        effects: &mut Effects<W, M>,
    ) {
        match &event {
            Some(Event::Violation { violation, id })
                if self.shows.noise && is_noise(self.core().config(), *violation, id.as_ref()) =>
            {
                effects.show(Shown::Noise(*violation, bytes.into()));
            }
            _ => self.dispatch(event, effects),
        }
    }

    /// Carries out what follows from an event. `None` stands for a message that did nothing.
    ///
    /// An event is large: it is passed on as it came and taken apart here, so that it is never moved.
    fn dispatch(&mut self, event: Option<Event<'_, u32>>, effects: &mut Effects<W, M>) {
        if let (Some(event), true) = (&event, self.shows.verdicts || self.shows.responses) {
            self.show(event, effects);
        }
        self.charge(event.as_ref(), effects);
        match event {
            None => {}
            Some(Event::Settled { outcome, data, .. }) => {
                let outcome = self.owned(outcome);
                let method = self.calls.settle(data, outcome, effects);
                self.names.release(method);
            }
            Some(Event::Request { request, method, params, options, .. }) => {
                self.take_request(request, &method, params, options, effects);
            }
            Some(Event::Cancelled { request, .. }) => self.note_cancelled(request, effects),
            Some(Event::Ready) => {
                self.is_full = false;
                self.respond_waiting(effects);
                self.beat_again();
                self.wake_for_room(effects);
            }
            Some(Event::Closed { reason }) => {
                self.closed = Some(reason);
                self.is_full = false;
                self.line(Line::Arrival).wake_all(effects);
                self.line(Line::Room).wake_all(effects);
                self.line(Line::Ready).wake_all(effects);
                self.line(Line::End).wake_all(effects);
            }
            Some(Event::Notification { method, params }) => {
                let (method, params) = ((&*method).into(), params.map(Cow::into_owned));
                self.arrive(Arrived::Notification(Notification { method, params }), effects);
            }
            // The peer of a late response could not know that the call had settled.
            Some(Event::Violation { violation, id }) if violation != Violation::LateResponse => {
                self.arrive(Arrived::Violation(violation, id), effects);
            }
            Some(_) => {}
        }
    }

    fn arrive(&mut self, arrived: Arrived, effects: &mut Effects<W, M>) {
        // If nothing is served, nobody asks for it.
        if self.is_served {
            self.inbox.push(arrived);
            self.line(Line::Arrival).wake_one(effects);
        }
    }

    #[cold]
    fn show(&self, event: &Event<'_, u32>, effects: &mut Effects<W, M>) {
        if let Some(verdict) = Verdict::of(event, self.core()) {
            effects.show(Shown::Verdict(verdict, self.now));
        } else if self.shows.responses && matches!(event, Event::Ready) {
            effects.show(Shown::Room);
        }
    }

    fn owned(&self, outcome: Outcome<'_>) -> CallOutcome {
        let mut outcome = CallError::check(outcome);
        if let (Err(CallError::ConnectionLost { how, .. }), Some(end)) = (&mut outcome, &self.end) {
            *how = Some(format!("{end}").into());
        }
        outcome.map_err(Box::new)
    }

    /// Charges the peer for what costs it little. If it can't pay, the connection ends.
    #[inline]
    fn charge(&mut self, event: Option<&Event<'_, u32>>, effects: &mut Effects<W, M>) {
        // A request that began no work of its own is stopped with work that we have stopped.
        let is_nested = |request| self.core().machine().work_of_request(request).is_none();
        let is_ours = matches!(event, Some(Event::Cancelled { request, cause: Cause::Stopped, .. }) if is_nested(*request));
        // Once the connection is closed, nothing more is the peer's doing.
        if is_ours || self.core().is_closed() {
            return;
        }
        let what = Cheap::of(event, self.core().config());
        if let Some(over) = what.and_then(|what| self.buckets.pay(what, self.now)) {
            self.end_over(over, effects);
        }
    }

    #[cold]
    fn end_over(&mut self, over: OverBudget, effects: &mut Effects<W, M>) {
        if self.shows.verdicts || self.shows.responses {
            effects.show(Shown::Verdict(Verdict::OverBudget { over }, self.now));
        }
        self.end_by(EndReason::OverBudget(over));
        self.stream.connection_mut().handle_eof(self.now);
    }

    /// Notes why the connection is about to end. One that has ended keeps its reason.
    pub(crate) fn end_by(&mut self, why: EndReason) {
        if !self.core().is_closed() {
            self.end.get_or_insert(why);
        }
    }

    /// Sends a message, and notes if there was no room for it. The core promises a notice then, and gives it
    /// as soon as there is some.
    #[inline]
    pub(crate) fn send<R>(
        &mut self,
        command: impl FnOnce(&mut Self) -> Result<R, Refusal>,
        effects: &mut Effects<W, M>,
    ) -> Result<R, Refusal> {
        if self.muted.is_some() {
            return Err(Refusal::Closed);
        }
        let sent = command(self);
        if let (Err(Refusal::OutboxFull), false) = (&sent, self.is_full) {
            self.is_full = true;
            if self.shows.responses {
                effects.show(Shown::NoRoom);
            }
        }
        self.follow(effects);
        sent
    }

    /// Cancels a request for a reason of the host's own, as if the peer had.
    pub fn cancel_request(
        &mut self,
        request: RequestHandle,
        cause: Cause,
        now: Timestamp,
        effects: &mut Effects<W, M>,
    ) {
        self.now = now;
        self.stream.connection_mut().cancel_request(request, cause, now);
        if self.closed.is_some() {
            self.note_cancelled(request, effects);
        }
        self.follow(effects);
    }

    /// As [`cancel_request`](Self::cancel_request), for a request that the transport knows by its id. One that is not
    /// in flight is ignored.
    pub fn cancel_by_id(
        &mut self,
        id: &WireId,
        cause: Cause,
        now: Timestamp,
        effects: &mut Effects<W, M>,
    ) {
        let machine = self.core().machine();
        let is_named = |request: &RequestHandle| machine.request_id(*request) == Some(id);
        let request = self.core().requests().map(|(request, _)| request).find(is_named);
        if let Some(request) = request {
            self.cancel_request(request, cause, now, effects);
        }
    }

    /// Sets the marks of cancelled requests once the connection is closed, since the core has no events
    /// then.
    fn cancel_after_close(&mut self, effects: &mut Effects<W, M>) {
        if self.closed.is_none() {
            return;
        }
        let marked = self.core().requests().filter(|(_, row)| row.mark.is_some());
        let marked: Vec<RequestHandle> = marked.map(|(request, _)| request).collect();
        marked.into_iter().for_each(|request| self.note_cancelled(request, effects));
    }

    /// Cancels the operation of a request and gives its mark back, if the request is cancelled.
    pub(crate) fn note_cancelled(&mut self, request: RequestHandle, effects: &mut Effects<W, M>) {
        let Some(cause) = self.cause(request) else { return };
        if let Some(token) = self.core().operation(request) {
            effects.push(Effect::CancelOperation(token, cause));
        }
        if let Some(mark) = self.row(request).and_then(|row| row.mark.take()) {
            effects.push(Effect::Cancel(mark, cause));
        }
    }
}
