//! The task of a client: it moves messages between its endpoint and the exchanges.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::poll_fn;
use std::io;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use protocol_async::hub::{Hub, Messages, Output};
use protocol_async::{Incoming, Options, Peer, Verdict};
use protocol_core::{InputBuffer, Settlement, WireId};
use tokio::sync::mpsc::{Receiver, UnboundedReceiver, channel, unbounded_channel};
use tokio::time::{Instant, timeout};

use super::exchange::{HEAD_TIME, Message, Task};
use super::options::{ClientOptions, Target};
use super::wire::{FAREWELL, Report, Said, Wire};
use crate::client::{ClientSession, Lane, Outgoing};
use crate::endpoint::{Clock, over_streams};
use crate::post::id_of;

const TOO_MANY: &str = "too many response streams are open (options.streams)";

/// Carries out what the session of a client decides.
pub(super) struct Driver {
    hub: Hub,
    session: ClientSession,
    wire: Arc<Wire>,
    /// The exchanges that are not over, as they were begun.
    exchanges: BTreeMap<u64, Exchange>,
    next: u64,
    /// The calls whose response comes on a stream that they share, and that stream.
    shared: BTreeMap<u32, u64>,
    /// The latest calls with a stream of their own, and the time of each. They may be settled.
    begun: VecDeque<(u32, Instant)>,
    /// The messages that were taken while something opens.
    held: VecDeque<Message>,
    reports: Receiver<Report>,
    heads: Receiver<Report>,
    /// The calls that have settled, and whether a response came.
    settled: UnboundedReceiver<(u32, bool)>,
    /// The exchanges whose response has come, and whose stream may be open still.
    responded: VecDeque<u64>,
    out: Messages,
    clock: Clock,
    error: Option<io::Error>,
}

/// A message that is posted, or a stream that is asked for. Its task ends with it.
#[derive(Default)]
struct Exchange {
    kind: Kind,
    /// The session of ACP that it is of, if it is not that of the connection.
    scope: Option<String>,
    /// Whether later messages of that session wait for it.
    is_awaited: bool,
    /// Whether everything else waits for it.
    is_opening: bool,
    /// The message, until it is its turn.
    message: Option<(Outgoing, Message)>,
    task: Option<Task>,
}

#[derive(Clone, Copy, Default)]
enum Kind {
    /// A stream that is no response to a POST.
    #[default]
    Stream,
    /// A call, whose response comes on a stream of its own.
    Call(u32),
    /// A message of so many bytes without a response of its own. It may be a call, whose response comes on a stream that
    /// it shares.
    Post(Option<u32>, usize),
}

impl Driver {
    pub(super) fn new(
        target: Target,
        mut endpoint: Options,
        mut options: ClientOptions,
    ) -> (Peer, Incoming, Self) {
        let (tell, settled) = unbounded_channel();
        over_streams(&mut endpoint.config.dialect);
        // A message that the endpoint could not take would leave its call open.
        let message_bytes = endpoint.config.limits.message_bytes;
        options.stream.body_bytes = options.stream.body_bytes.min(message_bytes);
        options.stream.event_bytes = options.stream.event_bytes.min(message_bytes);
        let clock = Clock::start();
        let (hub, peer, incoming) = clock.endpoint(endpoint, move |verdict| {
            if let Verdict::Settled { call, settlement, .. } = verdict {
                let has_response = matches!(settlement, Settlement::Result | Settlement::Error);
                let _ = tell.send((call.number(), has_response));
            }
        });
        let session = ClientSession::new(options.rules);
        let ((of_messages, reports), (of_heads, heads)) = (channel(1), channel(1));
        let wire = Wire::new(target, options, of_messages, of_heads);
        let driver = Self {
            hub,
            session,
            wire,
            exchanges: BTreeMap::new(),
            next: 0,
            shared: BTreeMap::new(),
            begun: VecDeque::new(),
            held: VecDeque::new(),
            reports,
            heads,
            settled,
            responded: VecDeque::new(),
            out: Messages::default(),
            clock,
            error: None,
        };
        (peer, incoming, driver)
    }

