//! F84 and G8: a relay never holds more than its formula. A counting allocator drives each of its own
//! parts to its worst.

use std::fmt::Write;
use std::time::Duration;

use heap::Heap;
use protocol_core::{
    CallId, CallOptions, Config, Connection, Dialect, Limits, RequestHandle, Timestamp,
};
use protocol_relay::{Guard, Relay, Side};

const NOW: Timestamp = Timestamp::ZERO;

/// A relay whose heap is watched.
struct Watched {
    relay: Relay,
    heap: Heap,
    limits: [Limits; 2],
    out: Vec<u8>,
}

fn limits(change: impl FnOnce(&mut Limits)) -> Limits {
    let mut limits = Limits::default();
    limits.message_bytes = 1 << 10;
    limits.id_bytes = 64;
    limits.calls = 4;
    limits.requests = 4;
    limits.abandoned_ids = 4;
    limits.early_cancels = 4;
    limits.batch_members = 4;
    limits.unsent_bytes = 4 << 10;
    limits.unsent_messages = 64;
    change(&mut limits);
    limits
}

impl Watched {
    fn new(up: (Dialect, Limits), down: (Dialect, Limits)) -> Self {
        let out = Vec::with_capacity(1 << 22);
        let limits = [up.1, down.1];
        let [up, down] = [up, down].map(|(dialect, limits)| {
            let mut config = Config::client(dialect);
            config.limits = limits;
            config
        });
        let heap = Heap::of_thread();
        Self { relay: Relay::new(up, down), heap, limits, out }
    }

    /// Receives one message, and returns whether it led to an event.
    fn receive(&mut self, side: Side, message: &str) -> bool {
        let received = self.relay.receive(side, message.as_bytes(), NOW);
        assert_eq!(received.consumed, message.len());
        received.event.is_some()
    }

    fn poll_events(&mut self) -> usize {
        std::iter::from_fn(|| self.relay.poll_event()).count()
    }

    fn send(&mut self, side: Side) {
        self.out.clear();
        while self.relay.poll_transmit(side, &mut self.out).is_some() {
            self.out.clear();
        }
        self.poll_events();
    }

    /// Asserts that all was under the formula.
    #[track_caller]
    fn check(&self) {
        let [up, down] = &self.limits;
        let (peak, formula) = (self.heap.peak(), Relay::memory(up, down));
        println!("peak {peak}, formula {formula}");
        assert!(peak <= formula, "{peak} bytes at the worst, and the formula has {formula}");
    }

    /// Asserts that so many events wait. Their memory must be under the relay's own part of the formula, and
    /// near enough to prove it.
    #[track_caller]
    fn check_events(&mut self, expected: usize) {
        self.check();
        let before = self.heap.held();
        assert_eq!(self.poll_events(), expected);
        let (events, own) = (before - self.heap.held(), self.own_part());
        println!("events {events}, own part {own}");
        assert!(events <= own, "{events} bytes of events, and the formula has {own}");
        assert!(events * 4 >= own, "only {events} bytes of {own}: this proves nothing");
    }

    fn own_part(&self) -> usize {
        let [up, down] = &self.limits;
        Relay::memory(up, down) - [up, down].map(connection).iter().sum::<usize>()
    }
}

fn connection(limits: &Limits) -> usize {
    Connection::<RequestHandle, Option<CallId>>::memory(limits)
}

/// Returns an id of this many bytes that is written with escapes.
fn long_id(number: usize, bytes: usize) -> String {
    format!("\"\\n{number:08}{}\"", "x".repeat(bytes - 12))
}

fn request(id: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"m\"}}\n")
}

/// Every request is timed out, and no response to it fits: each has two events at once.
#[test]
fn f84_g08_events_about_every_request_at_once() {
    let many = |limits: &mut Limits| {
        limits.requests = 2_000;
        limits.calls = 2_000;
        limits.id_bytes = 512;
        limits.message_bytes = 2 << 10;
    };
    let up = limits(|limits| {
        many(limits);
        limits.unsent_bytes = 50;
    });
    let down = limits(|limits| {
        many(limits);
        limits.unsent_bytes = 1 << 20;
        limits.unsent_messages = 4_000;
    });
    let mut it = Watched::new((Dialect::JSON_RPC, up), (Dialect::ACP_V1, down));
    it.relay.guard(Side::Up, Guard::new(CallOptions::default().timeout(Duration::from_secs(1))));
    for number in 0..2_000 {
        assert!(!it.receive(Side::Up, &request(&long_id(number, 512))));
    }
    it.send(Side::Down);
    it.relay.handle_timeout(NOW + Duration::from_secs(2));
    assert_eq!(it.relay.connection(Side::Up).machine().requests_in_flight(), 0);
    it.check_events(2 * 2_000);
}

