//! The kinds of messages, and the facts of each protocol.

use protocol_core::{Cancellers, Dialect, Framing, ResponseRule};
use serde_json::{Value, json};

use super::{Message, Request, has_id};
use crate::relay::checks::WITHOUT_BATCHES;
use crate::relay::wire;
use crate::wire::Wire;

fn protocol(dialect: &str) -> Option<Wire> {
    wire(&Dialect::named(dialect).expect("there is such a dialect")).ok()
}

/// Said a second time, by hand: the relay that is tested may be made of the core that knows it too.
#[test]
fn each_protocol_is_what_the_relay_is_held_to() {
    let rows = [
        ("acp", "$/cancel_request", "requestId", ResponseRule::Required, 0, false),
        ("acp-v2", "$/cancel_request", "requestId", ResponseRule::Required, 0, false),
        ("acp-draft", "$/cancelRequest", "id", ResponseRule::Required, 1, false),
        ("lsp", "$/cancelRequest", "id", ResponseRule::Required, 0, false),
        ("mcp-2024-11-05", "notifications/cancelled", "requestId", ResponseRule::Silent, 1, true),
        ("mcp-2025-03-26", "notifications/cancelled", "requestId", ResponseRule::Silent, 1, true),
        ("mcp-2025-06-18", "notifications/cancelled", "requestId", ResponseRule::Silent, 1, false),
        ("mcp-2025-11-25", "notifications/cancelled", "requestId", ResponseRule::Silent, 1, false),
        (
            "mcp-2026-07-28",
            "notifications/cancelled",
            "requestId",
            ResponseRule::SilentWithProgress,
            0,
            false,
        ),
        ("dap", "cancel", "requestId", ResponseRule::Required, 0, false),
    ];
    for (dialect, cancel, target, cancelled, uncancellable, batches) in rows {
        let protocol = protocol(dialect).expect("it has checks");
        assert!(protocol.dialect.cancel.has_method(cancel), "{dialect}");
        assert_eq!(protocol.cancel_member(), target, "{dialect}");
        let has_batches = !WITHOUT_BATCHES(&protocol.dialect);
        assert_eq!((protocol.dialect.response, has_batches), (cancelled, batches), "{dialect}");
        assert_eq!(protocol.dialect.uncancellable.methods.len(), uncancellable, "{dialect}");
        let with_headers = protocol.framing() == Framing::ContentLength;
        assert_eq!(with_headers, ["lsp", "dap"].contains(&dialect));
        let only_client = protocol.dialect.cancellers != Cancellers::Both;
        assert_eq!(only_client, ["mcp-2026-07-28", "dap"].contains(&dialect));
        assert_eq!(protocol.family, crate::Family::of(&Dialect::named(dialect).expect("named")));
    }
    assert!(protocol("jsonrpc").is_none());
}

#[test]
fn a_message_is_read_as_any_peer_reads_it() {
    let read = |framing: Framing, bytes: &[u8]| super::read(framing, &mut &bytes[..]);
    let plain = || Some((String::new(), b"{}".to_vec()));
    let lines = Framing::Newline;
    assert_eq!(read(lines, b"").unwrap(), None);
    assert_eq!(read(lines, b"{}\n[]\n").unwrap(), plain());
    assert!(read(lines, b"{}").is_err(), "a line that has no end");
    let headers = Framing::ContentLength;
    assert_eq!(read(headers, b"").unwrap(), None);
    assert_eq!(read(headers, b"\r\n").unwrap(), None);
    let typed = "Content-Type: application/vscode-jsonrpc; charset=utf-8\r\n";
    for usual in [
        "Content-Length: 2\r\n\r\n{}{}",
        &format!("{typed}Content-Length: 2\r\n\r\n{{}}"),
        &format!("Content-Length: 2\r\n{typed}\r\n{{}}"),
    ] {
        assert_eq!(read(headers, usual.as_bytes()).unwrap(), plain(), "{usual}");
    }
    for wrong in [
        "Content-Length: -2\r\n\r\n{}",
        "Content-Length: two\r\n\r\n{}",
        "Content-Length: 18446744073709551615\r\n\r\n{}",
        "Length: 2\r\n\r\n{}",
        "Content-Length: 2\r\nXX{}",
        "Content-Length: 3\r\n\r\n{}",
    ] {
        assert!(read(headers, wrong.as_bytes()).is_err(), "{wrong}");
    }
    for dialect in ["acp", "lsp"] {
        let protocol = protocol(dialect).expect("it has checks");
        let framed = protocol.framed(&["{}"]);
        assert_eq!(read(protocol.framing(), &framed).unwrap(), plain());
    }
}

#[test]
fn a_header_that_not_every_peer_reads_is_kept_before_its_message() {
    for odd in [
        "content-length: 2\r\n\r\n",
        "Content-Length:2\r\n\r\n",
        "Content-Length: 02\r\n\r\n",
        "Content-Length: 2\n\n",
        "\r\nContent-Length: 2\r\n\r\n",
        "Content-Length: 2\r\nX: y\r\n\r\n",
        "Content-Length: 2\r\nContent-Type: text\r\n\r\n",
    ] {
        let read = super::read(Framing::ContentLength, &mut format!("{odd}{{}}").as_bytes());
        let message = read.expect("it is read").expect("it is a message");
        assert_eq!(message, (odd.to_owned(), b"{}".to_vec()));
    }
}

fn read(dialect: &str, message: &str) -> Message {
    Message::read(&protocol(dialect).expect("it has checks"), message.as_bytes())
}

