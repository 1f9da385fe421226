//! The machine's decisions, carried out on whole messages.

mod cancels;
mod commands;
mod inputs;
mod memory;
mod negotiation;
mod operations;
mod requests;
mod rows;
mod unsent;

use alloc::borrow::Cow;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use slab::Slab;

use crate::cause::Cause;
use crate::config::Config;
use crate::dialect::Envelope;
use crate::event::{Event, Outcome, Transmit};
use crate::machine::{Action, CallId, Completion, Machine, RequestHandle, Settlement, TimerReason};
use crate::outbox::Ticket;
use crate::time::Timestamp;
use crate::wire::decode::ResponseBody;
use crate::wire::encode::Context;
use rows::{Incoming, Outgoing, Rare};
use unsent::Unsent;

/// One JSON-RPC connection on whole messages.
///
/// `O` is the host's data on each of our calls: it goes in with [`call`](Self::call) and comes
/// back by value exactly once, with [`Event::Settled`]. `I` rides on each of the peer's requests:
/// it begins as its default, is reached by [`request_data_mut`](Self::request_data_mut) and comes
/// back from [`respond`](Self::respond). So a host needs no table of its own.
///
/// Any order of method calls is legal, and a method that returns `Err` changed nothing (G10).
///
/// - **commands**: [`call`](Self::call), [`notify`](Self::notify), [`cancel`](Self::cancel),
///   [`detach`](Self::detach), [`progress`](Self::progress), [`respond`](Self::respond),
///   [`begin_operation`](Self::begin_operation), [`end_request`](Self::end_request),
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
/// use protocol_core::{Config, Connection, Dialect, Event, Timestamp};
///
/// let now = Timestamp::ZERO;
/// let mut client: Connection<&str> = Connection::new(Config::client(Dialect::ACP_V1));
/// let call = client.call("slow", None, "my data", Default::default(), now)?;
///
/// let mut wire = Vec::new();
/// client.poll_transmit(&mut wire);
/// assert_eq!(wire, br#"{"jsonrpc":"2.0","id":1,"method":"slow"}"#);
///
/// client.cancel(call, protocol_core::Cause::Caller, now);
/// wire.clear();
/// client.poll_transmit(&mut wire);
/// assert_eq!(wire, br#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}"#);
///
/// let answer = br#"{"jsonrpc":"2.0","id":1,"error":{"code":-32800,"message":"Request cancelled"}}"#;
/// let event = client.receive(answer, now);
/// let Some(Event::Settled { outcome, data, .. }) = event else { panic!("{event:?}") };
/// assert_eq!((outcome.settlement().as_str(), data), ("cancelled", "my data"));
/// # Ok::<(), protocol_core::SendError<&str>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Connection<O, I = ()> {
    machine: Machine<Outgoing<O>, Incoming<I>>,
    /// What few of the peer's requests have; their rows say where.
    rares: Slab<Rare>,
    unsent: Unsent,
    /// Our answer to an exchange, while it waits in the outbox: no cancel may overtake it.
    exchange: Option<Ticket>,
    /// The latest time that was said, for messages that hold one.
    now: Timestamp,
    /// What the host has yet to be told, in the order it happened.
    events: VecDeque<Event<'static, O>>,
    /// Whether the host was told the end: after that only a promised `Ready` comes.
    is_end_told: bool,
    /// Whether a call was ever made that the peer may end. Few are, so no other cancel is looked up among
    /// the calls.
    may_lose_calls: bool,
}

