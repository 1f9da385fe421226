//! The transport's side: bytes in, messages out, and timers.

use core::mem;
use core::time::Duration;

use protocol_core::Timestamp;

use crate::effects::{Effects, Shown, Way};
use crate::outgoing::Messages;
use crate::state::{EndReason, Endpoint, Writing};

/// The time in which the last words of a peer are read that reads no more. They are here already, and
/// nobody can tell when there are no more.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The result of [`Endpoint::poll_output`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Write the messages that were added, then ask again.
    Write,
    /// There is nothing to write until the waiter is woken.
    Idle,
    /// There is nothing to write ever again: close the writer.
    Over,
}

impl<W, M> Endpoint<W, M> {
    // Input

    /// Takes every whole message in `unread`, and returns the number of bytes that are used.
    ///
    /// Every request that a message cancels has its cause when this returns, and its mark is among the
    /// effects (G3).
    pub fn receive(&mut self, unread: &[u8], now: Timestamp, effects: &mut Effects<W, M>) -> usize {
        self.now = now;
        let mut used = 0;
        // Once nothing is unread, asking again returns nothing.
        while used < unread.len() {
            let left = &unread[used..];
            let taken = self.stream.receive(left, now);
            if let Some(message) = taken.message {
                self.show_message(Way::Received, message, effects);
            }
            if taken.message.is_some() || taken.event.is_some() {
                self.hear(taken.message.unwrap_or(left), taken.event, effects);
            }
            self.dispatch_queued(effects);
            if taken.consumed == 0 {
                break;
            }
            used += taken.consumed;
        }
        self.unfinished = unread.len() - used;
        self.follow(effects);
        used
    }

    /// Takes one whole message, without framing.
    pub fn receive_message(&mut self, message: &[u8], now: Timestamp, effects: &mut Effects<W, M>) {
        self.now = now;
        let event = self.stream.connection_mut().receive(message, now);
        self.show_message(Way::Received, message, effects);
        self.hear(message, event, effects);
        self.follow(effects);
    }

    #[inline]
    fn show_message(&self, way: Way, message: &[u8], effects: &mut Effects<W, M>) {
        if self.shows.messages {
            effects.show(Shown::Message(way, message.into()));
        }
    }

    /// Takes the end of the input, with these bytes unread. `error` is what the transport failed with. It is
    /// not the reason of a connection that is closed already.
    pub fn handle_eof(
        &mut self,
        unread: &[u8],
        error: Option<&str>,
        now: Timestamp,
        effects: &mut Effects<W, M>,
    ) {
        self.now = now;
        // It says more than the error of a write to a peer that is gone.
        if let (Some(error), None) = (error, self.closed) {
            self.end = Some(EndReason::Transport(error.into()));
        }
        if let Some(message) = self.stream.handle_eof(unread, now) {
            self.show_message(Way::Received, message, effects);
            if let event @ Some(_) = self.stream.connection_mut().poll_event() {
                self.hear(message, event, effects);
            }
        }
        self.follow(effects);
    }

    /// Settles the call with this number as lost, and says how in words. The connection goes on.
    ///
    /// It is for a transport on which each call has a stream of its own. A number of no call in flight is ignored.
    pub fn lose_call(
        &mut self,
        number: u32,
        how: &str,
        now: Timestamp,
        effects: &mut Effects<W, M>,
    ) {
        self.now = now;
        let Some(call) = self.core().machine().call_numbered(number) else { return };
        let before = self.end.replace(EndReason::Transport(how.into()));
        self.stream.connection_mut().lose_call(call, now);
        self.follow(effects);
        self.end = before;
    }

    /// Takes the error of a write: nothing can be written any more.
    ///
    /// The peer's last words are still to be read. A host that knows their end calls
    /// [`handle_eof`](Self::handle_eof); otherwise the input ends in a second.
    pub fn stop_writing(&mut self, error: &str, now: Timestamp, effects: &mut Effects<W, M>) {
        self.now = now;
        self.end_by(EndReason::Transport(error.into()));
        self.muted.get_or_insert(now + LAST_WORDS);
        self.follow(effects);
    }

    /// Returns whether nothing can be written any more.
    pub const fn is_mute(&self) -> bool {
        self.muted.is_some()
    }

    // Output

