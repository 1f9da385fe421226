//! A relay, and how a host drives it.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use protocol_core::{
    CallId, Cause, Config, Connection, Dialect, Event, Received, Refusal, RequestHandle, Response,
    Role, Shutdown, StreamConnection, TimerReason, Timestamp, Transmit, WireId, WorkId,
};

use crate::event::{RelayEvent, Side};
use crate::guard::Guard;
use crate::responses::OwnResponse;

/// Two connections joined. Towards the client the relay is the server ([`Side::Up`]), and towards the
/// server it is a client ([`Side::Down`]).
///
/// The dialects and the framings of the two sides may differ. Both sides are treated alike, so the
/// server's requests to the client pass in the same way.
///
/// - **A request** becomes a call on the other side, with an id of that connection. Its method and params
///   stay the same, byte for byte, but for ids in them ([`IdPlace`](crate::IdPlace)). Its response goes back
///   under the id of the request.
/// - **A cancel** is obeyed where it arrives, and made anew for the call on the other side (G6). It
///   keeps its reason where both dialects have a place for one. A cancel that names an id is never
///   forwarded as it is, whatever its dialect and however malformed it is (B25).
/// - **A cancel of an operation** names a token, which means the same everywhere. Between two dialects
///   that cancel operations in the same way it is forwarded as a request, and the far server
///   acknowledges it.
/// - **A call that was cancelled and settled in silence** has the response -32800. A result that was
///   faster than the cancel is forwarded as that result (B23).
/// - **A response that is malformed**, or that can't come any more, becomes error -32603.
/// - **Notifications** keep their order, also relative to requests. The relay responds to bad messages
///   at once and never forwards them. The members of a batch are forwarded one by one.
/// - **When one peer hangs up**, its requests are cancelled on the other side, and the relay responds to
///   the requests that it left open. The other side is over once its own responses are in, or when
///   [`Config::abandoned_grace`] has passed.
/// - **A request that takes too long**, by a [`Guard`], is cancelled on the other side. Its response is
///   [`code::REQUEST_FAILED`](protocol_core::code::REQUEST_FAILED), at once.
/// - **A request that does not fit** into an outbox has the dialect's overload code as its response.
///   A notification that does not fit is an event, and so is a response for which there is no room even
///   as an error. Nothing is dropped in silence, and nothing stays in flight (G8). A peer that doesn't
///   read can't keep the relay from reading (G3).
///
/// A host drives a relay like a [`StreamConnection`], once for each side.
///
/// - **commands**: [`guard`](Self::guard), [`shutdown`](Self::shutdown)
/// - **inputs**: [`receive`](Self::receive), [`handle_eof`](Self::handle_eof),
///   [`handle_timeout`](Self::handle_timeout)
/// - **outputs**: [`poll_transmit`](Self::poll_transmit), [`poll_event`](Self::poll_event),
///   [`poll_timeout`](Self::poll_timeout), [`is_over`](Self::is_over)
/// - **getters**: [`connection`](Self::connection), [`memory`](Self::memory)
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
/// let received = relay.receive(Side::Up, request, now);
/// assert_eq!(received.consumed, request.len());
/// relay.poll_transmit(Side::Down, &mut wire);
/// assert!(wire.ends_with(br#"{"jsonrpc":"2.0","id":1,"method":"hover"}"#));
///
/// wire.clear();
/// let received = relay.receive(Side::Up, cancel, now);
/// assert_eq!(received.event, None);
/// relay.poll_transmit(Side::Down, &mut wire);
/// assert!(wire.ends_with(br#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}"#));
/// ```
#[derive(Clone, Debug)]
pub struct Relay {
    /// By side. Invariant: each request in flight has either one call in flight on the other side, whose
    /// data is the request, or one response in `own_responses`.
    streams: [StreamConnection<RequestHandle, Option<CallId>>; 2],
    /// By side, the responses of the relay's own that wait for room in the outbox. Invariant: they wait
    /// behind something unsent.
    own_responses: [VecDeque<OwnResponse>; 2],
    /// By side, the work that was stopped there, and whose stop waits for room on the other side, which runs it.
    pub(crate) waiting_stops: [VecDeque<WorkId>; 2],
    /// By side, the time that its requests may take.
    pub(crate) guards: [Guard; 2],
    /// The time of the latest input or command.
    pub(crate) now: Timestamp,
    events: VecDeque<(Side, RelayEvent)>,
}

