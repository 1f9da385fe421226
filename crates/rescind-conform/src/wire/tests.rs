//! Each dialect's messages as bytes, written and read.

use protocol_core::Dialect;
use serde_json::{Value, json};

use super::{Asked, Heard, Outcome, Wire};

fn wire(dialect: &str) -> Wire {
    Wire::new(Dialect::named(dialect).expect("there is such a dialect"))
}

fn parsed(message: &str) -> Value {
    serde_json::from_str(message).expect("it is JSON")
}

#[test]
fn messages_are_framed_as_the_dialect_wants() {
    let all = ["{}".to_owned(), "[1]".to_owned()];
    assert_eq!(wire("acp").framed(&all), b"{}\n[1]\n");
    // A WebSocket carries messages whole: on the way to it they are lines.
    assert_eq!(wire("abp").framed(&all), b"{}\n[1]\n");
    let with_headers = b"Content-Length: 2\r\n\r\n{}Content-Length: 3\r\n\r\n[1]";
    assert_eq!(wire("lsp").framed(&all), with_headers);
}

#[test]
fn a_request_has_its_id_as_the_token_that_it_is() {
    let params = json!({ "a": 1 });
    let request =
        |dialect: &str, id: &str, method: &str| wire(dialect).request(id, method, &params, "p");
    let acp = r#"{"jsonrpc":"2.0","id":9007199254740993,"method":"work","params":{"a":1}}"#;
    assert_eq!(request("acp", "9007199254740993", "work"), acp);
    let dap = r#"{"seq":7,"type":"request","command":"work","arguments":{"a":1}}"#;
    assert_eq!(request("dap", "7", "work"), dap);
    let abp = parsed(&request("abp", "\"7\"", "work"));
    assert_eq!((&abp["type"], &abp["id"]), (&json!("capabilities/call"), &json!("7")));
    let call = json!({ "capability": "work", "params": { "a": 1 }, "options": { "callId": "7", "progressToken": "p" } });
    assert_eq!(abp["payload"], call);
    let opening = parsed(&request("abp", "\"1\"", "initialize"));
    assert_eq!((&opening["type"], &opening["payload"]), (&json!("initialize"), &params));
}