/// The client does not read, and the server responds to everything.
#[test]
fn f84_g08_own_responses_that_wait_for_room() {
    let many = limits(|limits| {
        limits.requests = 4_000;
        limits.calls = 4_000;
        limits.unsent_bytes = 1 << 20;
        limits.unsent_messages = 8_000;
    });
    let mut few = many;
    few.unsent_messages = 1;
    let mut it = Watched::new((Dialect::JSON_RPC, few), (Dialect::JSON_RPC, many));
    for number in 0..4_000 {
        it.receive(Side::Up, &request(&long_id(number, 64)));
    }
    it.send(Side::Down);
    for number in 1..=4_000 {
        it.receive(Side::Down, &format!("{{\"jsonrpc\":\"2.0\",\"id\":{number},\"result\":1}}\n"));
        it.poll_events();
    }
    assert_eq!(it.relay.connection(Side::Up).machine().requests_in_flight(), 3_999);
    it.check();

    it.send(Side::Up);
    assert_eq!(it.relay.connection(Side::Up).machine().requests_in_flight(), 0);
    assert!(it.heap.held() < 64 << 10, "{} bytes are kept", it.heap.held());
}

/// Every member of a batch is refused, and no response to it fits: each has two events at once.
#[test]
fn f84_g08_a_batch_of_which_nothing_is_forwarded() {
    let up = limits(|limits| {
        limits.batch_members = 2_000;
        limits.id_bytes = 512;
        limits.message_bytes = 1_200_000;
        limits.unsent_bytes = 0;
    });
    let down = limits(|limits| limits.calls = 0);
    let mut it = Watched::new((Dialect::JSON_RPC, up), (Dialect::JSON_RPC, down));
    let members: Vec<_> = (0..2_000).map(|number| request(&long_id(number, 512))).collect();
    let batch = format!("[{}]\n", members.join(",").replace('\n', ""));
    it.heap = Heap::of_thread();
    assert!(it.receive(Side::Up, &batch));
    it.check_events(2 * 2_000 - 1);
}

/// Members of params cost no more than their text, however many there are.
#[test]
fn f84_g08_a_notification_that_is_translated() {
    let many = limits(|limits| {
        limits.message_bytes = 1 << 20;
        limits.unsent_bytes = 1 << 20;
    });
    let mut it = Watched::new((Dialect::DAP, many), (Dialect::DAP, many));
    let mut body = String::from("{\"requestId\":7");
    for number in 0..80_000 {
        write!(body, ",\"{number:x}\":0").expect("it is a string");
    }
    let message = format!(r#"{{"seq":1,"type":"event","event":"progressStart","body":{body}}}}}"#);
    let framed = format!("Content-Length: {}\r\n\r\n{message}", message.len());
    it.heap = Heap::of_thread();
    assert!(!it.receive(Side::Down, &framed));
    assert!(it.relay.connection(Side::Up).unsent_bytes() > message.len() / 10 * 9, "forwarded");
    it.check();
    assert!(it.heap.peak() < 4 * message.len(), "{} of {} bytes", it.heap.peak(), message.len());
}

/// A result has the id of its own request in it.
#[test]
fn f84_g08_a_result_that_is_translated() {
    let many = limits(|limits| {
        limits.message_bytes = 1 << 20;
        limits.unsent_bytes = 1 << 20;
    });
    let mut it = Watched::new((Dialect::MCP_2026_07_28, many), (Dialect::MCP_2026_07_28, many));
    it.receive(Side::Up, &request("1"));
    it.send(Side::Down);
    let text = "x".repeat(900_000);
    let meta = format!(r#"{{"io.modelcontextprotocol/subscriptionId":1,"a":"{text}"}}"#);
    let message = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{{\"_meta\":{meta}}}}}\n");
    it.heap = Heap::of_thread();
    assert!(!it.receive(Side::Down, &message));
    assert!(it.relay.connection(Side::Up).unsent_bytes() > text.len(), "forwarded");
    it.check();
}

/// The client stops everything that the server reports, and the server does not read.
#[test]
fn f84_g08_stops_that_wait_for_room() {
    let many = limits(|limits| limits.works = 500);
    let mut few = many;
    few.unsent_messages = 1;
    let mut it = Watched::new((Dialect::LSP_3_17, many), (Dialect::LSP_3_17, few));
    let framed = |method: &str, params: &str| {
        let message = format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#);
        format!("Content-Length: {}\r\n\r\n{message}", message.len())
    };
    let begin = r#""value":{"kind":"begin","title":"t"}"#;
    for token in 0..500 {
        it.receive(Side::Down, &framed("$/progress", &format!(r#"{{"token":{token},{begin}}}"#)));
        it.send(Side::Up);
    }
    for token in 0..500 {
        let stop = format!(r#"{{"token":{token}}}"#);
        it.receive(Side::Up, &framed("window/workDoneProgress/cancel", &stop));
        it.poll_events();
    }
    it.check();
    let mut sent = 0;
    while it.relay.poll_transmit(Side::Down, &mut it.out).is_some() {
        it.out.clear();
        sent += 1;
    }
    assert_eq!(sent, 500, "each stop is sent once");
    it.check();
}

#[test]
fn f84_a_relay_holds_both_connections_and_a_part_of_its_own() {
    let [up, down] = [limits(|_| {}), limits(|limits| limits.requests = 100)];
    assert!(Relay::memory(&up, &down) > connection(&up) + connection(&down));
    let mut most = up;
    most.requests = usize::MAX;
    assert_eq!(Relay::memory(&most, &down), usize::MAX, "it does not overflow");
}
