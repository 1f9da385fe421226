//! Input that is too large to commit: memory stays bounded, and the next good message works.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::VecDeque;
use std::thread;

use protocol_core::{
    CloseReason, Config, Dialect, Envelope, Event, Framing, InputBuffer, Outcome, RequestHandle,
    Response, StreamConnection, Timestamp, Violation,
};

const READ: usize = 64 << 10;
const NOW: Timestamp = Timestamp::ZERO;
const ALIVE: &str = r#"{"jsonrpc":"2.0","method":"alive"}"#;

/// A host that reads in pieces of 64 KiB, keeps what happened, and drops what it has to send.
struct Host {
    connection: StreamConnection<&'static str>,
    input: InputBuffer,
    /// The most bytes that ever waited to become a message.
    most_unread: usize,
    requests: VecDeque<RequestHandle>,
    violations: Vec<Violation>,
    settled: Vec<&'static str>,
    alive: usize,
    closed: Option<CloseReason>,
    sent: usize,
}

impl Host {
    fn new(dialect: Dialect) -> Self {
        Self::with(Config::server(dialect))
    }

    fn with(config: Config) -> Self {
        Self {
            connection: StreamConnection::new(config),
            input: InputBuffer::new(),
            most_unread: 0,
            requests: VecDeque::new(),
            violations: Vec::new(),
            settled: Vec::new(),
            alive: 0,
            closed: None,
            sent: 0,
        }
    }

    /// Takes bytes, and sends nothing.
    fn take(&mut self, bytes: &[u8]) {
        for read in bytes.chunks(READ) {
            self.input.extend_from_slice(read);
            self.most_unread = self.most_unread.max(self.input.unread().len());
            loop {
                let received = self.connection.receive(self.input.unread(), NOW);
                let (consumed, mut next) = (received.consumed, received.event);
                while let Some(event) = next {
                    match event {
                        Event::Request { request, .. } => self.requests.push_back(request),
                        Event::Notification { .. } => self.alive += 1,
                        Event::Violation { violation, .. } => self.violations.push(violation),
                        Event::Settled { outcome, .. } => {
                            self.settled.push(outcome.settlement().as_str());
                            assert!(!matches!(outcome, Outcome::Cancelled { .. }));
                        }
                        Event::Closed { reason } => self.closed = Some(reason),
                        _ => {}
                    }
                    next = self.connection.connection_mut().poll_event();
                }
                if consumed == 0 {
                    break;
                }
                self.input.consume(consumed);
            }
        }
    }

    /// Takes one message in the framing of the dialect.
    fn take_message(&mut self, message: &str) {
        if self.connection.connection().config().dialect.framing == Framing::ContentLength {
            self.take(format!("Content-Length: {}\r\n\r\n", message.len()).as_bytes());
            self.take(message.as_bytes());
        } else {
            self.take(message.as_bytes());
            self.take(b"\n");
        }
    }

    fn drain(&mut self) {
        let mut message = Vec::new();
        while self.connection.poll_transmit(&mut message).is_some() {
            self.sent += 1;
            message.clear();
        }
    }

    /// The kinds of violations since the last time.
    fn violations(&mut self) -> Vec<&'static str> {
        self.violations.drain(..).map(Violation::as_str).collect()
    }

    #[track_caller]
    fn assert_alive(&mut self) {
        let before = self.alive;
        self.take_message(match self.connection.connection().config().dialect.envelope {
            Envelope::Dap => r#"{"seq":1,"type":"event","event":"alive"}"#,
            _ => ALIVE,
        });
        assert_eq!(self.alive, before + 1, "the next good message works");
        assert_eq!(self.closed, None);
    }
}

/// Runs where deep recursion would overflow the stack.
fn on_a_small_stack(test: impl FnOnce() + Send + 'static) {
    thread::Builder::new().stack_size(256 << 10).spawn(test).unwrap().join().unwrap();
}

