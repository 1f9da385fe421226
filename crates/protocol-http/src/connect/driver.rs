//! The task of a client: it moves messages between its endpoint and the exchanges.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::poll_fn;
use core::mem;
use core::task::{Context, Poll};
use std::io;

use protocol_async::hub::{Hub, Messages, Output};
use protocol_async::{Incoming, Options, Peer, Verdict};
use protocol_core::{InputBuffer, Settlement};
use tokio::sync::mpsc::{Receiver, UnboundedReceiver, channel, unbounded_channel};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::exchange::{FAREWELL, Message, Name, Report, Reports, Said, Stream, Wire};
use super::options::ClientOptions;
use super::target::Target;
use super::tasks::Tasks;
use crate::client::{ClientSession, Lane, Outgoing};
use crate::endpoint::{Clock, over_streams};
use crate::post::id_of;

const TOO_MANY: &str = "too many response streams are open (options.streams)";

/// Carries out what the session of a client decides.
pub(super) struct Driver {
    hub: Hub,
    session: ClientSession,
    wire: Arc<Wire>,
    tasks: Tasks,
    calls: BTreeMap<u32, AbortHandle>,
    /// The streams that calls share, each with the session that it is of, if it is not that of the connection.
    streams: BTreeMap<Option<String>, (Stream, AbortHandle)>,
    /// The calls whose response comes on such a stream.
    shared: BTreeMap<u32, Stream>,
    last_stream: u32,
    /// The streams whose head has not come, which the messages of their sessions wait for.
    unopened: BTreeSet<Stream>,
    /// The message or the stream that everything else waits for.
    opening: Vec<Name>,
    /// The messages that were taken while something opens.
    held: VecDeque<Message>,
    /// The messages of which each session has one at a time on its way: those without a response, and in ACP all.
    in_order: VecDeque<Post>,
    /// Those that are on their way, by their numbers, with their bytes.
    posting: BTreeMap<u32, (Outgoing, usize)>,
    last_post: u32,
    reports: Receiver<Report>,
    /// The reports of heads, which wait for no room to read: of the message that is posted, and of streams that open.
    heads: Receiver<Report>,
    /// The calls that have settled, and whether a response came.
    settled: UnboundedReceiver<(u32, bool)>,
    /// The calls whose response has come, and whose stream may be open still.
    responded: VecDeque<u32>,
    out: Messages,
    clock: Clock,
    error: Option<io::Error>,
}

/// A message that is posted in its order.
struct Post {
    number: u32,
    out: Outgoing,
    message: Message,
}

