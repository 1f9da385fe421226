//! The machine's decisions, carried out on whole messages.

mod acknowledged;
mod batches;
mod commands;
mod inputs;
mod negotiation;
mod operations;
mod progress;
mod received;
mod special;

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem;

use serde_json::value::RawValue;

use crate::cause::Cause;
use crate::config::Config;
use crate::dialect::{CancelRule, Cancellers, Role};
use crate::event::{Event, Outcome, Reply, Transmit, TransmitKind};
use crate::machine::{Action, CallId, Machine, RequestHandle, Settlement, TimerReason};
use crate::operations::{OperationLimits, Operations};
use crate::outbox::{Outbox, Staged, Ticket};
use crate::time::Timestamp;
use crate::wire::abp::{Asked, Origin};
use crate::wire::decode::Response;
use crate::wire::{abp, encode};
use acknowledged::{CancelRequest, OurCancels, reason};
use batches::Batches;
use negotiation::{Declared, Negotiation};
use progress::ProgressTokens;
use received::EventQueue;
pub use received::Received;
use special::Specials;

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
/// use protocol_core::{Config, Connection, Dialect, Event, Params, Timestamp};
///
/// let now = Timestamp::ZERO;
/// let mut client: Connection<&str> = Connection::new(Config::client(Dialect::ACP_V1));
/// let call = client.call("slow", Params::Absent, "my data", Default::default(), now)?;
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
/// for event in client.receive(answer, now) {
///     let Event::Settled { outcome, data, .. } = event else { continue };
///     assert_eq!((outcome.settlement().as_str(), data), ("cancelled", "my data"));
/// }
/// # Ok::<(), protocol_core::SendError<&str>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Connection<O, I = ()> {
    machine: Machine,
    outbox: Outbox,
    /// By the slot of the call. Invariant: an entry for each call in flight, and no other.
    outgoing: Vec<Option<Outgoing<O>>>,
    /// By the slot of the request. Invariant: an entry for each unanswered request, and no other.
    incoming: Vec<Option<Incoming<I>>>,
    specials: Specials,
    batches: Batches,
    /// Of the calls that have an idle timeout.
    progress: ProgressTokens<CallId>,
    /// Of the requests whose progress is withheld once they are cancelled.
    withheld: ProgressTokens<RequestHandle>,
    negotiation: Negotiation,
    session: Session,
    our_cancels: OurCancels,
    /// The operations of requests that were answered with a token.
    operations: Operations<RequestHandle>,
    /// The latest time that was said, for messages that hold one.
    now: Timestamp,
    events: EventQueue<'static, O>,
    /// The bytes that a refused message needs, until the host was told that there is room.
    wanted: Option<usize>,
    /// Whether `Closed` is among the events: nothing comes after it.
    told_closed: bool,
}

#[derive(Clone, Debug)]
struct Outgoing<O> {
    data: O,
    /// The message of this call that is still in the outbox: its request, then its cancel.
    unsent: Option<Ticket>,
    /// What we declare with this call, if it is the exchange of capabilities.
    declares: Option<Declared>,
    server_ends: ServerEnds,
    session: Session,
    asked: Asked,
}

/// Whether there is a session, or what a request makes of it once it has a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Session {
    Missing,
    Open,
}

/// Whether a client's request may be ended by the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServerEnds {
    No,
    Yes,
}

impl ServerEnds {
    /// Whether the server may end a request of this method that `caller` made: the client, or it is
    /// none of those.
    #[inline]
    fn of(config: &Config, caller: Role, method: &str) -> Self {
        match &config.dialect.cancellers {
            Cancellers::Client { server_ends }
                if caller == Role::Client && server_ends.iter().any(|it| it == method) =>
            {
                Self::Yes
            }
            Cancellers::Client { .. } | Cancellers::Both => Self::No,
        }
    }
}

#[derive(Clone, Debug)]
struct Incoming<I> {
    data: I,
    server_ends: ServerEnds,
    session: Session,
}

/// What an input brought along for the actions that it leads to.
#[derive(Default)]
enum Cargo<'m> {
    #[default]
    Nothing,
    /// What `CompleteCall` hands over.
    Response(Response<'m>),
    /// What `SendCancel` and `MarkCancelled` say why.
    Reason(Option<Cow<'m, str>>),
    /// As that, and what `SendAcknowledgement` answers.
    Cancel { reason: Option<Cow<'m, str>>, request: Option<CancelRequest<'m>> },
}

struct Delivery<'m> {
    id: &'m str,
    method: Cow<'m, str>,
    params: Option<&'m RawValue>,
    options: Option<&'m RawValue>,
    origin: Option<Box<Origin>>,
}

