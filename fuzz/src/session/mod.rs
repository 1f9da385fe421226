//! The session of MCP over HTTP, between hostile clients and an endpoint, on streams that break at any byte.

mod account;
mod stream;

use std::time::Duration;

use heap::Heap;
use protocol_core::{Cause, Timestamp, WireId};
use protocol_http::{
    Action, ClientSession, Decoder, OnLoss, Posted, RequestHead, Rules, Session, SessionOptions,
    SseEvent, TooLong,
};

use crate::bytes::Bytes;

use account::Account;
use stream::Streams;

/// The most steps of one run, so that a reader can follow a finding.
const MOST: usize = 300;
/// The bytes of one exchange beside the ids and tokens of its body: its row, and its places in four maps and a set. The first of
/// each has a node with room for eleven.
const EXCHANGE: usize = 4 << 10;

/// The first bytes choose the revision and the limits. The rest is the posts and reads of the clients, the breaks of
/// their streams, and the messages of the endpoint.
///
/// Each request has one response at most, whatever is resumed. A stream has one head, and nothing follows its end or
/// its loss. The memory is under the formula at every step. Once all streams are gone and all requests have their
/// response, only the events of the store are left. Nothing is left once the session is over.
pub fn session(data: &[u8]) {
    session_is_calm(data);
}

/// Does what [`session`] does. Returns the number of responses that clients read.
pub fn session_is_calm(data: &[u8]) -> usize {
    let mut bytes = Bytes::new(data);
    let length = bytes.byte().into();
    decode(bytes.take(length), bytes.pick(&[4_096, 16, 64]));
    let mut scene = Scene::new(&mut bytes);
    for _ in 0..MOST {
        if bytes.is_empty() {
            break;
        }
        scene.step(&mut bytes);
        scene.judge();
    }
    scene.finish()
}

/// Decodes a stream whole and byte by byte: the same events, within the memory of the limits.
fn decode(stream: &[u8], most: usize) {
    let [mut whole, mut split] = [(); 2].map(|()| (Decoder::new(most), Vec::new(), Ok(())));
    feed(&mut whole, stream);
    for byte in stream {
        feed(&mut split, std::slice::from_ref(byte));
        // Three bytes stand for one that is no UTF-8, in the data and two ids. A line is 16 bytes longer than an event.
        let held = copied(&split.0);
        assert!(held <= 10 * (most + 16), "G8: {held} bytes of a decoder");
    }
    assert_eq!((&whole.1, whole.2), (&split.1, split.2), "G11: another split, other events");
    assert_eq!(whole.0.last_event_id(), split.0.last_event_id());
}

fn feed(decoding: &mut (Decoder, Vec<SseEvent>, Result<(), TooLong>), mut bytes: &[u8]) {
    let (decoder, events, result) = decoding;
    loop {
        match decoder.receive(&mut bytes) {
            Ok(Some(event)) => events.push(event),
            Ok(None) => return,
            Err(error) => return *result = Err(error),
        }
    }
}

/// Returns the heap of a copy, which has all that the original keeps, and no room beside that.
fn copied<T: Clone>(original: &T) -> usize {
    let heap = Heap::of_thread();
    let copy = original.clone();
    let held = heap.held();
    drop(copy);
    held
}

struct Scene {
    session: Session,
    rules: &'static Rules,
    options: SessionOptions,
    now: Timestamp,
    streams: Streams,
    account: Account,
    /// The longest body that was posted.
    longest: usize,
    ends: usize,
}

impl Scene {
    fn new(bytes: &mut Bytes<'_>) -> Self {
        let rules = &Rules::PRESETS[usize::from(bytes.byte()) % Rules::PRESETS.len()];
        let second = Duration::from_secs(1);
        let later = Some(OnLoss::CancelAfter(2 * second));
        let options = SessionOptions {
            comment_every: bytes.pick(&[Some(second), None]),
            on_loss: bytes.pick(&[None, Some(OnLoss::CancelNow), later, Some(OnLoss::GoOn)]),
            exchanges: bytes.pick(&[8, 1, 3]),
            store_bytes: bytes.pick(&[20_000, 0, 500]),
            idle_time: bytes.pick(&[None, Some(60 * second)]),
        };
        Self {
            session: Session::new(rules, options.clone(), Timestamp::ZERO),
            rules,
            options,
            now: Timestamp::ZERO,
            streams: Streams::default(),
            account: Account::default(),
            longest: 0,
            ends: 0,
        }
    }

