//! DAP: what the vectors can't show. Numbers of messages that wait, and errors through a relay.

use crate::support::{Host, raw};
use protocol_core::{
    CancelOutcome, CancelRefusal, Config, Dialect, Event, Outcome, Response, Timestamp,
};

const INITIALIZE: &str = r#"{"seq":1,"type":"request","command":"initialize"}"#;
const INITIALIZED: &str = r#"{"seq":1,"type":"response","request_seq":1,"command":"initialize","success":true,"body":{"supportsCancelRequest":true}}"#;

/// Returns a tool whose adapter can be asked to cancel.
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
        .respond(adapter.request(1), Response::Result(raw(r#"{"supportsCancelRequest":true}"#)))
        .unwrap();
    adapter.receive(&asked(7, "work"));
    adapter.sent();
    adapter.receive(r#"{"seq":7,"type":"request","command":"cancel","arguments":{"requestId":7}}"#);
    let refused = adapter.sent();
    assert!(refused[0].contains(r#""request_seq":7,"command":"cancel","success":false"#));
    assert!(adapter.conn.machine().request_cause(adapter.request(2)).is_none());
}

/// The code and the words are in the body where an adapter gives them; `cancelled` is a word of the protocol.
#[test]
fn what_went_wrong_is_read_wherever_it_stands() {
    for (said, code, message) in [
        (r#""message":"oops""#, -32_803, "oops"),
        (r#""message":"oops","body":{"error":{"id":7,"format":"no"}}"#, 7, "oops"),
        (r#""message":"","body":{"error":{"id":7,"format":"no"}}"#, 7, "no"),
        (r#""message":"cancelled","body":{"error":{"id":7,"format":"no"}}"#, -32_800, "cancelled"),
    ] {
        let mut tool = tool();
        tool.sent_call("work");
        let answer = format!(
            r#"{{"seq":2,"type":"response","request_seq":2,"command":"work","success":false,{said}}}"#
        );
        match tool.conn.receive(answer.as_bytes(), Timestamp::ZERO) {
            Some(Event::Settled { outcome: Outcome::Error(error), .. }) => {
                assert_eq!((error.code, &*error.message), (code, message));
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Returns an adapter whose response to `initialize` had these capabilities.
fn adapter(capabilities: &str) -> Host {
    let mut adapter = Host::new(Config::server(Dialect::DAP));
    adapter.receive(INITIALIZE);
    adapter.respond(adapter.request(1), Response::Result(raw(capabilities))).unwrap();
    adapter.sent();
    adapter
}

#[test]
fn g03_a_cancel_that_names_a_progress_too_cancels_its_request_and_is_answered_by_the_host() {
    let mut adapter = adapter(r#"{"supportsCancelRequest":true}"#);
    adapter.receive(&asked(7, "work"));
    let both = r#"{"seq":8,"type":"request","command":"cancel","arguments":{"requestId":7,"progressId":"p"}}"#;
    assert_eq!(
        adapter.receive(both),
        [r#"request r3 8 cancel {"requestId":7,"progressId":"p"}"#, "cancelled r2 peer"]
    );
    assert!(adapter.sent().is_empty(), "nobody else acknowledges it");
    adapter.respond(adapter.request(3), Response::Result(raw("null"))).unwrap();
    let acknowledged =
        r#"{"seq":2,"type":"response","request_seq":8,"command":"cancel","success":true}"#;
    assert_eq!(adapter.sent(), [acknowledged]);
}

#[test]
fn b05_a_cancel_with_the_number_of_a_request_in_flight_cancels_nothing_beside_a_progress_either() {
    let mut adapter = adapter(r#"{"supportsCancelRequest":true}"#);
    adapter.receive(&asked(7, "work"));
    adapter.receive(
        r#"{"seq":7,"type":"request","command":"cancel","arguments":{"requestId":7,"progressId":"p"}}"#,
    );
    assert!(adapter.conn.machine().request_cause(adapter.request(2)).is_none());
}

const ANEW: [&str; 2] = [
    r#"{"seq":9,"type":"event","event":"capabilities","body":{"capabilities":{"supportsCancelRequest":true}}}"#,
    r#"{"seq":10,"type":"event","event":"capabilities","body":{"capabilities":{"supportsCancelRequest":false}}}"#,
];

#[test]
fn a_tool_cancels_as_the_adapter_declares_anew() {
    let mut tool = Host::new(Config::client(Dialect::DAP));
    tool.sent_call("initialize");
    tool.receive(&INITIALIZED.replace("true}", "false}"));
    let work = tool.sent_call("work");
    let refused = CancelOutcome::Refused(CancelRefusal::Undeclared);
    assert_eq!(tool.cancel(work), refused);
    for other in ["capabilities\",\"body\":{\"capabilities\":{}}", "other\",\"body\":{}"] {
        tool.receive(&format!(r#"{{"seq":8,"type":"event","event":"{other}}}"#));
        assert_eq!(tool.cancel(work), refused, "{other}");
    }
    assert_eq!(tool.receive(ANEW[0]).len(), 1, "the event is reported all the same");
    assert_eq!(tool.cancel(work), CancelOutcome::Sent);
    let more = tool.sent_call("more");
    tool.receive(ANEW[1]);
    assert_eq!(tool.cancel(more), refused);
}

#[test]
fn an_adapter_obeys_as_it_declares_anew() {
    let mut adapter = adapter("{}");
    adapter.receive(&asked(7, "work"));
    let cancel = |seq| {
        let arguments = r#""arguments":{"requestId":7}"#;
        format!(r#"{{"seq":{seq},"type":"request","command":"cancel",{arguments}}}"#)
    };
    assert!(adapter.receive(&cancel(8)).is_empty());
    let body = raw(r#"{"capabilities":{"supportsCancelRequest":true}}"#);
    adapter.conn.notify("capabilities", Some(body)).unwrap();
    assert_eq!(adapter.receive(&cancel(9)), ["cancelled r2 peer"]);
}

#[test]
fn g09_two_hundred_thousand_levels_are_read_without_recursion() {
    let value = format!("{}1{}", "[".repeat(200_000), "]".repeat(200_000));
    let mut config = Config::client(Dialect::DAP);
    config.limits.depth = usize::MAX;
    for mut host in [tool(), Host::new(config)] {
        host.call("work");
        for message in [
            value.clone(),
            format!(r#"{{"seq":1,"type":"request","command":"m","arguments":{value}}}"#),
            format!(r#"{{"seq":{value},"type":"request","command":"m"}}"#),
            format!(r#"{{"seq":1,"type":"event","event":"m","body":{value}}}"#),
            format!(
                r#"{{"seq":1,"type":"response","request_seq":1,"success":false,"body":{value}}}"#
            ),
        ] {
            assert_eq!(host.receive(&message).len(), 1);
        }
    }
}