#[test]
fn progress_is_asked_for_where_the_protocol_has_it() {
    let meta = |dialect: &str, progress: &str| {
        parsed(&wire(dialect).request("1", "work", &json!({ "a": 1 }), progress))["params"].clone()
    };
    assert_eq!(meta("mcp-2025-11-25", "p"), json!({ "a": 1, "_meta": { "progressToken": "p" } }));
    assert_eq!(meta("mcp-2025-11-25", ""), json!({ "a": 1 }));
    assert_eq!(meta("lsp", "p"), json!({ "a": 1 }));
    let hover = wire("lsp").request("1", "textDocument/hover", &json!({}), "p");
    assert_eq!(parsed(&hover)["params"], json!({ "workDoneToken": "p" }));
    let newest = meta("mcp", "");
    assert_eq!(newest["_meta"]["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    assert_eq!(newest["_meta"].get("progressToken"), None);
}

#[test]
fn a_notification_is_no_request() {
    let params = json!({});
    let hello = r#"{"jsonrpc":"2.0","method":"hello","params":{}}"#;
    assert_eq!(wire("acp").notification("hello", &params), hello);
    let hello = r#"{"type":"hello","id":"n","timestamp":0,"payload":{}}"#;
    assert_eq!(wire("abp").notification("hello", &params), hello);
}

#[test]
fn a_cancel_is_that_of_the_dialect() {
    for (dialect, cancel) in [
        ("acp", r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":7}}"#),
        ("lsp", r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":7}}"#),
        ("mcp", r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#),
        ("abp", r#"{"type":"capabilities/cancel","id":9,"timestamp":0,"payload":{"callId":7}}"#),
        ("dap", r#"{"seq":9,"type":"request","command":"cancel","arguments":{"requestId":7}}"#),
        (
            "erlmcp",
            r#"{"jsonrpc":"2.0","id":9,"method":"cancel","params":{"cancellationToken":7}}"#,
        ),
        ("jsonrpc", ""),
    ] {
        let wire = wire(dialect);
        assert_eq!(wire.cancel("7", "9"), cancel, "{dialect}");
        let is_notification = !matches!(dialect, "abp" | "dap" | "erlmcp" | "jsonrpc");
        assert_eq!(wire.cancels_by_notification(), is_notification, "{dialect}");
        if !cancel.is_empty() {
            let more = wire.cancel_with_more("7", "9");
            assert!(more.contains(&format!("\"{}\":7", wire.cancel_member())), "{dialect}: {more}");
            assert!(more.contains("conformanceUnknown"), "{dialect}: {more}");
        }
    }
}

#[test]
fn the_servers_requests_are_answered_as_by_a_client_that_can_do_little() {
    let answer = |dialect: &str, method: &str| {
        let params = json!({ "items": [{ "section": "a" }, { "section": "b" }] });
        parsed(&wire(dialect).answer(&Asked::new("5", method, params), "6"))
    };
    for (method, result) in [
        ("workspace/configuration", json!([null, null])),
        ("client/registerCapability", Value::Null),
        ("workspace/workspaceFolders", Value::Null),
        ("elicitation/create", json!({ "action": "cancel" })),
        ("ping", json!({})),
    ] {
        let expected = json!({ "jsonrpc": "2.0", "id": 5, "result": result });
        assert_eq!(answer("lsp", method), expected, "{method}");
    }
    assert_eq!(answer("acp", "fs/read_text_file")["error"]["code"], -32601);
    assert_eq!(answer("mcp", "roots/list")["error"]["code"], -32601, "none are declared");
    let refused = answer("dap", "runInTerminal");
    assert_eq!((&refused["request_seq"], &refused["success"]), (&json!(5), &json!(false)));
    let refused = answer("abp", "");
    assert_eq!((&refused["id"], &refused["payload"]["success"]), (&json!(5), &json!(false)));
}

#[track_caller]
fn hears(dialect: &str, message: &str, heard: Heard) {
    assert_eq!(wire(dialect).read(message.as_bytes()), heard, "{message}");
}

fn answer(id: &str, outcome: Outcome) -> Heard {
    Heard::Answer { id: id.into(), outcome }
}

fn request(id: &str, method: &str) -> Heard {
    Heard::Request(Asked::new(id, method, Value::Null))
}

#[test]
fn answers_and_requests_are_told_apart() {
    hears("acp", r#"{"id":"7","result":{}}"#, answer("\"7\"", Outcome::Result(json!({}))));
    hears(
        "acp",
        r#"{"id":7,"error":{"code":-32800}}"#,
        answer("7", Outcome::Error { code: -32800 }),
    );
    let both = r#"{"id":7,"result":{},"error":{"code":-32800}}"#;
    hears("acp", both, answer("7", Outcome::Both));
    let with_null = r#"{"id":7,"result":null,"error":{"code":-32800}}"#;
    hears("acp", with_null, answer("7", Outcome::Error { code: -32800 }));
    hears("acp", r#"{"level":"info","msg":"listening"}"#, Heard::Other);
    hears(
        "acp",
        r#"{"id":7,"result":null,"error":null}"#,
        answer("7", Outcome::Result(json!(null))),
    );
    hears("acp", r#"{"id":7,"result":1,"error":null}"#, answer("7", Outcome::Result(json!(1))));
    hears("acp", r#"{"error":{"code":-32600}}"#, answer("(none)", Outcome::Error { code: -32600 }));
    hears("acp", r#"{"id":5,"method":"ask"}"#, request("5", "ask"));
    // Some write every member that they have.
    let with_null = r#"{"id":7,"method":null,"result":1}"#;
    hears("acp", with_null, answer("7", Outcome::Result(json!(1))));
    // A member of another envelope is none of this one.
    hears("acp", r#"{"id":7,"type":5,"result":1}"#, answer("7", Outcome::Result(json!(1))));
    hears("acp", r#"{"method":"hello"}"#, Heard::Other);
    hears("acp", "hello", Heard::Other);
}

#[test]
fn the_members_of_a_batch_are_messages_where_there_are_batches() {
    let batch = |dialect: &str| wire(dialect).members(br#"[{"id":1.0},[2]]"#.to_vec());
    assert_eq!(batch("mcp-2025-03-26"), [&br#"{"id":1.0}"#[..], b"[2]"]);
    assert_eq!(batch("acp"), [br#"[{"id":1.0},[2]]"#]);
}

#[test]
fn a_response_may_have_what_nobody_can_decode() {
    // A text cut within a character, as JavaScript writes it.
    let cut = r#"{"jsonrpc":"2.0","id":7,"result":{"text":"\ud83d"}}"#;
    assert!(wire("acp").is_response(cut.as_bytes()));
    assert!(!wire("acp").is_response(&cut.as_bytes()[1..]));
}

#[test]
fn cancels_and_progress_are_those_of_the_dialect() {
    let cancel = |id: &str| Heard::Cancel { id: id.into(), asked: None };
    hears("acp", r#"{"method":"$/cancel_request","params":{"requestId":5}}"#, cancel("5"));
    hears("lsp", r#"{"method":"$/cancelRequest","params":{"id":"5"}}"#, cancel("\"5\""));
    hears("acp", r#"{"method":"$/cancel_request","params":{"id":5}}"#, cancel(""));
    hears("lsp", r#"{"method":"$/cancel_request","params":{"id":5}}"#, Heard::Other);
    let progress = |method: &str, member: &str, token: Value| {
        json!({ "method": method, "params": { member: token } }).to_string()
    };
    let heard = Heard::Progress { token: "p".into() };
    hears("mcp", &progress("notifications/progress", "progressToken", json!("p")), heard.clone());
    hears("lsp", &progress("$/progress", "token", json!("p")), heard);
    hears("mcp", &progress("notifications/message", "progressToken", json!("p")), Heard::Other);
    let numbered = Heard::Progress { token: json!(5) };
    hears("mcp", &progress("notifications/progress", "progressToken", json!(5)), numbered);
}

#[test]
fn abp_answers_by_the_type_of_a_message() {
    let message = |kind: &str, payload: Value| {
        json!({ "type": kind, "id": "7", "payload": payload }).to_string()
    };
    let hears = |kind: &str, payload: Value, heard| hears("abp", &message(kind, payload), heard);
    let done = json!({ "success": true });
    hears("capabilities/call-result", done.clone(), answer("\"7\"", Outcome::Result(done)));
    let result = "capabilities/call-result";
    let null = json!({ "callId": null });
    hears(result, null.clone(), answer("\"7\"", Outcome::Result(null)));
    let call = json!({ "options": { "callId": null } });
    hears("capabilities/call", call, request("\"7\"", ""));
    hears(
        result,
        json!({ "cancelled": true, "success": false }),
        answer("\"7\"", Outcome::Cancelled),
    );
    hears(result, json!({ "success": false }), answer("\"7\"", Outcome::Error { code: 0 }));
    hears("error", json!({ "success": false }), answer("\"7\"", Outcome::Error { code: 0 }));
    let acknowledged = |cancelled| Heard::Acknowledged { id: "\"8\"".into(), cancelled };
    for cancelled in [true, false] {
        let payload = json!({ "callId": "8", "cancelled": cancelled });
        hears("capabilities/cancel-result", payload, acknowledged(cancelled));
    }
    hears(
        "capabilities/progress",
        json!({ "progressToken": "p" }),
        Heard::Progress { token: "p".into() },
    );
    hears("capabilities/progress", json!({}), Heard::Other);
    let named = json!({ "callId": "8" });
    let asked = Some(Asked::new("\"7\"", "capabilities/cancel", named.clone()));
    hears("capabilities/cancel", named, Heard::Cancel { id: "\"8\"".into(), asked });
    hears("capabilities/call", json!({}), request("\"7\"", ""));
    hears("capabilities/changed", json!({}), Heard::Other);
}

#[test]
fn dap_answers_by_the_number_of_the_request() {
    let message =
        |members: &str| format!(r#"{{"seq":3,"type":"response","request_seq":7,{members}}}"#);
    let result = Outcome::Result(json!({ "a": 1 }));
    hears("dap", &message(r#""success":true,"body":{"a":1}"#), answer("7", result));
    let refused = message(r#""success":false,"message":"no","body":{"error":{"id":5}}"#);
    hears("dap", &refused, answer("7", Outcome::Error { code: 5 }));
    hears(
        "dap",
        &message(r#""success":false,"message":"cancelled""#),
        answer("7", Outcome::Cancelled),
    );
    hears(
        "dap",
        r#"{"seq":3,"type":"request","command":"runInTerminal"}"#,
        request("3", "runInTerminal"),
    );
    let cancel = r#"{"seq":3,"type":"request","command":"cancel","arguments":{"requestId":7}}"#;
    let asked = |params| Some(Asked::new("3", "cancel", params));
    let named = asked(json!({ "requestId": 7 }));
    hears("dap", cancel, Heard::Cancel { id: "7".into(), asked: named });
    hears(
        "dap",
        r#"{"seq":3,"type":"request","command":"cancel"}"#,
        Heard::Cancel { id: String::new(), asked: asked(Value::Null) },
    );
    hears("dap", r#"{"seq":3,"type":"event","event":"output"}"#, Heard::Other);
}

#[test]
fn two_codes_say_cancelled() {
    let said =
        [-32800, -32802, -32801, -32603, 0].map(|code| Outcome::Error { code }.is_cancelled());
    assert_eq!(said, [true, true, false, false, false]);
    assert!(Outcome::Cancelled.is_cancelled());
    assert!(!Outcome::Result(Value::Null).is_cancelled());
}
