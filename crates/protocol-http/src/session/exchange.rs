//! The steps of one exchange, as its table has them.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use protocol_core::Timestamp;

use super::{Action, Exchange, Session, StreamId};
use crate::gate::SCOPE_BYTES;
use crate::post::Posted;
use crate::refusal::Refusal;
use crate::rules::{OnLoss, Rules};
use crate::sse::{comment, event};
use crate::store::{EventId, Part};
use crate::table::{Input, Phase, Step};

impl Session {
    pub(super) fn insert(
        &mut self,
        at: u64,
        stream: StreamId,
        posted: &Posted,
        accepts_events: bool,
        now: Timestamp,
    ) {
        let tokens = posted.messages.iter().filter_map(|message| message.progress.clone());
        self.by_token.extend(tokens.map(|token| (token, at)));
        self.by_id.extend(posted.ids().map(|id| (id.clone(), at)));
        let exchange = Exchange {
            phase: if accepts_events { Phase::Fresh } else { Phase::Single },
            stream: Some(stream),
            is_posted: true,
            opens_session: posted.opens_session() && self.rules.has_sessions,
            due: accepts_events.then(|| now + self.rules.head_after),
            ..Exchange::default()
        };
        self.exchanges.insert(at, exchange);
    }

    /// Notes the requests of a body whose responses come on shared streams.
    pub(super) fn share(&mut self, posted: &Posted) {
        for message in &posted.messages {
            let Some(id) = &message.request else { continue };
            let at = message.scope.as_deref().map_or(0, |name| self.scope(name));
            self.by_id.insert(id.clone(), at);
        }
    }

    /// Returns the exchange of the stream of a session of ACP, and makes it first if there is none.
    ///
    /// Above the limit it takes the place of one that is not in use: of the oldest, and first of one without unsent events.
    /// One for which a part of a call waits keeps its place. Without a place it is the one of the connection.
    pub(super) fn scope(&mut self, name: &str) -> u64 {
        if let Some(at) = self.scopes.get(name) {
            return *at;
        }
        if name.len() > SCOPE_BYTES {
            return 0;
        }
        if self.scopes.len() >= self.options.exchanges {
            let unsent = unsent(self.rules, &self.exchanges);
            let calls = self.store.calls(unsent);
            let awaited: BTreeSet<u64> = self.by_id.values().copied().chain(calls).collect();
            let scopes = self.scopes.iter().filter_map(|(name, at)| {
                let it = self.exchanges.get(at).filter(|it| it.phase == Phase::Adrift)?;
                (!awaited.contains(at)).then_some((it.sent < it.latest, *at, name))
            });
            let Some((_, at, unused)) = scopes.min() else { return 0 };
            let unused = unused.clone();
            self.scopes.remove(&unused);
            self.exchanges.remove(&at);
        }
        let at = self.next;
        self.next += 1;
        self.scopes.insert(name.into(), at);
        self.exchanges.insert(at, Exchange::default());
        at
    }

    /// Returns whether all requests of an exchange have their response.
    pub(super) fn is_answered(&self, at: u64) -> bool {
        self.by_id.values().all(|other| *other != at)
    }

    /// Attaches a stream to an exchange, and sends the events that were kept for it.
    pub(super) fn resume(
        &mut self,
        stream: StreamId,
        at: u64,
        kept: Vec<(EventId, Vec<u8>)>,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        let is_open = self.exchanges.contains_key(&at);
        let kept: Vec<_> = kept.into_iter().filter(|(_, data)| !data.is_empty()).collect();
        if !is_open && kept.is_empty() {
            return Err(Refusal::STREAM_IS_OVER);
        }
        if is_open {
            self.replace(at, stream);
            self.step(at, Input::Resumed, &[], now);
        } else {
            self.actions.push_back(Action::Begin { stream });
        }
        for (id, data) in kept {
            self.write_event(stream, Some(&id.text()), &data);
            if let Some(exchange) = self.exchanges.get_mut(&at) {
                exchange.sent = exchange.sent.max(id.number);
            }
        }
        if !is_open {
            self.actions.push_back(Action::Close { stream });
        }
        Ok(())
    }

    /// Ends the stream that an exchange has, and gives it another one.
    fn replace(&mut self, at: u64, stream: StreamId) {
        let Some(exchange) = self.exchanges.get_mut(&at) else { return };
        exchange.was_heard = true;
        let (phase, before) = (exchange.phase, exchange.stream.replace(stream));
        let Some(before) = before else { return };
        match phase {
            Phase::Open => self.actions.push_back(Action::Close { stream: before }),
            _ => self.respond_whole(before, 202, &[]),
        }
    }

    /// Sends a whole response.
    pub(super) fn respond_whole(&mut self, stream: StreamId, status: u16, body: &[u8]) {
        self.actions.push_back(Action::Respond { stream, status, body: body.into() });
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
            (Step::Cancel, _) => self.cancel_all(at),
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
                    self.actions.push_back(Action::Close { stream });
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
        if is_sent {
            exchange.sent = exchange.latest;
        }
        let id = EventId { exchange: at, number: exchange.latest };
        let part = if self.rules.shares_streams { Part::of(data) } else { Part::Nothing };
        let lost = self.store.keep(id, data.into(), part, unsent(self.rules, &self.exchanges));
        self.actions.extend(lost.into_iter().map(|id| Action::LoseCall { id }));
        Some(id.text())
    }

    fn cancel_all(&mut self, at: u64) {
        let cause = self.rules.loss_cause();
        let requests = self.by_id.iter().filter(|(_, other)| **other == at);
        self.actions.extend(requests.map(|(id, _)| Action::Cancel { id: id.clone(), cause }));
    }

    fn remove(&mut self, at: u64, now: Timestamp) {
        let Some(exchange) = self.exchanges.remove(&at) else { return };
        if exchange.latest == 0 && self.rules.is_primed {
            // An event without data: a client that was primed comes back, and learns that the stream is over.
            self.store
                .keep(EventId { exchange: at, number: 1 }, Vec::new(), Part::Nothing, |_| false);
        }
        self.by_id.retain(|_, other| *other != at);
        self.by_token.retain(|_, other| *other != at);
        if exchange.stream.is_some() {
            self.heard = now;
        }
        // Without sessions, one exchange is all that there is.
        if !self.rules.has_sessions && self.exchanges.is_empty() {
            self.end(now);
        }
    }
}

/// Returns whether an event still waits for a stream. A client of ACP has nothing else that says how a request ended.
pub(super) fn unsent(
    rules: &Rules,
    exchanges: &BTreeMap<u64, Exchange>,
) -> impl Fn(EventId) -> bool {
    let is_shared = rules.shares_streams;
    move |id| is_shared && exchanges.get(&id.exchange).is_some_and(|it| it.sent < id.number)
}