#[test]
fn messages_are_told_apart() {
    let request = |tag: Option<u64>, params: Value| {
        Message::Request(Request { id: json!(7), tag, method: "work".into(), params })
    };
    assert_eq!(read("acp", r#"{"id":7,"method":"work"}"#), request(None, Value::Null));
    let tagged = json!({ "tag": 5 });
    assert_eq!(
        read("acp", r#"{"id":7,"method":"work","params":{"tag":5}}"#),
        request(Some(5), tagged)
    );
    let deep = json!({ "a": 1, "arguments": { "tag": 5 } });
    let text = format!(r#"{{"id":7,"method":"work","params":{deep}}}"#);
    assert_eq!(read("acp", &text), request(Some(5), deep));
    let response = |id: Value, answer: Value| Message::Response { id, answer };
    let result = json!({ "result": 1 });
    assert_eq!(read("acp", r#"{"id":7,"result":1,"more":2}"#), response(json!(7), result));
    let error = json!({ "error": {} });
    assert_eq!(read("acp", r#"{"id":7,"error":{}}"#), response(json!(7), error.clone()));
    assert_eq!(read("acp", r#"{"error":{}}"#), response(Value::Null, error));
    let hello = json!({ "method": "hello" });
    assert_eq!(read("acp", &hello.to_string()), Message::Notification(hello));
    assert_eq!(read("acp", "[1]"), Message::Batch(json!([1])));
    assert_eq!(read("acp", "hello"), Message::Other("hello".into()));
    assert_eq!(read("acp", r#"{"id":7}"#), Message::Other(r#"{"id":7}"#.into()));
    assert_eq!(read("acp", "{}"), Message::Other("{}".into()));
}

#[test]
fn a_cancel_names_a_number_without_fraction_or_a_text() {
    let cancel =
        |id: &Value| json!({ "method": "$/cancel_request", "params": { "requestId": id } });
    for id in [json!(7), json!(-7), json!(u64::MAX), json!("7")] {
        let read = read("acp", &cancel(&id).to_string());
        assert_eq!(read, Message::Cancel { target: Ok(id), own: None });
    }
    for id in [json!(7.5), json!(null), json!([7]), json!(true)] {
        let cancel = cancel(&id);
        let read = read("acp", &cancel.to_string());
        assert_eq!(read, Message::Cancel { target: Err(cancel), own: None });
    }
    let of_another = cancel(&json!(7));
    assert_eq!(read("lsp", &of_another.to_string()), Message::Notification(of_another));
}

#[test]
fn messages_with_numbers_are_told_apart() {
    let read = |message: Value| read("dap", &message.to_string());
    let request = |command: &str, arguments: Value| json!({ "seq": 7, "type": "request", "command": command, "arguments": arguments });
    let asked = |method: &str, params: Value| {
        let tag = super::tag(&params);
        Message::Request(Request { id: json!(7), tag, method: method.into(), params })
    };
    let tagged = json!({ "tag": 5 });
    assert_eq!(read(request("work", tagged.clone())), asked("work", tagged));
    let cancel = |target| Message::Cancel { target, own: Some(json!(7)) };
    let named = json!({ "requestId": 3, "progressId": "p" });
    assert_eq!(read(request("cancel", named)), cancel(Ok(json!(3))));
    for arguments in [json!({}), json!(null), json!({ "requestId": "3", "progressId": "p" })] {
        let malformed = request("cancel", arguments);
        assert_eq!(read(malformed.clone()), cancel(Err(malformed)));
    }
    let progress = json!({ "progressId": "p" });
    assert_eq!(read(request("cancel", progress.clone())), asked("cancel", progress));
    let event = json!({ "seq": 7, "type": "event", "event": "stopped", "body": 1 });
    let unnumbered = json!({ "type": "event", "event": "stopped", "body": 1 });
    assert_eq!(read(event), Message::Notification(unnumbered));
    for nothing in [
        json!({ "seq": 0, "type": "request", "command": "work" }),
        json!({ "seq": 7, "type": "request" }),
        json!({ "seq": 7, "type": "event" }),
        json!({ "seq": 7, "type": "response", "request_seq": "3", "success": true }),
        json!({ "seq": 7, "command": "work" }),
    ] {
        assert_eq!(read(nothing.clone()), Message::Other(nothing.to_string()));
    }
}

#[test]
fn what_is_written_with_numbers_is_read_as_it_was_meant() {
    let dap = protocol("dap").expect("it has checks");
    let answer = |answer: Value| {
        let text = dap.respond(7, "work", &answer, 9);
        match read("dap", &text) {
            Message::Response { id, answer } => (id, answer),
            other => panic!("{other:?}"),
        }
    };
    let result = json!({ "result": { "command": "work", "body": { "a": 1 } } });
    assert_eq!(answer(json!({ "result": { "a": 1 } })), (json!(7), result));
    let error = |code: i64| answer(json!({ "error": { "code": code, "message": "no" } })).1;
    assert_eq!(
        (&error(3)["error"]["code"], &error(3)["error"]["message"]),
        (&json!(3), &json!("no"))
    );
    let cancelled = error(-32800);
    assert_eq!(
        (&cancelled["error"]["code"], &cancelled["error"]["message"]),
        (&json!(-32800), &json!("cancelled"))
    );
    assert_eq!(answer(json!({ "success": "yes" })).1, json!({}));
    let note = dap.raw_notification("note", json!({ "n": 1 }), 9);
    assert_eq!(
        read("dap", &note),
        Message::Notification(json!({ "type": "event", "event": "note", "body": { "n": 1 } }))
    );
    let may_be: Vec<bool> =
        [json!(7), json!(0), json!(-7), json!("7")].iter().map(|id| has_id(&dap, id)).collect();
    assert_eq!(may_be, [true, false, false, false]);
}
