//! DAP: what the vectors can't show. Numbers of messages that wait, and errors through a relay.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "other tests use the rest of what they share")]

mod support;

use protocol_core::{CancelOutcome, Config, Dialect, Reply};
use support::{Host, raw};

const INITIALIZE: &str = r#"{"seq":1,"type":"request","command":"initialize"}"#;
const INITIALIZED: &str = r#"{"seq":1,"type":"response","request_seq":1,"command":"initialize","success":true,"body":{"supportsCancelRequest":true}}"#;

/// A tool whose adapter can be asked to cancel.
fn tool() -> Host {
    let mut tool = Host::new(Config::client(Dialect::DAP));
    tool.sent_call("initialize");
    tool.receive(INITIALIZED);
    tool
}

fn asked(seq: u32, command: &str) -> String {
    format!(r#"{{"seq":{seq},"type":"request","command":"{command}"}}"#)
}

#[test]
fn g04_a_withdrawn_call_leaves_a_gap_and_a_cancel_overtakes_nothing() {
    let mut tool = tool();
    let work = tool.sent_call("work");
    let withdrawn = tool.call("withdrawn");
    tool.call("next");
    assert_eq!(tool.cancel(work), CancelOutcome::Sent);
    assert_eq!(tool.cancel(withdrawn), CancelOutcome::Withdrawn);
    let cancel = r#"{"seq":5,"type":"request","command":"cancel","arguments":{"requestId":2}}"#;
    assert_eq!(tool.sent(), [&asked(4, "next"), cancel]);
}

#[test]
fn b05_a_cancel_with_the_number_of_a_request_in_flight_is_refused() {
    let mut adapter = Host::new(Config::server(Dialect::DAP));
    adapter.receive(INITIALIZE);
    adapter
        .respond(adapter.request(1), Reply::Result(raw(r#"{"supportsCancelRequest":true}"#)))
        .unwrap();
    adapter.receive(&asked(7, "work"));
    adapter.sent();
    adapter.receive(r#"{"seq":7,"type":"request","command":"cancel","arguments":{"requestId":7}}"#);
    let refused = adapter.sent();
    assert!(refused[0].contains(r#""request_seq":7,"command":"cancel","success":false"#));
    assert!(adapter.conn.machine().request_cause(adapter.request(2)).is_none());
}
