//! F81: no input costs time that is linear in a limit. `benches/budget.sh` holds the same by counting
//! instructions.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a test may look at a clock"
)]

#[path = "suite/support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use protocol_core::{
    CallOptions, Cause, Config, Connection, Dialect, Event, RequestHandle, Response, Timestamp,
};
use support::raw;

const NOW: Timestamp = Timestamp::ZERO;
const FEW: usize = 10;
const MANY: usize = 30_000;
/// A step beside many may take so many times as long as one beside few: a logarithm, and a busy machine.
const TIMES: u32 = 8;

fn connection(mut config: Config, many: usize) -> Connection<()> {
    let limits = &mut config.limits;
    (limits.calls, limits.requests) = (many + 2, many + 2);
    (limits.abandoned_ids, limits.early_cancels) = (many, many);
    Connection::new(config)
}

fn request(conn: &mut Connection<()>, message: &str) -> RequestHandle {
    let Some(Event::Request { request, .. }) = conn.receive(message.as_bytes(), NOW) else {
        panic!("no request: {message}");
    };
    request
}

fn respond(conn: &mut Connection<()>, request: RequestHandle) {
    conn.respond(request, Response::Result(raw("{}"))).unwrap();
    drain(conn);
}

fn drain(conn: &mut Connection<()>) {
    while conn.poll_event().is_some() {}
    while conn.poll_transmit(&mut Vec::new()).is_some() {}
}

/// Compares what a step takes beside few and beside many, of several rounds the least disturbed.
fn grows_little<F: FnMut()>(begin: impl Fn(usize) -> F) {
    let [few, many] = [FEW, MANY].map(|count| {
        let mut step = begin(count);
        let rounds = (0..5).map(|_| {
            let begun = Instant::now();
            (0..20).for_each(|_| step());
            begun.elapsed()
        });
        rounds.min().unwrap().max(Duration::from_micros(1))
    });
    assert!(many <= few * TIMES, "{few:?} beside {FEW}, and {many:?} beside {MANY}");
}

#[test]
fn f81_a_request_that_reuses_an_id_costs_the_same_however_many_are_remembered() {
    grows_little(|many| {
        let mut conn = connection(Config::server(Dialect::ABP), many);
        let opened = r#"{"type":"initialize","id":"0","timestamp":0,"payload":{}}"#;
        let opened = request(&mut conn, opened);
        respond(&mut conn, opened);
        let ask = |id: usize| {
            let payload = r#"{"capability":"a"}"#;
            format!(
                r#"{{"type":"capabilities/call","id":"{id}","timestamp":0,"payload":{payload}}}"#
            )
        };
        for id in 0..many {
            let request = request(&mut conn, &ask(id));
            respond(&mut conn, request);
        }
        move || {
            let request = request(&mut conn, &ask(many / 2));
            respond(&mut conn, request);
        }
    });
}

#[test]
fn f81_an_early_cancel_and_its_request_cost_the_same_however_many_are_remembered() {
    grows_little(|many| {
        let mut conn = connection(Config::server(Dialect::MCP_2025_11_25_HTTP), many);
        let cancel = |id: usize| {
            let params = format!(r#"{{"requestId":{id}}}"#);
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}"#)
        };
        for id in 0..many {
            assert!(conn.receive(cancel(100_000 + id).as_bytes(), NOW).is_none());
        }
        move || {
            assert!(conn.receive(cancel(7).as_bytes(), NOW).is_none());
            let request = request(&mut conn, r#"{"jsonrpc":"2.0","id":7,"method":"m"}"#);
            respond(&mut conn, request);
        }
    });
}

#[test]
fn f81_progress_of_ours_costs_the_same_however_many_requests_share_its_token() {
    grows_little(|many| {
        let mut conn = connection(Config::server(Dialect::MCP_2026_07_28), many);
        for id in 0..many {
            let params = r#"{"_meta":{"progressToken":"t"}}"#;
            let message =
                format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m","params":{params}}}"#);
            let request = request(&mut conn, &message);
            if id + 1 < many {
                conn.cancel_request(request, Cause::Peer, NOW);
            }
            drain(&mut conn);
        }
        move || {
            let params = raw(r#"{"progressToken":"t","progress":1}"#);
            conn.notify("notifications/progress", Some(params)).unwrap();
            drain(&mut conn);
        }
    });
}

#[test]
fn f81_progress_of_the_peers_costs_the_same_however_many_calls_share_its_token() {
    grows_little(|many| {
        let mut conn = connection(Config::client(Dialect::ACP_V1), many);
        let options = CallOptions::default().idle_timeout(support::millis(60_000));
        for _ in 0..many {
            let params = raw(r#"{"sessionId":"s"}"#);
            conn.call("session/prompt", Some(params), (), options, NOW).unwrap();
            drain(&mut conn);
        }
        let mut now = NOW;
        move || {
            now = now + support::millis(1);
            let params = r#"{"sessionId":"s"}"#;
            let message =
                format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{params}}}"#);
            let event = conn.receive(message.as_bytes(), now);
            assert!(matches!(event, Some(Event::Notification { .. })));
        }
    });
}
