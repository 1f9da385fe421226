//! G9: no input panics. A bad message gets a response where it can, and is reported as a typed violation. The
//! connection lives.

use crate::support::{acp, error, jsonrpc, limited, lsp, request, result};
use protocol_core::{EnvelopeProblem, Event, Violation};

/// Returns the violation that a message is reported as, with the code and the id of the response.
fn refused(message: &[u8]) -> (String, Option<(i64, String)>) {
    let mut host = acp();
    host.sent_call("slow");
    let mut events = host.receive_bytes(message);
    assert_eq!(events.len(), 1, "{events:?}");
    let sent = host.sent();
    assert!(sent.len() <= 1);
    let answer = sent.first().map(|answer| {
        let answer: serde_json::Value = serde_json::from_str(answer).expect("we write JSON");
        assert_eq!(answer["jsonrpc"], "2.0");
        (answer["error"]["code"].as_i64().expect("a code"), answer["id"].to_string())
    });
    assert_eq!(host.receive(&request("99", "next")), ["request r1 99 next"], "it lives");
    assert_eq!(host.receive(&result("1", "1")), ["settled slow result 1"]);
    (events.remove(0), answer)
}

fn answered(violation: &str, code: i64, id: &str) -> (String, Option<(i64, String)>) {
    (violation.into(), Some((code, id.into())))
}

fn ignored(violation: &str) -> (String, Option<(i64, String)>) {
    (violation.into(), None)
}

#[test]
fn b04_what_is_not_json_is_answered_with_a_parse_error() {
    for message in [
        "",
        " ",
        "{",
        "}",
        "nul",
        "{\"a\":}",
        "{\"a\":1,}",
        "{'a':1}",
        "[1,]",
        "[",
        "1 2",
        "{} {}",
        "\u{feff}{}",
        "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"m\"",
        "{\"a\":\"\n\"}",
        "{\"a\":01}",
        "{\"\\x\":1}",
        "\0",
    ] {
        let expected = answered("violation parse", -32700, "null");
        assert_eq!(refused(message.as_bytes()), expected, "{message:?}");
    }
}

#[test]
fn b04_what_is_not_utf8_is_answered_with_a_parse_error() {
    for message in [
        &b"\xff"[..],
        b"{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"\xc3\"}",
        b"{\"jsonrpc\":\"2.0\",\"id\":\"\xed\xa0\x80\",\"method\":\"m\"}",
    ] {
        assert_eq!(refused(message), answered("violation invalid_utf8", -32700, "null"));
    }
}

#[test]
fn g09_the_offset_of_a_bad_byte_is_told() {
    let violation = |message: &[u8]| {
        let mut host = acp();
        let event = host.conn.receive(message, host.now);
        let Some(Event::Violation { violation, .. }) = event else { panic!("{event:?}") };
        violation
    };
    assert_eq!(violation(b"{\"a\": x}"), Violation::Parse { offset: 6 });
    assert_eq!(violation(b"{\n\"a\":\n x}"), Violation::Parse { offset: 8 });
    assert_eq!(violation(b"\"abc\xff\""), Violation::InvalidUtf8 { offset: 4 });
    let version = Violation::InvalidRequest { problem: EnvelopeProblem::Version };
    assert_eq!(violation(b"{\"id\":1,\"method\":\"m\"}"), version);
    assert_eq!(version.to_string(), "invalid request: jsonrpc is not \"2.0\"");
}

#[test]
fn g09_json_that_is_no_object_is_answered() {
    for message in ["null", "true", "1", "\"text\"", "1e400"] {
        let expected = answered("violation invalid_request", -32600, "null");
        assert_eq!(refused(message.as_bytes()), expected, "{message}");
    }
}

#[test]
fn b02_a_bad_envelope_is_answered_with_its_id() {
    for message in [
        r#"{"jsonrpc":"2.0","id":5,"method":1}"#,
        r#"{"jsonrpc":"2.0","id":5,"method":null}"#,
        r#"{"jsonrpc":"2.0","id":5,"method":"\ud800"}"#,
        r#"{"jsonrpc":"2.0","id":5,"method":"m","params":1}"#,
        r#"{"jsonrpc":"2.0","id":5,"method":"m","params":"text"}"#,
        r#"{"id":5,"method":"m"}"#,
        r#"{"jsonrpc":"1.0","id":5,"method":"m"}"#,
        r#"{"jsonrpc":2,"id":5,"method":"m"}"#,
        r#"{"jsonrpc":"2.0","jsonrpc":"2.0","id":5,"method":"m"}"#,
        r#"{"jsonrpc":"2.0","id":5,"method":"m","params":{},"params":[]}"#,
        r#"{"jsonrpc":"2.0","id":5,"method":"a","method":"b"}"#,
        r#"{"jsonrpc":"2.0","id":5}"#,
        r#"{"id":5}"#,
    ] {
        let expected = answered("violation invalid_request 5", -32600, "5");
        assert_eq!(refused(message.as_bytes()), expected, "{message}");
    }
}

#[test]
fn f05_what_has_params_is_a_broken_request_though_a_call_of_ours_has_its_id() {
    for message in [
        r#"{"jsonrpc":"2.0","id":1,"params":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"params":null}"#,
        r#"{"params":[],"id":1}"#,
    ] {
        let expected = answered("violation invalid_request 1", -32600, "1");
        assert_eq!(refused(message.as_bytes()), expected, "{message}");
    }
}

