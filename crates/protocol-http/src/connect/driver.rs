//! The task of a client: it moves messages between its endpoint and the exchanges.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::poll_fn;
use std::io;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use protocol_async::hub::{Alarm, Hub, Messages, Output};
use protocol_async::{Incoming, Options, Peer, Verdict};
use protocol_core::{InputBuffer, Settlement, WireId};
use protocol_tokio::TokioTimer;
use tokio::sync::mpsc::{Receiver, UnboundedReceiver, channel, unbounded_channel};
use tokio::time::{Instant, timeout};

use super::exchange::{HEAD_TIME, Message};
use super::options::{ClientOptions, Target};
use super::wire::{FAREWELL, Report, Said, Task, Wire};
use crate::client::{ClientSession, Lane};
use crate::endpoint::{observed, over_streams};

const TOO_MANY: &str = "too many response streams are open (options.streams)";

/// Carries out what the session of a client decides.
struct Driver {
    hub: Hub,
    session: ClientSession,
    wire: Arc<Wire>,
    /// The exchanges that are not over, as they were begun.
    exchanges: BTreeMap<u64, Exchange>,
    next: u64,
    /// The calls whose response comes on a stream that they share, and that stream.
    shared: BTreeMap<u32, u64>,
    /// The latest calls with a stream of their own, the newest first, and the time of each. They may be settled.
    begun: VecDeque<(u32, Instant)>,
    reports: Receiver<Report>,
    heads: Receiver<Report>,
    /// The calls that have settled, and whether a response came.
    settled: UnboundedReceiver<(u32, bool)>,
    /// The exchanges whose response has come, and whose stream may be open still.
    responded: VecDeque<u64>,
    /// The message that was taken out, which waits while something opens.
    out: Messages,
    alarm: Alarm<TokioTimer>,
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
    message: Option<Message>,
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

/// Makes a connection to a server. Nothing happens until the driver is polled.
///
/// The driver ends when the connection is over, and has told the server so by DELETE. Its output is the error that ended
/// the session, if one did. `Options::pipe_bytes` has no effect: messages are taken one by one, so that each can be
/// withdrawn.
///
/// # Panics
///
/// The driver panics outside of a runtime of tokio.
pub fn connect(
    target: Target,
    endpoint: impl Into<Options>,
    mut options: ClientOptions,
) -> (Peer, Incoming, impl Future<Output = io::Result<()>> + Send) {
    let mut endpoint = endpoint.into();
    let (tell, settled) = unbounded_channel();
    over_streams(&mut endpoint.config.dialect);
    endpoint.pipe_bytes = 1;
    // A message that the endpoint could not take would leave its call open.
    let most = endpoint.config.limits.message_bytes;
    options.stream.message_bytes = options.stream.message_bytes.min(most);
    let (hub, peer, incoming, alarm) = observed(endpoint, move |verdict| {
        if let Verdict::Settled { call, settlement, .. } = verdict {
            let has_response = matches!(settlement, Settlement::Result | Settlement::Error);
            let _ = tell.send((call.number(), has_response));
        }
    });
    let ((of_messages, reports), (of_heads, heads)) = (channel(1), channel(1));
    let driver = Driver {
        hub,
        session: ClientSession::new(options.rules),
        wire: Wire::new(target, options, of_messages, of_heads),
        exchanges: BTreeMap::new(),
        next: 0,
        shared: BTreeMap::new(),
        begun: VecDeque::new(),
        reports,
        heads,
        settled,
        responded: VecDeque::new(),
        out: Messages::default(),
        alarm,
        error: None,
    };
    (peer, incoming, driver.run())
}

impl Driver {
    /// Runs until the endpoint is over, and takes leave of the server.
    async fn run(mut self) -> io::Result<()> {
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
        self.error.map_or(Ok(()), Err)
    }

    /// Goes on until the endpoint is over.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            self.send_all();
            if let Poll::Ready(Some((call, has_response))) = self.settled.poll_recv(cx) {
                self.settled(call, has_response);
                continue;
            }
            if let Poll::Ready(Some(report)) = self.heads.poll_recv(cx) {
                self.take(report);
                // Only the head of a stream makes room for the next message.
                self.post_next();
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
                Output::Write => continue,
                Output::Over => return Poll::Ready(()),
                Output::Idle => {}
            }
            if self.hub.poll_may_read(cx.waker()) {
                if let Poll::Ready(Some(report)) = self.reports.poll_recv(cx) {
                    self.take(report);
                    continue;
                }
            }
            ready!(self.alarm.poll(due, cx));
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

