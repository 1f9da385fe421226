//! The steps of one exchange, as its table has them.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use protocol_core::Timestamp;

use super::{Action, Exchange, Session, StreamId};
use crate::gate::SCOPE_BYTES;
use crate::post::{Posted, call_of};
use crate::refusal::Refusal;
use crate::rules::OnLoss;
use crate::sse::{comment, event};
use crate::store::EventId;
use crate::table::{Input, Phase, Step};

impl Session {
    /// Begins the exchange of a body whose responses come on its own stream, and returns its number.
    pub(super) fn insert(&mut self, stream: StreamId, posted: &Posted, now: Timestamp) -> u64 {
        let at = self.next;
        self.next += 1;
        let tokens = posted.messages.iter().filter_map(|message| message.progress.clone());
        self.by_token.extend(tokens.map(|token| (token, at)));
        self.by_id.extend(posted.ids().map(|id| (id.clone(), at)));
        let exchange = Exchange {
            phase: if posted.accepts_events { Phase::Fresh } else { Phase::Single },
            stream: Some(stream),
            is_posted: true,
            opens_session: posted.opens_session() && self.rules.has_sessions,
            due: posted.accepts_events.then(|| now + self.rules.head_after),
            ..Exchange::default()
        };
        self.exchanges.insert(at, exchange);
        at
    }

    /// Returns the exchange of the stream of a session of ACP, and makes it first if there is none.
    ///
    /// Above the limit, the oldest stream without use gives up its place and its events. A stream that a part of a call waits
    /// for keeps its place. Without a place, messages go to the stream of the connection.
    pub(super) fn scope(&mut self, name: &str) -> Result<u64, Refusal> {
        if let Some(at) = self.scopes.get(name) {
            return Ok(*at);
        }
        if name.len() > SCOPE_BYTES {
            return Err(Refusal::UNKNOWN_SESSION);
        }
        if self.scopes.len() >= self.options.exchanges {
            let calls = self.store.unsent_calls();
            let awaited: BTreeSet<u64> = self.by_id.values().copied().chain(calls).collect();
            let is_adrift = |at| self.exchanges.get(at).is_some_and(|it| it.phase == Phase::Adrift);
            let is_unused = |at| is_adrift(at) && !awaited.contains(at);
            let unused = self.scopes.values().filter(|at| is_unused(*at)).min();
            let at = *unused.ok_or(Refusal::BUSY)?;
            self.scopes.retain(|_, other| *other != at);
            self.exchanges.remove(&at);
            // Nobody can ask for its events any more, so they are the first to go.
            self.store.send(at, None);
        }
        let at = self.next;
        self.next += 1;
        self.scopes.insert(name.into(), at);
        self.exchanges.insert(at, Exchange::default());
        Ok(at)
    }

    /// Returns whether all requests of an exchange have their response.
    pub(super) fn is_answered(&self, at: u64) -> bool {
        self.by_id.values().all(|other| *other != at)
    }

    /// Attaches a stream to an exchange in place of the one that it has. Sends the events after
    /// this number, or without one the unsent events.
    pub(super) fn resume(
        &mut self,
        stream: StreamId,
        (at, after): (u64, Option<u64>),
        now: Timestamp,
    ) -> Result<(), Refusal> {
        let mut kept = self.store.send(at, after);
        kept.retain(|(_, data)| !data.is_empty());
        let exchange = self.exchanges.get_mut(&at);
        let is_open = exchange.is_some();
        if let Some(exchange) = exchange {
            exchange.was_heard = true;
            let status = (exchange.phase != Phase::Open).then_some(202);
            let before = exchange.stream.replace(stream);
            self.actions.extend(before.map(|stream| Action::Close { stream, status }));
            self.step(at, Input::Resumed, &[], now);
        } else if kept.is_empty() {
            return Err(Refusal::STREAM_IS_OVER);
        } else {
            self.actions.push_back(Action::Begin { stream });
        }
        for (id, data) in kept {
            self.write_event(stream, Some(&id.text()), &data);
        }
        if !is_open {
            self.actions.push_back(Action::Close { stream, status: None });
        }
        Ok(())
    }

    /// Sends a whole response.
    pub(super) fn respond_whole(&mut self, stream: StreamId, status: u16, body: &[u8]) {
        let body = Some(Action::Write { stream, bytes: body.into() }).filter(|_| !body.is_empty());
        self.actions.extend(body);
        self.actions.push_back(Action::Close { stream, status: Some(status) });
    }

