//! One protocol in front, another behind. Cancels are made anew in the other's form. Each side gets a response,
//! or silence, as its own protocol wants it.

use protocol_core::{Config, Dialect, Envelope};
use protocol_relay::Side;

use crate::bench::{Bench, cancel, error, request, result};

/// Returns a relay between a client that speaks `front` and a server that speaks `back`.
fn between(front: Dialect, back: Dialect) -> Bench {
    Bench::new(Side::Up, [front, back].map(Config::client))
}

const ACP: [Dialect; 2] = [Dialect::ACP_V1, Dialect::ACP_V2];
const MCP: [Dialect; 6] = [
    Dialect::MCP,
    Dialect::MCP_2024_11_05,
    Dialect::MCP_2025_03_26,
    Dialect::MCP_2025_06_18,
    Dialect::MCP_2025_11_25,
    Dialect::MCP_2026_07_28,
];

#[test]
fn b25_an_acp_client_cancels_a_request_of_an_mcp_server() {
    for acp in ACP {
        for mcp in MCP {
            let mut bench = between(acp.clone(), mcp.clone());
            bench.receive(Side::Up, &request("\"a\"", "tools/call"));
            assert_eq!(bench.sent(Side::Down), [request("1", "tools/call")]);
            bench.receive(Side::Up, &cancel(&acp, "\"a\""));
            assert_eq!(bench.sent(Side::Down), [cancel(&mcp, "1")]);
            // The server keeps silent, so the client, which must be answered, is answered here (B12).
            assert_eq!(bench.sent(Side::Up), [error("\"a\"", -32800, "Request cancelled")]);
            assert_eq!(bench.in_flight(), [0; 4]);
        }
    }
}

#[test]
fn b25_an_mcp_client_cancels_a_request_of_an_acp_agent() {
    for acp in ACP {
        for mcp in MCP {
            let mut bench = between(mcp, acp.clone());
            bench.receive(Side::Up, &request("7", "tools/call"));
            assert_eq!(bench.sent(Side::Down), [request("1", "tools/call")]);
            bench.receive(
                Side::Up,
                r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7,"reason":"enough"}}"#,
            );
            assert_eq!(bench.sent(Side::Down), [cancel(&acp, "1")]);
            // The agent answers, and the client gets nothing further (B11).
            bench.receive(Side::Down, &error("1", -32800, "Request cancelled"));
            assert_eq!((bench.sent(Side::Up), bench.in_flight()), (vec![], [0; 4]));
        }
    }
}

#[test]
fn b23_a_result_that_crosses_the_cancel_reaches_who_may_have_it() {
    for acp in ACP {
        let mut bench = between(acp.clone(), Dialect::MCP_2025_06_18);
        bench.receive(Side::Up, &request("1", "tools/call"));
        bench.sent(Side::Down);
        bench.receive(Side::Down, &result("1", "\"done\""));
        bench.receive(Side::Up, &cancel(&acp, "1"));
        assert_eq!(bench.sent(Side::Up), [result("1", "\"done\"")]);
        assert_eq!((bench.sent(Side::Down), bench.in_flight()), (vec![], [0; 4]));
    }
}

#[test]
fn g06_what_a_server_asks_of_an_acp_client_is_cancelled_by_its_own_form() {
    let mut bench = between(Dialect::ACP_V1, Dialect::MCP_2025_11_25);
    bench.receive(Side::Down, &request("5", "sampling/createMessage"));
    assert_eq!(bench.sent(Side::Up), [request("1", "sampling/createMessage")]);
    bench.receive(Side::Down, &cancel(&Dialect::MCP_2025_11_25, "5"));
    assert_eq!(bench.sent(Side::Up), [cancel(&Dialect::ACP_V1, "1")]);
    bench.receive(Side::Up, &result("1", "{}"));
    assert_eq!((bench.sent(Side::Down), bench.in_flight()), (vec![], [0; 4]));
}

#[test]
fn b25_the_progress_of_a_server_is_forwarded_with_its_token_as_it_is() {
    let mut bench = between(Dialect::ACP_V1, Dialect::MCP_2025_06_18);
    let progress = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":1}}"#;
    bench.receive(Side::Down, progress);
    assert_eq!(bench.sent(Side::Up), [progress]);
}

