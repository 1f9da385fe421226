//! The inputs of a session, and its outputs.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::mem;

use protocol_core::{Cause, Timestamp, WireId};
use protocol_json::{Members, elements, member, path, text};
use serde_json::value::RawValue;

use super::{Action, Exchange, Session, SessionOptions, StreamId};
use crate::post::{Message, NAMES, Posted, call_of, scope};
use crate::refusal::Refusal;
use crate::rules::{OnLoss, Rules};
use crate::store::{EventId, Store};
use crate::table::{Input, Phase};

impl Session {
    /// Creates a session under the rules of a revision. An `initialize` in it may settle another one.
    pub fn new(rules: &'static Rules, options: SessionOptions, now: Timestamp) -> Self {
        let own = rules.has_sessions.then(|| (0, Exchange::default()));
        Self {
            rules,
            store: Store::default(),
            options,
            exchanges: BTreeMap::from_iter(own),
            next: 1,
            by_id: BTreeMap::new(),
            by_token: BTreeMap::new(),
            scopes: BTreeMap::new(),
            actions: VecDeque::new(),
            heard: now,
            is_over: false,
        }
    }

    /// Returns the rules that the session has now.
    pub const fn rules(&self) -> &'static Rules {
        self.rules
    }

    /// Returns whether the session has ended.
    pub const fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns the number of exchanges that are not over. In ACP, these are the requests without a response.
    pub fn open(&self) -> usize {
        if self.rules.shares_streams {
            return self.by_id.len();
        }
        self.exchanges.len() - usize::from(self.rules.has_sessions && !self.is_over)
    }

    /// Returns the bytes of the events that are kept for clients that come back.
    pub const fn kept_bytes(&self) -> usize {
        self.store.bytes
    }

    /// Takes a body that was posted, whose response is `stream`.
    ///
    /// # Errors
    ///
    /// Returns a [`Refusal`], and delivers nothing, if the session is over or full, or an id is in flight.
    pub fn post(
        &mut self,
        stream: StreamId,
        mut posted: Posted,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        if self.is_over {
            return Err(Refusal::UNKNOWN_SESSION);
        }
        if posted.ids().any(|id| self.by_id.contains_key(id)) {
            return Err(Refusal::DUPLICATE_ID);
        }
        let has_requests = posted.ids().next().is_some();
        if has_requests && self.is_full(posted.messages.len()) {
            return Err(Refusal::BUSY);
        }
        self.heard = now;
        let body = mem::take(&mut posted.body);
        self.actions.push_back(Action::Deliver { body });
        if self.rules.shares_streams && !posted.opens_session() {
            for Message { request, scope, .. } in posted.messages {
                let Some(id) = request else { continue };
                let at = scope.and_then(|name| self.scope(&name).ok()).unwrap_or(0);
                self.by_id.insert(id, at);
            }
        } else if has_requests {
            posted.accepts_events &= !self.rules.shares_streams;
            let at = self.insert(stream, &posted, now);
            if posted.accepts_events && self.rules.head_after.is_zero() {
                self.step(at, Input::Due, &[], now);
            }
            return Ok(());
        }
        self.respond_whole(stream, 202, &[]);
        if !self.rules.has_sessions {
            self.end(now);
        }
        Ok(())
    }

    /// Opens a stream on which the client listens, or resumes one after an event. In ACP it may be that of a session.
    ///
    /// A stream that is open already is closed, for a client that comes again has lost it.
    ///
    /// # Errors
    ///
    /// Returns a [`Refusal`] if the session has no such streams, or the event is not kept.
    pub fn get(
        &mut self,
        stream: StreamId,
        scope: Option<&str>,
        last_event_id: Option<&str>,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        if self.is_over {
            return Err(Refusal::UNKNOWN_SESSION);
        }
        if !self.rules.has_sessions {
            return Err(Refusal::METHOD);
        }
        let scope = scope.filter(|_| self.rules.shares_streams);
        let own = scope.map_or(Ok(0), |name| self.scope(name))?;
        let read = |text| {
            let last = EventId::read(text)?;
            let latest = self.exchanges.get(&last.exchange).map(|it| it.latest);
            let is_its = !self.rules.shares_streams || last.exchange == own;
            let is_whole = is_its && self.store.has_all_after(last, latest);
            is_whole.then_some((last.exchange, Some(last.number)))
        };
        // A client that names no event gets what was kept before.
        let from = last_event_id.map_or(Some((own, None)), read).ok_or(Refusal::UNKNOWN_EVENT)?;
        self.heard = now;
        self.resume(stream, from, now)
    }

    /// Takes note that a response can't be sent any more, because the client closed it. The session ends if nobody can know
    /// its id yet.
    pub fn lost(&mut self, stream: StreamId, now: Timestamp) {
        let its = self.exchanges.iter_mut().find(|(_, it)| it.stream == Some(stream));
        let Some((&at, exchange)) = its else { return };
        self.heard = now;
        exchange.stream = None;
        // The id of a session goes with the head of its first response, so nobody knows this one.
        if at == 1 && exchange.opens_session && exchange.phase == Phase::Single {
            return self.end(now);
        }
        // In MCP a stream of its own carries no requests, so its loss cancels none.
        let has_meaning = exchange.is_posted || self.rules.shares_streams;
        let on_loss = self.options.on_loss.unwrap_or(self.rules.on_loss);
        let on_loss = if has_meaning { on_loss } else { OnLoss::GoOn };
        self.step(at, Input::Lost(on_loss), &[], now);
    }

    /// Takes note that everything that was delivered has had its first turn.
    ///
    /// A request that is refused has its response by then, so the heads of all others can leave.
    pub fn begun(&mut self, now: Timestamp) {
        self.step_all(Input::Due, |it| it.phase == Phase::Fresh, now);
    }

    /// Takes the same step of all exchanges that are so.
    fn step_all(&mut self, input: Input, is_so: impl Fn(&Exchange) -> bool, now: Timestamp) {
        let these = self.exchanges.iter().filter(|(_, it)| is_so(it));
        let these: Vec<u64> = these.map(|(at, _)| *at).collect();
        for at in these {
            self.step(at, input, &[], now);
        }
    }

    /// Takes note that the endpoint marked a request cancelled, by whoever's will.
    ///
    /// A request that gets no response then is over, and so is its stream once all of its requests are.
    pub fn cancelled(&mut self, id: &WireId, cause: Cause, now: Timestamp) {
        if !self.rules.is_silent(cause) {
            return;
        }
        let Some(at) = self.by_id.remove(id) else { return };
        if self.is_answered(at) {
            self.step(at, Input::Ended, &[], now);
        }
    }

    /// Ends the session: the client deleted it, or its endpoint is closed.
    pub fn end(&mut self, now: Timestamp) {
        if self.is_over {
            return;
        }
        // First of all, for the end of the last exchange may be the end of the session.
        self.is_over = true;
        self.step_all(Input::Ended, |_| true, now);
        self.exchanges.clear();
        self.by_id.clear();
        self.by_token.clear();
        self.scopes.clear();
        self.store = Store::default();
        self.actions.push_back(Action::End);
    }

    /// Returns the time at which [`handle_timeout`](Self::handle_timeout) has something to do.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        self.exchanges.values().filter_map(|it| it.due).chain(self.idle_end()).min()
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        self.step_all(Input::Due, |it| it.due.is_some_and(|due| due <= now), now);
        if self.idle_end().is_some_and(|end| end <= now) {
            self.end(now);
        }
    }

    /// Returns the next thing to do.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Returns whether no exchange with so many messages may open. Responses that wait for a client to listen count, too, and
    /// a batch counts with the messages of the others.
    fn is_full(&self, new: usize) -> bool {
        let (open, most) = (self.open(), self.options.exchanges);
        let unheard = self.store.unsent_calls();
        let messages = self.by_id.len().max(self.by_token.len());
        let is_too_many = new > 1 && messages + new > most;
        is_too_many || open >= most || self.rules.shares_streams && open + unheard.count() >= most
    }

    /// Returns the time at which a session ends whose client has no stream.
    fn idle_end(&self) -> Option<Timestamp> {
        let is_idle = !self.is_over && self.exchanges.values().all(|it| it.stream.is_none());
        self.options.idle_time.filter(|_| is_idle).map(|time| self.heard + time)
    }

    /// Takes a message of the endpoint, for the stream to which it belongs.
    ///
    /// A response goes to the stream of its request, and progress to that of its token. Another message goes to the GET
    /// stream if there is one, else to the oldest exchange with a stream. A message without a stream is kept for a client
    /// that comes back, or dropped if none can. In ACP a message goes to the stream of the session that it names, or else
    /// to that of the connection. A response goes to that of its request's session. A session that is over drops every message.
    pub fn message(&mut self, message: &[u8], now: Timestamp) {
        let (Ok(json), false) = (core::str::from_utf8(message), self.is_over) else { return };
        if let Some(all) = elements(json, usize::MAX) {
            let calls = all.iter().filter_map(|one| call_of(one.get().as_bytes()));
            let ids = calls.filter_map(|(id, is_request)| (!is_request).then_some(id));
            let exchanges: Vec<u64> = ids.filter_map(|id| self.by_id.remove(&id)).collect();
            if let Some(at) = exchanges.first() {
                self.respond(*at, message, 200, now);
            }
            return;
        }
        let Some(members) = Members::of(json, &NAMES) else { return };
        if members.given(0).is_some() {
            if let Some(at) = self.route(&members) {
                self.step(at, Input::Update, message, now);
            }
            return;
        }
        let id = members.token(1).and_then(WireId::from_json);
        let Some(mut at) = id.and_then(|id| self.by_id.remove(&id)) else { return };
        // The RFD has the response to `session/load` "on connection-scoped stream". Here, as in the SDK 5.0, it comes there
        // only if nothing came on the session's. So it never overtakes what it follows.
        let is_unheard = |it: &Exchange| !it.is_posted && !it.was_heard && it.latest == 0;
        if self.exchanges.get(&at).is_some_and(is_unheard) {
            at = 0;
        }
        let opens_session = self.exchanges.get(&at).is_some_and(|it| it.opens_session);
        if let Some(result) = members.raw(3).filter(|_| opens_session) {
            let version = member(result, "protocolVersion").and_then(text);
            self.rules = self.rules.settled(version.as_deref());
        }
        // Nobody uses a session whose opening was refused. An `initialize` in one that is open is not its first exchange.
        let is_refused = at == 1 && opens_session && members.raw(4).is_some();
        let status = self.status(members.raw(4));
        self.respond(at, message, status, now);
        if is_refused {
            self.end(now);
        }
    }

    fn respond(&mut self, at: u64, message: &[u8], status: u16, now: Timestamp) {
        let is_posted = self.exchanges.get(&at).is_some_and(|it| it.is_posted);
        let is_last = is_posted && self.is_answered(at);
        self.step(at, if is_last { Input::Last(status) } else { Input::Update }, message, now);
    }

    /// Returns the status of a response with this error, or with none.
    fn status(&self, error: Option<&RawValue>) -> u16 {
        let code = error.and_then(|error| member(error, "code")?.get().parse().ok());
        let found = self.rules.error_statuses.iter().find(|(error, _)| Some(*error) == code);
        found.map_or(200, |(_, status)| *status)
    }

    /// Returns the exchange of a notification or a request.
    fn route(&mut self, members: &Members<'_, 5>) -> Option<u64> {
        if self.rules.shares_streams {
            let named = members.raw(2).and_then(scope);
            return Some(named.and_then(|name| self.scope(&name).ok()).unwrap_or(0));
        }
        let token = members.raw(2).and_then(|params| path(params, &["progressToken"]));
        let token = token.and_then(|token| WireId::from_json(token.get()));
        if let Some(at) = token.and_then(|token| self.by_token.get(&token)) {
            return Some(*at);
        }
        let is_open = |phase: Phase| matches!(phase, Phase::Fresh | Phase::Open);
        let listens = self.exchanges.get(&0).is_some_and(|it| it.phase == Phase::Open);
        let open = self.exchanges.iter().find(|(_, it)| is_open(it.phase)).map(|(at, _)| *at);
        let any = self.exchanges.keys().next().copied();
        if listens { Some(0) } else { open.or(any) }
    }
}