impl Relay {
    /// Creates a relay with nothing in flight, from the configuration towards the client and the one
    /// towards the server.
    ///
    /// It overwrites their [`role`](Config::role), [`show_raw_cancels`](Config::show_raw_cancels) and
    /// [`deliver_unknown_operations`](Config::deliver_unknown_operations).
    ///
    /// If they [share handles](Config::shares_handles), as they do by default, the one towards the server
    /// gets the next [number](Config::connection). So neither side takes a handle of the other one.
    #[must_use]
    pub fn new(mut up: Config, mut down: Config) -> Self {
        (up.role, down.role) = (Role::Server, Role::Client);
        if up.shares_handles(&down) {
            down.connection = up.connection.wrapping_add(1);
        }
        // An operation is always the far server's. Its cancel can be forwarded if both dialects cancel in
        // the same way.
        let same_cancel = up.dialect.cancel == down.dialect.cancel;
        for config in [&mut up, &mut down] {
            config.deliver_unknown_operations = same_cancel;
            // So that a cancel which is not obeyed is reported.
            config.show_raw_cancels = true;
        }
        let streams = [up, down].map(StreamConnection::new);
        Self {
            streams,
            own_responses: Default::default(),
            waiting_stops: Default::default(),
            guards: Default::default(),
            now: Timestamp::ZERO,
            events: VecDeque::new(),
        }
    }

    // Commands

    /// Limits how long the requests that come from one side may take from now on. Without a guard they
    /// may take for ever.
    pub fn guard(&mut self, side: Side, guard: Guard) {
        self.guards[side as usize] = guard;
    }

    /// Shuts both sides down.
    pub fn shutdown(&mut self, how: Shutdown, now: Timestamp) {
        self.now = now;
        for side in Side::BOTH {
            self.connection_mut(side).shutdown(how, now);
        }
        self.settle();
    }

    // Inputs