    /// Adds the messages that may be written now to `out`, which the host has cleared. Those that it had
    /// before are written, or never will be.
    ///
    /// They are framed as the dialect says.
    pub fn poll_output(&mut self, out: &mut Messages, effects: &mut Effects<W, M>) -> Output {
        let before = self.output.writing;
        if before != Writing::Abandoned {
            self.output.writing = Writing::Idle;
        }
        self.output.taken = 0;
        if self.output.corks > 0 || matches!(before, Writing::Busy { settled: Some(_) }) {
            // A cork may hold back more than the limit then, and no patience ends any more.
            self.follow(effects);
        }
        if self.has_output() && self.take_output(out, effects) {
            self.output.writing = Writing::Busy { settled: None };
            self.output.taken = out.len();
            // Taking messages out makes room for others.
            self.follow(effects);
            return Output::Write;
        }
        self.wake_flushed(effects);
        if self.is_over() { Output::Over } else { Output::Idle }
    }

    /// Notes that the peer took a part of the bytes that are being written, so the patience with it begins anew.
    ///
    /// It wakes nobody: the timer finds that its time has moved when it fires.
    pub fn note_progress(&mut self, now: Timestamp) {
        if let Writing::Busy { settled: Some(since) } = &mut self.output.writing {
            *since = now;
        }
    }

    /// Waits for output. `waiter` is woken once there is some, or nothing ever again; the one before is
    /// left in its place.
    ///
    /// It is also woken when the time of the next timer becomes an earlier one, unless somebody
    /// [waits for that](Self::wait_for_timer).
    pub fn wait_for_output(&mut self, waiter: &mut Option<W>) {
        mem::swap(&mut self.output.writer, waiter);
    }

    /// Returns the waiter for output.
    pub const fn waiting_for_output(&self) -> Option<&W> {
        self.output.writer.as_ref()
    }

    /// Returns the waiter for output, unless it waits for a timer too. A host that waits for both at once has nothing
    /// to do before it is woken.
    pub fn idle_waiter(&self) -> Option<&W> {
        self.output.writer.as_ref().filter(|_| self.output.armed.is_none())
    }

    fn take_output(&mut self, out: &mut Messages, effects: &mut Effects<W, M>) -> bool {
        if !self.output.staged.is_empty() {
            out.append(&mut self.output.staged);
        }
        let most = self.output.pipe_bytes;
        while out.len() < most && out.push(|bytes| self.take_transmit(bytes, effects)) {}
        !out.is_empty()
    }

    fn take_transmit(
        &mut self,
        out: &mut alloc::vec::Vec<u8>,
        effects: &mut Effects<W, M>,
    ) -> bool {
        let Some(transmit) = self.stream.poll_transmit(out) else { return false };
        self.show_message(Way::Sent, transmit.message(out), effects);
        true
    }

    /// Moves one message from the outbox to those that leave with the cork.
    pub(crate) fn stage_transmit(&mut self, effects: &mut Effects<W, M>) -> bool {
        let mut staged = mem::take(&mut self.output.staged);
        let moved = staged.push(|bytes| self.take_transmit(bytes, effects));
        self.output.staged = staged;
        moved
    }

    /// Holds writing back until [`uncork`](Self::uncork), which may be nested. Messages count as sent at
    /// once, and leave in one write.
    pub const fn cork(&mut self) {
        self.output.corks += 1;
    }

    /// Ends what one [`cork`](Self::cork) began.
    pub fn uncork(&mut self, effects: &mut Effects<W, M>) {
        self.output.corks -= 1;
        self.follow(effects);
    }

    /// A cork holds no more back than the outbox would.
    #[inline]
    pub(crate) fn is_corked(&self) -> bool {
        let most = || self.core().config().limits.unsent_bytes;
        let next = || self.core().next_transmit_len().unwrap_or(0);
        self.output.corks > 0 && self.output.staged.len() + next() <= most()
    }

    /// Returns whether there is anything to write now.
    pub(crate) fn has_output(&self) -> bool {
        self.output.writing == Writing::Idle && !self.is_corked() && self.has_unsent()
    }

    fn has_unsent(&self) -> bool {
        !self.output.staged.is_empty() || self.core().next_transmit_len().is_some()
    }

    /// Returns whether every message is written, or never will be.
    ///
    /// Responses that wait for room are no case of their own: an outbox without a message has room.
    pub fn is_flushed(&self) -> bool {
        match self.output.writing {
            Writing::Idle => !self.has_unsent(),
            Writing::Busy { .. } => false,
            Writing::Abandoned => true,
        }
    }