    fn step(&mut self, bytes: &mut Bytes<'_>) {
        let kind = bytes.byte();
        match kind % 16 {
            0..=2 => {
                let (messages, accepts_events) =
                    (1 + usize::from(bytes.byte() % 4), kind & 16 == 0);
                let messages = if self.rules.batch_refusal.is_none() { messages } else { 1 };
                let body = self.account.requests(messages, bytes);
                self.post(body, accepts_events);
            }
            3 => {
                let length = bytes.byte().into();
                self.post(bytes.take(length).into(), kind & 16 == 0);
            }
            4 => self.resume(bytes),
            5 => {
                let length = usize::from(bytes.byte() % 16);
                let event = String::from_utf8_lossy(bytes.take(length)).into_owned();
                let stream = self.streams.open(None);
                let event =
                    bytes.pick(&[Some(&*event), None, Some("0-0"), Some("1-0"), Some("1-1")]);
                let taken = self.session.get(stream, None, event, self.now);
                self.streams.refuse_unless(stream, taken.is_ok());
            }
            6 | 7 => {
                let stream = self.streams.pick(bytes.byte());
                let length = bytes.pick(&[1, 1, 7, 60, 2_000]);
                self.account.read(self.streams.read(stream, length));
            }
            8 => {
                // One that is closed, or was never there, too.
                let stream = self.streams.pick(bytes.byte());
                self.streams.lose(stream);
                self.session.lost(stream, self.now);
            }
            9 | 10 => {
                if let Some(response) = self.account.respond(bytes) {
                    self.session.message(response.as_bytes(), self.now);
                }
            }
            11 => {
                let update = self.account.update(bytes);
                self.session.message(update.as_bytes(), self.now);
            }
            12 => {
                let length = bytes.byte().into();
                self.session.message(bytes.take(length), self.now);
            }
            13 => {
                self.now = self.now + Duration::from_millis(bytes.pick(&[1, 500, 1_000, 30_000]));
                self.session.handle_timeout(self.now);
            }
            14 => {
                let cause = bytes.pick(&[Cause::Peer, Cause::Dropped, Cause::PeerGone]);
                if let Some(id) = self.account.any(bytes) {
                    self.cancel(&id, cause);
                }
            }
            _ => match bytes.byte() {
                0 => self.session.end(self.now),
                _ => self.session.begun(self.now),
            },
        }
        self.act();
    }

    fn post(&mut self, body: Vec<u8>, accepts_events: bool) {
        // Without sessions, headers repeat the body.
        let client =
            ClientSession::new(self.rules).post(&body).filter(|_| !self.rules.has_sessions);
        let headers = client.map(|out| out.headers).unwrap_or_default();
        let headers = headers.iter().map(|(name, value)| (&**name, value.as_bytes()));
        let head = RequestHead::new("POST", headers);
        let Ok(mut posted) = Posted::read(body, &head, self.rules) else { return };
        posted.accepts_events = accepts_events;
        self.longest = self.longest.max(posted.body.len());
        let ids: Vec<WireId> = posted.ids().cloned().collect();
        let is_double = ids.iter().any(|id| self.account.is_in_flight(id));
        let stream = self.streams.open(Some(ids.clone()));
        let taken = self.session.post(stream, posted, self.now);
        assert!(!is_double || taken.is_err(), "an id that is in flight is taken again");
        self.streams.refuse_unless(stream, taken.is_ok());
        if taken.is_ok() {
            self.account.take(ids);
        }
    }

    /// A client comes back to its own stream, with the last event that it has.
    fn resume(&mut self, bytes: &mut Bytes<'_>) {
        let before = self.streams.pick(bytes.byte());
        let Some((ids, last)) = self.streams.last_event_of(before) else { return };
        // It has lost its stream, or believes so. The events that it did not read are gone.
        self.streams.leave(before);
        let stream = self.streams.open(ids);
        let taken = self.session.get(stream, None, Some(&last), self.now);
        self.streams.refuse_unless(stream, taken.is_ok());
    }

    fn cancel(&mut self, id: &WireId, cause: Cause) {
        self.session.cancelled(id, cause, self.now);
        if self.session.rules().is_silent(cause) {
            self.account.silence(id);
        }
    }

    /// Does what the session asks for.
    fn act(&mut self) {
        while let Some(action) = self.session.poll_action() {
            assert_eq!(self.ends, 0, "something follows the end");
            match action {
                Action::Deliver { .. } => {}
                Action::Begin { stream } => self.streams.begin(stream),
                Action::Write { stream, bytes } => self.streams.write(stream, &bytes),
                Action::Close { stream, status } => self.streams.close(stream, status.is_some()),
                Action::Cancel { id, cause } => {
                    assert!(self.account.is_in_flight(&id), "{id:?} is cancelled, and has no work");
                    self.cancel(&id, cause);
                }
                Action::LoseCall { .. } => panic!("MCP has no such loss"),
                Action::End => {
                    self.ends += 1;
                    self.account.abandon();
                }
            }
        }
    }

    /// Compares the memory with the formula, and the exchanges with their limit.
    fn judge(&self) {
        let (open, most) = (self.session.open(), self.options.exchanges);
        assert!(open <= most, "{open} exchanges of {most}");
        let of_exchanges = (open + 1) * (EXCHANGE + 4 * self.longest);
        self.assert_memory(self.options.store_bytes + of_exchanges);
    }

    fn assert_memory(&self, most: usize) {
        let held = copied(&self.session);
        assert!(held <= most, "G8: {held} bytes of {most}");
    }

    /// All streams break, each request has its response, and the time passes.
    fn finish(mut self) -> usize {
        for stream in self.streams.all() {
            self.account.read(self.streams.read(stream, usize::MAX));
        }
        for stream in self.streams.all() {
            self.streams.lose(stream);
            self.session.lost(stream, self.now);
            self.act();
        }
        while let Some(response) = self.account.next_response() {
            self.session.message(response.as_bytes(), self.now);
            self.act();
        }
        assert_eq!(self.session.open(), 0, "an exchange is left");
        let fresh = Session::new(self.rules, self.options.clone(), self.now);
        self.assert_memory(self.options.store_bytes + copied(&fresh));
        self.session.end(self.now);
        self.act();
        assert_eq!(self.session.poll_timeout(), None, "a timer is left");
        self.assert_memory(0);
        self.account.responses()
    }
}
