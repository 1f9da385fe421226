//! The sessions that are open, each with a task of its own. So has one request without a session.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::mem;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker, ready};

use protocol_async::hub::{Alarm, Charge, Hub, Messages, Output};
use protocol_async::{Grant, Incoming, Peer, Verdict, outside};
use protocol_core::{Dialect, InputBuffer, Limits, Shutdown, Timestamp, WireId};
use protocol_tokio::TokioTimer;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::link::Pipe;
use super::options::{ServerOptions, Work};
use crate::endpoint::{debug, lock, observed, over_streams};
use crate::post::Posted;
use crate::refusal::Refusal;
use crate::rules::Rules;
use crate::session::{Action, Session, StreamId};

/// The state that all tasks of a server share.
pub(super) struct Shared {
    pub(super) options: ServerOptions,
    pub(super) handler: Box<dyn Fn(Peer, Incoming) -> Work + Send + Sync>,
    /// The room for sessions, and for requests without one.
    pub(super) places: Arc<Semaphore>,
    /// The sessions that are open, by id.
    pub(super) seats: Mutex<BTreeMap<String, Arc<Seat>>>,
    /// The way the server shuts down, or `None` while it serves. Each task holds a receiver, and the server has drained once all
    /// are dropped. At [`Shutdown::Abandon`] tasks end at once.
    pub(super) shutdown: watch::Sender<Option<Shutdown>>,
}

debug!(Shared, options);

/// One session, or one request without a session.
pub(super) struct Seat {
    /// The id of the session; `None` for a request without one.
    pub(super) id: Option<String>,
    commands: UnboundedSender<Command>,
    /// The rules that the session has settled.
    pub(super) rules: Mutex<&'static Rules>,
    /// Whether the account lets the session read. It is true once the session is over.
    pub(super) may_read: watch::Sender<bool>,
}

/// An input of the driver of a session.
type Command = Box<dyn FnOnce(&mut Driver, Timestamp) + Send>;

/// Carries out what a session decides: it moves messages between the responses and the endpoint.
pub(super) struct Driver {
    seat: Arc<Seat>,
    shared: Arc<Shared>,
    pub(super) session: Session,
    hub: Hub,
    /// The limits of the endpoint.
    limits: Limits,
    /// The handler, until it is begun.
    pub(super) work: Option<Work>,
    commands: UnboundedReceiver<Command>,
    pub(super) streams: BTreeMap<StreamId, Pipe>,
    /// The streams whose client reads too little.
    stuck: BTreeSet<StreamId>,
    out: Messages,
    alarm: Alarm<TokioTimer>,
    /// The charge of the events that are kept for clients that come back.
    kept: Charge,
    _permit: OwnedSemaphorePermit,
}

/// The reason why a call of ours is lost whose request was dropped.
const UNHEARD: &str = "the client did not listen, and too much waited for it (store_bytes)";

impl Seat {
    /// Has the driver take an input, behind all others. A session that is over takes none.
    pub(super) fn tell(&self, input: impl FnOnce(&mut Driver, Timestamp) + Send + 'static) {
        let _ = self.commands.send(Box::new(input));
    }
}

impl Driver {
    /// Opens a session with an endpoint of its own, or the place of one request if the revision has none.
    pub(super) fn open(shared: &Arc<Shared>, rules: &'static Rules) -> Result<Arc<Seat>, Refusal> {
        let permit = shared.places.clone().try_acquire_owned().map_err(|_| Refusal::BUSY)?;
        // The id gives access to the session, so nobody may guess it.
        let entropy = rules.has_sessions.then(|| outside::entropy().ok_or(Refusal::BUSY));
        let id = entropy.transpose()?.map(|it| format!("{:032x}", u128::from_be_bytes(it)));
        let options = &shared.options;
        let mut endpoint = (options.endpoint)(dialect(rules, &options.gate.revisions));
        endpoint.account.get_or_insert_with(|| options.account.clone());
        let limits = endpoint.config.limits;
        let (tell, commands) = unbounded_channel();
        let may_read = watch::Sender::new(true);
        let seat = Arc::new(Seat { id, commands: tell, rules: Mutex::new(rules), may_read });
        let told = seat.clone();
        let (hub, peer, incoming, alarm) = observed(endpoint, move |verdict| {
            if let Verdict::Cancelled { id: Some(id), cause } = verdict {
                let (id, cause) = (id.clone(), *cause);
                told.tell(move |it, now| it.session.cancelled(&id, cause, now));
            }
        });
        // It is dropped after the driver.
        let mut shutdown = shared.shutdown.subscribe();
        let driver = Self {
            session: Session::new(rules, options.session.clone(), alarm.now()),
            work: Some((shared.handler)(peer, incoming)),
            kept: hub.charge(),
            hub,
            limits,
            seat: seat.clone(),
            shared: shared.clone(),
            commands,
            streams: BTreeMap::new(),
            stuck: BTreeSet::new(),
            out: Messages::default(),
            alarm,
            _permit: permit,
        };
        // Either `drain` waits for this receiver, or the shutdown is seen here.
        if shutdown.borrow().is_some() {
            return Err(Refusal::BUSY);
        }
        let named = seat.id.iter().map(|id| (id.clone(), seat.clone()));
        lock(&shared.seats).extend(named);
        tokio::spawn(async move { driver.run(&mut shutdown).await });
        Ok(seat)
    }

