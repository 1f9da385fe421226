//! DAP on both sides: errors pass whole.

use protocol_core::{Config, Dialect};
use protocol_relay::Side;

use crate::bench::Bench;

const INITIALIZE: &str = r#"{"seq":1,"type":"request","command":"initialize"}"#;
const INITIALIZED: &str = r#"{"seq":1,"type":"response","request_seq":1,"command":"initialize","success":true,"body":{"supportsCancelRequest":true}}"#;

fn asked(seq: u32, command: &str) -> String {
    format!(r#"{{"seq":{seq},"type":"request","command":"{command}"}}"#)
}

#[test]
fn g02_a_failed_response_passes_verbatim_between_two_sides() {
    let mut bench =
        Bench::new(Side::Up, [Config::server(Dialect::DAP), Config::client(Dialect::DAP)]);
    bench.receive(Side::Up, INITIALIZE);
    bench.sent(Side::Down);
    bench.receive(Side::Down, INITIALIZED);
    bench.receive(Side::Up, &asked(9, "evaluate"));
    bench.sent(Side::Up);
    bench.sent(Side::Down);
    let said = r#""success":false,"message":"notStopped","body":{"error":{"id":3,"format":"{x}","variables":{"x":"y"}}}"#;
    let answer = |seq, to| {
        format!(
            r#"{{"seq":{seq},"type":"response","request_seq":{to},"command":"evaluate",{said}}}"#
        )
    };
    bench.receive(Side::Down, &answer(2, 2));
    assert_eq!(bench.sent(Side::Up), [answer(2, 9)]);
}