#[test]
fn g09_200_000_levels_of_nesting() {
    on_a_small_stack(|| {
        const LEVELS: usize = 200_000;
        let arrays = "[".repeat(LEVELS) + &"]".repeat(LEVELS);
        let objects = r#"{"a":"#.repeat(LEVELS) + "0" + &"}".repeat(LEVELS);
        // Of the others a stream tells nothing apart.
        let framed = Dialect::PRESETS.iter().filter(|it| it.framing != Framing::Whole);
        for dialect in framed.cloned() {
            let mut host = Host::new(dialect.clone());
            host.connection
                .connection_mut()
                .call("m", None, "call", Default::default(), NOW)
                .unwrap();
            host.drain();
            for deep in [&arrays, &objects] {
                let messages = match dialect.envelope {
                    Envelope::Dap => [
                        format!(r#"{{"seq":1,"type":"request","command":"m","arguments":{deep}}}"#),
                        format!(r#"{{"seq":{deep},"type":"request","command":"m"}}"#),
                        format!(r#"{{"seq":1,"type":"event","event":"m","extra":{deep}}}"#),
                    ],
                    _ => [
                        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{deep}}}"#),
                        format!(r#"{{"jsonrpc":"2.0","id":{deep},"method":"m"}}"#),
                        format!(r#"{{"jsonrpc":"2.0","method":"m","params":{{}},"extra":{deep}}}"#),
                    ],
                };
                messages.iter().for_each(|message| host.take_message(message));
            }
            assert_eq!(
                host.violations(),
                ["invalid_request", "invalid_request", "invalid_notification"].repeat(2)
            );
            host.take_message(&arrays);
            let expected = match dialect.batches {
                Some(_) => "invalid_request",
                None => "batch_refused",
            };
            assert_eq!(host.violations(), [expected]);
            host.take_message(&objects);
            host.take_message(&arrays[..LEVELS]);
            host.take_message(&objects[..LEVELS]);
            let (expected, answer, refused) = match dialect.envelope {
                Envelope::Dap => (
                    "invalid_notification",
                    format!(
                        r#"{{"type":"response","request_seq":1,"success":true,"body":{arrays}}}"#
                    ),
                    // Only requests with a number and a command get a response.
                    2,
                ),
                _ => {
                    let answer = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{arrays}}}"#);
                    ("invalid_request", answer, 8)
                }
            };
            assert_eq!(host.violations(), [expected, "parse", "parse"]);
            host.take_message(&answer);
            assert_eq!((host.violations(), host.settled.len()), (vec!["malformed_response"], 1));
            host.assert_alive();
            assert!(host.requests.is_empty());
            host.drain();
            assert_eq!(host.sent, 1 + refused, "the call, and an answer to each bad request");
        }
    });
}

#[test]
fn g08_content_length_of_1_gib() {
    let mut host = Host::new(Dialect::LSP_3_17);
    host.take(b"Content-Length: 1073741824\r\n\r\n");
    let zeros = vec![0; 1 << 20];
    for _ in 0..1 << 10 {
        host.take(&zeros);
    }
    host.assert_alive();
    assert!(host.most_unread <= READ, "{}", host.most_unread);
    assert_eq!(host.violations(), ["invalid_request"]);

    // A length that no machine can hold is skipped for ever, and the host still has its hands free.
    host.take(b"Content-Length: 18446744073709551615\r\n\r\n");
    host.take(&zeros);
    assert_eq!(host.violations(), [""; 0]);
    assert!(host.most_unread <= READ && host.closed.is_none());
}

#[test]
fn g08_largest_message_that_is_allowed() {
    for dialect in [Dialect::ACP_V1, Dialect::LSP_3_17] {
        let limit = Config::server(dialect.clone()).limits.message_bytes;
        let envelope = r#"{"jsonrpc":"2.0","method":"m","params":[""]}"#;
        let fits =
            envelope.replace(r#"[""]"#, &format!("[\"{}\"]", "x".repeat(limit - envelope.len())));
        assert_eq!(fits.len(), limit);
        let mut host = Host::new(dialect);
        host.take_message(&fits);
        assert_eq!((host.alive, host.violations()), (1, vec![]));
        host.take_message(&fits.replace("[", "[ "));
        assert_eq!((host.alive, host.violations()), (1, vec!["invalid_notification"]));
        host.assert_alive();
        assert!(host.most_unread <= limit + READ + 2, "{}", host.most_unread);
    }
}

#[test]
fn g08_endless_line() {
    let mut host = Host::new(Dialect::ACP_V1);
    let limit = Config::server(Dialect::ACP_V1).limits.message_bytes;
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..64 {
        host.take(&piece);
    }
    assert_eq!(host.violations(), [""; 0], "its end is not known");
    assert!(host.most_unread <= limit + READ, "{}", host.most_unread);
    host.take(b"\n");
    assert_eq!(host.violations(), ["invalid_request"]);
    host.assert_alive();
    host.drain();
    assert_eq!(host.sent, 1);
}

#[test]
fn g08_endless_header() {
    for piece in ["x", "X-Header: value\r\n", "\u{0}"] {
        let mut host = Host::new(Dialect::LSP_3_17);
        let limit = Config::server(Dialect::LSP_3_17).limits.header_bytes;
        let bytes = piece.repeat((1 << 20) / piece.len());
        for read in bytes.as_bytes().chunks(100) {
            host.take(read);
        }
        assert_eq!(host.violations(), ["header_too_long"]);
        assert_eq!(host.closed, Some(CloseReason::BrokenFraming));
        assert!(host.most_unread <= limit + 100, "{}", host.most_unread);
        assert!(host.input.unread().is_empty(), "nothing is kept of what can't be read");
    }
    // Line ends without a header are passed over, however many there are.
    let mut host = Host::new(Dialect::LSP_3_17);
    host.take(&b"\r\n".repeat(1 << 20));
    host.assert_alive();
}

#[test]
fn g08_flood_of_requests() {
    let mut host = Host::new(Dialect::ACP_V1);
    let limit = Config::server(Dialect::ACP_V1).limits.requests;
    for id in 0..limit {
        host.take_message(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#));
    }
    assert_eq!((host.requests.len(), host.violations()), (limit, vec![]));
    let one_more = r#"{"jsonrpc":"2.0","id":"one more","method":"m"}"#;
    host.take_message(one_more);
    assert_eq!(host.violations(), ["too_many_requests"]);

    // A cancelled request still counts, until it is answered.
    host.take_message(r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":0}}"#);
    host.take_message(one_more);
    assert_eq!(host.violations(), ["too_many_requests"]);
    let first = host.requests.pop_front().unwrap();
    host.connection.connection_mut().respond(first, Response::Cancelled).unwrap();
    host.take_message(one_more);
    assert_eq!((host.requests.len(), host.violations()), (limit, vec![]));
    host.assert_alive();
}

#[test]
fn g08_flood_of_bad_messages_to_a_peer_that_does_not_read() {
    let mut config = Config::server(Dialect::ACP_V1);
    config.limits.unsent_bytes = 1 << 20;
    let mut host = Host::with(config);
    for _ in 0..50_000 {
        host.take_message("nonsense");
    }
    let dropped =
        host.violations().iter().filter(|&&violation| violation == "response_dropped").count();
    assert!((1..50_000).contains(&dropped), "{dropped}");
    assert!(host.connection.connection().unsent_bytes() <= 1 << 20);
    host.drain();
    assert_eq!(host.sent, 50_000 - dropped);
    host.take_message("nonsense");
    assert_eq!(host.violations(), ["parse"]);
    host.assert_alive();
}

#[test]
fn g08_largest_batches() {
    let member = r#"{"jsonrpc":"2.0","method":"m"}"#;
    let batch = |members: usize| format!("[{}]", vec![member; members].join(","));
    let mut host = Host::new(Dialect::JSON_RPC);
    let limit = Config::server(Dialect::JSON_RPC).limits.batch_members;
    host.take_message(&batch(limit));
    assert_eq!((host.alive, host.violations()), (limit, vec![]));
    host.take_message(&batch(limit + 1));
    assert_eq!((host.alive, host.violations()), (limit, vec!["batch_size"]));
    host.take_message(&format!("[{}]", vec!["1"; (8 << 20) - 1].join(",")));
    assert_eq!(host.violations(), ["batch_size"]);
    host.assert_alive();
}

#[test]
fn g12_flood_of_responses() {
    let mut host = Host::new(Dialect::LSP_3_17);
    for id in 0..100_000 {
        host.take_message(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":null}}"#));
    }
    let violations = host.violations();
    assert_eq!(violations.len(), 100_000);
    assert!(violations.iter().all(|&violation| violation == "unknown_response"));
    host.drain();
    assert_eq!(host.sent, 0, "a response is never answered");
    host.assert_alive();
}

#[test]
fn g09_no_single_byte_breaks_the_next_message() {
    let messages = [
        r#"{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":[1,"é\u00e9"]}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32800,"message":"x"}}"#,
        r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":7}}"#,
        r#"[{"jsonrpc":"2.0","id":"b","method":"m"},{"jsonrpc":"2.0","method":"n"}]"#,
    ];
    for dialect in [Dialect::ACP_V1, Dialect::JSON_RPC] {
        let mut host = Host::new(dialect);
        let mut bytes = Vec::new();
        for message in messages {
            for at in 0..message.len() {
                for byte in (0..=255).step_by(3) {
                    bytes.clear();
                    bytes.extend_from_slice(message.as_bytes());
                    bytes[at] = byte;
                    host.take(&bytes);
                    host.take(b"\n");
                    host.assert_alive();
                }
                host.take(&message.as_bytes()[..at]);
                host.take(b"\n");
                host.assert_alive();
                host.drain();
                for request in host.requests.drain(..) {
                    host.connection.connection_mut().respond(request, Response::Cancelled).unwrap();
                }
            }
        }
    }
}