    /// Runs until the session is over and its endpoint too.
    async fn run(mut self, shutdown: &mut watch::Receiver<Option<Shutdown>>) {
        loop {
            tokio::select! {
                () = poll_fn(|cx| self.poll(cx)) => return,
                // The state is ours too, so the sender is there.
                _ = shutdown.changed() => {}
            }
            match *shutdown.borrow_and_update() {
                Some(Shutdown::Abandon) => return,
                how => how.into_iter().for_each(|how| self.hub.shutdown(how)),
            }
        }
    }

    /// Goes on until the endpoint is over.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            self.act();
            let now = self.alarm.now();
            if let Poll::Ready(Some(command)) = self.commands.poll_recv(cx) {
                command(self, now);
                continue;
            }
            let due = self.hub.poll_timers(cx.waker());
            self.draw();
            let unread = self.unread(cx.waker());
            let is_broken = |it: &&StreamId| self.streams.get(it).is_some_and(Pipe::is_broken);
            if let Some(stream) = self.stuck.iter().find(is_broken) {
                self.lost(*stream, now);
                continue;
            }
            // A client that reads less holds up the messages of its session, so that they can't pile up. In ACP, other streams
            // go on first.
            let is_shared = self.session.rules().shares_streams;
            let most = if is_shared { self.shared.options.session.store_bytes } else { 0 };
            let output = match unread <= most {
                true => self.hub.poll_output(cx.waker(), &mut self.out),
                false if self.hub.is_over() => Output::Over,
                false => Output::Idle,
            };
            match output {
                Output::Write => self.forward(now),
                Output::Over => {
                    self.delete(now);
                    return Poll::Ready(());
                }
                Output::Idle if self.is_ended() => self.session.end(now),
                Output::Idle => {
                    let due = [due, self.session.poll_timeout()].into_iter().flatten().min();
                    ready!(self.alarm.poll(due, cx));
                    self.session.handle_timeout(self.alarm.now());
                }
            }
        }
    }

    /// Returns whether the one request of a seat without a session is over, and has no response that would end its stream.
    fn is_ended(&self) -> bool {
        let is_begun = self.seat.id.is_none() && self.work.is_none();
        is_begun && !self.session.is_over() && self.hub.is_idle()
    }

    /// Returns the number of bytes on streams whose client reads too little.
    fn unread(&mut self, waker: &Waker) -> usize {
        let (streams, mut sum) = (&self.streams, 0);
        let most = self.shared.options.response_bytes;
        self.stuck.retain(|it| {
            let unread = streams.get(it).and_then(|it| it.unread(most, waker));
            sum += unread.unwrap_or(0);
            unread.is_some()
        });
        sum
    }

    /// Charges the kept events, follows the grant, and shows requests whether they may read, and by which rules. Events are the
    /// first to go when memory runs out.
    fn draw(&mut self) {
        // A client that has the response to `initialize` finds its revision settled.
        *lock(&self.seat.rules) = self.session.rules();
        if self.hub.grant() > Grant::All && self.session.kept_bytes() > 0 {
            self.session.forget_events(0);
            self.act();
        }
        self.kept.set(self.session.kept_bytes());
        let may_read = self.hub.may_read();
        self.seat.may_read.send_if_modified(|before| mem::replace(before, may_read) != may_read);
    }

    /// Takes a body, unless its response could not reach its stream: the endpoint reads no ids of a longer batch, and
    /// repeats no longer id. Progress under a longer token has no stream of its own.
    pub(super) fn post(
        &mut self,
        stream: StreamId,
        mut posted: Posted,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        if posted.body.len() > self.limits.message_bytes {
            return Err(Refusal::BODY_TOO_LONG);
        }
        let is_long = |id: &WireId| id.as_json().len() > self.limits.id_bytes;
        let is_long_batch = posted.messages.len() > self.limits.batch_members.max(1);
        if is_long_batch || posted.ids().any(is_long) {
            return Err(Refusal::MESSAGE);
        }
        for message in &mut posted.messages {
            drop(message.progress.take_if(|it| is_long(it)));
        }
        self.session.post(stream, posted, now)
    }

    /// Takes note that hyper has no use for a response any more.
    pub(super) fn lost(&mut self, stream: StreamId, now: Timestamp) {
        self.streams.remove(&stream);
        self.session.lost(stream, now);
    }

    /// Takes note that the handler has had its first turn.
    fn begun(&mut self, now: Timestamp) {
        // A method that is unknown has its response by now.
        while self.hub.poll_output(Waker::noop(), &mut self.out) == Output::Write {
            self.forward(now);
        }
        self.session.begun(now);
    }

    /// Ends the session, which nobody finds any more.
    pub(super) fn delete(&mut self, now: Timestamp) {
        self.session.end(now);
        self.act();
    }

    /// Ends a response. A whole one has this status.
    pub(super) fn close(&mut self, stream: StreamId, status: Option<u16>) {
        self.streams.remove(&stream).into_iter().for_each(|pipe| pipe.end(status));
    }

    /// Gives the messages of the endpoint to the session.
    fn forward(&mut self, now: Timestamp) {
        while let Some(message) = self.out.take_next() {
            self.session.message(message, now);
        }
        self.out.clear();
        self.draw();
    }

    /// Does what the session asks for.
    fn act(&mut self) {
        while let Some(action) = self.session.poll_action() {
            match action {
                Action::Deliver { body } => {
                    self.hub.receive_message(&body);
                    self.begin();
                }
                Action::Begin { stream } => {
                    self.streams.entry(stream).and_modify(|pipe| pipe.begin(Ok(None)));
                }
                Action::Write { stream, bytes } => {
                    let Some(pipe) = self.streams.get(&stream) else { continue };
                    if pipe.write(bytes) > self.shared.options.response_bytes {
                        self.stuck.insert(stream);
                    }
                }
                Action::Close { stream, status } => self.close(stream, status),
                Action::Cancel { id, cause } => self.hub.cancel_request(&id, cause),
                Action::LoseCall { id } => {
                    if let Ok(number) = id.as_json().parse() {
                        self.hub.lose_call(number, UNHEARD);
                    }
                }
                Action::End => {
                    // It cancels what is in flight.
                    self.leave();
                    self.hub.finish(&InputBuffer::new(), None);
                }
            }
        }
    }

    /// Takes the session out of those that are open.
    fn leave(&self) {
        let _left = self.seat.id.as_ref().map(|id| lock(&self.shared.seats).remove(id));
    }

    /// Begins the handler, once there is something for it. It has a task of its own, since it may block.
    fn begin(&mut self) {
        let Some(mut work) = self.work.take() else { return };
        let seat = Some(self.seat.clone()).filter(|_| !self.shared.options.is_proxy);
        let mut shutdown = self.shared.shutdown.subscribe();
        tokio::spawn(async move {
            let turn = poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await;
            seat.inspect(|seat| seat.tell(Self::begun));
            if turn.is_ready() {
                return;
            }
            tokio::select! {
                () = work => {}
                _ = shutdown.wait_for(|how| *how == Some(Shutdown::Abandon)) => {}
            }
        });
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.leave();
        // A request that waits to read finds the session over.
        self.commands.close();
        self.seat.may_read.send_replace(true);
    }
}

/// Returns the dialect of an endpoint. An `initialize` may settle each revision that is offered.
fn dialect(rules: &Rules, offered: &[&'static Rules]) -> Dialect {
    let mut dialect = rules.dialect.clone();
    if rules.has_sessions && !rules.shares_streams {
        let revisions = offered.iter().filter(|rules| rules.has_sessions);
        let revisions = revisions.map(|it| (Cow::Borrowed(it.version), it.dialect.clone()));
        dialect.revisions = revisions.collect();
        dialect.exchanges = Dialect::MCP_HTTP.exchanges;
    }
    if rules.has_sessions {
        over_streams(&mut dialect);
    }
    dialect
}