#[test]
fn b25_the_token_of_an_operation_passes_every_hop_as_it_is() {
    let mut bench = between(Dialect::ACP_V1, Dialect::ERLMCP);
    bench.receive(Side::Up, &request("1", "tool/call"));
    bench.sent(Side::Down);
    let token = r#"{"cancellationToken":"AB"}"#;
    bench.receive(Side::Down, &result("1", token));
    assert_eq!(bench.sent(Side::Up), [result("1", token)]);
    let cancel =
        |id: u8| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"cancel","params":{token}}}"#);
    bench.receive(Side::Up, &cancel(7));
    assert_eq!(bench.sent(Side::Down), [cancel(2)]);
    let told =
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"AB"}}"#;
    bench.receive(Side::Down, told);
    bench.receive(Side::Down, &result("2", r#"{"status":"cancelled"}"#));
    assert_eq!(bench.sent(Side::Up), [told.into(), result("7", r#"{"status":"cancelled"}"#)]);
}

/// The notification names an operation. In any other form it would be a forwarded cancel: as a request, from the
/// client, or to a client that has cancels of this name.
#[test]
fn b25_only_a_client_that_knows_of_operations_is_told_of_a_cancelled_one() {
    let method = "notifications/cancelled";
    let told = format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"requestId":"AB"}}}}"#);
    let dropped = |dialects: [Dialect; 2], side: Side, message: &str| {
        let mut bench = between(dialects[0].clone(), dialects[1].clone());
        bench.receive(side, message);
        assert_eq!(bench.sent(side.other()), [""; 0]);
        let reason = "was not forwarded: it is no cancel of this dialect";
        assert_eq!(bench.events(), [format!("{side}: {method} {reason}")]);
    };
    for side in Side::BOTH {
        for dialects in [
            [Dialect::ACP_V1, Dialect::ERLMCP],
            [Dialect::ERLMCP, Dialect::ACP_V1],
            [Dialect::ERLMCP, Dialect::ERLMCP],
        ] {
            dropped(dialects, side, &request("1", method));
        }
    }
    dropped([Dialect::ACP_V1, Dialect::ERLMCP], Side::Up, &told);
    dropped([Dialect::ERLMCP, Dialect::ERLMCP], Side::Up, &told);
    dropped([Dialect::ERLMCP, Dialect::ACP_V1], Side::Down, &told);
    dropped([Dialect::MCP_2025_06_18, Dialect::ERLMCP], Side::Down, &told);
}

