//! F1 and G8: the heap of a connection stays under the formula. A counting allocator drives each limit to its worst.

use std::fmt::Write;

use crate::support::colliding::colliding_ids;
use crate::support::{millis, raw};
use heap::Heap;
use protocol_core::{
    CallOptions, Cause, CloseReason, Config, Connection, Dialect, Event, Grace, Limits, Refusal,
    RequestHandle, Response, Shutdown, Timestamp,
};

const NOW: Timestamp = Timestamp::ZERO;

/// A connection whose heap is watched.
struct Watched {
    conn: Connection<u64, u64>,
    heap: Heap,
    formula: usize,
    out: Vec<u8>,
}

/// Returns small limits. Each test raises the one that it is about.
fn limits(change: impl FnOnce(&mut Limits)) -> Limits {
    let mut limits = Limits::default();
    limits.message_bytes = 1 << 10;
    limits.id_bytes = 64;
    limits.calls = 4;
    limits.requests = 4;
    limits.abandoned_ids = 4;
    limits.early_cancels = 4;
    limits.works = 4;
    limits.batch_members = 4;
    limits.unsent_bytes = 4 << 10;
    limits.unsent_messages = 64;
    change(&mut limits);
    limits
}

impl Watched {
    fn new(mut config: Config, limits: Limits) -> Self {
        config.limits = limits;
        let out = Vec::with_capacity(1 << 22);
        let heap = Heap::of_thread();
        let formula = Connection::<u64, u64>::memory(&limits);
        Self { conn: Connection::new(config), heap, formula, out }
    }

    fn server(dialect: Dialect, change: impl FnOnce(&mut Limits)) -> Self {
        Self::new(Config::server(dialect), limits(change))
    }

    fn client(dialect: Dialect, change: impl FnOnce(&mut Limits)) -> Self {
        Self::new(Config::client(dialect), limits(change))
    }

    /// Takes a message. Returns the handles of the requests that it makes.
    fn receive(&mut self, message: &str) -> Vec<RequestHandle> {
        let mut requests = Vec::new();
        let mut next = self.conn.receive(message.as_bytes(), NOW);
        while let Some(event) = next {
            if let Event::Request { request, .. } = event {
                requests.push(request);
            }
            next = self.conn.poll_event();
        }
        requests
    }

    /// Takes a message that makes one request, and returns its handle.
    fn request(&mut self, message: &str) -> RequestHandle {
        self.receive(message)[0]
    }

    fn drain(&mut self) {
        self.out.clear();
        while self.conn.poll_transmit(&mut self.out).is_some() {
            self.out.clear();
        }
        while self.conn.poll_event().is_some() {}
    }

    /// Returns the number of bytes that are held now.
    fn held(&self) -> usize {
        self.heap.held()
    }

    /// Asserts that the peak was under the formula, and near enough to it to prove anything.
    #[track_caller]
    fn check(self, own: usize, at_least: f64) {
        let peak = self.heap.peak() - own.min(self.held());
        let part = peak as f64 / self.formula as f64;
        println!("peak {peak}, formula {}: {part:.2}", self.formula);
        assert!(
            peak <= self.formula,
            "{peak} bytes at the worst, and the formula says {}",
            self.formula
        );
        assert!(part >= at_least, "only {part:.3} of the formula: this proves nothing");
    }

    /// Drains all outputs. Returns the number of bytes that are still held.
    fn empty(&mut self) -> usize {
        self.drain();
        self.held()
    }
}

fn request(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#)
}

/// Returns an id of this many bytes that is written with escapes.
fn long_id(number: usize, bytes: usize) -> String {
    format!("\"\\n{number:08}{}\"", "x".repeat(bytes - 12))
}

