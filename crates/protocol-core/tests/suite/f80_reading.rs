//! F80: reading a message of n bytes takes at most n bytes beside the message, and a constant.

use heap::Heap;
use protocol_core::{CallOptions, Config, Connection, Dialect, Event, Timestamp};
use serde_json::value::RawValue;

/// Rows, ids and the buffers of responses, which other limits bound.
const CONSTANT: usize = 6 << 10;

/// Returns texts of about `len` bytes, as the parts of messages that a peer makes as long as it likes.
fn hostile_texts(len: usize) -> [(&'static str, String); 5] {
    [
        ("plain", "a".repeat(len)),
        ("one escape", format!(r"{}\n", "a".repeat(len))),
        ("escapes", r"\n".repeat(len / 2)),
        ("long escapes", r"\u0061".repeat(len / 6)),
        ("surrogates", r"\ud83d\ude00".repeat(len / 12)),
    ]
}

/// Returns values that nest as deep as their length allows, whole and broken.
fn hostile_nestings(len: usize) -> [(&'static str, String); 6] {
    let half = len / 2;
    [
        ("[", "[".repeat(len)),
        ("{", r#"{"":"#.repeat(len / 4)),
        ("[]", "[".repeat(half) + &"]".repeat(half)),
        ("[] broken", "[".repeat(half) + &"]".repeat(half - 1) + "}"),
        ("[] within []", format!("[{}{}]", "[".repeat(half), "],".repeat(half / 2))),
        ("{}", r#"{"":"#.repeat(len / 5) + "0" + &"}".repeat(len / 5)),
    ]
}

/// Returns the number of bytes that a connection took while it read this message.
fn peak(dialect: &Dialect, message: &str) -> usize {
    let mut config = Config::client(dialect.clone());
    config.limits.batch_members = 4;
    config.limits.id_bytes = 64;
    config.limits.depth = usize::MAX;
    let mut conn: Connection<()> = Connection::new(config);
    let token: Box<RawValue> = serde_json::from_str(r#"{"workDoneToken":"t"}"#).unwrap();
    let mut options = CallOptions::default();
    options.idle_timeout = Some(core::time::Duration::from_secs(1));
    conn.call("m", Some(&token), (), options, Timestamp::ZERO).unwrap();
    let heap = Heap::of_thread();
    let mut event = conn.receive(message.as_bytes(), Timestamp::ZERO);
    while let Some(Event::Violation { .. }) | Some(Event::Request { .. }) = event {
        event = conn.poll_event();
    }
    drop(event);
    heap.peak()
}

fn check(dialect: &Dialect, what: &str, message: &str, share: usize) {
    let (peak, len) = (peak(dialect, message), message.len());
    assert!(peak <= len / share + CONSTANT, "{} {what}: {peak} for {len}", dialect.name);
}

#[test]
fn f80_reading_a_text_takes_no_more_than_its_length() {
    // Without a session, a request is accepted at once, and its cancel is applied.
    let mut dap = Dialect::DAP;
    dap.session = None;
    for len in [70_000, 131_000, 263_000] {
        for (what, text) in hostile_texts(len) {
            for message in [
                format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{text}"}}"#),
                format!(r#"{{"jsonrpc":"2.0","method":"{text}","params":[]}}"#),
                format!(r#"{{"jsonrpc":"{text}","id":1,"method":"m"}}"#),
                format!(r#"{{"jsonrpc":"2.0","id":"{text}","method":"m"}}"#),
                format!(r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":1,"message":"{text}"}}}}"#),
                format!(
                    r#"{{"jsonrpc":"2.0","method":"$/progress","params":{{"token":"{text}"}}}}"#
                ),
                format!(
                    r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{"workDoneToken":"{text}"}}}}"#
                ),
                format!(
                    r#"{{"jsonrpc":"2.0","method":"$/cancelRequest","params":{{"id":"{text}"}}}}"#
                ),
                format!(r#"{{"{text}":1,"jsonrpc":"2.0","method":"m"}}"#),
                format!("\"{text}\""),
                format!("\"{text}"),
                format!("[\"{text}\"]"),
            ] {
                check(&Dialect::LSP_3_17, what, &message, 1);
            }
            // Tokens of the peer's requests are kept there, up to the limit.
            let message = format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{"_meta":{{"progressToken":"{text}"}}}}}}"#
            );
            check(&Dialect::MCP_2026_07_28, what, &message, 1);
            for message in [
                format!(r#"{{"type":"{text}","id":"1","payload":{{}}}}"#),
                format!(
                    r#"{{"type":"capabilities/call","id":"{text}","payload":{{"capability":"c"}}}}"#
                ),
                format!(
                    r#"{{"type":"capabilities/call","id":"1","payload":{{"capability":"{text}"}}}}"#
                ),
                format!(
                    r#"{{"type":"capabilities/call-result","id":"1","payload":{{"success":false,"error":{{"code":"{text}"}}}}}}"#
                ),
                format!(
                    r#"{{"type":"capabilities/progress","payload":{{"progressToken":"{text}"}}}}"#
                ),
            ] {
                check(&Dialect::ABP, what, &message, 1);
            }
            for message in [
                format!(r#"{{"seq":1,"type":"{text}"}}"#),
                format!(r#"{{"seq":1,"type":"request","command":"{text}"}}"#),
                format!(r#"{{"seq":1,"type":"event","event":"{text}"}}"#),
                format!(
                    r#"{{"seq":1,"type":"response","request_seq":1,"success":false,"message":"{text}"}}"#
                ),
                format!(
                    r#"{{"seq":1,"type":"request","command":"cancel","arguments":{{"requestId":"{text}","progressId":"p"}}}}"#
                ),
            ] {
                check(&dap, what, &message, 1);
            }
        }
    }
}

#[test]
fn f80_reading_nested_arrays_takes_a_bit_for_each() {
    for len in [70_000, 131_000, 263_000] {
        for (what, value) in hostile_nestings(len) {
            check(&Dialect::LSP_3_17, what, &value, 7);
            let message = format!(r#"{{"jsonrpc":"2.0","method":"m","params":{value}}}"#);
            check(&Dialect::LSP_3_17, what, &message, 7);
            check(&Dialect::ABP, what, &format!(r#"{{"type":"m","payload":{value}}}"#), 7);
            let message = format!(r#"{{"type":"response","request_seq":1,"body":{value}}}"#);
            check(&Dialect::DAP, what, &message, 7);
        }
    }
}
