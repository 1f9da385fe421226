//! Every ordering of a small exchange: request, head, comment, update, cancel, loss, reconnection, response.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use protocol_core::{Cause, Timestamp, WireId};
use protocol_http::{
    Action, Decoder, OnLoss, Posted, RequestHead, ResponseHead, Rules, Session, SessionOptions,
    SseEvent, SseLimits, StreamId,
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
    head: Option<ResponseHead>,
    decoder: Decoder,
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
    others: u32,
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
    /// What the client has of the first request, in the order of its arrival.
    seen: Vec<String>,
    /// What the endpoint has sent for it.
    sent: Vec<String>,
    last_event_id: String,
    cancels: Vec<Cause>,
    /// Since when the stream is lost and not resumed.
    lost_at: Option<Timestamp>,
    was_lost: bool,
    was_cancelled: bool,
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
    /// Another request comes, has an update, and its response.
    Other,
}

const MOVES: [Move; 8] = [
    Move::Time,
    Move::Begin,
    Move::Update,
    Move::CancelByMessage,
    Move::Lose,
    Move::Resume,
    Move::Respond,
    Move::Other,
];

#[derive(Clone, Copy, Debug)]
struct Case {
    rules: &'static Rules,
    on_loss: OnLoss,
    accepts_events: bool,
}

fn id(text: &str) -> WireId {
    WireId::from_token(text).unwrap()
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
            count: Count::default(),
            moves: Vec::new(),
        };
        world.mine = world.open();
        world.session.post(world.mine, request("1", "a"), case.accepts_events, world.now).unwrap();
        world.act(case);
        world
    }

    fn open(&mut self) -> StreamId {
        let stream = StreamId(self.next);
        self.next += 1;
        let decoder = Decoder::new(SseLimits::DEFAULT);
        let client = Client { head: None, decoder, is_open: true, is_closed_by_server: false };
        self.streams.insert(stream, client);
        stream
    }

    /// Does what the session asks for, and judges each action.
    fn act(&mut self, case: Case) {
        while let Some(action) = self.session.poll_action() {
            match action {
                Action::Deliver { body } => {
                    if self.work == Work::Unseen && body.starts_with(br#"{"id":1"#) {
                        self.work = Work::Runs;
                    }
                }
                Action::Respond { stream, head } => {
                    let client = self.streams.get_mut(&stream).unwrap();
                    assert!(client.is_open && client.head.is_none(), "one head: {:?}", self.moves);
                    client.head = Some(head);
                }
                Action::Write { stream, bytes } => self.read(stream, &bytes),
                Action::Close { stream } => {
                    let client = self.streams.get_mut(&stream).unwrap();
                    assert!(client.is_open && client.head.is_some(), "{:?}", self.moves);
                    client.is_open = false;
                    client.is_closed_by_server = true;
                }
                Action::Cancel { id: named, cause } => {
                    assert_eq!(named, id("1"), "another request is cancelled: {:?}", self.moves);
                    self.cancels.push(cause);
                    if self.work == Work::Runs {
                        self.cancel(cause, case);
                    }
                }
                Action::End => {}
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
        let mut messages = Vec::new();
        match client.head {
            Some(ResponseHead::Events) => {
                let mut bytes = bytes;
                while let Some(event) = client.decoder.receive(&mut bytes).unwrap() {
                    if let SseEvent::Message { data, .. } = event {
                        messages.push(data);
                    }
                }
                if stream == self.mine && !client.decoder.last_event_id().is_empty() {
                    client.decoder.last_event_id().clone_into(&mut self.last_event_id);
                }
            }
            Some(ResponseHead::Json(_)) => messages.push(String::from_utf8(bytes.into()).unwrap()),
            Some(ResponseHead::Accepted) | None => panic!("no body follows: {:?}", self.moves),
        }
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
            Move::Time if self.count.comments < 3 => {
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
                self.session.post(stream, posted(cancel), true, self.now).unwrap();
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
                let before = std::mem::replace(&mut self.mine, stream);
                let last = self.last_event_id.clone();
                match self.session.get(stream, Some(&last), self.now) {
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
            Move::Other if self.count.others < 1 && has_sessions => {
                self.count.others += 1;
                let stream = self.open();
                // Its id is another one, though it looks the same.
                self.session.post(stream, request(r#""1""#, "b"), true, self.now).unwrap();
                let progress =
                    br#"{"method":"notifications/progress","params":{"progressToken":"b"}}"#;
                self.session.message(progress, self.now);
                self.session.message(br#"{"id":"1","result":{}}"#, self.now);
                self.act(case);
                assert!(self.streams[&stream].is_closed_by_server, "{:?}", self.moves);
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
        let is_whole = !self.was_lost || case.rules.is_resumable && self.lost_at.is_none();
        if is_whole && case.accepts_events {
            assert_eq!(self.seen, self.sent, "something is missing: {at}");
        }
        // A lost stream cancels if the dialect or the host says so, and nothing else does.
        match case.on_loss {
            OnLoss::GoOn => assert!(self.cancels.is_empty(), "cancelled by a loss: {at}"),
            OnLoss::CancelNow
                if self.lost_at.is_some()
                    && self.sent.iter().all(|it| !it.contains("response")) =>
            {
                assert!(self.was_cancelled, "not cancelled by a loss: {at}");
            }
            OnLoss::CancelAfter(time) => {
                let is_late = self.lost_at.is_some_and(|lost| lost + time <= self.now);
                let is_due = self.session.poll_timeout().is_none_or(|due| due > self.now);
                if is_late && is_due && self.work != Work::Done {
                    assert!(self.was_cancelled, "not cancelled in time: {at}");
                }
                assert!(self.was_lost || self.cancels.is_empty(), "cancelled by nothing: {at}");
            }
            OnLoss::CancelNow => assert!(self.was_lost || self.cancels.is_empty(), "{at}"),
        }
        assert!(self.cancels.iter().all(|cause| *cause == case.rules.loss_cause()), "{at}");
        // What is done leaves no stream open and no exchange behind.
        if self.work == Work::Done {
            assert!(!self.streams[&self.mine].is_open, "a stream stays open: {at}");
            assert_eq!(self.session.open(), 0, "an exchange is left: {at}");
        }
    }
}

fn search(world: &World, case: Case, depth: usize, count: &mut usize) {
    world.judge(case);
    *count += 1;
    if depth == 0 {
        return;
    }
    for step in MOVES {
        let mut next = world.clone();
        next.moves.push(step);
        if next.make(step, case) {
            search(&next, case, depth - 1, count);
        }
    }
}

fn search_all(rules: &'static Rules, least: usize) {
    let mut count = 0;
    for on_loss in [OnLoss::CancelNow, OnLoss::CancelAfter(SECOND * 2), OnLoss::GoOn] {
        for accepts_events in [true, false] {
            let case = Case { rules, on_loss, accepts_events };
            search(&World::new(case), case, 8, &mut count);
        }
    }
    println!("{}: {count} orderings", rules.version);
    assert!(count >= least, "{count}");
}

#[test]
fn every_ordering_keeps_its_promises_in_2025_03_26() {
    search_all(&Rules::MCP_2025_03_26, 10_000);
}

#[test]
fn every_ordering_keeps_its_promises_in_2025_11_25() {
    search_all(&Rules::MCP_2025_11_25, 10_000);
}

#[test]
fn every_ordering_keeps_its_promises_in_2026_07_28() {
    search_all(&Rules::MCP_2026_07_28, 100);
}