/// The price of 1,024 of each limit, on machines of 64 bits: a row that became larger shows here.
#[test]
#[cfg(target_pointer_width = "64")]
fn g08_the_price_of_each_limit_is_known() {
    let formula = |change: &dyn Fn(&mut Limits)| Connection::<u64, u64>::memory(&limits(change));
    let price = |change: &dyn Fn(&mut Limits, usize)| {
        let [none, many] = [0, 1_024].map(|many| formula(&|it| change(it, many)));
        many - none
    };
    for (limit, price, many) in [
        ("calls", 2_571_920, price(&|it, many| it.calls = many)),
        ("requests", 3_058_576, price(&|it, many| it.requests = many)),
        ("bytes of an id", 219_798, price(&|it, many| it.id_bytes = many)),
        ("abandoned ids", 1_673_312, price(&|it, many| it.abandoned_ids = many)),
        ("early cancels", 462_912, price(&|it, many| it.early_cancels = many)),
        ("works", 1_803_152, price(&|it, many| it.works = many)),
        ("members of a batch", 1_330_112, price(&|it, many| it.batch_members = many)),
        ("unsent bytes", 1_728, price(&|it, many| it.unsent_bytes = (64 << 10) + many)),
        ("unsent messages", 125_904, price(&|it, many| it.unsent_messages = many)),
        ("bytes of a message", 2_048, price(&|it, many| it.message_bytes = (64 << 10) + many)),
    ] {
        assert_eq!(many, price, "{limit}");
    }
    assert_eq!(formula(&|_| {}), 121_874, "the formula of these limits");
}

#[test]
fn f01_a_refused_message_gives_back_what_it_needed() {
    let big = format!("[\"{}\"]", "x".repeat(16 << 20));
    let mut it = Watched::client(Dialect::ACP_V1, |_| {});
    let refused = it.conn.notify("m", Some(raw(&big)));
    assert_eq!(refused, Err(Refusal::TooLarge));
    let call = it.conn.call("m", Some(raw(&big)), 7, CallOptions::default(), NOW);
    assert_eq!(call.map_err(|error| error.data), Err(7));
    assert!(it.held() < 1 << 10, "{} bytes", it.held());
    it.check(0, 0.0);
}

#[test]
fn f01_short_messages_are_not_kept_in_long_buffers() {
    let long = format!("[\"{}\"]", "x".repeat(400));
    let mut it = Watched::client(Dialect::ACP_V1, |limits| {
        limits.unsent_bytes = 56 << 10;
        limits.unsent_messages = 1_000;
    });
    for _ in 0..900 {
        it.conn.notify("m", None).unwrap();
    }
    // One leaves, one comes: each buffer of the queue would in turn become one that was long once.
    for turn in 0..150_000 {
        it.out.clear();
        it.conn.poll_transmit(&mut it.out);
        let is_long = turn % 97 == 0;
        it.conn.notify("m", is_long.then(|| raw(&long))).unwrap();
    }
    it.check(0, 0.2);
}

#[test]
fn f01_a_long_message_is_held_once_while_it_is_written() {
    let big = format!("[\"{}\"]", "x".repeat(1 << 20));
    let mut it = Watched::client(Dialect::ACP_V1, |limits| limits.unsent_bytes = 2 << 20);
    it.conn.notify("m", Some(raw(&big))).unwrap();
    let peak = it.heap.peak();
    assert!(peak < big.len() + (2 << 10), "{peak} bytes for a message of {}", big.len());
}

#[test]
fn f01_answered_requests_whose_calls_live_keep_no_ids() {
    let mut it = Watched::server(Dialect::ACP_V1, |limits| {
        limits.calls = 2_000;
        limits.requests = 1;
        limits.message_bytes = 64 << 10;
        limits.id_bytes = 60_000;
        limits.unsent_bytes = 128 << 10;
    });
    for number in 0..2_000 {
        let message = request(&long_id(number, 60_000));
        let request = it.request(&message);
        let options = CallOptions::default().parent(request);
        it.conn.call("c", None, 0, options, NOW).unwrap();
        it.conn.respond(request, Response::Result(raw("0"))).unwrap();
        it.drain();
    }
    // The ids are 120 MB together.
    let peak = it.heap.peak();
    assert!(peak < 4 << 20, "{peak} bytes");
    it.check(0, 0.0);
}

