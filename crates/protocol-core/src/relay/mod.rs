//! Two connections joined, so that what one peer asks the other one answers.

mod event;

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use core::mem;

use serde_json::value::RawValue;

use crate::cause::{Cause, CloseReason};
use crate::config::{CallOptions, Config, Shutdown};
use crate::connection::Connection;
use crate::dialect::{Envelope, code};
use crate::error::Refusal;
use crate::event::{Event, Outcome, Params, Reply, Transmit};
use crate::machine::{CallId, RequestHandle, TimerReason};
use crate::stream::StreamConnection;
use crate::time::Timestamp;
pub use event::{RelayEvent, Side};

/// One connection of a [`Relay`]. Each call's data is the request of the other side that it was
/// made for; each request's data is the call that was made for it on the other side, if one was.
pub type RelayConnection = Connection<RequestHandle, Option<CallId>>;

/// Two connections joined: a client in front ([`Side::Up`]), a server behind ([`Side::Down`]),
/// and their dialects and framings may differ. Both sides are treated alike, so what the server
/// asks of the client takes the same way back.
///
/// - A request becomes a call on the other side, with the same method and params, byte for byte,
///   and an id of that connection. Its answer goes back under the id that it came with.
/// - A cancel is obeyed where it arrives and made anew for the call on the other side (G6). No
///   cancel, of whatever dialect and however malformed, is ever passed on as it is (B25).
/// - Where the other side settles a cancelled call in silence, the request is answered -32800. A
///   result that was faster than the cancel is passed back as that result (B23).
/// - A malformed answer becomes error -32603, and so does an answer that can't come any more.
/// - Notifications are passed on in their order, also relative to requests. Bad messages are
///   answered at once and never passed on; the members of a batch are passed on one by one.
/// - When one peer hangs up, its requests are cancelled on the other side, and what it still owed
///   is answered for it. The other side is over once its own answers are in, or
///   [`Config::abandoned_grace`] has passed.
/// - What does not fit into an outbox is a request answered with the dialect's overload code, or an
///   event; never dropped in silence (G8). A peer that doesn't read can't keep the relay from
///   reading (G3).
///
/// A host drives it like one [`StreamConnection`], once for each side:
///
/// - **commands**: [`shutdown`](Self::shutdown)
/// - **inputs**: [`receive`](Self::receive), [`finish`](Self::finish),
///   [`handle_timeout`](Self::handle_timeout)
/// - **outputs**: [`poll_transmit`](Self::poll_transmit), [`poll_event`](Self::poll_event),
///   [`poll_timeout`](Self::poll_timeout), [`is_over`](Self::is_over)
/// - **getters**: [`connection`](Self::connection)
///
/// ```
/// use protocol_core::{Config, Dialect, Relay, Side, Timestamp};
///
/// let now = Timestamp::ZERO;
/// let mut relay = Relay::new(Config::client(Dialect::ACP_V1), Config::client(Dialect::LSP_3_17));
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
    up: Hop,
    down: Hop,
    /// The latest time that the host told.
    now: Timestamp,
    events: VecDeque<RelayEvent>,
}

/// One connection, and what the relay itself owes on it.
#[derive(Clone, Debug)]
struct Hop {
    /// Invariant: each unanswered request waits for a call in flight on the other side that names
    /// it, or is in `owed`.
    stream: StreamConnection<RequestHandle, Option<CallId>>,
    /// Answers of our own that wait for room in the outbox. They hold none of the peers' data, so
    /// the limit on requests bounds them too.
    owed: VecDeque<(RequestHandle, Reply<'static>)>,
}

const HOP_GONE: Reply<'static> = internal_error("the next hop is gone");
const MALFORMED: Reply<'static> = internal_error("the answer of the next hop was malformed");
/// A cancel is a notification: with an id it is a method that nobody has.
const NOT_A_METHOD: Reply<'static> = Reply::Error {
    code: code::METHOD_NOT_FOUND,
    message: "method not found: cancels are notifications",
    data: None,
};

