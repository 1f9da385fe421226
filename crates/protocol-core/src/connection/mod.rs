//! The machine's decisions, carried out on whole messages.

mod commands;
mod inputs;
mod memory;
mod negotiation;
mod unsent;
mod work;

use alloc::borrow::Cow;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use protocol_json::Value;
use serde_json::value::RawValue;

use crate::cause::{Cause, Settlement};
use crate::config::Config;
use crate::dialect::{CancelRule, Text};
use crate::envelope::{Context, OutgoingMessage, ResponseBody};
use crate::event::{Event, Outcome, Transmit, TransmitKind};
use crate::handle::{CallId, RequestHandle};
use crate::id::WireId;
use crate::machine::{Action, Completion, Machine, ResultEffect, TimerReason};
use crate::outbox::{Lane, Ticket};
use crate::slot::Slot;
use crate::time::Timestamp;
use crate::violation::Violation;
use negotiation::Negotiated;
use unsent::Unsent;

/// One JSON-RPC connection on whole messages.
///
/// `O` is the host's data on each of our calls. It goes in with [`call`](Self::call) and comes back by
/// value exactly once, with [`Event::Settled`]. `I` is the host's data on each of the peer's requests. It
/// begins as its default, is reached by [`request_data_mut`](Self::request_data_mut) and comes back from
/// [`respond`](Self::respond). So a host needs no table of its own.
///
/// Any order of method calls is legal, and a method that returns `Err` changed nothing (G10).
///
/// - **commands**: [`call`](Self::call), [`notify`](Self::notify), [`cancel`](Self::cancel),
///   [`detach`](Self::detach), [`progress`](Self::progress), [`respond`](Self::respond),
///   [`begin_operation`](Self::begin_operation), [`end_request`](Self::end_request),
///   [`release_request`](Self::release_request),
///   [`cancel_request`](Self::cancel_request), [`shutdown`](Self::shutdown)
/// - **inputs**: [`receive`](Self::receive), [`handle_timeout`](Self::handle_timeout),
///   [`handle_eof`](Self::handle_eof)
/// - **outputs**: [`poll_transmit`](Self::poll_transmit), [`poll_event`](Self::poll_event),
///   [`poll_timeout`](Self::poll_timeout)
/// - **getters**: the rest
///
/// # Example
///
/// ```
/// use protocol_core::{Cause, Config, Connection, Dialect, Event, Timestamp};
///
/// let now = Timestamp::ZERO;
/// let mut client: Connection<&str> = Connection::new(Config::client(Dialect::ACP_V1));
/// let call = client.call("slow", None, "my data", Default::default(), now)?;
///
/// let mut wire = Vec::new();
/// client.poll_transmit(&mut wire);
/// assert_eq!(wire, br#"{"jsonrpc":"2.0","id":1,"method":"slow"}"#);
///
/// client.cancel(call, Cause::Caller, now);
/// wire.clear();
/// client.poll_transmit(&mut wire);
/// assert_eq!(wire, br#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}"#);
///
/// let response = br#"{"jsonrpc":"2.0","id":1,"error":{"code":-32800,"message":"Request cancelled"}}"#;
/// let event = client.receive(response, now);
/// let Some(Event::Settled { outcome, data, .. }) = event else { panic!("{event:?}") };
/// assert_eq!((outcome.settlement().as_str(), data), ("cancelled", "my data"));
/// # Ok::<(), protocol_core::SendError<&str>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Connection<O, I = ()> {
    machine: Machine<CallData<O>, I>,
    unsent: Unsent,
    /// Our response in a handshake, while it waits in the outbox. No cancel may overtake it.
    handshake_response: Option<Ticket>,
    /// The events that the host has not polled, in the order they happened.
    events: VecDeque<Event<'static, O>>,
    /// Whether [`Event::Closed`] was queued. Only a promised [`Event::Ready`] comes after it.
    closed_queued: bool,
}

/// The connection's data on each of our calls.
#[derive(Clone, Debug)]
pub struct CallData<O> {
    /// The host's data.
    data: O,
    /// The latest message of this call that went into the outbox: its request, then its cancel.
    ticket: Ticket,
}

impl<O, I: Default> Connection<O, I> {
    /// Creates a connection with nothing in flight.
    pub fn new(config: Config) -> Self {
        Self {
            machine: Machine::new(config),
            unsent: Unsent::default(),
            handshake_response: None,
            events: VecDeque::new(),
            closed_queued: false,
        }
    }

    // Outputs