    /// Sends what was taken out, up to a message that everything else waits for.
    fn send_all(&mut self) {
        while !self.is_opening() {
            let Some(message) = self.out.take_next() else { return self.out.clear() };
            let (bytes, mut charge) = (Bytes::copy_from_slice(message), self.hub.charge());
            let out = self.session.post(&bytes).filter(|_| self.error.is_none());
            let Some(out) = out else {
                self.wire.trouble(Some(&bytes), "the session takes no such message");
                continue;
            };
            // The headers may repeat all of it, and are copied once.
            let headers = out.headers.iter().map(|(name, value)| name.len() + value.len());
            charge.set(bytes.len() + 2 * headers.sum::<usize>());
            let call = out.request.as_ref().and_then(number_of);
            let mut message =
                Message { out, bytes, _charge: Some(charge), leaving: None, after: None };
            if let Some(call) = call.filter(|_| message.out.has_response()) {
                self.call(call, message);
                continue;
            }
            if let Some(call) = call {
                let Some(stream) = self.stream(message.out.scope.as_ref()) else {
                    self.lose(call, TOO_MANY);
                    continue;
                };
                self.shared.insert(call, stream);
            }
            self.follow(&mut message);
            self.insert(Exchange {
                kind: Kind::Post(call, message.bytes.len()),
                scope: message.out.scope.clone(),
                is_awaited: true,
                is_opening: message.out.lane == Lane::Last,
                message: Some(message),
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
    fn follow(&self, message: &mut Message) {
        let Some(named) = message.out.cancels.as_ref().and_then(number_of) else { return };
        let begun = self.begun.iter().find(|(call, _)| *call == named);
        message.after = begun.map(|(_, at)| *at + HEAD_TIME);
        let is_named =
            |it: &&Exchange| matches!(it.kind, Kind::Post(Some(call), _) if call == named);
        // If the server took the call, its session is that of its stream.
        let stream = || self.exchanges.get(self.shared.get(&named)?);
        let named = self.exchanges.values().find(is_named).or_else(stream);
        message.out.scope = named.and_then(|it| it.scope.clone());
    }

    /// Posts a request, whose response comes on a stream of its own.
    fn call(&mut self, call: u32, message: Message) {
        let calls = self.exchanges.values().filter(|it| matches!(it.kind, Kind::Call(_)));
        if calls.count() >= self.wire.options.streams {
            return self.lose(call, TOO_MANY);
        }
        self.begun.retain(|(_, at)| at.elapsed() <= HEAD_TIME);
        self.begun.push_front((call, Instant::now()));
        self.begun.truncate(self.wire.options.streams);
        let (kind, is_opening) = (Kind::Call(call), message.out.lane == Lane::First);
        self.begin(Exchange { kind, is_opening, ..Exchange::default() }, Some(message));
    }

    /// Begins an exchange that reads a stream.
    fn begin(&mut self, mut exchange: Exchange, post: Option<Message>) -> u64 {
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
            let Some((taken, _)) = self.heads.recv().await else { return };
            self.exchanges.retain(|number, it| *number != taken || !it.is_awaited);
            self.post_next();
        }
    }

    /// Reports what was not posted.
    fn drop_rest(&mut self) {
        let why = "the session was over before it was sent";
        let untaken = |bytes: &[u8]| self.wire.trouble(Some(bytes), why);
        self.exchanges.retain(|_, it| it.message.as_ref().map(|it| untaken(&it.bytes)).is_none());
        while let Some(message) = self.out.take_next() {
            untaken(message);
        }
        self.out.clear();
    }

    fn take(&mut self, (number, said): Report) {
        let how = match said {
            Said::Message(message, session) => {
                self.received(number, &message, session.as_deref());
                return self.hub.receive_message(&message);
            }
            Said::Taken => {
                if let Some(it) = self.exchanges.get_mut(&number) {
                    (it.is_awaited, it.is_opening) = (false, false);
                }
                return;
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
    }

    /// Takes note of a message, which may open the session, or one in it.
    fn received(&mut self, number: u64, message: &[u8], session: Option<&str>) {
        // The server that knows the connection no longer has no stream for a session of it.
        if let Some(scope) = self.session.received(message).filter(|_| self.error.is_none()) {
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
            let is_open = matches!(it.kind, Kind::Stream) && !it.is_awaited && it.scope.is_some();
            is_open && !self.shared.values().any(|used| used == *number)
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
        let is_its = |it: &Exchange| matches!(it.kind, Kind::Post(Some(own), _) if own == call);
        self.exchanges.retain(|_, it| it.message.is_none() || !is_its(it));
        self.hub.lose_call(call, how);
    }

    /// Takes note of a call that has settled.
    fn settled(&mut self, call: u32, has_response: bool) {
        self.shared.remove(&call);
        let is_its = |it: &Exchange| matches!(it.kind, Kind::Call(own) if own == call);
        if !has_response {
            return self.exchanges.retain(|_, it| !is_its(it));
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
