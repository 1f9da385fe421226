//! DAP on both sides: ids of requests are translated, ids of progresses pass, and errors pass whole.

use protocol_core::{Config, Dialect};
use protocol_relay::Side;

use crate::bench::Bench;

const INITIALIZE: &str = r#"{"seq":1,"type":"request","command":"initialize"}"#;
const INITIALIZED: &str = r#"{"seq":1,"type":"response","request_seq":1,"command":"initialize","success":true,"body":{"supportsCancelRequest":true}}"#;

fn asked(seq: u32, command: &str) -> String {
    format!(r#"{{"seq":{seq},"type":"request","command":"{command}"}}"#)
}

/// Makes a tool in front, and an adapter behind that can be asked to cancel. The tool's request 9 is under way
/// as 2.
fn working() -> Bench {
    let mut bench =
        Bench::new(Side::Up, [Config::server(Dialect::DAP), Config::client(Dialect::DAP)]);
    bench.receive(Side::Up, INITIALIZE);
    bench.sent(Side::Down);
    bench.receive(Side::Down, INITIALIZED);
    bench.receive(Side::Up, &asked(9, "evaluate"));
    bench.sent(Side::Up);
    bench.sent(Side::Down);
    bench
}

#[test]
fn b25_a_progress_names_the_request_as_the_tool_knows_it() {
    let mut bench = working();
    let start =
        |body: &str| format!(r#"{{"seq":2,"type":"event","event":"progressStart","body":{body}}}"#);
    bench.receive(Side::Down, &start(r#"{"progressId":"p","requestId":2,"title":"t"}"#));
    assert_eq!(bench.sent(Side::Up), [start(r#"{"progressId":"p","requestId":9,"title":"t"}"#)]);
    for body in [r#"{"progressId":"p","requestId":3}"#, r#"{"progressId":"p","requestId":"x"}"#] {
        bench.receive(Side::Down, &start(body));
        let sent = bench.sent(Side::Up).concat();
        assert!(sent.ends_with(r#""body":{"progressId":"p"}}"#), "{sent}");
    }
    bench.receive(Side::Down, &start(r#"{ "title":"t" }"#));
    assert!(bench.sent(Side::Up).concat().ends_with(r#""body":{ "title":"t" }}"#));
}

/// Other dialects give a message of this name no meaning.
#[test]
fn b25_in_other_dialects_a_progress_passes_as_it_is() {
    let configs = [Config::server(Dialect::LSP_3_17), Config::client(Dialect::JSON_RPC)];
    let mut bench = Bench::new(Side::Up, configs);
    let start = r#"{"jsonrpc":"2.0","method":"progressStart","params":{ "requestId":1 }}"#;
    for (from, to) in [(Side::Up, Side::Down), (Side::Down, Side::Up)] {
        bench.receive(from, start);
        assert_eq!(bench.sent(to), [start]);
    }
}

#[test]
fn b25_a_cancel_of_a_progress_passes_and_what_it_names_beside_is_translated() {
    let cancel = |seq: u32, arguments: &str| {
        format!(r#"{{"seq":{seq},"type":"request","command":"cancel","arguments":{arguments}}}"#)
    };
    let mut bench = working();
    bench.receive(Side::Up, &cancel(10, r#"{"progressId":"p"}"#));
    assert_eq!(bench.sent(Side::Down), [cancel(3, r#"{"progressId":"p"}"#)]);
    bench.receive(Side::Up, &cancel(11, r#"{"requestId":9,"progressId":"p"}"#));
    assert_eq!(
        bench.sent(Side::Down),
        [cancel(4, r#"{"progressId":"p"}"#), cancel(5, r#"{"requestId":2}"#)]
    );
    bench.receive(
        Side::Down,
        r#"{"seq":2,"type":"response","request_seq":4,"command":"cancel","success":true}"#,
    );
    let acknowledged =
        r#"{"seq":2,"type":"response","request_seq":11,"command":"cancel","success":true}"#;
    assert_eq!(bench.sent(Side::Up), [acknowledged]);
    // One that names nothing is nobody's.
    bench.receive(Side::Up, &cancel(12, "{}"));
    assert!(bench.sent(Side::Down).is_empty());
}

#[test]
fn g02_a_failed_response_passes_verbatim_between_two_sides() {
    let mut bench = working();
    let said = r#""success":false,"message":"notStopped","body":{"error":{"id":3,"format":"{x}","variables":{"x":"y"}}}"#;
    let answer = |seq, to| {
        format!(
            r#"{{"seq":{seq},"type":"response","request_seq":{to},"command":"evaluate",{said}}}"#
        )
    };
    bench.receive(Side::Down, &answer(2, 2));
    assert_eq!(bench.sent(Side::Up), [answer(2, 9)]);
}