    /// Returns whether nothing comes in any more, and every request that did has its response, which may
    /// still wait for room.
    fn is_settled(&self) -> bool {
        self.core().is_closed() && self.core().requests_in_flight() <= self.responses.len()
    }

    /// Returns whether nothing is left to be read, written or timed.
    pub fn is_over(&self) -> bool {
        let is_over = self.is_abandoned() || self.is_settled() && self.is_flushed();
        is_over && self.alarms.is_empty()
    }

    /// Returns whether what was not written is given up.
    pub fn is_abandoned(&self) -> bool {
        self.output.writing == Writing::Abandoned
    }

    // Timers

    /// Returns whether [`handle_timeout`](Self::handle_timeout) has anything to compare the time with.
    #[inline]
    pub fn needs_time(&self) -> bool {
        self.lacks_patience() || self.due().is_some()
    }

    /// Fires the timers that are due. Returns the time of the next one.
    pub fn handle_timeout(
        &mut self,
        now: Timestamp,
        effects: &mut Effects<W, M>,
    ) -> Option<Timestamp> {
        self.now = now;
        loop {
            if self.lacks_patience() {
                self.output.writing = Writing::Busy { settled: Some(now) };
            }
            let due = self.due();
            if due.is_none_or(|due| due > now) {
                return due;
            }
            if self.patience_ends().is_some_and(|until| until <= now) {
                self.abandon_all(now);
            }
            let core = self.stream.connection_mut();
            core.handle_timeout(now);
            if self.muted.is_some_and(|until| until <= now) {
                core.handle_eof(now);
            }
            self.beat(now, effects);
            self.wake_alarms(effects);
            self.follow(effects);
        }
    }

    /// Waits for the next timer. `waiter` is woken when its time becomes an earlier one; the one before is left in
    /// its place. `None` keeps that one. Returns the time, at which a later time may come to light.
    ///
    /// While nobody waits so, such a change wakes the waiter for output. A host that waits for both at once
    /// leaves one waiter.
    pub fn wait_for_timer(&mut self, waiter: &mut Option<W>) -> Option<Timestamp> {
        if waiter.is_some() {
            mem::swap(&mut self.output.timer, waiter);
        }
        // The patience begins when the clock is looked at, which is now.
        self.output.armed = if self.lacks_patience() { Some(self.now) } else { self.due() };
        self.output.armed
    }

    /// Lets the waiter for output keep the timer as well, until this time, which is that of [`due`](Self::due).
    /// Returns the waiter that kept it before.
    #[must_use]
    #[inline]
    pub const fn arm_timer(&mut self, due: Option<Timestamp>) -> Option<W> {
        self.output.armed = due;
        self.output.timer.take()
    }

    /// Returns the waiter for the next timer.
    pub const fn waiting_for_timer(&self) -> Option<&W> {
        self.output.timer.as_ref()
    }

    /// Returns whether the keeper of the timers would wait for too long.
    #[inline]
    pub(crate) fn is_timer_stale(&self) -> bool {
        let is_earlier = |due| self.output.armed.is_none_or(|armed| due < armed);
        self.due().is_some_and(is_earlier) || self.lacks_patience() || self.is_over()
    }

    /// Returns the time of the next timer.
    #[inline]
    pub fn due(&self) -> Option<Timestamp> {
        let timer = self.core().poll_timeout().map(|(due, _)| due);
        // Mostly the core alone has timers.
        let has_others = self.heart.is_some() || !self.alarms.is_empty();
        if self.output.writing == Writing::Idle && self.muted.is_none() && !has_others {
            return timer;
        }
        let muted = self.muted.filter(|_| self.closed.is_none());
        let beat = self.heart.as_ref().filter(|_| self.closed.is_none()).map(|heart| heart.due);
        let (patience, alarm) = (self.patience_ends(), self.alarm_due());
        [timer, patience, muted, beat, alarm].into_iter().flatten().min()
    }

    /// Returns the time at which a peer that does not read is given up. Once nothing is in flight, only
    /// unwritten bytes keep the connection alive, and they must not for ever.
    fn patience_ends(&self) -> Option<Timestamp> {
        let Writing::Busy { settled } = self.output.writing else { return None };
        settled.map(|settled| settled + self.patience)
    }

    /// Returns whether only unwritten bytes keep the connection alive, and nobody has looked at the clock
    /// yet.
    pub(crate) fn lacks_patience(&self) -> bool {
        self.output.writing == Writing::Busy { settled: None } && self.is_settled()
    }
}
