//! Two connections of `protocol-core` joined, so that what one peer asks the other one answers.
//!
//! A [`Relay`] is pure, like the connections that it joins: no I/O, no clock, no threads. It is a host of both, and uses
//! nothing of them that another host could not.
//!
//! This file says what a relay is and how it is driven. `pass.rs` says what each thing that happens on
//! one side means for the other, and `owe.rs` how the relay answers what the other side will not.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod event;
mod guard;
mod owe;
mod pass;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

pub use event::{RelayEvent, Side};
pub use guard::Guard;
use protocol_core::{
    CallId, Config, Connection, Dialect, Event, RequestHandle, Response, Role, Shutdown,
    StreamConnection, TimerReason, Timestamp, Transmit,
};

/// Two connections joined: towards the client we are the server ([`Side::Up`]), and towards the server
/// we are a client ([`Side::Down`]).
///
/// The dialects and the framings of the two sides may differ. Both sides are treated alike, so what the
/// server asks of the client passes in the same way.
///
/// - **A request** becomes a call on the other side, with the same method and params, byte for byte,
///   and with an id of that connection. Its answer goes back under the id that the request came with.
/// - **A cancel** is obeyed where it arrives and made anew for the call on the other side (G6), with the
///   reason that it gave, where both dialects have a place for one. A cancel that names an id is never
///   passed on as it is, whatever its dialect and however malformed it is (B25).
/// - **A cancel of an operation** names a token, which means the same everywhere. Between two dialects
///   that cancel operations in the same way it is passed on as the request that it is, and the far
///   server acknowledges it.
/// - **A call that was settled in silence** because it was cancelled is answered with -32800. A result
///   that was faster than the cancel is passed back as that result (B23).
/// - **An answer that is malformed**, or that can't come any more, becomes error -32603.
/// - **Notifications** are passed on in their order, also relative to requests. Bad messages are answered
///   at once and never passed on. The members of a batch are passed on one by one.
/// - **When one peer hangs up**, its requests are cancelled on the other side, and what it still owed is
///   answered for it. The other side is over once its own answers are in, or when
///   [`Config::abandoned_grace`] has passed.
/// - **What takes too long**, by a [`Guard`], is cancelled on the other side and answered with
///   [`code::REQUEST_FAILED`](protocol_core::code::REQUEST_FAILED) at once.
/// - **What does not fit** into an outbox is a request answered with the dialect's overload code, or an
///   event. It is never dropped in silence (G8). A peer that doesn't read can't keep the relay from
///   reading (G3).
///
/// A host drives a relay like a [`StreamConnection`], once for each side:
///
/// - **commands**: [`guard`](Self::guard), [`shutdown`](Self::shutdown)
/// - **inputs**: [`receive`](Self::receive), [`finish`](Self::finish),
///   [`handle_timeout`](Self::handle_timeout)
/// - **outputs**: [`poll_transmit`](Self::poll_transmit), [`poll_event`](Self::poll_event),
///   [`poll_timeout`](Self::poll_timeout), [`is_over`](Self::is_over)
/// - **getters**: [`connection`](Self::connection)
///
/// ```
/// use protocol_core::{Config, Dialect, Timestamp};
/// use protocol_relay::{Relay, Side};
///
/// let now = Timestamp::ZERO;
/// let mut relay = Relay::new(Config::server(Dialect::ACP_V1), Config::client(Dialect::LSP_3_17));
/// let request = b"{\"jsonrpc\":\"2.0\",\"id\":\"abc\",\"method\":\"hover\"}\n";
/// let cancel = b"{\"jsonrpc\":\"2.0\",\"method\":\"$/cancel_request\",\"params\":{\"requestId\":\"abc\"}}\n";
///
/// let mut wire = Vec::new();
/// relay.receive(Side::Up, request, now);
/// relay.poll_transmit(Side::Down, &mut wire);
/// assert!(wire.ends_with(br#"{"jsonrpc":"2.0","id":1,"method":"hover"}"#));
///
/// wire.clear();
/// relay.receive(Side::Up, cancel, now);
/// relay.poll_transmit(Side::Down, &mut wire);
/// assert!(wire.ends_with(br#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}"#));
/// ```
#[derive(Clone, Debug)]
pub struct Relay {
    /// By side. Invariant: each unanswered request waits for a call in flight on the other side that
    /// names it, or is in `owed`.
    streams: [StreamConnection<RequestHandle, Option<CallId>>; 2],
    /// By side, answers of the relay's own that wait for room in the outbox. They hold none of the peers'
    /// data, so the limit on requests bounds them too.
    owed: [VecDeque<(RequestHandle, Response<'static>)>; 2],
    /// By side, how long the requests that come from there may take.
    guards: [Guard; 2],
    /// The time that the host gave with the latest input or command.
    now: Timestamp,
    events: VecDeque<(Side, RelayEvent)>,
}

impl Relay {
    /// A relay with nothing in flight, from the configuration towards the client and the one towards
    /// the server.
    ///
    /// Their [`role`](Config::role), [`show_raw_cancels`](Config::show_raw_cancels) and
    /// [`deliver_unknown_operations`](Config::deliver_unknown_operations) are what a relay needs,
    /// whatever they were.
    #[must_use]
    pub fn new(mut up: Config, mut down: Config) -> Self {
        (up.role, down.role) = (Role::Server, Role::Client);
        // An operation is always the far server's. Its cancel says there what it says here, if both
        // dialects cancel in the same way.
        let is_same_cancel = up.dialect.cancel == down.dialect.cancel;
        for config in [&mut up, &mut down] {
            config.deliver_unknown_operations = is_same_cancel;
            // So that a cancel which is not obeyed is reported.
            config.show_raw_cancels = true;
        }
        let streams = [up, down].map(StreamConnection::new);
        Self {
            streams,
            owed: Default::default(),
            guards: Default::default(),
            now: Timestamp::ZERO,
            events: VecDeque::new(),
        }
    }

    // Commands

    /// Says how long the requests that come from one side may take from now on. Without it they may take
    /// for ever.
    pub fn guard(&mut self, side: Side, guard: Guard) {
        self.guards[side as usize] = guard;
    }

    // Inputs

    /// Takes at most one message from the beginning of one side's unread bytes. Returns how many of
    /// them it used, and the message without its framing, for traces.
    ///
    /// Call it again with the rest until it uses nothing. Then call it with the same bytes and more.
    pub fn receive<'b>(
        &mut self,
        side: Side,
        unread: &'b [u8],
        now: Timestamp,
    ) -> (usize, Option<&'b [u8]>) {
        self.now = now;
        let taken = self.streams[side as usize].receive(unread, now);
        if let Some(event) = taken.event {
            self.dispatch(side, event);
        }
        self.settle();
        (taken.used, taken.message)
    }

    /// One side's input has ended, with these bytes unread (G7). Returns the last message, if those
    /// bytes are one.
    pub fn finish<'b>(&mut self, side: Side, unread: &'b [u8], now: Timestamp) -> Option<&'b [u8]> {
        self.now = now;
        let message = self.streams[side as usize].finish(unread, now);
        self.settle();
        message
    }

    /// Fires every timer that is due.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        self.now = now;
        for side in Side::BOTH {
            self.connection_mut(side).handle_timeout(now);
        }
        self.settle();
    }

    // Commands

    /// Shuts both sides down (G5).
    pub fn shutdown(&mut self, how: Shutdown, now: Timestamp) {
        self.now = now;
        for side in Side::BOTH {
            self.connection_mut(side).shutdown(how, now);
        }
        self.settle();
    }

    // Outputs

    /// Appends the next message for one side to `out`, framed.
    pub fn poll_transmit(&mut self, side: Side, out: &mut Vec<u8>) -> Option<Transmit> {
        let transmit = self.streams[side as usize].poll_transmit(out)?;
        self.settle();
        Some(transmit)
    }

    /// The next event, for the log, and the side whose peer sent what it is about. Events are kept until
    /// they are polled.
    pub fn poll_event(&mut self) -> Option<(Side, RelayEvent)> {
        self.events.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called next, and why: the earlier of both
    /// sides' times.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Timestamp, TimerReason)> {
        let due = Side::BOTH.map(|side| self.connection(side).poll_timeout());
        due.into_iter().flatten().min_by_key(|(due, _)| *due)
    }

    /// Whether nothing will ever be written to this side again. Its writer is then to be closed, which
    /// tells its peer that this is the end.
    #[must_use]
    pub fn is_over(&self, side: Side) -> bool {
        let connection = self.connection(side);
        // Every answer that is still to come here waits for a call of the other side.
        connection.machine().is_closed()
            && self.connection(side.other()).machine().calls_in_flight() == 0
            // An answer of our own that waits for room waits behind something unsent.
            && connection.unsent_bytes() == 0
    }

    // Getters

    /// One side's connection, for its getters. The data on each call is the request of the other side
    /// that the call was made for. The data on each request is the call that was made for it on the
    /// other side, if one was made.
    #[must_use]
    pub const fn connection(&self, side: Side) -> &Connection<RequestHandle, Option<CallId>> {
        self.streams[side as usize].connection()
    }

    // Carrying on

    /// Passes on what commands made happen, until nothing happens any more. An answer that is owed is
    /// given as soon as there is room for it, however the room came about: a message left, was
    /// withdrawn or was given up.
    fn settle(&mut self) {
        loop {
            if let Some(event) = self.connection_mut(Side::Up).poll_event() {
                self.dispatch(Side::Up, event);
            } else if let Some(event) = self.connection_mut(Side::Down).poll_event() {
                self.dispatch(Side::Down, event);
            } else if !self.pay() {
                break;
            }
        }
        self.assert_consistent();
    }

    fn dispatch(&mut self, side: Side, event: Event<'_, RequestHandle>) {
        match event {
            Event::Request { request, method, params, .. } => {
                self.pass_request(side, request, &method, params.as_deref());
            }
            Event::Notification { method, params } => {
                self.pass_notification(side, &method, params.as_deref());
            }
            Event::Cancelled { request, reason, .. } => {
                self.pass_cancel(side, request, reason.as_deref());
            }
            Event::Settled { outcome, data, .. } => self.pass_back(side.other(), data, &outcome),
            Event::Violation { violation, id } => {
                self.report(side, RelayEvent::Violation { violation, id });
            }
            Event::Closed { reason } => self.pass_end(side, reason),
            // `Ready` and `TreeSettled`: the relay tries again whenever a message leaves an outbox, and a tree that spans two
            // connections is in the data on their requests and calls.
            _ => {}
        }
    }

    fn report(&mut self, side: Side, event: RelayEvent) {
        self.events.push_back((side, event));
    }

    // The two sides

    /// The dialect that one side speaks.
    const fn dialect(&self, side: Side) -> &Dialect {
        &self.connection(side).config().dialect
    }

    const fn connection_mut(
        &mut self,
        side: Side,
    ) -> &mut Connection<RequestHandle, Option<CallId>> {
        self.streams[side as usize].connection_mut()
    }

    fn assert_consistent(&self) {
        for side in Side::BOTH {
            let waiting = self.connection(side.other()).machine().calls_in_flight();
            let requests = self.connection(side).machine().requests_in_flight();
            // There are more requests only after an `ResponseDropped`.
            debug_assert!(
                waiting + self.owed[side as usize].len() <= requests,
                "every call is made for an unanswered request"
            );
        }
    }
}