    /// Appends the next whole message to `out`, without framing.
    ///
    /// Until then a call can be withdrawn; from now on it has left (G4). If `out` is empty, a message of
    /// 4 KiB or more is moved into it together with its buffer, because copying takes longer. The memory
    /// that `out` had is freed then, and its capacity is another one afterwards.
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>) -> Option<Transmit> {
        if let Some((batch, _)) = self.unsent.batch_to_flush_early() {
            let sent = self.unsent.flush_batch(batch);
            self.after_response(Some(batch), sent, None);
        }
        let (transmit, ticket, number) = self.unsent.outbox.pop(out)?;
        self.handshake_response.take_if(|response| *response == ticket);
        if let Some(number) = number {
            self.machine.transmitted(number);
        }
        self.emit_ready_if_room();
        Some(transmit)
    }

    /// Returns the bytes of the message that [`poll_transmit`](Self::poll_transmit) appends next.
    pub fn next_transmit_len(&self) -> Option<usize> {
        self.unsent.next_len()
    }

    /// Returns the next event. To be called after every command and input, and after
    /// [`poll_transmit`](Self::poll_transmit), until there is none.
    #[must_use = "the event is delivered only here: ignoring it loses the data of a call that has settled"]
    pub fn poll_event(&mut self) -> Option<Event<'static, O>> {
        loop {
            let event = self.events.pop_front()?;
            if self.events.is_empty() {
                self.events.shrink_to(KEPT_EVENTS);
            }
            // An event whose request has its response meanwhile would name nothing.
            match event {
                Event::Cancelled { request, .. } if self.request_data_mut(request).is_none() => {}
                event => return Some(event),
            }
        }
    }

    /// Returns an iterator that polls all events.
    pub fn drain_events(&mut self) -> impl Iterator<Item = Event<'static, O>> + '_ {
        core::iter::from_fn(|| self.poll_event())
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) wants to be called next, and why.
    ///
    /// The time of an idle timeout may be too early, because progress moves the timer only when it is due.
    /// Nothing settles then, and the host asks again.
    pub fn poll_timeout(&self) -> Option<(Timestamp, TimerReason)> {
        self.machine.poll_timeout()
    }

    // Getters

    /// Returns the machine that decides, for its getters.
    pub const fn machine(&self) -> &Machine<CallData<O>, I> {
        &self.machine
    }

    /// Returns the configuration, in the dialect that is spoken now: negotiation may have settled another
    /// revision than the connection began with.
    pub const fn config(&self) -> &Config {
        self.machine.config()
    }

    /// Returns whether nothing comes in any more.
    pub const fn is_closed(&self) -> bool {
        self.machine.is_closed()
    }

    /// Returns the number of our calls in flight.
    pub fn calls_in_flight(&self) -> usize {
        self.machine.calls_in_flight()
    }

    /// Returns the number of the peer's requests that await their response.
    pub fn requests_in_flight(&self) -> usize {
        self.machine.requests_in_flight()
    }

    /// Returns the bytes that wait to be sent, without framing.
    pub fn unsent_bytes(&self) -> usize {
        self.unsent.bytes()
    }

    /// Returns the host's data on a call in flight.
    pub fn call_data_mut(&mut self, call: CallId) -> Option<&mut O> {
        self.machine.call_data_mut(call).map(|outgoing| &mut outgoing.data)
    }

    /// Returns the host's data on a request that awaits its response.
    pub fn request_data_mut(&mut self, request: RequestHandle) -> Option<&mut I> {
        self.machine.request_data_mut(request)
    }

    /// Returns our calls in flight with the host's data on them, in the order they were made.
    pub fn calls(&self) -> impl Iterator<Item = (CallId, &O)> {
        self.machine.calls().map(|(call, outgoing)| (call, &outgoing.data))
    }

    /// Returns the requests that await their response with the host's data, in the order they came.
    pub fn requests(&self) -> impl Iterator<Item = (RequestHandle, &I)> {
        self.machine.requests()
    }

    /// Returns the token of the operation that a request has begun, until [`respond`](Self::respond)
    /// ends it.
    pub fn operation(&self, request: RequestHandle) -> Option<[u8; 16]> {
        let digits = self.machine.operation_token(request)?.as_json().trim_matches('"');
        u128::from_str_radix(digits, 16).ok().map(u128::to_be_bytes)
    }

    // Carrying out

    /// Carries out the decisions that follow from the latest command or input. Their events are queued;
    /// `receive` and `receive_batch` put the event of the message itself in front.
    #[inline(always)]
    fn run_actions(&mut self) {
        if self.machine.may_have_actions() {
            self.carry_out_all();
        }
        self.emit_ready_if_room();
    }

    #[inline(never)]
    fn carry_out_all(&mut self) {
        while let Some(action) = self.machine.poll_action() {
            self.carry_out(action, None);
        }
    }

    /// Carries out a decision. A cancel states the reason, if there is one and a place for it.
    fn carry_out(&mut self, action: Action<CallData<O>>, reason: Option<&str>) {
        match action {
            Action::SendCancel { call, number } => {
                let id = self.config().dialect.envelope.id_of(call.number());
                self.send_cancel(id, call, number, reason);
            }
            Action::Settle(done) => {
                self.withdraw(&done);
                self.push_event(settled(done, None));
            }
            Action::MarkCancelled { request, cause } => self.report_cancelled(request, cause, None),
            Action::TreeSettled { request } => self.push_event(Event::TreeSettled { request }),
            Action::WorkBegan { work } => self.report_work_began(work),
            Action::WorkStopped { work, cause } => {
                self.push_event(Event::WorkStopped { work, cause });
            }
            Action::WorkResumed { work } => self.push_event(Event::WorkResumed { work }),
            Action::WorkEnded { work, outcome, cause } => {
                self.push_event(Event::WorkEnded { work, outcome, cause });
            }
            Action::Close { reason } => {
                self.push_event(Event::Closed { reason });
                self.closed_queued = true;
            }
        }
    }

    /// Queues a cancel that names this id or token, ahead of all others, or behind all where order is kept.
    ///
    /// Cancels are taken above the limit, and reasons are not (G8). There is at most one a call, and at most
    /// [`Limits::abandoned_ids`](crate::Limits::abandoned_ids) are of settled calls.
    /// `number` is the cancel's own, where it is a request.
    fn send_cancel(
        &mut self,
        id: Value<'_>,
        call: CallId,
        number: Option<u32>,
        reason: Option<&str>,
    ) {
        let context = Context::of(&self.machine);
        let Config { dialect, limits, .. } = context.config;
        let Some((method, members)) = dialect.cancel.message(id, reason) else { return };
        let message = OutgoingMessage::cancel(number, method, &members);
        // Messages leave in the order of their numbers, if every message has one.
        let may_not_overtake =
            dialect.envelope.numbers_every_message() || self.handshake_response.is_some();
        let lane = if may_not_overtake { Lane::Bulk } else { Lane::Ahead };
        // It is noted under the number of its call. Nobody has that number once the call has settled.
        let (kind, sent_as) = (TransmitKind::Cancel, Some(number.unwrap_or(call.number())));
        let most = reason.map_or(usize::MAX, |_| self.unsent.free(limits));
        match self.unsent.outbox.push(most, &context, &message, lane, kind, sent_as) {
            Ok(ticket) => {
                if let Some(outgoing) = self.machine.call_data_mut(call) {
                    outgoing.ticket = ticket;
                }
            }
            Err(_) => self.send_cancel(id, call, number, None),
        }
    }

    /// Takes the unsent message of a settled call out of the outbox.
    #[inline]
    fn withdraw(&mut self, done: &Completion<CallData<O>>) {
        if done.is_unsent {
            self.unsent.outbox.withdraw(done.data.ticket);
        }
    }

    /// Settles a call with the peer's response.
    fn settle_responded<'m>(
        &mut self,
        done: Completion<CallData<O>>,
        body: ResponseBody<'m>,
    ) -> Event<'m, O> {
        self.withdraw(&done);
        if let (Some(effect), Some(result)) = (done.effect, body.result()) {
            self.apply_result(done.call, effect, result);
        }
        self.run_actions();
        settled(done, Some(body))
    }

    /// Applies the result of a call to the session and to work.
    #[cold]
    fn apply_result(&mut self, call: CallId, effect: ResultEffect, result: &RawValue) {
        let read = |handshake| Negotiated::read(&mut self.machine, handshake, true, result);
        if let Some(negotiated) = effect.handshake.and_then(read) {
            negotiated.apply(&mut self.machine);
        }
        if let Some(given_up) = effect.work {
            self.work_in_response(call, result, given_up);
        }
    }

    /// Reports that a request is cancelled, also to the client if an operation goes on for it.
    fn report_cancelled(&mut self, request: RequestHandle, cause: Cause, reason: Option<Text>) {
        self.push_event(Event::Cancelled { request, cause, reason });
        self.announce_cancelled(request, cause);
        self.leave_batch_if_withheld(request);
    }

    /// Tells the client that an operation of its own was cancelled.
    ///
    /// There is at most one such notification an operation, so it is taken above the limit (G8).
    fn announce_cancelled(&mut self, request: RequestHandle, cause: Cause) {
        let Some(token) = self.machine.operation_token(request) else { return };
        let context = Context::of(&self.machine);
        let CancelRule::Operation { notification, .. } = &context.config.dialect.cancel else {
            return;
        };
        if self.machine.is_closed() {
            return;
        }
        let members = [
            ("requestId", Some(Value::Token(token.as_json()))),
            ("reason", Some(Value::Text(cause.operation_reason()))),
            ("timestamp", Some(context.unix_time())),
        ];
        let params = Some(Value::Object(&members));
        let message = OutgoingMessage::Notification { method: notification, params };
        let (lane, kind) = (Lane::Bulk, TransmitKind::Notification);
        let pushed = self.unsent.outbox.push(usize::MAX, &context, &message, lane, kind, None);
        debug_assert!(pushed.is_ok(), "there is always room above the limit");
    }

    /// Queues an event for the host, unless the end was queued.
    fn push_event(&mut self, event: Event<'static, O>) {
        if !self.closed_queued {
            self.events.push_back(event);
        }
    }

    /// Queues an event behind the first `older` ones.
    pub(crate) fn insert_event(&mut self, older: usize, event: Option<Event<'_, O>>) {
        if let Some(event) = event {
            self.events.insert(older, event.into_owned());
        }
    }

    pub(crate) fn report_violation(&mut self, violation: Violation, id: Option<WireId>) {
        self.push_event(Event::Violation { violation, id });
    }

    /// Keeps the promise of a refused send, once. It holds beyond the end, because responses may still
    /// wait.
    fn emit_ready_if_room(&mut self) {
        if self.unsent.take_room_notice(&self.machine.config().limits) {
            self.events.push_back(Event::Ready);
        }
    }

    // Responses that were sent

    /// Notes that a response was sent or kept back by its batch. Its agreement holds once the response is
    /// in the outbox. A session that it opens was opened at once, by [`Negotiated::read`].
    fn after_response(
        &mut self,
        batch: Option<Slot>,
        sent: Option<Ticket>,
        negotiated: Option<Negotiated>,
    ) {
        self.machine.skip_number();
        let negotiated = match batch {
            None => negotiated,
            // A batch keeps it until its array is in the outbox.
            Some(batch) => {
                let kept = &mut self.unsent.batches[batch.get()].negotiated;
                *kept = negotiated.or(kept.take());
                kept.take_if(|_| sent.is_some())
            }
        };
        if let Some(negotiated) = negotiated {
            let will_run = self.machine.has_actions();
            negotiated.apply(&mut self.machine);
            self.handshake_response = sent;
            // Actions left here would be taken for those of the next message.
            if !will_run {
                self.run_actions();
            }
        }
    }

    /// Settles one member of a batch, or the reading of the batch itself. The last one sends the responses.
    fn settle_member(&mut self, batch: Slot) {
        let pending = &mut self.unsent.batches[batch.get()].pending;
        *pending -= 1;
        if *pending == 0 {
            let sent = self.unsent.flush_batch(batch);
            self.after_response(Some(batch), sent, None);
            self.unsent.close_batch(batch);
        }
    }

    /// Takes a request out of its batch, if it is in one.
    fn leave_batch(&mut self, request: RequestHandle) {
        let extras = self.machine.extras_mut(request);
        if let Some(batch) = extras.and_then(|extras| extras.batch.take()) {
            self.settle_member(batch);
        }
    }

    /// Takes a request out of its batch if it will have no response, so the batch does not wait for it (B32).
    #[inline]
    fn leave_batch_if_withheld(&mut self, request: RequestHandle) {
        // Few connections have batches, so that is asked first.
        if !self.unsent.batches.is_empty() && self.machine.withholds_response(request) {
            self.leave_batch(request);
        }
    }
}

