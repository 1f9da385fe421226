//! Every ordering of a small exchange: request, head, comment, update, cancel, loss, reconnection, response, end.
//!
//! The search visits each state once, and judges it. The number of states is part of the test, so that no change makes the
//! search smaller unnoticed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};
use std::hash::{DefaultHasher, Hasher};
use std::mem;
use std::time::Duration;

use protocol_core::{Cause, Timestamp, WireId};
use protocol_http::{
    Action, Decoder, OnLoss, Posted, RequestHead, Rules, Session, SessionOptions, SseEvent,
    StreamId,
};

const SECOND: Duration = Duration::from_secs(1);

/// The state of a request at the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Unseen,
    Runs,
    /// Cancelled, and it responds all the same.
    Cancelled,
    Done,
}

/// One HTTP response, as the client sees it.
#[derive(Clone, Debug)]
struct Client {
    has_head: bool,
    decoder: Decoder,
    /// The body of a response that has no head yet.
    body: Vec<u8>,
    is_open: bool,
    is_closed_by_server: bool,
}

#[derive(Clone, Debug, Default)]
struct Count {
    begins: u32,
    comments: u32,
    updates: u32,
    cancels: u32,
    losses: u32,
    resumes: u32,
}

#[derive(Clone, Debug)]
struct World {
    session: Session,
    now: Timestamp,
    work: Work,
    streams: BTreeMap<StreamId, Client>,
    /// The stream on which the client has or had the first request.
    mine: StreamId,
    next: u64,
    /// The messages that the client has of the first request, in the order of their arrival.
    seen: Vec<String>,
    /// The messages that the endpoint has sent for it.
    sent: Vec<String>,
    last_event_id: String,
    cancels: Vec<Cause>,
    /// Since when the stream is lost and not resumed.
    lost_at: Option<Timestamp>,
    was_lost: bool,
    was_cancelled: bool,
    /// The number of times that the session said that its endpoint has to end.
    ends: u32,
    count: Count,
    moves: Vec<Move>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Move {
    Time,
    /// Everything that was delivered has had its first turn.
    Begin,
    Update,
    CancelByMessage,
    Lose,
    Resume,
    Respond,
}

const MOVES: [Move; 7] = [
    Move::Time,
    Move::Begin,
    Move::Update,
    Move::CancelByMessage,
    Move::Lose,
    Move::Resume,
    Move::Respond,
];

#[derive(Clone, Copy, Debug)]
struct Case {
    rules: &'static Rules,
    on_loss: OnLoss,
    accepts_events: bool,
}

fn id(text: &str) -> WireId {
    WireId::from_json(text).unwrap()
}

fn posted(body: &str) -> Posted {
    Posted::read(body.into(), &RequestHead::new("POST", []), &Rules::MCP_2025_06_18).unwrap()
}

fn request(id: &str, token: &str) -> Posted {
    posted(&format!(
        r#"{{"id":{id},"method":"tools/call","params":{{"_meta":{{"progressToken":"{token}"}}}}}}"#
    ))
}

impl World {
    fn new(case: Case) -> Self {
        let options = SessionOptions {
            on_loss: Some(case.on_loss),
            idle_time: None,
            ..SessionOptions::default()
        };
        let mut world = Self {
            session: Session::new(case.rules, options, Timestamp::ZERO),
            now: Timestamp::ZERO,
            work: Work::Unseen,
            streams: BTreeMap::new(),
            mine: StreamId(1),
            next: 1,
            seen: Vec::new(),
            sent: Vec::new(),
            last_event_id: String::new(),
            cancels: Vec::new(),
            lost_at: None,
            was_lost: false,
            was_cancelled: false,
            ends: 0,
            count: Count::default(),
            moves: Vec::new(),
        };
        world.mine = world.open();
        let mut posted = request("1", "a");
        posted.accepts_events = case.accepts_events;
        world.session.post(world.mine, posted, world.now).unwrap();
        world.act(case);
        world
    }