#[test]
fn f01_many_small_messages_count_their_rows() {
    let mut it = Watched::client(Dialect::ACP_V1, |limits| {
        limits.unsent_bytes = 1 << 20;
        limits.unsent_messages = 20_000;
    });
    let mut sent = 0;
    while it.conn.notify("m", None).is_ok() {
        sent += 1;
    }
    assert_eq!(sent, 20_000, "the limit of messages ends it");
    it.drain();
    assert_eq!(it.conn.notify("m", None), Ok(()));
    it.drain();
    assert!(it.held() < 128 << 10, "an emptied outbox gives its memory back: {}", it.held());
    it.check(0, 0.2);
}

#[test]
fn f01_answers_that_nobody_reads_count_their_rows() {
    let mut it = Watched::server(Dialect::ACP_V1, |limits| {
        limits.unsent_bytes = 1 << 20;
        limits.unsent_messages = 10_000;
    });
    let mut answered = 0;
    loop {
        let asked = it.request(&request(&answered.to_string()));
        if it.conn.respond(asked, Response::Result(raw("1"))) == Err(Refusal::OutboxFull) {
            break;
        }
        answered += 1;
    }
    assert_eq!(answered, 10_000, "the limit of messages ends it");
    it.check(0, 0.2);
}

#[test]
fn f01_long_messages_that_come_and_go_leave_no_holes() {
    let big = format!("[\"{}\"]", "x".repeat(10_000));
    let mut it = Watched::client(Dialect::ACP_V1, |limits| {
        limits.unsent_bytes = 1 << 20;
        limits.unsent_messages = 200;
    });
    for _ in 0..500 {
        while it.conn.notify("m", Some(raw(&big))).is_ok() {}
        it.out.clear();
        it.conn.poll_transmit(&mut it.out);
    }
    let peak = it.heap.peak();
    assert!(peak < (1 << 20) + (64 << 10), "{peak} bytes for 1 MiB that may wait");
    it.check(0, 0.2);
}

#[test]
fn g08_calls_with_all_that_a_call_can_have() {
    let mut it = Watched::client(Dialect::MCP_2025_11_25, |limits| {
        limits.calls = 3_000;
        limits.unsent_bytes = 1 << 20;
        limits.unsent_messages = 6_000;
    });
    let options = CallOptions::default()
        .timeout(millis(50))
        .hard_cap(millis(60))
        .grace(protocol_core::Grace::Await);
    for round in 0..3 {
        let calls: Vec<_> =
            (0..3_000).map(|_| it.conn.call("c", None, round, options, NOW).unwrap()).collect();
        it.drain();
        for call in calls {
            it.conn.cancel(call, Cause::Caller, NOW);
        }
        if round == 1 {
            it.conn.shutdown(Shutdown::Drain, NOW);
        }
        it.conn.handle_timeout(Timestamp::from_millis(60));
        it.drain();
        if round == 1 {
            break;
        }
    }
    it.check(3_000 * 8, 0.1);
}

