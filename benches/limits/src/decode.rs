//! W4: one message in and its events out, beside the cost of other readers on the same bytes.

use std::hint::black_box;
use std::time::Duration;

use bench_harness::{Size, clock, heap, report};
use protocol_core::{Config, Connection, Dialect, Event, RequestHandle, Response, Timestamp};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

const NOW: Timestamp = Timestamp::ZERO;
/// Messages between two looks at the clock.
const BATCH: usize = 64;

/// The kind of a message.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Request,
    Notification,
    /// An update of a turn that does not go on.
    Update,
    /// The same beside its turn.
    UpdateInTurn,
    Response,
    Error,
    Cancel,
}

impl Kind {
    /// In version 2 of ACP, an update may end a turn.
    const fn dialect(self) -> Dialect {
        match self {
            Self::Update | Self::UpdateInTurn => Dialect::ACP_V2,
            _ => Dialect::ACP_V1,
        }
    }
}

/// The messages that are read, by their names in metrics.
const MESSAGES: [(&str, Kind, Size); 11] = [
    ("request", Kind::Request, Size::Small),
    ("notification", Kind::Notification, Size::Small),
    ("update", Kind::Update, Size::Small),
    ("update_in_turn", Kind::UpdateInTurn, Size::Small),
    ("response", Kind::Response, Size::Small),
    ("error", Kind::Error, Size::Small),
    ("cancel", Kind::Cancel, Size::Small),
    ("request_1k", Kind::Request, Size::Nested1K),
    ("request_100k", Kind::Request, Size::Nested100K),
    ("request_1m", Kind::Request, Size::Text1M),
    ("response_1m", Kind::Response, Size::Text1M),
];

const UPDATE: &str = concat!(
    r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"session-1","#,
    r#""update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"and "}}}}"#
);

/// A connection, and the messages that come next.
struct Reader {
    kind: Kind,
    core: Connection<()>,
    payload: Box<RawValue>,
    /// Ids count up from 1 on both sides.
    last: usize,
    batch: Vec<Vec<u8>>,
    requests: Vec<RequestHandle>,
    output: Vec<u8>,
}

impl Reader {
    fn new(kind: Kind, size: Size) -> Self {
        let mut reader = Self {
            kind,
            core: Connection::new(Config::client(kind.dialect())),
            payload: to_raw_value(&size.payload()).expect("a payload"),
            last: 0,
            batch: Vec::new(),
            requests: Vec::with_capacity(BATCH),
            output: Vec::new(),
        };
        if kind == Kind::UpdateInTurn {
            // It lasts until the agent is idle.
            let session = to_raw_value(&json!({ "sessionId": "session-1" })).expect("JSON");
            let core = &mut reader.core;
            let prompt = core.call("session/prompt", Some(&session), (), Default::default(), NOW);
            prompt.expect("there is room");
            reader.write();
        }
        reader
    }

    fn message(&self, kind: Kind, id: usize) -> Vec<u8> {
        let payload = &self.payload;
        match kind {
            Kind::Request => format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"bench/echo","params":{payload}}}"#
            ),
            Kind::Notification => {
                format!(r#"{{"jsonrpc":"2.0","method":"bench/note","params":{payload}}}"#)
            }
            Kind::Update | Kind::UpdateInTurn => UPDATE.to_owned(),
            Kind::Response => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{payload}}}"#),
            Kind::Error => format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32800,"message":"Request cancelled"}}}}"#
            ),
            Kind::Cancel => format!(
                r#"{{"jsonrpc":"2.0","method":"$/cancel_request","params":{{"requestId":{id}}}}}"#
            ),
        }
        .into_bytes()
    }

    /// Makes a batch, and the calls or requests that it refers to.
    fn prepare(&mut self, count: usize) {
        self.batch.clear();
        for id in self.last + 1..=self.last + count {
            self.batch.push(self.message(self.kind, id));
            match self.kind {
                Kind::Response | Kind::Error => {
                    let sent = self.core.call("m", None, (), Default::default(), NOW);
                    sent.expect("there is room");
                }
                Kind::Cancel => {
                    let request = self.message(Kind::Request, id);
                    let event = self.core.receive(&request, NOW);
                    keep(&mut self.requests, &event.expect("it is a good request"));
                }
                _ => {}
            }
        }
        self.last += count;
        self.write();
    }

    /// Reads the batch. It is never inlined: callgrind counts the work in here.
    #[inline(never)]
    fn read(&mut self) {
        for message in &self.batch {
            let mut event = self.core.receive(black_box(message), NOW);
            let mut events = 0;
            while let Some(told) = event {
                keep(&mut self.requests, black_box(&told));
                events += 1;
                event = self.core.poll_event();
            }
            assert_eq!(events, 1, "every message is good");
        }
    }

    /// Responds to the requests that were read.
    fn tidy(&mut self) {
        for request in self.requests.drain(..) {
            self.core.respond(request, Response::Cancelled).expect("it is unanswered");
        }
        self.write();
    }

    fn write(&mut self) {
        while self.core.poll_transmit(&mut self.output).is_some() {
            self.output.clear();
        }
    }
}