#[test]
fn g02_errors_are_written_anew_for_another_envelope() {
    let mut bench = between(Dialect::ACP_V1, Dialect::ABP);
    bench.receive(Side::Up, &request("7", "export.pdf"));
    bench.sent(Side::Down);
    bench.receive(
        Side::Down,
        r#"{"type":"capabilities/call-result","id":"1","timestamp":0,"payload":{"callId":"1","success":false,"error":{"code":"OPERATION_FAILED","message":"no paper","data":[2]}}}"#,
    );
    let object = r#"{"code":-32803,"message":"no paper","data":[2]}"#;
    assert_eq!(bench.sent(Side::Up), [format!(r#"{{"jsonrpc":"2.0","id":7,"error":{object}}}"#)]);
}

/// Returns the message that ends a call in ABP with a failure.
fn abp_failure(message: &str, call: &str, failure: &str) -> String {
    format!(
        r#"{{"type":"capabilities/call-result","id":"{message}","timestamp":0,"payload":{{"callId":"{call}","success":false,{failure}}}}}"#
    )
}

/// Makes an ABP agent in front call a capability, which is call 2 behind.
fn called_by_an_abp_agent(back: Dialect) -> Bench {
    let envelope = back.envelope;
    let mut bench = between(Dialect::ABP, back);
    bench.receive(Side::Up, r#"{"type":"initialize","id":"m1","timestamp":0,"payload":{}}"#);
    bench.sent(Side::Down);
    let initialized = match envelope {
        Envelope::JsonRpc => result("1", "{}"),
        Envelope::Abp => {
            r#"{"type":"initialize-result","id":"1","timestamp":0,"payload":{}}"#.into()
        }
        Envelope::Dap => {
            r#"{"seq":1,"type":"response","request_seq":1,"success":true,"command":"initialize"}"#
                .into()
        }
    };
    bench.receive(Side::Down, &initialized);
    let call = r#"{"capability":"export.pdf","options":{"callId":"c"}}"#;
    bench.receive(
        Side::Up,
        &format!(r#"{{"type":"capabilities/call","id":"m2","timestamp":0,"payload":{call}}}"#),
    );
    bench.sent(Side::Up);
    assert_eq!(bench.sent(Side::Down).len(), 1);
    bench
}

#[test]
fn g02_errors_are_written_anew_for_an_abp_agent_in_front() {
    let mut bench = called_by_an_abp_agent(Dialect::ACP_V1);
    let object = r#"{"code":-32000,"message":"no paper","data":{"tray":2}}"#;
    bench.receive(Side::Down, &format!(r#"{{"jsonrpc":"2.0","id":2,"error":{object}}}"#));
    let failure = r#""error":{"code":"OPERATION_FAILED","message":"no paper","retryable":false,"data":{"tray":2}}"#;
    assert_eq!(bench.sent(Side::Up), [abp_failure("m2", "c", failure)]);
}

#[test]
fn g02_errors_pass_verbatim_between_two_sides_of_abp() {
    let mut bench = called_by_an_abp_agent(Dialect::ABP);
    let failure = r#""error":{"code":"PAPER_JAM","message":"no paper","retryable":true,"more":1}"#;
    bench.receive(Side::Down, &abp_failure("2", "2", failure));
    assert_eq!(bench.sent(Side::Up), [abp_failure("m2", "c", failure)]);
}

#[test]
fn g02_a_cancelled_call_is_told_as_cancelled_between_two_sides_of_abp() {
    let mut bench = called_by_an_abp_agent(Dialect::ABP);
    bench.receive(Side::Down, &abp_failure("2", "2", r#""cancelled":true"#));
    assert_eq!(bench.sent(Side::Up), [abp_failure("m2", "c", r#""cancelled":true"#)]);
}

#[test]
fn b12_an_abp_agent_in_front_is_acknowledged_and_answered() {
    let mut bench = between(Dialect::ABP, Dialect::MCP_2025_06_18);
    let abp = |kind: &str, id: u8, payload: &str| {
        format!(r#"{{"type":"{kind}","id":"m{id}","timestamp":0,"payload":{payload}}}"#)
    };
    bench.receive(Side::Up, &abp("initialize", 1, "{}"));
    bench.sent(Side::Down);
    bench.receive(Side::Down, &result("1", r#"{"serverInfo":{}}"#));
    assert_eq!(bench.sent(Side::Up), [abp("initialize-result", 1, r#"{"serverInfo":{}}"#)]);
    bench.receive(
        Side::Up,
        &abp("capabilities/call", 2, r#"{"capability":"export.pdf","options":{"callId":"c"}}"#),
    );
    assert_eq!(bench.sent(Side::Down), [request("2", "export.pdf")]);
    bench.receive(Side::Up, &abp("capabilities/cancel", 3, r#"{"callId":"c"}"#));
    assert_eq!(bench.sent(Side::Down), [cancel(&Dialect::MCP_2025_06_18, "2")]);
    let mut said = bench.sent(Side::Up);
    said.sort();
    assert_eq!(
        said,
        [
            abp(
                "capabilities/call-result",
                2,
                r#"{"callId":"c","success":false,"cancelled":true}"#
            ),
            abp("capabilities/cancel-result", 3, r#"{"callId":"c","cancelled":true}"#),
        ]
    );
    assert_eq!(bench.in_flight(), [0; 4]);
}

/// Returns a message of ABP with this id and payload.
fn abp(kind: &str, id: &str, payload: &str) -> String {
    format!(r#"{{"type":"{kind}","id":{id},"timestamp":0,"payload":{payload}}}"#)
}

#[test]
fn b25_between_two_sides_of_abp_progress_comes_under_the_token_that_the_agent_chose() {
    let mut bench = called_by_an_abp_agent(Dialect::ABP);
    let call = |id: &str, options: &str| {
        let payload = format!(r#"{{"capability":"export.pdf","options":{{{options}}}}}"#);
        abp("capabilities/call", id, &payload)
    };
    let chosen = r#""timeout":5000,"progressToken":"t""#;
    bench.receive(Side::Up, &call("\"m3\"", &format!(r#""callId":"d",{chosen}"#)));
    assert_eq!(bench.sent(Side::Down), [call("\"3\"", &format!(r#""callId":"3",{chosen}"#))]);
    let progress = abp("capabilities/progress", "\"t\"", r#"{"progressToken":"t","progress":1}"#);
    bench.receive(Side::Down, &progress);
    assert_eq!(bench.sent(Side::Up), [progress]);
    // An agent that chose none gets no progress.
    bench.receive(Side::Up, &call("\"m4\"", r#""callId":"e""#));
    assert_eq!(bench.sent(Side::Down), [call("\"4\"", r#""callId":"4""#)]);
}
