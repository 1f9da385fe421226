//! Every ordering of a small turn of ACP: its request, the two cancels, updates, the response, and the streams of the
//! session and of the connection, which come, break and come again.
//!
//! The search visits each state once, and judges it. The number of states is part of the test, so that no change makes the
//! search smaller unnoticed.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use protocol_core::{Cause, Timestamp, WireId};
use protocol_http::{
    Action, Decoder, OnLoss, Posted, Refusal, RequestHead, Rules, Session, SessionOptions,
    SseEvent, StreamId,
};

const PROMPT: &str = r#"{"id":1,"method":"session/prompt","params":{"sessionId":"s"}}"#;
const STOP: &str = r#"{"method":"session/cancel","params":{"sessionId":"s"}}"#;
const CANCEL: &str = r#"{"method":"$/cancel_request","params":{"requestId":1}}"#;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Move {
    /// The client posts this body.
    Post(&'static str),
    /// The agent sends an update about the session, before its prompt too.
    Update,
    Respond,
    /// The client listens to the session, or to the connection.
    Listen(Option<&'static str>),
    Lose(Option<&'static str>),
    Time,
}

const MOVES: [Move; 10] = [
    Move::Post(PROMPT),
    Move::Post(STOP),
    Move::Post(CANCEL),
    Move::Update,
    Move::Respond,
    Move::Listen(None),
    Move::Listen(Some("s")),
    Move::Lose(None),
    Move::Lose(Some("s")),
    Move::Time,
];

/// The streams of one kind, one after the other, as the client sees them.
#[derive(Clone, Debug)]
struct Heard {
    stream: Option<StreamId>,
    decoder: Decoder,
    messages: Vec<String>,
    was_heard: bool,
    lost_at: Option<Timestamp>,
}

#[derive(Clone, Debug)]
struct World {
    session: Session,
    now: Timestamp,
    next: u64,
    heard: BTreeMap<Option<&'static str>, Heard>,
    /// The bodies that the endpoint has, in their order.
    delivered: Vec<String>,
    posted: Vec<&'static str>,
    /// The messages of the agent about the session, in their order.
    sent: Vec<String>,
    has_response: bool,
    /// Whether the client listened to the session, or updates waited for it, when the response left.
    was_heard: bool,
    cancels: Vec<Cause>,
    counts: BTreeMap<&'static str, u32>,
    moves: Vec<Move>,
}

fn posted(body: &str) -> Posted {
    let session = ("acp-session-id", &b"s"[..]);
    let head = RequestHead::new("POST", body.contains("sessionId").then_some(session));
    Posted::read(body.into(), &head, &Rules::ACP_V1).unwrap()
}

impl World {
    fn new(on_loss: OnLoss) -> Self {
        let options = SessionOptions {
            on_loss: Some(on_loss),
            idle_time: None,
            comment_every: None,
            ..SessionOptions::default()
        };
        let heard = Heard {
            stream: None,
            decoder: Decoder::new(4 << 20),
            messages: Vec::new(),
            was_heard: false,
            lost_at: None,
        };
        Self {
            session: Session::new(&Rules::ACP_V1, options, Timestamp::ZERO),
            now: Timestamp::ZERO,
            next: 0,
            heard: [None, Some("s")].map(|scope| (scope, heard.clone())).into(),
            delivered: Vec::new(),
            posted: Vec::new(),
            sent: Vec::new(),
            has_response: false,
            was_heard: false,
            cancels: Vec::new(),
            counts: BTreeMap::new(),
            moves: Vec::new(),
        }
    }

    fn is_in_flight(&self) -> bool {
        self.posted.contains(&PROMPT) && !self.has_response
    }

    /// Counts a move, and returns whether it may be made again.
    fn may(&mut self, name: &'static str, most: u32) -> bool {
        let count = self.counts.entry(name).or_default();
        *count += 1;
        *count <= most
    }

    fn stream(&mut self) -> StreamId {
        self.next += 1;
        StreamId(self.next)
    }

    fn say(&mut self, message: String) {
        self.session.message(message.as_bytes(), self.now);
        self.sent.push(message);
    }

    /// Makes a move, if it is possible.
    fn make(&mut self, step: Move, on_loss: OnLoss) -> bool {
        match step {
            Move::Post(body) if !self.posted.contains(&body) => {
                let stream = self.stream();
                self.session.post(stream, posted(body), self.now).unwrap();
                let taken = [self.session.poll_action(), self.session.poll_action()];
                assert_eq!(taken[0], Some(Action::Deliver { body: body.into() }));
                let accepted = Action::Close { stream, status: Some(202) };
                assert_eq!(taken[1], Some(accepted), "it is taken at once");
                self.delivered.push(body.into());
                self.posted.push(body);
            }
            Move::Update if self.may("update", 2) => {
                let number = self.sent.len();
                self.say(format!(
                    r#"{{"method":"session/update","params":{{"sessionId":"s","number":{number}}}}}"#
                ));
            }
            Move::Respond if self.is_in_flight() => {
                self.has_response = true;
                self.was_heard = self.heard[&Some("s")].was_heard || !self.sent.is_empty();
                self.session.message(br#"{"id":1,"result":"response"}"#, self.now);
            }
            Move::Listen(scope) if self.may("listen", 2) => {
                let stream = self.stream();
                self.session.get(stream, scope, None, self.now).unwrap();
                let heard = self.heard.get_mut(&scope).unwrap();
                let before = heard.stream.replace(stream);
                heard.decoder = Decoder::new(4 << 20);
                (heard.was_heard, heard.lost_at) = (true, None);
                if let Some(stream) = before {
                    let closed = self.session.poll_action();
                    let replaced = Action::Close { stream, status: None };
                    assert_eq!(closed, Some(replaced), "a newer one replaces it");
                }
            }
            Move::Lose(scope) if self.may("lose", 2) => {
                let heard = self.heard.get_mut(&scope).unwrap();
                let Some(stream) = heard.stream.take() else { return false };
                heard.lost_at = Some(self.now);
                self.session.lost(stream, self.now);
            }
            Move::Time if self.may("time", 1) => {
                let Some(due) = self.session.poll_timeout() else { return false };
                self.now = self.now.max(due);
                self.session.handle_timeout(self.now);
            }
            _ => return false,
        }
        self.act(on_loss);
        true
    }

    fn act(&mut self, on_loss: OnLoss) {
        while let Some(action) = self.session.poll_action() {
            match action {
                Action::Begin { stream } => {
                    assert!(self.heard.values().any(|heard| heard.stream == Some(stream)));
                }
                Action::Write { stream, bytes } => {
                    let of_stream = |heard: &&mut Heard| heard.stream == Some(stream);
                    let heard = self.heard.values_mut().find(of_stream).unwrap();
                    let mut bytes = &*bytes;
                    while let Some(event) = heard.decoder.receive(&mut bytes).unwrap() {
                        if let SseEvent::Message(data) = event {
                            heard.messages.push(data);
                        }
                    }
                }
                Action::Cancel { id, cause } => {
                    assert_eq!(Some(id), WireId::from_json("1"));
                    assert!(self.is_in_flight(), "{:?}", self.moves);
                    let lost = self.heard.values().filter_map(|heard| heard.lost_at);
                    let is_due = match on_loss {
                        OnLoss::CancelNow => lost.min().is_some(),
                        OnLoss::CancelAfter(time) => {
                            lost.min().is_some_and(|at| at + time <= self.now)
                        }
                        OnLoss::GoOn => false,
                    };
                    assert!(is_due, "cancelled too early, or for nothing: {:?}", self.moves);
                    self.cancels.push(cause);
                }
                other => panic!("{other:?}: {:?}", self.moves),
            }
        }
    }

    fn judge(&self) {
        let at = &self.moves;
        assert_eq!(self.delivered, self.posted, "the endpoint has what was posted, in its order");
        assert!(self.cancels.iter().all(|cause| *cause == Cause::PeerGone), "{at:?}");
        assert_eq!(self.session.open(), usize::from(self.is_in_flight()), "{at:?}");
        let mut world = self.clone();
        // Once the client listens to both, it has everything, each message once, in its order and on its stream.
        for scope in [None, Some("s")] {
            world.counts.clear();
            assert!(world.make(Move::Listen(scope), OnLoss::GoOn));
        }
        let is_response = |message: &&String| message.contains("response");
        let [own, session] = [None, Some("s")].map(|scope| &world.heard[&scope].messages);
        let about: Vec<_> = session.iter().filter(|it| !is_response(it)).collect();
        assert_eq!(about, self.sent.iter().collect::<Vec<_>>(), "{at:?}");
        assert!(own.iter().all(|message| is_response(&message)), "{at:?}");
        let responses = [own, session].map(|all| all.iter().filter(is_response).count());
        let expected = match (self.has_response, self.was_heard) {
            (false, _) => [0, 0],
            // Without a stream of its session and anything on it, the client waits on that of the connection.
            (true, false) => [1, 0],
            (true, true) => [0, 1],
        };
        assert_eq!(responses, expected, "{at:?}");
    }

    /// Ends the connection, which closes what is open.
    fn delete(mut self) {
        self.session.end(self.now);
        let actions: Vec<_> = std::iter::from_fn(|| self.session.poll_action()).collect();
        let open = self.heard.values().filter(|heard| heard.stream.is_some()).count();
        let closed = actions.iter().filter(|it| matches!(it, Action::Close { .. })).count();
        assert_eq!((closed, actions.last()), (open, Some(&Action::End)), "{:?}", self.moves);
        assert_eq!((self.session.open(), self.session.poll_timeout()), (0, None));
        // A handler may go on for a while.
        let update = br#"{"method":"session/update","params":{"sessionId":"s"}}"#;
        self.session.message(update, self.now);
        assert_eq!((self.session.poll_action(), self.session.kept_bytes()), (None, 0));
    }

    /// Returns a number of the state, without the way that led there.
    fn digest(&self) -> u64 {
        let state = Self { moves: Vec::new(), ..self.clone() };
        let mut digest = DefaultHasher::new();
        format!("{state:?}").hash(&mut digest);
        digest.finish()
    }
}

fn search(world: &World, on_loss: OnLoss, seen: &mut BTreeSet<u64>) {
    world.judge();
    world.clone().delete();
    for step in MOVES {
        let mut next = world.clone();
        next.moves.push(step);
        if next.make(step, on_loss) && seen.insert(next.digest()) {
            search(&next, on_loss, seen);
        }
    }
}

fn states(on_loss: OnLoss) -> usize {
    let mut seen = BTreeSet::new();
    search(&World::new(on_loss), on_loss, &mut seen);
    seen.len()
}

#[test]
fn every_ordering_of_a_turn_keeps_its_promises() {
    assert_eq!(states(OnLoss::GoOn), 9_960);
}

#[test]
fn every_ordering_of_a_turn_keeps_its_promises_where_a_lost_stream_is_a_cancel() {
    assert_eq!(states(OnLoss::CancelNow), 12_174);
}

#[test]
fn every_ordering_of_a_turn_keeps_its_promises_where_a_lost_stream_is_a_cancel_in_time() {
    assert_eq!(states(OnLoss::CancelAfter(Duration::from_secs(2))), 24_331);
}

#[test]
fn a_session_whose_place_is_taken_waits_for_no_time_any_more() {
    let after = Duration::from_secs(30);
    let options = SessionOptions {
        on_loss: Some(OnLoss::CancelAfter(after)),
        exchanges: 1,
        ..SessionOptions::default()
    };
    let mut session = Session::new(&Rules::ACP_V1, options, Timestamp::ZERO);
    session.get(StreamId(1), Some("a"), None, Timestamp::ZERO).unwrap();
    session.lost(StreamId(1), Timestamp::ZERO);
    session.get(StreamId(2), Some("b"), None, Timestamp::ZERO).unwrap();
    // It used to try the time of `a` for ever.
    session.handle_timeout(Timestamp::ZERO + after);
    assert_ne!(session.poll_timeout(), Some(Timestamp::ZERO + after));
}

/// A session `s` to which nobody listens any more, and what its client hears when it comes back.
struct Unheard {
    session: Session,
    next: u64,
}

impl Unheard {
    fn new(exchanges: usize, store_bytes: usize) -> Self {
        let options = SessionOptions { exchanges, store_bytes, ..SessionOptions::default() };
        let session = Session::new(&Rules::ACP_V1, options, Timestamp::ZERO);
        let mut unheard = Self { session, next: 0 };
        unheard.listen("s").unwrap();
        unheard
    }

    /// Listens to a session until nothing more comes, and stops listening.
    fn listen(&mut self, scope: &str) -> Result<Vec<String>, Refusal> {
        self.next += 1;
        let stream = StreamId(self.next);
        self.session.get(stream, Some(scope), None, Timestamp::ZERO)?;
        let (mut decoder, mut heard) = (Decoder::new(4 << 20), Vec::new());
        while let Some(action) = self.session.poll_action() {
            let Action::Write { bytes, .. } = action else { continue };
            let mut bytes = &*bytes;
            while let Some(event) = decoder.receive(&mut bytes).unwrap() {
                heard.extend(Some(event).and_then(|it| match it {
                    SseEvent::Message(data) => Some(data),
                    _ => None,
                }));
            }
        }
        self.session.lost(stream, Timestamp::ZERO);
        Ok(heard)
    }

    fn prompt(&mut self, id: u32) -> Result<(), Refusal> {
        self.next += 1;
        let body = PROMPT.replace("\"id\":1", &format!("\"id\":{id}"));
        self.session.post(StreamId(self.next), posted(&body), Timestamp::ZERO)
    }

    fn say(&mut self, message: &str) {
        self.session.message(message.as_bytes(), Timestamp::ZERO);
    }

    fn respond(&mut self, id: u32, length: usize) {
        let text = "x".repeat(length);
        self.say(&format!(r#"{{"id":{id},"result":"{text}"}}"#));
    }

    fn update(&mut self, scope: &str, length: usize) {
        let text = "x".repeat(length);
        let params = format!(r#"{{"sessionId":"{scope}","text":"{text}"}}"#);
        self.say(&format!(r#"{{"method":"session/update","params":{params}}}"#));
    }
}

fn is_loss(message: &str, id: u32) -> bool {
    message.contains(&format!("\"id\":{id},\"error\"")) && message.contains("is lost")
}

#[test]
fn g01_a_response_without_room_is_an_error_of_its_call_and_updates_go_before_it() {
    let mut unheard = Unheard::new(1_024, 4_000);
    for (id, length) in [(1, 1_000), (2, 1_000), (3, 5_000)] {
        unheard.prompt(id).unwrap();
        unheard.respond(id, length);
        for _ in 0..10 {
            unheard.update("t", 1_000);
        }
    }
    let heard = unheard.listen("s").unwrap();
    let losses: Vec<_> = (1..=3).zip(&heard).map(|(id, it)| is_loss(it, id)).collect();
    assert_eq!(losses, [false, false, true], "what finds no room is lost: {heard:?}");
}

#[test]
fn g01_a_request_of_ours_without_room_loses_its_call() {
    let mut unheard = Unheard::new(1_024, 4_000);
    let params = format!(r#"{{"sessionId":"s","text":"{}"}}"#, "x".repeat(5_000));
    unheard.say(&format!(r#"{{"id":7,"method":"session/request_permission","params":{params}}}"#));
    let lost = Action::LoseCall { id: WireId::from_json("7").unwrap() };
    assert_eq!(unheard.session.poll_action(), Some(lost));
    assert_eq!(unheard.listen("s").unwrap(), [""; 0]);
}

#[test]
fn g01_a_request_of_ours_that_is_sent_is_not_lost_for_want_of_room_to_keep_it() {
    let mut unheard = Unheard::new(1_024, 4_000);
    unheard.session.get(StreamId(100), Some("s"), None, Timestamp::ZERO).unwrap();
    while unheard.session.poll_action().is_some() {}
    let params = format!(r#"{{"sessionId":"s","text":"{}"}}"#, "x".repeat(5_000));
    unheard.say(&format!(r#"{{"id":7,"method":"session/request_permission","params":{params}}}"#));
    let actions: Vec<_> = std::iter::from_fn(|| unheard.session.poll_action()).collect();
    assert!(matches!(&actions[..], [Action::Write { .. }]), "{actions:?}");
}

#[test]
fn g01_what_is_forgotten_when_memory_runs_out_is_an_error_of_its_call() {
    let mut unheard = Unheard::new(1_024, 1 << 20);
    unheard.prompt(1).unwrap();
    unheard.update("s", 10);
    unheard.respond(1, 1_000);
    unheard.session.forget_events(0);
    let heard = unheard.listen("s").unwrap();
    assert!(heard.len() == 1 && is_loss(&heard[0], 1), "{heard:?}");
    unheard.session.forget_events(0);
    assert_eq!(unheard.session.kept_bytes(), 0, "it was heard");
}

#[test]
fn g01_a_session_keeps_its_place_as_long_as_a_response_waits_for_it() {
    let mut unheard = Unheard::new(1, 1 << 20);
    unheard.prompt(1).unwrap();
    unheard.respond(1, 10);
    assert_eq!(unheard.listen("t"), Err(Refusal::BUSY));
    assert_eq!(unheard.listen("s").unwrap().len(), 1);
    assert_eq!(unheard.listen("t").unwrap().len(), 0);
}

#[test]
fn g08_responses_that_nobody_listens_to_count_as_open() {
    let mut unheard = Unheard::new(2, 0);
    for id in 1..=2 {
        unheard.prompt(id).unwrap();
        unheard.respond(id, 10);
    }
    assert_eq!(unheard.prompt(3), Err(Refusal::BUSY));
    assert_eq!(unheard.listen("s").unwrap().len(), 2);
    unheard.prompt(3).unwrap();
}

#[test]
fn a_client_that_resumes_is_refused_if_an_update_before_a_response_was_dropped() {
    let mut unheard = Unheard::new(1_024, 1_000);
    unheard.prompt(1).unwrap();
    unheard.respond(1, 10);
    for _ in 0..3 {
        unheard.update("s", 600);
    }
    let resumed = unheard.session.get(StreamId(99), Some("s"), Some("1-0"), Timestamp::ZERO);
    assert_eq!(resumed, Err(Refusal::UNKNOWN_EVENT));
}