#[test]
fn g08_calls_with_tokens_and_timers_whose_parents_are_answered() {
    let mut it = Watched::server(Dialect::LSP_3_17, |limits| {
        limits.calls = 2_000;
        limits.requests = 2;
        limits.unsent_bytes = 1 << 20;
        limits.unsent_messages = 2_000;
    });
    let idle = CallOptions::default().timeout(millis(50)).idle_timeout(millis(60));
    for number in 0..2_000 {
        let request = it.request(&request(&number.to_string()));
        let [one, other] = ["w", "p"].map(|kind| format!("\"{kind}{number}\""));
        let params = format!(r#"{{"workDoneToken":{one},"partialResultToken":{other}}}"#);
        it.conn.call("c", Some(raw(&params)), number, idle.parent(request), NOW).unwrap();
        it.conn.respond(request, Response::Result(raw("0"))).unwrap();
        it.drain();
    }
    it.conn.shutdown(Shutdown::CancelAll, NOW);
    it.conn.handle_eof(NOW);
    it.check(200, 0.23);
}

#[test]
fn g08_requests_with_more_progress_tokens_than_count() {
    let mut dialect = Dialect::MCP_2026_07_28;
    let names: Vec<String> = (0..20).map(|place| format!("token{place}")).collect();
    let paths = names.iter().map(|name| vec![name.clone().into()].into());
    dialect.progress.to_mut()[0].tokens_of_call = paths.collect();
    let mut it = Watched::server(dialect, |limits| {
        limits.requests = 1_000;
        limits.message_bytes = 4 << 10;
    });
    for number in 0..1_000 {
        let token = |place: usize| long_id(20 * number + place, 64);
        let members = names.iter().zip(0..).map(|(name, at)| format!(r#""{name}":{}"#, token(at)));
        let params = members.collect::<Vec<_>>().join(",");
        it.receive(&format!(
            r#"{{"jsonrpc":"2.0","id":{number},"method":"m","params":{{{params}}}}}"#
        ));
    }
    it.check(0, 0.1);
}

#[test]
fn g08_calls_that_are_lost_together() {
    let mut it = Watched::client(Dialect::ACP_V1, |limits| {
        limits.calls = 3_000;
        limits.unsent_bytes = 1 << 20;
        limits.unsent_messages = 6_000;
    });
    for number in 0..3_000 {
        it.conn.call("c", None, number, CallOptions::default(), NOW).unwrap();
    }
    it.conn.handle_eof(NOW);
    let lost = std::iter::from_fn(|| it.conn.poll_event()).count();
    assert_eq!(lost, 3_001);
    it.check(0, 0.1);
}

/// Returns the most bytes that requests with these ids take, where the limit is their number.
fn peak_of_requests(ids: &[String]) -> usize {
    let mut it = Watched::server(Dialect::ACP_V1, |limits| {
        limits.requests = ids.len();
        limits.id_bytes = 500;
    });
    it.heap = Heap::of_thread();
    let requests: Vec<_> = ids.iter().map(|id| it.request(&request(id))).collect();
    it.conn.handle_eof(NOW);
    it.drain();
    for request in requests {
        it.conn.respond(request, Response::Cancelled).unwrap();
        it.drain();
    }
    let peak = it.heap.peak();
    it.check(0, 0.05);
    peak
}

#[test]
fn g08_requests_with_the_longest_ids_that_collide() {
    let apart: Vec<String> = (0..1_000).map(|number| long_id(number, 500)).collect();
    let [apart, colliding] = [apart, colliding_ids(1_000, 500)].map(|ids| peak_of_requests(&ids));
    // Those that collide are held twice, in their rows and in the index's tree; or else they don't collide.
    assert!(colliding > apart + 1_000 * 500, "{colliding} bytes, and {apart} of ids that don't");
}

#[test]
fn g08_requests_in_the_envelope_that_says_more_than_an_id() {
    let mut it = Watched::server(Dialect::ABP, |limits| {
        limits.requests = 500;
        limits.abandoned_ids = 500;
        limits.id_bytes = 400;
        limits.message_bytes = 8 << 10;
    });
    it.request(r#"{"type":"initialize","id":"0","timestamp":0,"payload":{}}"#);
    let opened = it.conn.requests().map(|(request, _)| request).next().unwrap();
    it.conn.respond(opened, Response::Result(raw("{}"))).unwrap();
    it.drain();
    for round in 0..2 {
        let mut requests = Vec::with_capacity(500);
        for number in 0..500 {
            let id = long_id(round * 1_000 + number, 400);
            let options = format!(r#"{{"callId":{id}}}"#);
            let payload = format!(r#"{{"capability":"a","options":{options}}}"#);
            let message = format!(
                r#"{{"type":"capabilities/call","id":{id},"timestamp":0,"payload":{payload}}}"#
            );
            requests.extend(it.receive(&message));
        }
        for request in requests {
            it.conn.respond(request, Response::Result(raw("1"))).unwrap();
            it.drain();
        }
    }
    it.check(8_000, 0.05);
}

#[test]
fn g08_requests_whose_answers_repeat_their_command() {
    let mut it = Watched::server(Dialect::DAP, |limits| {
        limits.requests = 500;
        limits.abandoned_ids = 500;
        limits.id_bytes = 400;
    });
    let opened = it.request(r#"{"seq":1,"type":"request","command":"initialize"}"#);
    it.conn.respond(opened, Response::Result(raw(r#"{"supportsCancelRequest":true}"#))).unwrap();
    it.drain();
    for round in 0..2 {
        let mut requests = Vec::with_capacity(500);
        for number in 0..500 {
            let (seq, command) = (2 + round * 1_000 + number, "a".repeat(400));
            let message = format!(r#"{{"seq":{seq},"type":"request","command":"{command}"}}"#);
            requests.extend(it.receive(&message));
        }
        for request in requests {
            it.conn.respond(request, Response::Result(raw("1"))).unwrap();
            it.drain();
        }
    }
    it.check(8_000, 0.03);
}

#[test]
fn g08_cancels_that_come_before_their_requests() {
    let mut it = Watched::server(Dialect::MCP_2025_11_25_HTTP, |limits| {
        limits.early_cancels = 300;
        limits.id_bytes = 400;
        limits.message_bytes = 8 << 10;
    });
    for number in 0..1_000 {
        let id = long_id(number, 400);
        it.receive(&format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
        ));
    }
    it.check(2_000, 0.2);
}

#[test]
fn g08_progress_tokens_of_requests_that_ended_in_silence() {
    let mut silent = Watched::server(Dialect::MCP_2026_07_28, |limits| {
        limits.abandoned_ids = 300;
        limits.requests = 100;
        limits.id_bytes = 400;
        limits.message_bytes = 8 << 10;
    });
    for number in 0..1_000 {
        let token = long_id(number, 400);
        let meta = format!(r#"{{"_meta":{{"progressToken":{token}}}}}"#);
        let message = format!(r#"{{"jsonrpc":"2.0","id":{number},"method":"m","params":{meta}}}"#);
        let request = silent.request(&message);
        silent.conn.cancel_request(request, Cause::Peer, NOW);
        silent.conn.respond(request, Response::Cancelled).unwrap();
        silent.drain();
    }
    // The formula has three memories of names at their limit, and this fills only one of them.
    silent.check(2_000, 0.1);
}

#[test]
fn g08_a_batch_is_copied_once_and_its_answers_are_bounded() {
    let mut it = Watched::server(Dialect::JSON_RPC, |limits| {
        limits.requests = 1_000;
        limits.batch_members = 1_000;
        limits.message_bytes = 1 << 20;
        limits.unsent_bytes = 256 << 10;
        limits.unsent_messages = 1_000;
    });
    let mut batch = String::from("[");
    for number in 0..1_000 {
        let comma = if number == 0 { "" } else { "," };
        let text = "x".repeat(400);
        write!(
            batch,
            r#"{comma}{{"jsonrpc":"2.0","id":{number},"method":"m","params":["{text}"]}}"#
        )
        .unwrap();
    }
    batch.push(']');
    it.heap = Heap::of_thread();
    let requests = it.receive(&batch);
    assert_eq!(requests.len(), 1_000);
    let answer = format!("\"{}\"", "y".repeat(400));
    for request in requests {
        while it.conn.respond(request, Response::Result(raw(&answer))).is_err() {
            it.drain();
        }
    }
    it.check(0, 0.08);
}

#[test]
fn g08_operations_that_are_all_cancelled() {
    let mut it = Watched::server(Dialect::ERLMCP, |limits| {
        limits.requests = 1_000;
        limits.unsent_bytes = 1 << 20;
        limits.unsent_messages = 2_000;
    });
    for number in 0..1_000_u32 {
        let message = format!(r#"{{"jsonrpc":"2.0","id":{number},"method":"tool/call"}}"#);
        let request = it.request(&message);
        let mut entropy = [0; 16];
        entropy[..4].copy_from_slice(&number.to_be_bytes());
        it.conn.begin_operation(request, entropy).unwrap();
    }
    it.conn.shutdown(Shutdown::CancelAll, NOW);
    it.check(0, 0.05);
}

/// The cancel of an operation, or the stop of a turn, is sent above the limit and long after its call settled.
#[test]
fn g08_names_that_come_after_their_calls_settled() {
    let name = format!("\"{}\"", "x".repeat(254));
    let [turn, token] = ["sessionId", "cancellationToken"].map(|it| format!("{{\"{it}\":{name}}}"));
    for (dialect, method, params, result) in [
        (Dialect::ERLMCP, "tool/call", "{}", token.as_str()),
        (Dialect::ACP_V2, "session/prompt", &turn, "{}"),
    ] {
        let mut it = Watched::client(dialect, |it| {
            (it.calls, it.works, it.abandoned_ids, it.id_bytes) = (1, 1_000, 1_000, 256);
        });
        for _ in 0..1_000 {
            let grace = CallOptions::default().grace(Grace::Settle(millis(0)));
            let call = it.conn.call(method, Some(raw(params)), 0, grace, NOW).unwrap();
            it.drain();
            it.conn.cancel(call, Cause::Caller, NOW);
            it.drain();
        }
        let late = |id| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
        (1..=1_000).for_each(|id| drop(it.receive(&late(id))));
        it.check(0, 0.06);
    }
}

#[test]
fn g08_everything_is_given_back() {
    let mut it = Watched::server(Dialect::JSON_RPC, |limits| {
        limits.calls = 100;
        limits.requests = 100;
        limits.unsent_bytes = 1 << 20;
        limits.unsent_messages = 1_000;
    });
    for number in 0..100 {
        it.conn.call("c", None, 0, CallOptions::default(), NOW).unwrap();
        it.receive(&request(&long_id(number, 64)));
    }
    it.conn.handle_eof(NOW);
    let reason = std::iter::from_fn(|| it.conn.poll_event()).last();
    assert!(matches!(reason, Some(Event::Closed { reason: CloseReason::PeerGone })));
    let requests: Vec<_> = it.conn.requests().map(|(request, _)| request).collect();
    for request in requests {
        it.conn.respond(request, Response::Cancelled).unwrap();
    }
    // Small tables stay for the next ones; nothing that grew with the load's content does.
    assert!(it.empty() < 64 << 10, "{} bytes", it.held());
}

#[test]
fn g08_large_tables_are_given_back_once_they_are_empty() {
    let mut it = Watched::server(Dialect::JSON_RPC, |limits| {
        limits.calls = 20_000;
        limits.requests = 20_000;
        limits.unsent_bytes = 16 << 20;
        limits.unsent_messages = 50_000;
    });
    let mut requests = Vec::new();
    for number in 0..20_000 {
        it.conn.call("c", None, 0, CallOptions::default(), NOW).unwrap();
        requests.extend(it.receive(&request(&number.to_string())));
    }
    it.drain();
    for request in requests {
        it.conn.respond(request, Response::Result(raw("1"))).unwrap();
        it.drain();
    }
    for number in 1..=20_000 {
        it.receive(&format!(r#"{{"jsonrpc":"2.0","id":{number},"result":1}}"#));
    }
    assert!(it.empty() < 64 << 10, "{} bytes", it.held());
}