    /// Takes one step of an exchange, with the message that it is about.
    pub(super) fn step(&mut self, at: u64, input: Input, data: &[u8], now: Timestamp) {
        let Some(exchange) = self.exchanges.get_mut(&at) else { return };
        let (next, step) = exchange.phase.on(input);
        debug_assert_ne!(step, Step::Impossible, "{:?} on {input:?}", exchange.phase);
        exchange.phase = next;
        exchange.due = match (next, input) {
            (Phase::Open, _) => self.options.comment_every.map(|time| now + time),
            (Phase::Adrift, Input::Lost(OnLoss::CancelAfter(time))) => Some(now + time),
            (Phase::Adrift, Input::Update) => exchange.due,
            _ => None,
        };
        match (step, exchange.stream) {
            (Step::Keep, _) => drop(self.keep(at, data, false)),
            (Step::Cancel, _) => {
                let cause = self.rules.loss_cause();
                let requests = self.by_id.iter().filter(|(_, other)| **other == at);
                let cancels = requests.map(|(id, _)| Action::Cancel { id: id.clone(), cause });
                self.actions.extend(cancels);
            }
            (Step::Send { head, event, end }, Some(stream)) => {
                if head {
                    let is_primed = self.rules.is_primed;
                    self.begin(stream, is_primed.then_some(EventId { exchange: at, number: 0 }));
                }
                if event {
                    let id = self.keep(at, data, true);
                    self.write_event(stream, id.as_deref(), data);
                }
                if end {
                    self.actions.push_back(Action::Close { stream, status: None });
                }
            }
            // The client has an event id, and what follows it comes next.
            (Step::Attach, Some(stream)) => self.begin(stream, None),
            (Step::SendComment, Some(stream)) => {
                self.actions.push_back(Action::Write { stream, bytes: comment().into() });
            }
            (Step::SendBody(status), Some(stream)) => self.respond_whole(stream, status, data),
            (Step::Nothing | Step::Impossible, _) | (_, None) => {}
        }
        if next == Phase::Over {
            self.remove(at, now);
        }
    }

    /// Sends the head, and an event that primes the client or else a comment. The first bytes of a body take the head along
    /// through proxies that wait for some.
    fn begin(&mut self, stream: StreamId, primer: Option<EventId>) {
        self.actions.push_back(Action::Begin { stream });
        match primer {
            Some(id) => self.write_event(stream, Some(&id.text()), &[]),
            None => self.actions.push_back(Action::Write { stream, bytes: comment().into() }),
        }
    }

    fn write_event(&mut self, stream: StreamId, id: Option<&str>, data: &[u8]) {
        let mut bytes = Vec::with_capacity(data.len() + 32);
        event(id, data, &mut bytes);
        self.actions.push_back(Action::Write { stream, bytes });
    }

    /// Keeps an event for a client that comes back, and returns its id. Without resumption there is none.
    fn keep(&mut self, at: u64, data: &[u8], is_sent: bool) -> Option<String> {
        let exchange = self.exchanges.get_mut(&at).filter(|_| self.rules.has_sessions)?;
        exchange.latest += 1;
        let id = EventId { exchange: at, number: exchange.latest };
        let is_call = self.rules.shares_streams && call_of(data).is_some();
        self.store.keep(id, data.into(), is_call, is_sent);
        self.forget_events(self.options.store_bytes);
        Some(id.text())
    }

    /// Forgets the events that are kept above a number of bytes. A client that asks for them is refused.
    ///
    /// In ACP, errors in place of responses stay. A call whose request goes becomes [`Action::LoseCall`], so take
    /// [`poll_action`](Self::poll_action) until there is none.
    pub fn forget_events(&mut self, most_bytes: usize) {
        let lost = self.store.shrink(most_bytes, self.rules.shares_streams);
        self.actions.extend(lost.into_iter().map(|id| Action::LoseCall { id }));
    }

    fn remove(&mut self, at: u64, now: Timestamp) {
        let has_event = self.exchanges.get(&at).is_some_and(|it| it.latest > 0);
        if self.rules.is_primed && !has_event {
            // An event without data: a client that was primed comes back, and learns that the stream is over.
            self.keep(at, &[], true);
        }
        let stream = self.exchanges.remove(&at).and_then(|it| it.stream);
        self.by_id.retain(|_, other| *other != at);
        self.by_token.retain(|_, other| *other != at);
        if stream.is_some() {
            self.heard = now;
        }
        // Without sessions, one exchange is all that there is.
        if !self.rules.has_sessions && self.exchanges.is_empty() {
            self.end(now);
        }
    }
}