    /// Runs until the endpoint is over, and takes leave of the server.
    pub(super) async fn run(mut self) -> io::Result<()> {
        poll_fn(|cx| self.poll(cx)).await;
        // Nobody awaits calls any more, and nobody could cancel one that has not left. Streams stay open until the last messages
        // are posted, for a server may take the end of a stream for a loss, ahead of the cancels in them. These messages wait
        // for no stream.
        self.exchanges.retain(|_, it| {
            it.is_awaited = matches!(it.kind, Kind::Post(..));
            let is_unsent = it.message.is_some() && matches!(it.kind, Kind::Post(Some(_), _));
            !is_unsent && !matches!(it.kind, Kind::Call(_))
        });
        let _ = timeout(FAREWELL, self.post_rest()).await;
        self.drop_rest();
        self.wire.leave(&self.session).await;
        self.exchanges.clear();
        self.wire.running.close();
        self.wire.running.wait().await;
        let _ = timeout(FAREWELL, self.wire.end()).await;
        self.error.map_or(Ok(()), Err)
    }

    /// Goes on until the endpoint is over.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if let Poll::Ready(Some((call, has_response))) = self.settled.poll_recv(cx) {
                self.settled(call, has_response);
                continue;
            }
            if let Poll::Ready(Some(report)) = self.heads.poll_recv(cx) {
                self.take(report);
                continue;
            }
            let due = self.hub.poll_timers(cx.waker());
            // Cancels leave however much comes in.
            let output = match self.has_room() && !self.is_opening() {
                true => self.hub.poll_output(cx.waker(), &mut self.out),
                false if self.hub.is_over() => Output::Over,
                false => Output::Idle,
            };
            match output {
                Output::Write => {
                    self.send_all();
                    continue;
                }
                Output::Over => return Poll::Ready(()),
                Output::Idle => {}
            }
            if self.hub.poll_may_read(cx.waker()) {
                if let Poll::Ready(Some(report)) = self.reports.poll_recv(cx) {
                    self.take(report);
                    continue;
                }
            }
            ready!(self.clock.poll(due, cx));
        }
    }

    /// Returns whether another message may wait to be posted. The first one that is on its way does not count.
    fn has_room(&self) -> bool {
        let options = &self.wire.options;
        let mut is_first = true;
        let waiting = self.exchanges.values().filter_map(|it| match it.kind {
            Kind::Post(_, bytes) if it.message.is_some() || !mem::take(&mut is_first) => {
                Some(bytes)
            }
            _ => None,
        });
        let (count, bytes) = waiting.fold((0, 0), |(count, sum), bytes| (count + 1, sum + bytes));
        count < options.waiting.max(1) && bytes < options.waiting_bytes.max(1)
    }

    fn is_opening(&self) -> bool {
        self.exchanges.values().any(|it| it.is_opening)
    }

    fn send_all(&mut self) {
        while let Some(message) = self.out.take_next() {
            let mut charge = self.hub.charge();
            charge.set(message.len());
            let bytes = Vec::from(message).into();
            let charge = Some(charge);
            self.held.push_back(Message { bytes, charge, leaving: None, after: None });
        }
        self.out.clear();
        self.send_held();
    }

    /// Sends what was held, up to a message that everything else waits for.
    fn send_held(&mut self) {
        while !self.is_opening() {
            let Some(mut message) = self.held.pop_front() else { break };
            let out = self.session.post(&message.bytes).filter(|_| self.error.is_none());
            let Some(mut out) = out else {
                self.wire.trouble(Some(&message.bytes), "the session takes no such message");
                continue;
            };
            if let Some(charge) = &mut message.charge {
                // The headers may repeat all of it, and are copied once.
                let headers = out.headers.iter().map(|(name, value)| name.len() + value.len());
                charge.set(message.bytes.len() + 2 * headers.sum::<usize>());
            }
            let call = out.request.as_ref().and_then(number_of);
            if let Some(call) = call.filter(|_| out.has_response()) {
                self.call(call, out, message);
                continue;
            }
            if let Some(call) = call {
                let Some(stream) = self.stream(out.scope.as_ref()) else {
                    self.lose(call, TOO_MANY);
                    continue;
                };
                self.shared.insert(call, stream);
            }
            self.follow(&mut out, &mut message);
            self.insert(Exchange {
                kind: Kind::Post(call, message.bytes.len()),
                scope: out.scope.clone(),
                is_awaited: true,
                is_opening: out.lane == Lane::Last,
                message: Some((out, message)),
                task: None,
            });
            self.post_next();
        }
    }

    fn insert(&mut self, exchange: Exchange) -> u64 {
        self.next += 1;
        self.exchanges.insert(self.next, exchange);
        self.next
    }

    /// Puts a cancel behind its request, if the server may not have taken that yet.
    fn follow(&self, out: &mut Outgoing, message: &mut Message) {
        let Some(named) = out.cancels.as_ref().and_then(number_of) else { return };
        let begun = self.begun.iter().find(|(call, _)| *call == named);
        message.after = begun.map(|(_, at)| *at + HEAD_TIME);
        let is_named =
            |it: &&Exchange| matches!(it.kind, Kind::Post(Some(call), _) if call == named);
        out.scope = self.exchanges.values().find(is_named).and_then(|it| it.scope.clone());
    }

    /// Posts a request, whose response comes on a stream of its own.
    fn call(&mut self, call: u32, out: Outgoing, message: Message) {
        let calls = self.exchanges.values().filter(|it| matches!(it.kind, Kind::Call(_)));
        if calls.count() >= self.wire.options.streams {
            return self.lose(call, TOO_MANY);
        }
        let is_old = |(_, at): &(u32, Instant)| at.elapsed() > HEAD_TIME;
        while self.begun.len() >= self.wire.options.streams
            || self.begun.front().is_some_and(is_old)
        {
            self.begun.pop_front();
        }
        self.begun.push_back((call, Instant::now()));
        let (kind, is_opening) = (Kind::Call(call), out.lane == Lane::First);
        self.begin(Exchange { kind, is_opening, ..Exchange::default() }, Some((out, message)));
    }

    /// Begins an exchange that reads a stream.
    fn begin(&mut self, mut exchange: Exchange, post: Option<(Outgoing, Message)>) -> u64 {
        let scope = exchange.scope.as_deref();
        exchange.task = Some(self.wire.begin(self.next + 1, &self.session, scope, post));
        self.insert(exchange)
    }

    /// Posts the next message of each session that has none on its way, and whose stream is not awaited.
    fn post_next(&mut self) {
        let is_stream = |it: &&Exchange| it.is_awaited && matches!(it.kind, Kind::Stream);
        let streams = self.exchanges.values().filter(is_stream);
        let mut busy: BTreeSet<_> = streams.map(|it| it.scope.clone()).collect();
        for (number, it) in &mut self.exchanges {
            let is_next = it.is_awaited && busy.insert(it.scope.clone());
            let Some(post) = it.message.take_if(|_| is_next) else { continue };
            it.task = Some(self.wire.begin(*number, &self.session, None, Some(post)));
        }
    }

    /// Posts what is left at the end.
    async fn post_rest(&mut self) {
        self.post_next();
        while self.exchanges.values().any(|it| it.is_awaited) {
            // The sender is ours.
            let Some(report) = self.heads.recv().await else { return };
            self.exchanges.retain(|number, it| *number != report.number || !it.is_awaited);
            self.post_next();
        }
    }

    /// Reports what was not posted.
    fn drop_rest(&mut self) {
        let untaken = |message: &Message| {
            self.wire.trouble(Some(&message.bytes), "the session was over before it was sent");
        };
        self.exchanges
            .retain(|_, it| it.message.as_ref().map(|(_, message)| untaken(message)).is_none());
        self.held.drain(..).for_each(|message| untaken(&message));
    }

    fn take(&mut self, Report { number, said }: Report) {
        let how = match said {
            Said::Message(message, session) => {
                self.received(number, &message, session.as_deref());
                self.hub.receive_message(&message);
                return self.send_held();
            }
            Said::Taken => {
                if let Some(it) = self.exchanges.get_mut(&number) {
                    (it.is_awaited, it.is_opening) = (false, false);
                }
                return self.go_on();
            }
            Said::Over(how) => how,
            Said::Parting => {
                // One that is cancelled says no more. The next message finds the same.
                let Some(it) = self.exchanges.get_mut(&number) else { return };
                // No cancel takes its last report away, which ends the session.
                it.kind = Kind::Stream;
                return self.part();
            }
            Said::SessionGone => {
                self.part();
                return self.hub.finish(&InputBuffer::new(), self.error.as_ref());
            }
        };
        let over = self.exchanges.remove(&number);
        match over.as_ref().map(|it| it.kind) {
            // A response that the endpoint could read has settled its call.
            Some(Kind::Call(call)) => {
                self.lose(call, how.as_deref().unwrap_or("its response could not be read"));
            }
            Some(Kind::Post(call, _)) => {
                if let (Some(call), Some(how)) = (call, &how) {
                    self.lose(call, how);
                }
                let has_stream = self.session.rules().has_sessions && self.error.is_none();
                if over.is_some_and(|it| it.is_opening) && has_stream {
                    self.begin(Exchange::default(), None);
                }
            }
            Some(Kind::Stream) => self.unheard(number, &how.unwrap_or_default()),
            None => {}
        }
        self.go_on();
    }

    /// Goes on with what waited for an exchange.
    fn go_on(&mut self) {
        self.post_next();
        self.send_held();
    }

    /// Takes note of a message, which may open the session, or one in it.
    fn received(&mut self, number: u64, message: &[u8], session: Option<&str>) {
        if let Some(scope) = self.session.received(message) {
            self.stream(Some(&scope));
        }
        let Some(it) = self.exchanges.get_mut(&number).filter(|it| it.is_opening) else { return };
        if self.session.opened(session, message) {
            it.is_opening = false;
            let is_shared = self.session.rules().shares_streams && self.session.id().is_some();
            let own = if is_shared { self.stream(None) } else { None };
            if let Some(own) = own.and_then(|own| self.exchanges.get_mut(&own)) {
                own.is_opening = own.is_awaited;
            }
        }
    }

    /// Returns the stream of this session of ACP, or of the connection. Opens it first if it is not open.
    /// The messages of the session wait for that, since the server may not keep what it sends before. `None` if too many are
    /// open.
    fn stream(&mut self, scope: Option<&String>) -> Option<u64> {
        let streams = self.exchanges.iter().filter(|(_, it)| matches!(it.kind, Kind::Stream));
        if let Some((number, _)) = streams.clone().find(|(_, it)| it.scope.as_ref() == scope) {
            return Some(*number);
        }
        if streams.count() >= self.wire.options.streams && !self.close_unused() {
            return None;
        }
        let scope = scope.cloned();
        Some(self.begin(Exchange { scope, is_awaited: true, ..Exchange::default() }, None))
    }

    /// Closes the oldest stream of a session that no call waits for. Returns whether there was one.
    fn close_unused(&mut self) -> bool {
        let unused = self.exchanges.iter().find(|(number, it)| {
            let is_used = self.shared.values().any(|used| used == *number);
            let is_open = matches!(it.kind, Kind::Stream) && !it.is_awaited;
            is_open && it.scope.is_some() && !is_used
        });
        let oldest = unused.map(|(number, _)| *number);
        oldest.is_some_and(|number| self.exchanges.remove(&number).is_some())
    }

    /// Settles as lost what was to come on a stream that is not read any more.
    fn unheard(&mut self, lost: u64, how: &str) {
        self.wire.trouble(None, how);
        while let Some((&call, _)) = self.shared.iter().find(|(_, stream)| **stream == lost) {
            self.lose(call, how);
        }
    }

    fn lose(&mut self, call: u32, how: &str) {
        self.shared.remove(&call);
        // The server would begin what nobody awaits or can cancel.
        self.exchanges.retain(|_, it| match it.kind {
            Kind::Post(Some(posted), _) => posted != call || it.message.is_none(),
            _ => true,
        });
        self.hub.lose_call(call, how);
    }

    /// Takes note of a call that has settled.
    fn settled(&mut self, call: u32, has_response: bool) {
        if self.shared.remove(&call).is_some() {
            return;
        }
        let is_its = |it: &Exchange| matches!(it.kind, Kind::Call(own) if own == call);
        if !has_response {
            self.exchanges.retain(|_, it| !is_its(it));
            let id = format!("{call}");
            self.held.retain(|it| id_of(&it.bytes).is_none_or(|request| request.as_json() != id));
            return self.go_on();
        }
        let its = self.exchanges.iter().filter(|(_, it)| is_its(it));
        self.responded.extend(its.map(|(number, _)| *number));
        self.responded.retain(|number| self.exchanges.contains_key(number));
        // The server may leave its stream open. The oldest are closed for it.
        if self.responded.len() > self.wire.options.settled_streams {
            self.responded.pop_front().map(|oldest| self.exchanges.remove(&oldest));
        }
    }

    /// Posts nothing more, because the server knows its session no longer.
    fn part(&mut self) {
        let how = "the server has ended the session (status 404)";
        self.error.get_or_insert_with(|| io::Error::new(io::ErrorKind::ConnectionReset, how));
        // There is nothing to delete.
        self.session = ClientSession::new(self.wire.options.rules);
        self.exchanges.values_mut().for_each(|it| it.is_opening = false);
        self.drop_rest();
    }
}

/// Returns the number of the call with this id.
fn number_of(id: &WireId) -> Option<u32> {
    id.as_json().parse().ok()
}