    fn open(&mut self) -> StreamId {
        let stream = StreamId(self.next);
        self.next += 1;
        let decoder = Decoder::new(4 << 20);
        let (has_head, body) = (false, Vec::new());
        let client = Client { has_head, decoder, body, is_open: true, is_closed_by_server: false };
        self.streams.insert(stream, client);
        stream
    }

    /// Does what the session asks for, and judges each action.
    fn act(&mut self, case: Case) {
        while let Some(action) = self.session.poll_action() {
            assert_eq!(self.ends, 0, "something follows the end: {:?}", self.moves);
            match action {
                Action::Deliver { body } => {
                    if self.work == Work::Unseen && body.starts_with(br#"{"id":1"#) {
                        self.work = Work::Runs;
                    }
                }
                Action::Begin { stream } => self.head(stream, true),
                Action::Write { stream, bytes } => self.read(stream, &bytes),
                Action::Close { stream, status: Some(_) } => {
                    self.head(stream, false);
                    let body = mem::take(&mut self.streams.get_mut(&stream).unwrap().body);
                    self.route(stream, vec![String::from_utf8(body).unwrap()]);
                }
                Action::Close { stream, status: None } => {
                    let client = self.streams.get_mut(&stream).unwrap();
                    assert!(client.is_open && client.has_head, "{:?}", self.moves);
                    client.is_open = false;
                    client.is_closed_by_server = true;
                }
                Action::Cancel { id: named, cause } => {
                    assert_eq!(named, id("1"), "another request is cancelled: {:?}", self.moves);
                    let is_due = match case.on_loss {
                        OnLoss::CancelNow => self.lost_at.is_some(),
                        OnLoss::CancelAfter(time) => {
                            self.lost_at.is_some_and(|lost| lost + time <= self.now)
                        }
                        OnLoss::GoOn => false,
                    };
                    assert!(is_due, "cancelled too early, or for nothing: {:?}", self.moves);
                    self.cancels.push(cause);
                    if self.work == Work::Runs {
                        self.cancel(cause, case);
                    }
                }
                Action::LoseCall { .. } => panic!("MCP has no such loss: {:?}", self.moves),
                Action::End => self.ends += 1,
            }
        }
    }

    fn cancel(&mut self, cause: Cause, case: Case) {
        self.work = if case.rules.is_silent(cause) { Work::Done } else { Work::Cancelled };
        self.was_cancelled = true;
        self.session.cancelled(&id("1"), cause, self.now);
        self.act(case);
    }

    fn read(&mut self, stream: StreamId, bytes: &[u8]) {
        let client = self.streams.get_mut(&stream).unwrap();
        assert!(client.is_open, "nothing is written to a closed stream: {:?}", self.moves);
        if !client.has_head {
            assert!(client.body.is_empty(), "a body is one piece: {:?}", self.moves);
            client.body = bytes.to_vec();
            return;
        }
        let (mut bytes, mut messages) = (bytes, Vec::new());
        while let Some(event) = client.decoder.receive(&mut bytes).unwrap() {
            if let SseEvent::Message(data) = event {
                messages.push(data);
            }
        }
        if stream == self.mine && !client.decoder.last_event_id().is_empty() {
            client.decoder.last_event_id().clone_into(&mut self.last_event_id);
        }
        self.route(stream, messages);
    }

    /// Takes the head of a response, which goes on or is whole.
    fn head(&mut self, stream: StreamId, goes_on: bool) {
        let client = self.streams.get_mut(&stream).unwrap();
        assert!(client.is_open && !client.has_head, "one head: {:?}", self.moves);
        (client.has_head, client.is_open, client.is_closed_by_server) = (true, goes_on, !goes_on);
    }

    fn route(&mut self, stream: StreamId, mut messages: Vec<String>) {
        messages.retain(|message| !message.is_empty());
        for message in messages {
            let is_mine = message.contains("of a");
            assert_eq!(is_mine, stream == self.mine, "misrouted {message}: {:?}", self.moves);
            if is_mine {
                self.seen.push(message);
            }
        }
    }

    fn say(&mut self, message: String) {
        self.session.message(message.as_bytes(), self.now);
        self.sent.push(message);
    }

