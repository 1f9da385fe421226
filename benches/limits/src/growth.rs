//! Work that must not grow with a limit (F81): the same step with few and with many remembered ids, early
//! cancels or owners of a progress token.

use std::time::Duration;

use bench_harness::heap;
use protocol_core::{
    CallOptions, Cause, Config, Connection, Dialect, Event, RequestHandle, Response, Timestamp,
};
use serde_json::value::RawValue;

const NOW: Timestamp = Timestamp::ZERO;

/// Does a step so many times beside so many remembered entries. Returns its allocations.
///
/// # Panics
///
/// If there is no such step.
pub(crate) fn some(step: &str, many: usize, times: usize) -> u64 {
    let begin = match step {
        "reused-id" => reused_id,
        "early-cancel" => early_cancel,
        "withheld-progress" => withheld_progress,
        "shared-progress" => shared_progress,
        _ => panic!("asked for {step}"),
    };
    let mut step = begin(many);
    heap::count(|| (0..times).for_each(|_| step())).allocations
}

/// A connection with room for all, and the buffer that it writes to.
struct Host {
    conn: Connection<()>,
    out: Vec<u8>,
}

impl Host {
    fn new(mut config: Config, many: usize) -> Self {
        let limits = &mut config.limits;
        (limits.calls, limits.requests) = (many + 2, many + 2);
        (limits.abandoned_ids, limits.early_cancels) = (many, many);
        Self { conn: Connection::new(config), out: Vec::with_capacity(1 << 10) }
    }

    fn request(&mut self, message: &str) -> RequestHandle {
        match self.conn.receive(message.as_bytes(), NOW) {
            Some(Event::Request { request, .. }) => request,
            event => panic!("{message} is a request, and not {event:?}"),
        }
    }

    fn respond(&mut self, request: RequestHandle) {
        self.conn.respond(request, Response::Result(RawValue::TRUE)).expect("it is unanswered");
        self.drain();
    }

    fn drain(&mut self) {
        while self.conn.poll_event().is_some() {}
        while self.conn.poll_transmit(&mut self.out).is_some() {
            self.out.clear();
        }
    }
}

/// A request whose id was used before, where answered ids are remembered.
fn reused_id(many: usize) -> Box<dyn FnMut()> {
    let mut host = Host::new(Config::server(Dialect::ABP), many);
    let request = host.request(r#"{"type":"initialize","id":"0","timestamp":0,"payload":{}}"#);
    host.conn.respond(request, Response::Result(object())).expect("it is unanswered");
    host.drain();
    let ask = |id: usize| {
        format!(
            r#"{{"type":"capabilities/call","id":"{id}","timestamp":0,"payload":{{"capability":"a"}}}}"#
        )
    };
    for id in 0..many {
        let request = host.request(&ask(100_000 + id));
        host.respond(request);
    }
    let message = ask(100_000 + many / 2);
    Box::new(move || {
        let request = host.request(&message);
        host.respond(request);
    })
}

/// A cancel that comes before its request, and the request.
fn early_cancel(many: usize) -> Box<dyn FnMut()> {
    let mut host = Host::new(Config::server(Dialect::MCP_2025_11_25_HTTP), many);
    let cancel = |id: usize| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
        )
    };
    for id in 0..many {
        assert!(host.conn.receive(cancel(100_000 + id).as_bytes(), NOW).is_none());
    }
    let (cancel, ask) = (cancel(7), r#"{"jsonrpc":"2.0","id":7,"method":"tools/call"}"#);
    Box::new(move || {
        assert!(host.conn.receive(cancel.as_bytes(), NOW).is_none());
        let request = host.request(ask);
        host.respond(request);
    })
}

/// A progress notification of ours under a token that many requests share. All but one are cancelled, so
/// it is sent.
fn withheld_progress(many: usize) -> Box<dyn FnMut()> {
    let mut host = Host::new(Config::server(Dialect::MCP_2026_07_28), many);
    for id in 0..many {
        let request = host.request(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"m","params":{{"_meta":{{"progressToken":"t"}}}}}}"#
        ));
        if id + 1 < many {
            host.conn.cancel_request(request, Cause::Peer, NOW);
        }
        host.drain();
    }
    let params = r#"{"progressToken":"t","progress":1}"#;
    let params: Box<RawValue> = serde_json::from_str(params).expect("it is JSON");
    Box::new(move || {
        host.conn.notify("notifications/progress", Some(&params)).expect("one still wants it");
        host.drain();
    })
}

/// A progress notification of the peer's under a token that many calls of ours with idle timeouts share.
fn shared_progress(many: usize) -> Box<dyn FnMut()> {
    let mut host = Host::new(Config::client(Dialect::ACP_V1), many);
    let params = r#"{"sessionId":"s"}"#;
    let params: Box<RawValue> = serde_json::from_str(params).expect("it is JSON");
    let options = CallOptions::default().idle_timeout(Duration::from_secs(60));
    for _ in 0..many {
        host.conn.call("session/prompt", Some(&params), (), options, NOW).expect("there is room");
        host.drain();
    }
    let message =
        r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":1}}"#;
    let mut now = NOW;
    Box::new(move || {
        now = now + Duration::from_millis(1);
        let event = host.conn.receive(message.as_bytes(), now);
        assert!(matches!(event, Some(Event::Notification { .. })));
    })
}

fn object() -> &'static RawValue {
    serde_json::from_str("{}").expect("it is JSON")
}