impl<O, I: Default> Connection<O, I> {
    /// A connection with nothing in flight.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let negotiation = Negotiation::new(config.dialect.capability.clone());
        let operations = Operations::new(operation_limits(&config));
        Self {
            machine: Machine::new(config),
            outbox: Outbox::default(),
            outgoing: Vec::new(),
            incoming: Vec::new(),
            specials: Specials::default(),
            batches: Batches::default(),
            progress: ProgressTokens::new(),
            withheld: ProgressTokens::new(),
            negotiation,
            session: Session::Missing,
            our_cancels: OurCancels::default(),
            operations,
            now: Timestamp::ZERO,
            events: EventQueue::new(),
            wanted: None,
            told_closed: false,
        }
    }

    // Outputs

    /// Appends the next whole message to `out`, without framing.
    ///
    /// Until then a call can be withdrawn; from now on it has left (G4).
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>) -> Option<Transmit> {
        let (ticket, kind, call) = self.outbox.next()?;
        let transmit = self.outbox.pop(ticket, out);
        self.negotiation.sent(ticket);
        if let Some(call) = call {
            if kind == TransmitKind::Request {
                self.machine.transmitted(call);
            }
            if let Some(outgoing) = self.outgoing_mut(call) {
                outgoing.unsent = None;
            }
        }
        if self.wanted.is_some() {
            self.follow_command();
        }
        Some(transmit)
    }

    /// The bytes of the message that [`poll_transmit`](Self::poll_transmit) gives next.
    #[must_use]
    pub fn next_transmit_len(&self) -> Option<usize> {
        self.outbox.next_len()
    }

    /// The next event that a command or a timer made happen.
    pub fn poll_event(&mut self) -> Option<Event<'static, O>> {
        self.events.pop()
    }

    /// When [`handle_timeout`](Self::handle_timeout) wants to be called next, and why.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Timestamp, TimerReason)> {
        self.machine.poll_timeout()
    }

    // Getters

    /// The machine that decides, for its getters.
    #[must_use]
    pub const fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The configuration it was made with.
    #[must_use]
    pub const fn config(&self) -> &Config {
        self.machine.config()
    }

    /// The bytes that wait to be sent, without framing.
    #[must_use]
    pub fn unsent_bytes(&self) -> usize {
        self.outbox.len() + self.batches.bytes()
    }

    /// The host's data on a call in flight.
    pub fn call_data_mut(&mut self, call: CallId) -> Option<&mut O> {
        self.outgoing_mut(call).map(|outgoing| &mut outgoing.data)
    }

    /// The host's data on an unanswered request.
    pub fn request_data_mut(&mut self, request: RequestHandle) -> Option<&mut I> {
        self.machine.request_phase(request).filter(|phase| phase.is_unanswered())?;
        self.incoming.get_mut(request.slot())?.as_mut().map(|incoming| &mut incoming.data)
    }

    /// Our calls in flight with the host's data on them, in the order they were made.
    pub fn calls(&self) -> impl Iterator<Item = (CallId, &O)> {
        let calls = self.machine.calls_in_order().into_iter();
        calls.filter_map(|call| Some((call, &self.outgoing.get(call.slot())?.as_ref()?.data)))
    }

    /// The peer's unanswered requests with the host's data on them, in the order they came.
    pub fn requests(&self) -> impl Iterator<Item = (RequestHandle, &I)> {
        let requests = self.machine.requests_in_order().into_iter();
        requests.filter_map(|request| {
            Some((request, &self.incoming.get(request.slot())?.as_ref()?.data))
        })
    }

    // Carrying out

    fn outgoing_mut(&mut self, call: CallId) -> Option<&mut Outgoing<O>> {
        self.machine.call_phase(call)?;
        self.outgoing.get_mut(call.slot())?.as_mut()
    }

    /// Does what else the machine wants done for a command or a timer. Mostly nothing: what a command
    /// does for certain is done with it.
    #[inline]
    fn follow_command(&mut self) {
        if self.has_more() {
            self.carry_out_command(Cargo::Nothing);
        }
    }

    /// As [`follow_command`](Self::follow_command), for an input.
    #[inline]
    fn follow<'m>(&mut self, events: &mut EventQueue<'m, O>) {
        if self.has_more() {
            self.carry_out(Cargo::Nothing, events);
        }
    }

    #[inline]
    fn has_more(&self) -> bool {
        self.machine.has_more() || self.wanted.is_some()
    }

    fn carry_out_command(&mut self, cargo: Cargo<'static>) {
        let mut events = EventQueue::new();
        self.give_events(&mut events);
        self.carry_out(cargo, &mut events);
        if !events.is_empty() {
            self.events = events;
        }
    }

    /// Moves the events that wait for the host into an empty queue.
    #[inline]
    fn give_events<'m>(&mut self, events: &mut EventQueue<'m, O>) {
        if !self.events.is_empty() {
            *events = mem::replace(&mut self.events, EventQueue::new());
        }
    }

    /// Does everything the machine wants done.
    fn carry_out<'m>(&mut self, mut cargo: Cargo<'m>, events: &mut EventQueue<'m, O>) {
        while let Some(action) = self.machine.poll_action() {
            match action {
                Action::SendRequest { .. }
                | Action::SendResponse { .. }
                | Action::Deliver { .. } => {
                    unreachable!("whoever makes the machine decide this does it at once")
                }
                Action::SendCancel { call, number } => {
                    let reason = reason(&mut cargo);
                    self.send_cancel(call, number, reason.as_deref());
                }
                Action::SendAcknowledgement { receipt } => {
                    if let Cargo::Cancel { request, .. } = &mut cargo {
                        if let Some(request) = request.take() {
                            self.acknowledge(&request, receipt, events);
                        }
                    }
                }
                Action::Withdraw { call } => self.withdraw(call),
                Action::MarkCancelled { request, cause } => {
                    self.mark_cancelled(request, cause, reason(&mut cargo), events);
                }
                Action::CompleteCall { call, settlement, cause } => {
                    let outcome = outcome(settlement, cause, &mut cargo);
                    let result = match outcome {
                        Outcome::Result(result) => Some(result),
                        _ => None,
                    };
                    let data = self.release_call(call, result);
                    self.tell(events, || Event::Settled { call, outcome, data });
                }
                Action::TreeSettled { request } => {
                    self.tell(events, || Event::TreeSettled { request });
                }
                Action::Close { reason } => {
                    self.tell(events, || Event::Closed { reason });
                    self.told_closed = true;
                }
            }
        }
        self.offer_room(events);
        debug_assert!(
            self.machine.calls_in_flight() > 0 || self.progress.is_empty(),
            "only calls in flight have progress tokens"
        );
    }

    /// A call is complete, perhaps with a result: gives its data back, for the host.
    #[inline]
    fn release_call(&mut self, call: CallId, result: Option<&RawValue>) -> O {
        let outgoing = self.outgoing[call.slot()].take().expect("a call in flight has data");
        self.progress.forget(call);
        if let Some(result) = result {
            if outgoing.session == Session::Open {
                self.session = Session::Open;
            }
            if let Some(client) = outgoing.declares {
                let concluded = self.negotiation.conclusion(Role::Client, client, result);
                if let Some(conclusion) = concluded {
                    conclusion.take_effect(&mut self.machine);
                }
            }
        }
        outgoing.data
    }

    /// A request is cancelled: tells whoever has to know.
    #[inline]
    fn mark_cancelled<'m>(
        &mut self,
        request: RequestHandle,
        cause: Cause,
        reason: Option<Cow<'m, str>>,
        events: &mut EventQueue<'m, O>,
    ) {
        self.tell(events, || Event::Cancelled { request, cause, reason });
        self.tell_of_cancel(request, cause);
    }

    /// Tells the host, unless the last event is told.
    #[inline]
    fn tell<'m>(&mut self, events: &mut EventQueue<'m, O>, event: impl FnOnce() -> Event<'m, O>) {
        if !self.told_closed {
            events.push(event);
        }
    }

    fn send_cancel(&mut self, call: CallId, number: u32, why: Option<&str>) {
        let CancelRule::Notification { method, id, reason } = self.config().dialect.cancel.clone()
        else {
            return self.send_cancel_of_call(call, why);
        };
        let write = |out: &mut Vec<u8>, why| {
            let number = |out: &mut _| encode::decimal(u64::from(number), out);
            encode::cancel(out, &method, &id, number, reason.as_deref().zip(why));
        };
        let limit = self.stage_limit();
        let staged = self.outbox.stage(limit, |out| write(out, why));
        // Cancels are taken above the limit, there being at most one a call; words are not (G8).
        let staged = staged.or_else(|_| self.outbox.stage(usize::MAX, |out| write(out, None)));
        let staged = staged.expect("no limit was given");
        let call = self.machine.call_phase(call).map(|_| call);
        let ticket = self.commit_cancel(staged, call);
        if let Some(call) = call {
            self.hold_unsent(call, ticket);
        }
    }

    /// Queues a cancel ahead of everything else, but behind our answer to the exchange of
    /// capabilities.
    fn commit_cancel(&mut self, staged: Staged, call: Option<CallId>) -> Ticket {
        if self.negotiation.is_unsent() {
            match call {
                Some(call) => self.outbox.commit_of(call, staged, TransmitKind::Cancel),
                None => self.outbox.commit(staged, TransmitKind::Cancel),
            }
        } else {
            self.outbox.commit_cancel(staged, call)
        }
    }

    fn hold_unsent(&mut self, call: CallId, ticket: Ticket) {
        // By slot, not by phase: the machine may have settled the call in the same step.
        if let Some(outgoing) = &mut self.outgoing[call.slot()] {
            outgoing.unsent = Some(ticket);
        }
    }

    fn withdraw(&mut self, call: CallId) {
        let outgoing = self.outgoing[call.slot()].as_mut();
        if let Some(ticket) = outgoing.and_then(|outgoing| outgoing.unsent.take()) {
            self.outbox.withdraw(ticket);
        }
    }

    /// Time goes on, never back.
    fn pass(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
    }

    /// The Unix time in milliseconds.
    fn stamp(&self) -> u64 {
        stamp(self.config(), self.now)
    }

    /// The bytes that the outbox alone may hold.
    fn stage_limit(&self) -> usize {
        self.config().limits.unsent_bytes.saturating_sub(self.batches.bytes())
    }

    /// Keeps the promise that a refused send made, once.
    #[inline]
    fn offer_room<'m>(&mut self, events: &mut EventQueue<'m, O>) {
        if self.wanted.is_some_and(|wanted| self.outbox.len() + wanted <= self.stage_limit()) {
            self.wanted = None;
            self.tell(events, || Event::Ready);
        }
    }
}