fn keep(requests: &mut Vec<RequestHandle>, event: &Event<'_, ()>) {
    match event {
        Event::Request { request, .. } => requests.push(*request),
        Event::Notification { .. } | Event::Settled { .. } | Event::Cancelled { .. } => {}
        other => panic!("every message is good: {other:?}"),
    }
}

/// Nanoseconds that the core needs for one message: the least disturbed batch.
fn core(kind: Kind, size: Size, budget: Duration) -> f64 {
    let mut reader = Reader::new(kind, size);
    let count = if size == Size::Small || size == Size::Nested1K { BATCH } else { 2 };
    let end = clock::wall() + budget.as_nanos() as u64;
    let mut least = f64::INFINITY;
    while clock::wall() < end {
        reader.prepare(count);
        let begun = clock::wall();
        reader.read();
        let took = clock::wall() - begun;
        least = least.min(took as f64 / count as f64);
        reader.tidy();
    }
    least
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<&'a str>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[cfg(feature = "parsers")]
#[derive(Deserialize)]
struct SonicEnvelope<'a> {
    #[serde(borrow)]
    id: Option<sonic_rs::LazyValue<'a>>,
    method: Option<&'a str>,
    #[serde(borrow)]
    params: Option<sonic_rs::LazyValue<'a>>,
    #[serde(borrow)]
    result: Option<sonic_rs::LazyValue<'a>>,
    #[serde(borrow)]
    error: Option<sonic_rs::LazyValue<'a>>,
}

type Look = fn(&[u8], &mut Vec<u8>);

/// The work of others on the same bytes, by their names in metrics.
const OTHERS: &[(&str, Look)] = &[
    ("memcpy", |bytes, copy| {
        copy.clear();
        copy.extend_from_slice(bytes);
        black_box(copy);
    }),
    ("memchr_newline", |bytes, _| assert!(memchr::memchr(b'\n', bytes).is_none())),
    ("utf8_check", |bytes, _| assert!(std::str::from_utf8(bytes).is_ok())),
    ("serde_json_IgnoredAny", |bytes, _| {
        serde_json::from_slice::<IgnoredAny>(bytes).expect("JSON");
    }),
    ("serde_json_envelope", |bytes, _| {
        let envelope: Envelope<'_> = serde_json::from_slice(bytes).expect("JSON");
        black_box((envelope.id, envelope.method, envelope.params));
        black_box((envelope.result, envelope.error));
    }),
    #[cfg(feature = "parsers")]
    ("sonic-rs_IgnoredAny", |bytes, _| {
        sonic_rs::from_slice::<IgnoredAny>(bytes).expect("JSON");
    }),
    #[cfg(feature = "parsers")]
    ("sonic-rs_envelope", |bytes, _| {
        let envelope: SonicEnvelope<'_> = sonic_rs::from_slice(bytes).expect("JSON");
        black_box((&envelope.id, envelope.method, &envelope.params));
        black_box((&envelope.result, &envelope.error));
    }),
    #[cfg(feature = "parsers")]
    ("simd-json_tape", |bytes, copy| {
        // It writes into what it reads.
        copy.clear();
        copy.extend_from_slice(bytes);
        black_box(simd_json::to_tape(copy).expect("JSON"));
    }),
    ("serde_json_Value", |bytes, _| {
        black_box(serde_json::from_slice::<serde_json::Value>(bytes).expect("JSON"));
    }),
];

/// Prints every figure.
pub(crate) fn speed(budget: Duration) {
    for (name, kind, size) in MESSAGES {
        let message = Reader::new(kind, size).message(kind, 12_345);
        report::figure("decode_bytes", &format!("w4.{name}"), message.len() as f64);
        let figure = |reader: &str, cost| {
            report::figure("decode", &format!("w4.{name}.{reader}.ns"), cost);
        };
        figure("core", core(kind, size, budget));
        let mut copy = Vec::with_capacity(message.len());
        for (reader, look) in OTHERS {
            let cost = clock::cpu_per_step(budget / 2, 1, |times| {
                (0..times).for_each(|_| look(black_box(&message), &mut copy));
            });
            figure(reader, cost);
        }
    }
}

/// Reads so many messages of one name; gives the allocations of that.
pub(crate) fn some(name: &str, times: usize) -> u64 {
    let found = MESSAGES.iter().find(|message| message.0 == name);
    let &(_, kind, size) = found.expect("the name of a message");
    let mut reader = Reader::new(kind, size);
    reader.requests.reserve(times);
    reader.prepare(times);
    let taken = heap::count(|| reader.read());
    reader.tidy();
    taken.allocations
}

/// Writes so many notifications; gives the allocations of that.
pub(crate) fn encode(times: usize) -> u64 {
    let Reader { mut core, payload, mut output, .. } = Reader::new(Kind::Notification, Size::Small);
    let work = || {
        for _ in 0..times {
            core.notify("bench/note", Some(&payload)).expect("there is room");
            core.poll_transmit(&mut output).expect("the notification");
            output.clear();
        }
    };
    heap::count(work).allocations
}