const fn internal_error(message: &'static str) -> Reply<'static> {
    Reply::Error { code: code::INTERNAL_ERROR, message, data: None }
}

impl Relay {
    /// A relay with nothing in flight.
    #[must_use]
    pub fn new(up: Config, down: Config) -> Self {
        let (up, down) = (Hop::new(up), Hop::new(down));
        Self { up, down, now: Timestamp::ZERO, events: VecDeque::new() }
    }

    // Inputs

    /// Takes at most one message from the beginning of one side's unread bytes. Says how many of
    /// them it used, and gives the message back, without framing, for traces.
    ///
    /// Call it again with the rest until it uses nothing; then with the same bytes and more.
    pub fn receive<'b>(
        &mut self,
        side: Side,
        unread: &'b [u8],
        now: Timestamp,
    ) -> (usize, Option<&'b [u8]>) {
        self.now = now;
        let (used, received) = self.hop_mut(side).stream.receive(unread, now);
        let message = received.message();
        for event in received {
            self.dispatch(side, event);
        }
        self.settle();
        (used, message)
    }

    /// One side's input has ended, with these bytes unread (G7). Gives the last message back, if
    /// there is one.
    pub fn finish<'b>(&mut self, side: Side, unread: &'b [u8], now: Timestamp) -> Option<&'b [u8]> {
        self.now = now;
        let received = self.hop_mut(side).stream.finish(unread, now);
        let message = received.message();
        for event in received {
            self.dispatch(side, event);
        }
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
        let transmit = self.hop_mut(side).stream.poll_transmit(out)?;
        self.settle();
        Some(transmit)
    }

    /// The next thing to log. Events are kept until they are polled.
    pub fn poll_event(&mut self) -> Option<RelayEvent> {
        self.events.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) wants to be called next, and why.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Timestamp, TimerReason)> {
        let due = Side::BOTH.map(|side| self.connection(side).poll_timeout());
        due.into_iter().flatten().min_by_key(|(due, _)| *due)
    }

    /// Whether nothing will ever be written to this side again: its writer is to be closed, which
    /// tells its peer the end.
    #[must_use]
    pub fn is_over(&self, side: Side) -> bool {
        let connection = self.connection(side);
        // Whatever is still answered here waits for a call of the other side.
        connection.machine().is_closed()
            && self.connection(side.other()).machine().calls_in_flight() == 0
            // What is owed waits behind something unsent.
            && connection.unsent_bytes() == 0
    }

    // Getters

    /// One side's connection, for its getters: what is in flight there and how it goes on on the
    /// other side.
    #[must_use]
    pub const fn connection(&self, side: Side) -> &RelayConnection {
        self.hop(side).stream.connection()
    }

    // What happens on one side and means something for the other

    /// Passes on what commands made happen, until nothing happens any more. What is owed is paid as
    /// soon as there is room, however it came: something left, was withdrawn or was given up.
    fn settle(&mut self) {
        loop {
            let found = Side::BOTH
                .into_iter()
                .find_map(|side| self.connection_mut(side).poll_event().map(|event| (side, event)));
            if let Some((side, event)) = found {
                self.dispatch(side, event);
            } else if !Side::BOTH.map(|side| self.pay(side)).contains(&true) {
                break;
            }
        }
        self.assert_consistent();
    }

    fn dispatch(&mut self, side: Side, event: Event<'_, RequestHandle>) {
        match event {
            Event::Request { request, method, params, .. } => {
                self.pass_request(side, request, &method, params);
            }
            Event::Notification { method, params } => {
                self.pass_notification(side, &method, params);
            }
            Event::Cancelled { request, .. } => self.pass_cancel(side, request),
            Event::Settled { outcome, data, .. } => self.pass_back(side.other(), data, &outcome),
            Event::Violation { violation, id } => {
                self.events.push_back(RelayEvent::Violation { side, violation, id });
            }
            Event::Closed { reason } => self.pass_end(side, reason),
            // Room in the outbox shows when a message leaves it; a tree that spans two connections
            // is the data on its requests and calls.
            Event::Ready | Event::TreeSettled { .. } => {}
        }
    }

    fn pass_request(
        &mut self,
        side: Side,
        request: RequestHandle,
        method: &str,
        params: Option<&RawValue>,
    ) {
        if self.is_cancel(method) {
            self.events.push_back(RelayEvent::CancelDropped { side, method: method.into() });
            return self.owe(side, request, NOT_A_METHOD);
        }
        let (params, options, now) = (Params::from(params), CallOptions::default(), self.now);
        let far = self.connection_mut(side.other());
        let reason = match far.call(method, params, request, options, now) {
            Ok(call) => {
                let data = self.connection_mut(side).request_data_mut(request);
                *data.expect("nobody but us answers requests") = Some(call);
                return;
            }
            Err(refused) => refused.reason,
        };
        let id = self.id_of(side, request);
        self.events.push_back(RelayEvent::RequestRefused { side, id, reason });
        let reply = self.overload(side, "The request was refused: the next hop takes no more");
        self.owe(side, request, reply);
    }

    fn pass_notification(&mut self, side: Side, method: &str, params: Option<&RawValue>) {
        if self.connection(side).config().dialect.cancel.is(method) {
            // Obeyed already; shown by `RawCancels::Shown`.
            return;
        }
        let event = if self.is_cancel(method) && !self.tells_of_cancels(side, method) {
            RelayEvent::CancelDropped { side, method: method.into() }
        } else {
            match self.connection_mut(side.other()).notify(method, Params::from(params)) {
                Ok(()) => return,
                Err(reason) => {
                    let method = String::from(method);
                    RelayEvent::NotificationDropped { side, method, reason }
                }
            }
        };
        self.events.push_back(event);
    }

    fn pass_cancel(&mut self, side: Side, request: RequestHandle) {
        let now = self.now;
        let call = self.connection_mut(side).request_data_mut(request).and_then(|call| *call);
        if let Some(call) = call {
            self.connection_mut(side.other()).cancel(call, Cause::Parent, now);
        }
    }

    /// Answers a request with how the call that was made for it ended.
    fn pass_back(&mut self, side: Side, request: RequestHandle, outcome: &Outcome<'_>) {
        let reply = match outcome {
            Outcome::Result(result) => Reply::Result(result),
            Outcome::Error(error) | Outcome::Cancelled { error: Some(error), .. } => {
                let envelope = |side| self.connection(side).config().dialect.envelope;
                match Side::BOTH.map(envelope) {
                    [Envelope::JsonRpc, Envelope::JsonRpc] => Reply::ErrorRaw(error.raw),
                    // An error of one envelope is none in another.
                    _ => {
                        let (message, data) = (&*error.message, error.data);
                        Reply::Error { code: error.code, message, data }
                    }
                }
            }
            Outcome::Cancelled { error: None, .. } => {
                return self.owe(side, request, Reply::Cancelled);
            }
            Outcome::Malformed => return self.owe(side, request, MALFORMED),
            Outcome::ConnectionLost { .. } | Outcome::TimedOut { .. } => {
                return self.owe(side, request, HOP_GONE);
            }
        };
        match self.connection_mut(side).respond(request, reply) {
            Ok(_) | Err(Refusal::AlreadyAnswered) => {}
            Err(reason) => {
                let id = self.id_of(side, request);
                self.events.push_back(RelayEvent::AnswerReplaced { side, id, reason });
                // To keep it until there is room would give a peer that doesn't read our memory.
                let reply = self.overload(side, "The answer was dropped: too much is unsent");
                self.owe(side, request, reply);
            }
        }
    }

    /// Nothing comes in any more on this side: nobody waits for the calls on the other one, and
    /// nothing new is to be taken there.
    fn pass_end(&mut self, side: Side, reason: CloseReason) {
        let now = self.now;
        let far = self.connection_mut(side.other());
        // They are cancelled already. A peer that never answers must not keep us for ever.
        for call in far.machine().calls_in_order() {
            far.detach(call, now);
        }
        far.shutdown(Shutdown::Drain, now);
        self.events.push_back(RelayEvent::Closed { side, reason });
    }

    // Answers of our own

    /// Answers a request by ourselves, as soon as there is room.
    fn owe(&mut self, side: Side, request: RequestHandle, reply: Reply<'static>) {
        self.hop_mut(side).owed.push_back((request, reply));
        self.pay(side);
    }

    /// Gives the answers that are owed, as far as there is room; says whether there was any.
    fn pay(&mut self, side: Side) -> bool {
        if self.hop(side).owed.is_empty() {
            return false;
        }
        let mut owed = mem::take(&mut self.hop_mut(side).owed);
        let before = owed.len();
        while let Some((request, reply)) = owed.front() {
            match self.connection_mut(side).respond(*request, *reply) {
                Ok(_) | Err(Refusal::AlreadyAnswered) => {}
                Err(Refusal::OutboxFull) => break,
                Err(_) => {
                    let id = self.id_of(side, *request);
                    self.events.push_back(RelayEvent::AnswerDropped { side, id });
                }
            }
            owed.pop_front();
        }
        let is_paid = owed.len() < before;
        self.hop_mut(side).owed = owed;
        is_paid
    }

    fn overload(&self, side: Side, message: &'static str) -> Reply<'static> {
        let code = self.connection(side).config().dialect.overload_code;
        Reply::Error { code, message, data: None }
    }

    /// Whether a message is a cancel, of either side's dialect or of any other, that names an id: that
    /// means nothing on another connection. Or it looks like one.
    fn is_cancel(&self, method: &str) -> bool {
        let dialects = Side::BOTH.map(|side| &self.connection(side).config().dialect);
        dialects.iter().any(|dialect| dialect.is_cancel(method) || dialect.tells_of_cancels(method))
    }

    /// Whether a notification tells the client that an operation was cancelled, which is named by a token
    /// that passes every hop; unless the client would take it for a cancel.
    fn tells_of_cancels(&self, side: Side, method: &str) -> bool {
        let [up, down] = Side::BOTH.map(|side| &self.connection(side).config().dialect);
        side == Side::Down && down.tells_of_cancels(method) && !up.cancel.is(method)
    }

    fn id_of(&self, side: Side, request: RequestHandle) -> crate::WireId {
        let id = self.connection(side).machine().request_id(request);
        id.expect("nobody but us answers requests").clone()
    }

    const fn hop(&self, side: Side) -> &Hop {
        match side {
            Side::Up => &self.up,
            Side::Down => &self.down,
        }
    }

    const fn hop_mut(&mut self, side: Side) -> &mut Hop {
        match side {
            Side::Up => &mut self.up,
            Side::Down => &mut self.down,
        }
    }

    const fn connection_mut(&mut self, side: Side) -> &mut RelayConnection {
        self.hop_mut(side).stream.connection_mut()
    }

    fn assert_consistent(&self) {
        for side in Side::BOTH {
            let waiting = self.connection(side.other()).machine().calls_in_flight();
            let requests = self.connection(side).machine().requests_in_flight();
            // More only after an `AnswerDropped`.
            debug_assert!(
                waiting + self.hop(side).owed.len() <= requests,
                "every call is made for an unanswered request"
            );
        }
    }
}

impl Hop {
    fn new(config: Config) -> Self {
        Self { stream: StreamConnection::new(config), owed: VecDeque::new() }
    }
}