impl<O, I: Default> Connection<O, I> {
    /// A connection with nothing in flight.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            machine: Machine::new(config),
            rares: Slab::new(),
            unsent: Unsent::default(),
            exchange: None,
            now: Timestamp::ZERO,
            events: VecDeque::new(),
            is_end_told: false,
            may_lose_calls: false,
        }
    }

    // Outputs

    /// Appends the next whole message to `out`, without framing.
    ///
    /// Until then a call can be withdrawn; from now on it has left (G4).
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>) -> Option<Transmit> {
        self.send_early();
        let (transmit, ticket, number) = self.unsent.outbox.pop(out)?;
        self.exchange.take_if(|answer| *answer == ticket);
        if let Some(number) = number {
            self.machine.transmitted(number);
        }
        self.offer_room();
        Some(transmit)
    }

    /// The bytes of the message that [`poll_transmit`](Self::poll_transmit) gives next.
    #[must_use]
    pub fn next_transmit_len(&self) -> Option<usize> {
        self.unsent.next_len()
    }

    /// The next event. To be called until there is none, after every command and input.
    pub fn poll_event(&mut self) -> Option<Event<'static, O>> {
        loop {
            let event = self.events.pop_front()?;
            if self.events.is_empty() {
                self.events.shrink_to(KEPT_EVENTS);
            }
            match event {
                // The host has answered it meanwhile.
                Event::Cancelled { request, .. }
                    if self.machine.request_data(request).is_none() => {}
                event => return Some(event),
            }
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) wants to be called next, and why.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Timestamp, TimerReason)> {
        self.machine.poll_timeout()
    }

    // Getters

    /// The machine that decides, for its getters.
    #[must_use]
    pub const fn machine(&self) -> &Machine<Outgoing<O>, Incoming<I>> {
        &self.machine
    }

    /// The configuration, in the dialect that is spoken now: the exchange of a family of dialects may
    /// have settled another revision than it was made with.
    #[must_use]
    pub const fn config(&self) -> &Config {
        self.machine.config()
    }

    /// The bytes that wait to be sent, without framing.
    #[must_use]
    pub fn unsent_bytes(&self) -> usize {
        self.unsent.bytes()
    }

    /// The host's data on a call in flight.
    pub fn call_data_mut(&mut self, call: CallId) -> Option<&mut O> {
        self.machine.call_data_mut(call).map(|outgoing| &mut outgoing.data)
    }

    /// The host's data on an unanswered request.
    pub fn request_data_mut(&mut self, request: RequestHandle) -> Option<&mut I> {
        self.machine.request_data_mut(request).map(|incoming| &mut incoming.data)
    }

    /// Our calls in flight with the host's data on them, in the order they were made.
    pub fn calls(&self) -> impl Iterator<Item = (CallId, &O)> {
        self.machine.calls().map(|(call, outgoing)| (call, &outgoing.data))
    }

    /// The peer's unanswered requests with the host's data on them, in the order they came.
    pub fn requests(&self) -> impl Iterator<Item = (RequestHandle, &I)> {
        self.machine.requests().map(|(request, incoming)| (request, &incoming.data))
    }

    // Carrying out

    /// Does what follows from the decisions made so far.
    #[inline]
    fn follow(&mut self) {
        while let Some(action) = self.machine.poll_action() {
            self.carry_out(action);
        }
        self.offer_room();
    }

    fn carry_out(&mut self, action: Action<Outgoing<O>>) {
        match action {
            Action::SendCancel { call, number } => self.send_cancel(call, number, None),
            Action::Withdraw(done) => {
                self.unsent.outbox.withdraw(done.data.ticket);
                self.complete(done);
            }
            Action::Complete(done) => self.complete(done),
            Action::MarkCancelled { request, cause } => self.mark_cancelled(request, cause, None),
            Action::TreeSettled { request } => self.tell(Event::TreeSettled { request }),
            Action::Close { reason } => {
                self.tell(Event::Closed { reason });
                self.is_end_told = true;
            }
        }
    }

    /// Tells the host of a call that ended without an answer.
    fn complete(&mut self, done: Completion<Outgoing<O>>) {
        let outcome = outcome(done.settlement, done.cause, None);
        self.tell(Event::Settled { call: done.call, outcome, data: done.data.data });
    }

    /// Tells the host that a request is cancelled, and the client if an operation goes on for it.
    fn mark_cancelled(
        &mut self,
        request: RequestHandle,
        cause: Cause,
        reason: Option<Cow<'_, str>>,
    ) {
        let reason = reason.map(|reason| Cow::Owned(reason.into_owned()));
        self.tell(Event::Cancelled { request, cause, reason });
        self.tell_of_cancel(request, cause);
        self.mark_in_batch(request);
    }

    /// In a batch, a request that is never answered holds nothing back (B32).
    #[inline]
    fn mark_in_batch(&mut self, request: RequestHandle) {
        // Few connections have batches, so that is asked first.
        if !self.unsent.batches.is_empty() && self.machine.withholds_answer(request) {
            self.leave_batch(request);
        }
    }

    /// Queues an event for the host, unless it was told the end.
    fn tell(&mut self, event: Event<'static, O>) {
        if !self.is_end_told {
            self.events.push_back(event);
        }
    }

    /// A message that is no call and no cancel was queued: where every message has a number, it took the
    /// next.
    fn count_sent(&mut self) {
        if self.config().dialect.envelope == Envelope::Dap {
            self.machine.skip_number();
        }
    }

    /// Time goes on, never back.
    fn pass(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
    }

    /// Keeps the promise that a refused send made, once. It holds beyond the end: answers may still be
    /// waiting.
    fn offer_room(&mut self) {
        if self.unsent.keeps_promise(&self.machine.config().limits) {
            self.events.push_back(Event::Ready);
        }
    }
}

/// What a message is written with now.
fn context<C, R: Default>(machine: &Machine<C, R>, now: Timestamp) -> Context<'_> {
    let config = machine.config();
    let next = match config.dialect.envelope {
        Envelope::Dap => machine.next_number(),
        Envelope::JsonRpc | Envelope::Abp => 0,
    };
    Context { config, now, next }
}

/// Room for so many events is kept when there are none.
const KEPT_EVENTS: usize = 64;

/// How a call ended, with what the peer answered, as far as the outcome says it.
fn outcome<'m>(
    settlement: Settlement,
    cause: Option<Cause>,
    answer: Option<ResponseBody<'m>>,
) -> Outcome<'m> {
    // Whatever ends without an answer has a cause.
    let cause = cause.unwrap_or(Cause::Internal);
    match (settlement, answer) {
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
    }
}