    /// Makes a move, if it is possible.
    fn make(&mut self, step: Move, case: Case) -> bool {
        let is_open = self.streams[&self.mine].is_open;
        let has_sessions = case.rules.has_sessions;
        match step {
            Move::Time if self.count.comments < 2 => {
                let Some(due) = self.session.poll_timeout() else { return false };
                self.count.comments += 1;
                self.now = self.now.max(due);
                self.session.handle_timeout(self.now);
            }
            Move::Begin if self.count.begins < 1 && !has_sessions => {
                self.count.begins += 1;
                self.session.begun(self.now);
            }
            Move::Update if self.count.updates < 2 && self.work == Work::Runs => {
                self.count.updates += 1;
                let number = self.count.updates;
                self.say(format!(
                    r#"{{"method":"notifications/progress","params":{{"progressToken":"a","message":"{number} of a"}}}}"#
                ));
            }
            Move::CancelByMessage if self.count.cancels < 1 && has_sessions => {
                self.count.cancels += 1;
                let stream = self.open();
                let cancel = r#"{"method":"notifications/cancelled","params":{"requestId":1}}"#;
                self.session.post(stream, posted(cancel), self.now).unwrap();
                self.act(case);
                assert!(self.streams[&stream].is_closed_by_server);
                if self.work == Work::Runs {
                    self.cancel(Cause::Peer, case);
                }
            }
            Move::Lose if self.count.losses < 2 && is_open => {
                self.count.losses += 1;
                self.streams.get_mut(&self.mine).unwrap().is_open = false;
                self.lost_at = Some(self.now);
                self.was_lost = true;
                self.session.lost(self.mine, self.now);
            }
            Move::Resume if self.count.resumes < 2 && has_sessions => {
                let before = self.streams[&self.mine].clone();
                if self.last_event_id.is_empty()
                    || before.is_closed_by_server && !is_open && self.lost_at.is_none()
                {
                    return false;
                }
                self.count.resumes += 1;
                let stream = self.open();
                let before = mem::replace(&mut self.mine, stream);
                let last = self.last_event_id.clone();
                match self.session.get(stream, None, Some(&last), self.now) {
                    Ok(()) => self.lost_at = None,
                    Err(refusal) => {
                        assert_eq!(refusal.status(), 204, "{:?}", self.moves);
                        assert_eq!(self.work, Work::Done, "{:?}", self.moves);
                        self.streams.get_mut(&stream).unwrap().is_open = false;
                        self.mine = before;
                    }
                }
            }
            Move::Respond if matches!(self.work, Work::Runs | Work::Cancelled) => {
                self.work = Work::Done;
                self.say(r#"{"id":1,"result":"response of a"}"#.into());
            }
            _ => return false,
        }
        self.act(case);
        true
    }

    fn judge(&self, case: Case) {
        let at = format!("{case:?} {:?}", self.moves);
        // Each message comes once, in its order, and nothing else comes.
        let is_response = |message: &&String| message.contains("response");
        assert!(self.seen.iter().filter(is_response).count() <= 1, "two responses: {at}");
        let unique: BTreeSet<_> = self.seen.iter().collect();
        assert_eq!(unique.len(), self.seen.len(), "a message twice: {at}");
        let mut rest = self.sent.iter();
        assert!(self.seen.iter().all(|seen| rest.any(|sent| sent == seen)), "out of order: {at}");
        // A client that has a stream has everything.
        let is_whole = !self.was_lost || case.rules.has_sessions && self.lost_at.is_none();
        if is_whole && case.accepts_events {
            assert_eq!(self.seen, self.sent, "something is missing: {at}");
        }
        // A lost stream cancels if the dialect or the host says so. `act` checks that nothing else does.
        let is_late = match case.on_loss {
            OnLoss::CancelNow => self.lost_at.is_some(),
            OnLoss::CancelAfter(time) => {
                let is_due = self.session.poll_timeout().is_none_or(|due| due > self.now);
                is_due && self.lost_at.is_some_and(|lost| lost + time <= self.now)
            }
            OnLoss::GoOn => false,
        };
        let has_response = self.sent.iter().any(|sent| sent.contains("response"));
        if is_late && !has_response {
            assert!(self.was_cancelled, "not cancelled by a loss: {at}");
        }
        assert!(self.cancels.iter().all(|cause| *cause == case.rules.loss_cause()), "{at}");
        // What is done leaves no stream open and no exchange behind.
        if self.work == Work::Done {
            assert!(!self.streams[&self.mine].is_open, "a stream stays open: {at}");
            assert_eq!(self.session.open(), 0, "an exchange is left: {at}");
        }
        // A proxy has something to pass on each second, and the head once the request has begun.
        let mine = &self.streams[&self.mine];
        if mine.is_open && case.accepts_events {
            let due = self.session.poll_timeout();
            assert!(due.is_some_and(|due| due <= self.now + SECOND), "no comment is due: {at}");
            assert!(mine.has_head || self.count.begins == 0, "no head: {at}");
        }
        // Without sessions, the endpoint ends with its one request.
        let is_over = self.work == Work::Done && !case.rules.has_sessions;
        assert_eq!((self.ends, self.session.is_over()), (is_over.into(), is_over), "{at}");
    }

    /// Reports the loss of streams that the session closed, which means nothing.
    fn echo(mut self) {
        let due = self.session.poll_timeout();
        for (stream, _) in self.streams.iter().filter(|(_, it)| it.is_closed_by_server) {
            self.session.lost(*stream, self.now);
        }
        assert_eq!(self.session.poll_action(), None, "{:?}", self.moves);
        assert_eq!(self.session.poll_timeout(), due, "{:?}", self.moves);
    }

    /// Has another request come, and have an update and its response.
    fn serve_another(mut self, case: Case) {
        let stream = self.open();
        // Its id is another one, though it looks the same.
        self.session.post(stream, request(r#""1""#, "b"), self.now).unwrap();
        let progress = br#"{"method":"notifications/progress","params":{"progressToken":"b"}}"#;
        self.session.message(progress, self.now);
        self.session.message(br#"{"id":"1","result":{}}"#, self.now);
        self.act(case);
        assert!(self.streams[&stream].is_closed_by_server, "{:?}", self.moves);
        self.judge(case);
    }

    /// Uses the id and the token of the request again, once it has its response.
    fn use_again(mut self, case: Case) {
        let stream = self.open();
        self.session.post(stream, request("1", "a"), self.now).unwrap();
        let progress = br#"{"method":"notifications/progress","params":{"progressToken":"a"}}"#;
        self.session.message(progress, self.now);
        self.session.message(br#"{"id":1,"result":"another"}"#, self.now);
        self.act(case);
        assert!(self.streams[&stream].is_closed_by_server, "{:?}", self.moves);
    }

    /// Ends the session, at which the endpoint cancels what it works at.
    fn delete(mut self, case: Case) {
        self.session.end(self.now);
        self.act(case);
        assert_eq!((self.ends, self.session.open()), (1, 0), "{:?}", self.moves);
        assert!(!self.streams[&self.mine].is_open, "a stream stays open: {:?}", self.moves);
        assert_eq!(self.session.poll_timeout(), None, "a timer runs on: {:?}", self.moves);
        self.say(r#"{"id":1,"result":"response of a"}"#.into());
        self.session.lost(self.mine, self.now);
        self.session.end(self.now);
        assert_eq!(self.session.poll_action(), None, "{:?}", self.moves);
    }

    /// Returns a number of the state, without the way that led there.
    fn digest(&mut self) -> u64 {
        struct Digest(DefaultHasher);
        impl Write for Digest {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                self.0.write(text.as_bytes());
                Ok(())
            }
        }
        let mut digest = Digest(DefaultHasher::new());
        let moves = mem::take(&mut self.moves);
        write!(digest, "{self:?}").unwrap();
        self.moves = moves;
        digest.0.finish()
    }
}

fn search(world: &World, case: Case, seen: &mut BTreeSet<u64>) {
    world.judge(case);
    world.clone().echo();
    world.clone().delete(case);
    if case.rules.has_sessions {
        world.clone().serve_another(case);
        if world.work == Work::Done {
            world.clone().use_again(case);
        }
    }
    for step in MOVES {
        let mut next = world.clone();
        next.moves.push(step);
        if next.make(step, case) && seen.insert(next.digest()) {
            search(&next, case, seen);
        }
    }
}

fn search_all(rules: &'static Rules, states: usize) {
    let mut count = 0;
    for on_loss in [OnLoss::CancelNow, OnLoss::CancelAfter(SECOND * 2), OnLoss::GoOn] {
        for accepts_events in [true, false] {
            let case = Case { rules, on_loss, accepts_events };
            let mut seen = BTreeSet::new();
            search(&World::new(case), case, &mut seen);
            count += 1 + seen.len();
        }
    }
    assert_eq!(count, states, "the states of {} are others now", rules.version);
}

#[test]
fn every_ordering_keeps_its_promises_in_2025_03_26() {
    search_all(&Rules::MCP_2025_03_26, 3_084);
}

#[test]
fn every_ordering_keeps_its_promises_in_2025_11_25() {
    search_all(&Rules::MCP_2025_11_25, 6_615);
}

#[test]
fn every_ordering_keeps_its_promises_in_2026_07_28() {
    search_all(&Rules::MCP_2026_07_28, 382);
}

/// A body with `initialize` is refused before it reaches such a session, unless the host has rules of its own.
#[test]
fn an_initialize_settles_nothing_where_the_revision_has_no_sessions() {
    let options = SessionOptions::default();
    let mut session = Session::new(&Rules::MCP_2026_07_28, options, Timestamp::ZERO);
    let body = posted(r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#);
    session.post(StreamId(1), body, Timestamp::ZERO).unwrap();
    let result = br#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18"}}"#;
    session.message(result, Timestamp::ZERO);
    assert!(!session.rules().has_sessions);
    assert!(core::iter::from_fn(|| session.poll_action()).any(|action| action == Action::End));
}

/// Opens a session in which nothing has come yet.
fn opening(rules: &'static Rules, accepts_events: bool) -> Session {
    let mut session = Session::new(rules, SessionOptions::default(), Timestamp::ZERO);
    let mut body = posted(r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#);
    body.accepts_events = accepts_events;
    session.post(StreamId(1), body, Timestamp::ZERO).unwrap();
    session
}

const REFUSED: &[u8] = br#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no"}}"#;

fn has_error(action: &Action) -> bool {
    matches!(action, Action::Write { bytes, .. } if String::from_utf8_lossy(bytes).contains("error"))
}

#[test]
fn g08_a_refused_initialize_leaves_no_session_behind() {
    for (rules, accepts_events) in
        [(&Rules::MCP_2025_11_25, true), (&Rules::MCP_2025_11_25, false), (&Rules::ACP_V1, true)]
    {
        let mut session = opening(rules, accepts_events);
        session.message(REFUSED, Timestamp::ZERO);
        assert!(session.is_over(), "{}", rules.version);
        let actions: Vec<_> = std::iter::from_fn(|| session.poll_action()).collect();
        assert!(actions.iter().any(has_error), "the response leaves: {actions:?}");
        assert_eq!(actions.last(), Some(&Action::End));
    }
}

#[test]
fn an_initialize_that_is_refused_in_an_open_session_ends_nothing() {
    let mut session = opening(&Rules::MCP_2025_11_25, true);
    session.message(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#, Timestamp::ZERO);
    let again = posted(r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#);
    session.post(StreamId(2), again, Timestamp::ZERO).unwrap();
    session.message(REFUSED, Timestamp::ZERO);
    assert!(!session.is_over());
}

#[test]
fn g08_an_initialize_that_is_given_up_before_its_head_leaves_no_session_behind() {
    for (rules, accepts_events, is_over) in [
        (&Rules::MCP_2025_11_25, false, true),
        (&Rules::ACP_V1, true, true),
        // The head has the id of the session, and has left.
        (&Rules::MCP_2025_11_25, true, false),
    ] {
        let mut session = opening(rules, accepts_events);
        session.lost(StreamId(1), Timestamp::ZERO);
        assert_eq!(session.is_over(), is_over, "{} {accepts_events}", rules.version);
    }
}