/// No more operations than requests, so registering one never fails.
fn operation_limits(config: &Config) -> OperationLimits {
    let mut limits = OperationLimits::default();
    limits.operations = config.limits.requests;
    limits
}

/// The Unix time in milliseconds.
fn stamp(config: &Config, now: Timestamp) -> u64 {
    let zero = config.unix_time_at_zero.as_millis();
    u64::try_from(zero).unwrap_or(u64::MAX).saturating_add(now.as_millis())
}

/// Writes the answer to a request.
fn write_reply(
    out: &mut Vec<u8>,
    (origin, id): (Option<&Origin>, &str),
    reply: Reply<'_>,
    config: &Config,
    now: Timestamp,
) {
    match origin {
        None => encode::response(out, id, reply, &config.dialect),
        Some(origin) => {
            abp::response_to(out, origin, id, abp::Answer::Reply(reply), stamp(config, now));
        }
    }
}

/// Takes what the peer answered out of the cargo, as far as the outcome says it.
fn outcome<'m>(settlement: Settlement, cause: Option<Cause>, cargo: &mut Cargo<'m>) -> Outcome<'m> {
    let response = match (settlement, &cargo) {
        (Settlement::Result | Settlement::Error | Settlement::Cancelled, Cargo::Response(_)) => {
            mem::take(cargo)
        }
        _ => Cargo::Nothing,
    };
    match (settlement, cause, response) {
        (Settlement::Result, _, Cargo::Response(Response::Result(value))) => Outcome::Result(value),
        (Settlement::Error, _, Cargo::Response(Response::Error(error))) => Outcome::Error(error),
        (Settlement::Cancelled, Some(cause), Cargo::Response(Response::Error(error))) => {
            Outcome::Cancelled { cause, error: Some(error) }
        }
        (Settlement::Cancelled, Some(cause), _) => Outcome::Cancelled { cause, error: None },
        (Settlement::TimedOut, Some(cause), _) => Outcome::TimedOut { cause },
        (Settlement::ConnectionLost, Some(cause), _) => Outcome::ConnectionLost { cause },
        (Settlement::Malformed, ..) => Outcome::Malformed,
        (settlement, ..) => unreachable!("{settlement:?} comes with its cause or its response"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g08_what_is_kept_for_each_request_in_flight_is_small() {
        assert_eq!(size_of::<Option<Outgoing<()>>>(), 8);
        assert_eq!(size_of::<Option<Incoming<()>>>(), 2);
    }
}