/// The number of events whose room is kept when there are none.
const KEPT_EVENTS: usize = 64;

impl<'a> Context<'a> {
    /// Returns what a message is written with now.
    #[inline]
    fn of<C, R: Default>(machine: &'a Machine<C, R>) -> Self {
        let config = machine.config();
        let is_numbered = config.dialect.envelope.numbers_every_message();
        let next = if is_numbered { machine.next_number() } else { 0 };
        Self { config, now: machine.now(), next }
    }
}

/// Returns the event of a call that has settled, with the peer's response if there is one.
fn settled<'m, O>(
    done: Completion<CallData<O>>,
    response: Option<ResponseBody<'m>>,
) -> Event<'m, O> {
    // A call that ends without a response has a cause.
    let cause = done.cause.unwrap_or(Cause::Internal);
    let outcome = match (done.settlement, response) {
        (Settlement::Result, Some(ResponseBody::Result(result))) => {
            Outcome::Result(Cow::Borrowed(result))
        }
        (Settlement::Error, Some(ResponseBody::Error(error))) => Outcome::Error(error),
        (Settlement::Cancelled, Some(ResponseBody::Error(error))) => {
            Outcome::Cancelled { cause, error: Some(error) }
        }
        (Settlement::Cancelled, _) => Outcome::Cancelled { cause, error: None },
        (Settlement::TimedOut, _) => Outcome::TimedOut { cause },
        (Settlement::ConnectionLost, _) => Outcome::ConnectionLost { cause },
        (Settlement::Malformed | Settlement::Result | Settlement::Error, _) => Outcome::Malformed,
    };
    Event::Settled { call: done.call, outcome, data: done.data.data }
}