    /// Reads at most one message from the beginning of one side's unread bytes.
    ///
    /// Call it again with the rest until it consumes nothing. Then call it with the same bytes and more.
    /// It returns the oldest event too; [`poll_event`](Self::poll_event) returns the others.
    pub fn receive<'b>(
        &mut self,
        side: Side,
        unread: &'b [u8],
        now: Timestamp,
    ) -> Received<'b, (Side, RelayEvent)> {
        self.now = now;
        let Received { consumed, message, event, .. } =
            self.streams[side as usize].receive(unread, now);
        if let Some(event) = event {
            self.dispatch(side, event);
        }
        self.settle();
        Received::new(consumed, message, self.poll_event())
    }

    /// Returns the outline of one side's last message over the limit, as [`StreamConnection::take_outline`] says.
    pub fn take_outline(&mut self, side: Side) -> Option<Vec<u8>> {
        self.streams[side as usize].take_outline()
    }

    /// Ends one side's input, with these bytes unread, and returns the last message in them.
    ///
    /// It is [`StreamConnection::handle_eof`] of that side.
    pub fn handle_eof<'b>(
        &mut self,
        side: Side,
        unread: &'b [u8],
        now: Timestamp,
    ) -> Option<&'b [u8]> {
        self.now = now;
        let message = self.streams[side as usize].handle_eof(unread, now);
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

    // Outputs

    /// Appends the next message for one side to `out`, framed, as
    /// [`StreamConnection::poll_transmit`] does.
    pub fn poll_transmit(&mut self, side: Side, out: &mut Vec<u8>) -> Option<Transmit> {
        let transmit = self.streams[side as usize].poll_transmit(out)?;
        self.settle();
        Some(transmit)
    }

    /// Returns the next event, for logs, and the side whose peer it is about. Events are kept until they
    /// are polled.
    pub fn poll_event(&mut self) -> Option<(Side, RelayEvent)> {
        pop(&mut self.events)
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) is to be called next, and why: the earlier
    /// of both sides' times.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Timestamp, TimerReason)> {
        let due = Side::BOTH.map(|side| self.connection(side).poll_timeout());
        due.into_iter().flatten().min_by_key(|(due, _)| *due)
    }

    /// Returns whether nothing will ever be written to this side again. The host then closes the side's
    /// writer, which ends the peer's input.
    #[must_use]
    pub fn is_over(&self, side: Side) -> bool {
        let connection = self.connection(side);
        // Every response that is still to come here waits for a call of the other side, or behind
        // something unsent.
        connection.machine().is_closed()
            && self.connection(side.other()).machine().calls_in_flight() == 0
            && connection.unsent_bytes() == 0
    }

    // Getters

    /// Returns one side's connection, for its getters.
    ///
    /// The data on each call is the request of the other side that the call was made for. The data on
    /// each request is the call that was made for it on the other side, if there is one.
    #[must_use]
    pub const fn connection(&self, side: Side) -> &Connection<RequestHandle, Option<CallId>> {
        self.streams[side as usize].connection()
    }

    pub(crate) const fn connection_mut(
        &mut self,
        side: Side,
    ) -> &mut Connection<RequestHandle, Option<CallId>> {
        self.streams[side as usize].connection_mut()
    }

    /// Returns the dialect that one side speaks.
    pub(crate) const fn dialect(&self, side: Side) -> &Dialect {
        &self.connection(side).config().dialect
    }

    /// Returns the id of a request in flight.
    pub(crate) fn id_of(&self, side: Side, request: RequestHandle) -> WireId {
        let id = self.connection(side).machine().request_id(request);
        id.expect("only the relay responds to requests").clone()
    }

    // Events of the two connections

    /// Forwards what commands made happen, until nothing happens any more. An own response is sent as
    /// soon as there is room for it, whether a message left, was withdrawn or was given up.
    fn settle(&mut self) {
        loop {
            if let Some(event) = self.connection_mut(Side::Up).poll_event() {
                self.dispatch(Side::Up, event);
            } else if let Some(event) = self.connection_mut(Side::Down).poll_event() {
                self.dispatch(Side::Down, event);
            } else if !self.flush_own_responses() && !self.send_waiting_stops() {
                break;
            }
        }
        self.assert_consistent();
    }

    #[inline(always)]
    fn dispatch(&mut self, side: Side, event: Event<'_, RequestHandle>) {
        match event {
            Event::Request { request, method, params, options, .. } => {
                self.forward_request(side, request, &method, params.as_deref(), options.as_deref());
            }
            Event::Notification { method, params } => {
                self.forward_notification(side, &method, params.as_deref());
            }
            Event::Cancelled { request, cause: Cause::Stopped, .. } => {
                self.forward_stop(side, request);
            }
            Event::Cancelled { request, reason, .. } => {
                self.forward_cancel(side, request, reason.as_deref());
            }
            Event::Settled { outcome, data, .. } => {
                self.forward_outcome(side.other(), data, &outcome);
            }
            Event::Violation { violation, id } => {
                self.report(side, RelayEvent::Violation { violation, id });
            }
            Event::Closed { reason } => self.forward_end(side, reason),
            // `Ready` and `TreeSettled`: the relay tries again whenever a message leaves an outbox, and a
            // tree that spans two connections is in the data on their requests and calls.
            _ => {}
        }
    }

    pub(crate) fn report(&mut self, side: Side, event: RelayEvent) {
        self.events.push_back((side, event));
    }

    // Responses

    pub(crate) fn respond(
        &mut self,
        side: Side,
        request: RequestHandle,
        response: Response<'_>,
    ) -> Result<(), Refusal> {
        match self.connection_mut(side).respond(request, response) {
            Ok(_) | Err(Refusal::AlreadyResponded) => Ok(()),
            Err(reason) => Err(reason),
        }
    }

    /// Queues a response of the relay's own. [`settle`](Self::settle) sends it as soon as there is room.
    pub(crate) fn queue_own_response(
        &mut self,
        side: Side,
        request: RequestHandle,
        response: Response<'static>,
    ) {
        self.own_responses[side as usize].push_back((request, response));
    }

    /// Sends own responses as far as there is room, and returns whether any left the queue. A response
    /// that can never fit releases its request.
    fn flush_own_responses(&mut self) -> bool {
        let mut progressed = false;
        for side in Side::BOTH {
            while let Some(&(request, response)) = self.own_responses[side as usize].front() {
                match self.respond(side, request, response) {
                    Ok(()) => {}
                    // No room will come if nothing is unsent: no message may wait at all.
                    Err(Refusal::OutboxFull) if self.connection(side).unsent_bytes() > 0 => break,
                    Err(_) => {
                        let id = self.id_of(side, request);
                        self.report(side, RelayEvent::ResponseDropped { id });
                        let released = self.connection_mut(side).release_request(request);
                        debug_assert!(released.is_ok(), "the request is in flight");
                    }
                }
                pop(&mut self.own_responses[side as usize]);
                progressed = true;
            }
        }
        progressed
    }

    fn assert_consistent(&self) {
        for side in Side::BOTH {
            let calls = self.connection(side.other()).machine().calls_in_flight();
            let own = self.own_responses[side as usize].len();
            let requests = self.connection(side).machine().requests_in_flight();
            debug_assert!(
                calls + own == requests,
                "each request waits for its call or its own response"
            );
            debug_assert!(
                own == 0 || self.connection(side).unsent_bytes() > 0,
                "room for own responses will come"
            );
        }
    }
}

/// The number of places that a queue keeps when it is empty.
const KEPT_PLACES: usize = 64;

/// Removes the first entry, and gives back most of the memory of a queue that is empty then.
pub(crate) fn pop<T>(queue: &mut VecDeque<T>) -> Option<T> {
    let first = queue.pop_front()?;
    if queue.is_empty() {
        queue.shrink_to(KEPT_PLACES);
    }
    Some(first)
}