#[test]
fn b02_an_id_that_cannot_be_trusted_is_null() {
    for message in [
        r#"{"jsonrpc":"2.0","id":5,"id":6,"method":"m"}"#,
        r#"{"jsonrpc":"2.0","id":5,"id":5,"method":"m","method":"m"}"#,
        r#"{"jsonrpc":"2.0","method":"m","method":"m","id":5,"id":5}"#,
        r#"{"jsonrpc":"2.0","id":[5],"method":"m"}"#,
        r#"{"jsonrpc":"2.0","id":true,"method":"m"}"#,
        r#"{"jsonrpc":"2.0"}"#,
        "{}",
        r#"{"jsonrpc":"2.0","method":1}"#,
    ] {
        let expected = answered("violation invalid_request", -32600, "null");
        assert_eq!(refused(message.as_bytes()), expected, "{message}");
    }
}

#[test]
fn g09_a_notification_is_never_answered() {
    for message in [
        r#"{"method":"m"}"#,
        r#"{"jsonrpc":"2.0","method":"m","params":1}"#,
        r#"{"jsonrpc":"3.0","method":"$/cancel_request","params":{"requestId":99}}"#,
    ] {
        let expected = ignored("violation invalid_notification");
        assert_eq!(refused(message.as_bytes()), expected, "{message}");
    }
}

#[test]
fn g09_a_response_is_never_answered() {
    for message in [
        result("77", "1"),
        r#"{"jsonrpc":"2.0","id":77,"result":1,"error":1}"#.into(),
        r#"{"id":77,"result":1}"#.into(),
        error("77", -32800),
    ] {
        assert_eq!(refused(message.as_bytes()), ignored("violation unknown_response 77"));
    }
    assert_eq!(
        refused(error("null", -32600).as_bytes()),
        ignored("violation unknown_response null")
    );
}

#[test]
fn b03_nothing_of_a_bad_message_is_echoed_but_its_id() {
    for message in [
        r#"{"jsonrpc":"2.0","id":5,"method":"SECRET","params":"SECRET"}"#,
        r#"{"jsonrpc":"SECRET","id":5,"method":"m"}"#,
        r#"{"SECRET"#,
        r#"["SECRET"]"#,
        r#"{"jsonrpc":"2.0","id":["SECRET"],"method":"m"}"#,
    ] {
        for mut host in [acp(), lsp(), jsonrpc()] {
            let events = host.receive(message);
            assert!(!format!("{events:?}").contains("SECRET"));
            assert!(!host.sent().concat().contains("SECRET"));
        }
    }
}

#[test]
fn g09_two_hundred_thousand_levels_are_read_without_recursion() {
    let (open, close) = ("[".repeat(200_000), "]".repeat(200_000));
    let objects = format!("{}1{}", "{\"a\":".repeat(200_000), "}".repeat(200_000));
    for mut host in [jsonrpc(), acp(), limited(|config| config.limits.depth = usize::MAX)] {
        for value in [&format!("{open}{close}"), &objects] {
            for message in [
                value.clone(),
                format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{value}}}"#),
                format!(r#"{{"jsonrpc":"2.0","id":{value},"method":"m"}}"#),
                format!(r#"{{"jsonrpc":"2.0","id":1,"error":{value}}}"#),
                format!(r#"{{"jsonrpc":"2.0","method":"$/cancel_request","params":{value}}}"#),
                format!("[{value}]"),
            ] {
                assert_eq!(host.receive(&message).len(), 1);
            }
        }
        assert_eq!(host.receive(&open), ["violation parse"]);
        assert_eq!(host.receive(&close), ["violation parse"]);
        host.sent();
    }
}

#[test]
fn g09_params_of_null_are_no_params() {
    let mut host = acp();
    let message = r#"{"jsonrpc":"2.0","id":5,"method":"m","params":null}"#;
    assert_eq!(host.receive(message), ["request r1 5 m"]);
}

#[test]
fn g09_unknown_members_and_escapes_are_passed_over() {
    let mut host = acp();
    let message = r#"{"x":[{"id":9}],"params":{"b":1},"\u006dethod":"\u0024\/a\"b","id":"\u00e9","jsonrpc":"2.0","\ud800":"\udfff"}"#;
    assert_eq!(host.receive(message), [r#"request r1 "\u00e9" $/a"b {"b":1}"#]);
    host.respond_ok(host.request(1));
    assert_eq!(host.sent(), [result(r#""\u00e9""#, "null")]);
}

#[test]
fn g09_every_prefix_and_every_changed_byte_of_a_message_is_survived() {
    for message in [
        r#"{"jsonrpc":"2.0","id":"\u00e9","method":"a\/b","params":{"requestId":[1,{"a":null}]}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32800,"message":"\ud83d\ude00","data":1.5e3}}"#,
        r#"[{"jsonrpc":"2.0","id":1,"method":"m"},{"jsonrpc":"2.0","id":1,"result":[]},1]"#,
        r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"x"}}"#,
    ] {
        let mut host = limited(|config| {
            config.dialect.batches = Some(vec![].into());
        });
        for end in 0..message.len() {
            host.receive_bytes(&message.as_bytes()[..end]);
            for byte in [0, b'"', b'{', b']', b'\\', b'u', b'd', b'1', b' ', b'\n', 0x7f, 0xff] {
                let mut changed = message.as_bytes().to_vec();
                changed[end] = byte;
                host.receive_bytes(&changed);
            }
            host.sent();
        }
        assert!(!host.conn.machine().is_closed());
    }
}