/// A reason to go on.
enum Wake {
    Settled(u32, bool),
    Report(Report),
    Output,
    Over,
    Time,
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
        let session = ClientSession::with(options.rules);
        let wire = Arc::new(Wire::new(target, options));
        let ((messages, reports), (of_heads, heads)) = (channel(1), channel(1));
        let driver = Self {
            hub,
            session,
            tasks: Tasks::new(wire.clone(), Reports { messages, heads: of_heads }),
            wire,
            calls: BTreeMap::new(),
            streams: BTreeMap::new(),
            shared: BTreeMap::new(),
            last_stream: 0,
            unopened: BTreeSet::new(),
            opening: Vec::new(),
            held: VecDeque::new(),
            in_order: VecDeque::new(),
            posting: BTreeMap::new(),
            last_post: 0,
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
        loop {
            match poll_fn(|cx| self.poll(cx)).await {
                Wake::Settled(number, _) if self.shared.remove(&number).is_some() => {}
                Wake::Settled(number, true) => self.responded(number),
                Wake::Settled(number, false) => self.close(number),
                Wake::Report(report) => self.take(report),
                Wake::Output => self.send_all(),
                Wake::Time => {}
                Wake::Over => break,
            }
        }
        // A stream that is closed is the cancel in one revision, and no harm in the others.
        self.calls.values().for_each(AbortHandle::abort);
        self.opening.clear();
        self.unopened.clear();
        if self.session.rules().shares_streams {
            // Nobody awaits these any more, and nobody could cancel them.
            self.in_order.retain(|it| call_of(&it.out).is_none());
        }
        let _ = timeout(FAREWELL, self.post_rest()).await;
        self.drop_rest();
        self.wire.leave(&self.session).await;
        self.tasks.running.shutdown().await;
        let _ = timeout(FAREWELL, self.wire.links.end()).await;
        self.error.map_or(Ok(()), Err)
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Wake> {
        if let Poll::Ready(Some((number, has_response))) = self.settled.poll_recv(cx) {
            return Poll::Ready(Wake::Settled(number, has_response));
        }
        if let Poll::Ready(Some(report)) = self.heads.poll_recv(cx) {
            return Poll::Ready(Wake::Report(report));
        }
        while let Poll::Ready(Some(_)) = self.tasks.running.poll_join_next(cx) {}
        let due = self.hub.poll_timers(cx.waker());
        // Cancels leave however much comes in.
        if self.has_room() && self.opening.is_empty() {
            match self.hub.poll_output(cx.waker(), &mut self.out) {
                Output::Write => return Poll::Ready(Wake::Output),
                Output::Over => return Poll::Ready(Wake::Over),
                Output::Idle => {}
            }
        } else if self.hub.is_over() {
            return Poll::Ready(Wake::Over);
        }
        if self.hub.poll_may_read(cx.waker()) {
            if let Poll::Ready(Some(report)) = self.reports.poll_recv(cx) {
                return Poll::Ready(Wake::Report(report));
            }
        }
        self.clock.poll(due, cx).map(|()| Wake::Time)
    }

    /// Returns whether another message may wait to be posted.
    fn has_room(&self) -> bool {
        let options = &self.wire.options;
        let waiting = self.in_order.iter().map(|it| it.message.bytes.len());
        let waiting = waiting.chain(self.posting.values().skip(1).map(|(_, bytes)| *bytes));
        let (count, bytes) = waiting.fold((0, 0), |(count, sum), bytes| (count + 1, sum + bytes));
        count < options.waiting.max(1) && bytes < options.waiting_bytes.max(1)
    }

    fn send_all(&mut self) {
        while let Some(message) = self.out.take_next() {
            let mut charge = self.hub.charge();
            charge.set(message.len());
            let bytes = message.into();
            self.held.push_back(Message { bytes, charge: Some(charge), left: None });
        }
        self.out.clear();
        self.send_held();
    }

    /// Sends what was held, up to a message that everything else waits for.
    fn send_held(&mut self) {
        while self.opening.is_empty() {
            let Some(mut message) = self.held.pop_front() else { break };
            let out = self.session.post(&message.bytes).filter(|_| self.error.is_none());
            let Some(mut out) = out else {
                self.wire.untaken(&message.bytes, "the session takes no such message");
                continue;
            };
            if let Some(charge) = &mut message.charge {
                // The headers may repeat all of it, and are copied once.
                let headers = out.headers.iter().map(|(name, value)| name.len() + value.len());
                charge.set(message.bytes.len() + 2 * headers.sum::<usize>());
            }
            match (out.lane, call_of(&out)) {
                (Lane::First, Some(number)) => {
                    self.opening.push(Name::Call(number));
                    self.call(number, out, message);
                }
                (Lane::Free, Some(number)) => self.call(number, out, message),
                (_, call) if call.is_none_or(|call| self.share(call, out.scope.clone())) => {
                    self.last_post = self.last_post.wrapping_add(1);
                    let number = self.last_post;
                    if out.lane == Lane::Last {
                        self.opening.push(Name::InOrder(number));
                    }
                    self.follow(&mut out);
                    self.in_order.push_back(Post { number, out, message });
                    self.post_next();
                }
                _ => {}
            }
        }
    }

    /// Puts a cancel behind its request, if the server did not take that yet.
    fn follow(&self, out: &mut Outgoing) {
        let Some(id) = &out.cancels else { return };
        let posts = self.in_order.iter().map(|it| &it.out);
        let mut posts = posts.chain(self.posting.values().map(|(out, _)| out));
        out.scope =
            posts.find(|it| it.request.as_ref() == Some(id)).and_then(|it| it.scope.clone());
    }

    /// Lets a call wait for its response on the stream of its session. Returns whether it does, and is not lost.
    fn share(&mut self, number: u32, scope: Option<String>) -> bool {
        let stream = self.stream(scope);
        match stream {
            Some(stream) => _ = self.shared.insert(number, stream),
            None => self.lose(number, TOO_MANY),
        }
        stream.is_some()
    }

    /// Posts a request.
    fn call(&mut self, number: u32, out: Outgoing, message: Message) {
        if self.calls.len() >= self.wire.options.streams {
            return self.lose(number, TOO_MANY);
        }
        let task =
            self.tasks.exchange(Name::Call(number), &self.session, None, Some((out, message)));
        self.calls.insert(number, task);
    }

    /// Posts the next message of each session that has none on its way, and whose stream is not awaited.
    fn post_next(&mut self) {
        while let Some(Post { number, mut out, message }) = self.take_ready() {
            let (headers, bytes) = (mem::take(&mut out.headers), message.bytes.len());
            let post = self.wire.clone().post(headers, message, call_of(&out).is_some());
            self.posting.insert(number, (out, bytes));
            self.tasks.spawn(Name::InOrder(number), post);
        }
    }

    /// Takes the first message that waits for no other one, and for no stream.
    fn take_ready(&mut self) -> Option<Post> {
        let streams = self.streams.iter().filter(|(_, (stream, _))| self.unopened.contains(stream));
        let posting = self.posting.values().map(|(out, _)| &out.scope);
        let mut busy: BTreeSet<_> = streams.map(|(scope, _)| scope).chain(posting).collect();
        let at = self.in_order.iter().position(|it| busy.insert(&it.out.scope))?;
        self.in_order.remove(at)
    }

    /// Posts what is left at the end.
    async fn post_rest(&mut self) {
        self.post_next();
        while !self.posting.is_empty() {
            // The sender is ours.
            let report = self.heads.recv().await;
            if let Some(Report { name: Name::InOrder(number), .. }) = report {
                self.posting.remove(&number);
                self.post_next();
            }
        }
    }

    /// Reports what was not posted.
    fn drop_rest(&mut self) {
        let in_order = self.in_order.drain(..).map(|it| it.message);
        for message in in_order.chain(self.held.drain(..)) {
            self.wire.untaken(&message.bytes, "the session was over before it was sent");
        }
    }

    fn take(&mut self, report: Report) {
        let name = report.name;
        let how = match report.said {
            Said::Message(message, session) => {
                self.received(name, &message, session.as_deref());
                self.hub.receive_message(&message);
                return self.send_held();
            }
            Said::Listening => return self.release(name),
            Said::Over => None,
            Said::Refused(how) | Said::Lost(how) => Some(how),
            Said::SessionGone => Some(self.end_session()),
        };
        match name {
            // A response that the endpoint could read has settled its call.
            Name::Call(number) | Name::Carried(number) => {
                self.lose(number, how.as_deref().unwrap_or("its response could not be read"));
            }
            Name::InOrder(number) => {
                let call = self.posting.remove(&number).and_then(|(out, _)| call_of(&out));
                if let (Some(number), Some(how)) = (call, &how) {
                    self.lose(number, how);
                }
                let rules = self.session.rules();
                let listens = rules.has_sessions && self.wire.options.listens;
                if self.opening.contains(&name) && self.error.is_none() && listens {
                    self.tasks.exchange(Name::Stream(Stream::Own), &self.session, None, None);
                }
            }
            Name::Stream(stream) => self.unheard(stream, &how.unwrap_or_default()),
        }
        self.release(name);
    }

    /// Goes on with what waited for this exchange.
    fn release(&mut self, name: Name) {
        if let Name::Stream(stream) = name {
            self.unopened.remove(&stream);
        }
        self.opening.retain(|opening| *opening != name);
        self.post_next();
        self.send_held();
    }

    /// Takes note of a message, which may open the session, or one in it.
    fn received(&mut self, name: Name, message: &[u8], session: Option<&str>) {
        if let Some(scope) = self.session.received(message) {
            self.stream(Some(scope));
        }
        let Some(at) = self.opening.iter().position(|opening| *opening == name) else { return };
        if self.session.opened(session, message) {
            self.opening.swap_remove(at);
            if self.session.rules().shares_streams && self.session.id().is_some() {
                self.stream(None);
                let is_new = self.unopened.contains(&Stream::Own);
                self.opening.extend(is_new.then_some(Name::Stream(Stream::Own)));
            }
        }
    }

    /// Returns the stream of this session of ACP, or of the connection. Opens it first if it is not open.
    /// The messages of the session wait for that, since the server may not keep what it sends before. `None` if too many are
    /// open.
    fn stream(&mut self, scope: Option<String>) -> Option<Stream> {
        if let Some((stream, _)) = self.streams.get(&scope) {
            return Some(*stream);
        }
        if self.streams.len() >= self.wire.options.streams && !self.close_unused() {
            return None;
        }
        let stream = if scope.is_some() {
            self.last_stream += 1;
            Stream::Of(self.last_stream)
        } else {
            Stream::Own
        };
        self.unopened.insert(stream);
        let task = self.tasks.exchange(Name::Stream(stream), &self.session, scope.as_deref(), None);
        self.streams.insert(scope, (stream, task));
        Some(stream)
    }

    /// Closes the oldest stream of a session that no call waits for. Returns whether there was one.
    fn close_unused(&mut self) -> bool {
        let Self { streams, shared, unopened, .. } = self;
        let unused = streams.iter().filter(|(_, (stream, _))| {
            let is_used = shared.values().any(|used| used == stream);
            *stream != Stream::Own && !is_used && !unopened.contains(stream)
        });
        let oldest = unused.min_by_key(|(_, (stream, _))| *stream);
        let closed = oldest.map(|(scope, _)| scope.clone()).and_then(|it| streams.remove(&it));
        closed.iter().for_each(|(_, task)| task.abort());
        closed.is_some()
    }

    /// Settles as lost what was to come on a stream that is not read any more.
    fn unheard(&mut self, lost: Stream, how: &str) {
        self.wire.unheard(how);
        self.streams.retain(|_, (stream, _)| *stream != lost);
        let calls = self.shared.iter().filter(|(_, stream)| **stream == lost);
        let calls: Vec<u32> = calls.map(|(call, _)| *call).collect();
        for call in calls {
            self.lose(call, how);
        }
    }

    fn lose(&mut self, number: u32, how: &str) {
        self.calls.remove(&number);
        self.shared.remove(&number);
        // The server would begin what nobody awaits or can cancel.
        self.in_order.retain(|it| call_of(&it.out) != Some(number));
        self.hub.lose_call(number, how);
    }

    /// Lets the server close the stream of a call whose response has come. The oldest are closed for it.
    fn responded(&mut self, number: u32) {
        let Self { calls, responded, .. } = self;
        responded.retain(|number| calls.contains_key(number));
        responded.push_back(number);
        while responded.len() > self.wire.options.settled_streams {
            let task = responded.pop_front().and_then(|number| calls.remove(&number));
            task.iter().for_each(AbortHandle::abort);
        }
    }

    /// Closes the stream of a call that has settled without its response.
    fn close(&mut self, number: u32) {
        if let Some(task) = self.calls.remove(&number) {
            task.abort();
        }
        let id = format!("{number}");
        self.held.retain(|it| id_of(&it.bytes).is_none_or(|request| request.as_json() != id));
        self.release(Name::Call(number));
    }

    /// Ends the connection, because the server knows its session no longer. Returns that in words.
    fn end_session(&mut self) -> String {
        let how: String = "the server has ended the session (status 404)".into();
        let error = io::Error::new(io::ErrorKind::ConnectionReset, how.clone());
        self.hub.finish(&InputBuffer::new(), Some(&error));
        // There is nothing to delete.
        self.session = ClientSession::with(self.wire.options.rules);
        self.opening.clear();
        self.error.get_or_insert(error);
        self.drop_rest();
        how
    }
}

/// Returns the number of the call that a message is.
fn call_of(out: &Outgoing) -> Option<u32> {
    out.request.as_ref()?.as_json().parse().ok()
}
