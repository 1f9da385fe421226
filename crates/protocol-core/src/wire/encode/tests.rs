use alloc::boxed::Box;
use alloc::string::String;
use alloc::{format, vec};

use super::*;
use crate::config::Limits;
use crate::dialect::Dialect;
use crate::id::WireId;
use crate::wire::decode::{Incoming, Message, incoming};

const AWKWARD: [&str; 8] = [
    "",
    "plain",
    "a\"b\\c",
    "\u{0}\n\u{1f}é\u{2028}",
    "eight by",
    "twelve bytes",
    "a quote late\"",
    "more than eight, and a backslash \\ and a \u{7f}",
];

const RAW: [&str; 5] =
    ["{}", "[1,\r2]", "{\"a\":\r\n\n1}", "{\"a\":\n\"\\n\"}", "{\"progressToken\":\"\\u0031\"}"];

fn raw(json: &str) -> &RawValue {
    serde_json::from_str(json).unwrap()
}

fn config(envelope: Envelope) -> Config {
    let mut config = Config::client(Dialect::ABP);
    config.dialect.envelope = envelope;
    config.dialect.cancelled_message = "Request \"cancelled\"".into();
    config
}

fn written(draft: &Draft<'_>, envelope: Envelope) -> String {
    let mut out = vec![b'x'];
    let config = config(envelope);
    let context = Context { config: &config, now: Timestamp::from_millis(1_234) };
    draft.write(&context, &mut out);
    let (len, bounds) = (out.len() - 1, draft.bounds(&context));
    assert_eq!(len, draft.len(&context), "{draft:?}");
    assert!(bounds.usual <= bounds.most && len <= bounds.most, "{draft:?}: {bounds:?}");
    let text = String::from_utf8(out).unwrap();
    assert!(!text.contains(['\n', '\r']), "{text:?}");
    serde_json::from_str::<&RawValue>(&text[1..]).expect("it is JSON");
    text[1..].into()
}

/// Where answers go in ABP's envelope: to a call and to another message.
fn origins() -> [Box<Origin>; 2] {
    ["capabilities/call", "a/\\\"b"].map(|kind| {
        let message = format!(
            "{{\"type\":\"{kind}\",\"id\":\"m\",\"payload\":{{\"capability\":\"x\",\"callId\":\"c\"}}}}"
        );
        match incoming(message.as_bytes(), Envelope::Abp, &Limits::default()) {
            Incoming::One(Message::Abp { origin, .. }) => origin,
            other => panic!("{other:?}"),
        }
    })
}

/// Hands over messages of every kind that say this.
fn each_draft(text: &str, value: &RawValue, mut take: impl FnMut(&Draft<'_>)) {
    let origins = origins();
    let origins = [None, Some(&*origins[0]), Some(&*origins[1])];
    let token = OperationToken::from_bytes([0xa5; 16]);
    let error =
        format!("{{\"code\":-32800,\n\"message\":{}}}", serde_json::to_string(text).unwrap());
    let other = format!("{{\"code\":-1,\"message\":{}}}", serde_json::to_string(text).unwrap());
    for (number, code) in [(0, i64::MIN), (9, -1), (10, 0), (u32::MAX, i64::MAX)] {
        for params in [None, Some(value)] {
            for method in [text, "initialize", "capabilities/progress"] {
                take(&Draft::Notification { method, params });
                for timeout in [None, Some(Duration::ZERO), Some(Duration::MAX)] {
                    take(&Draft::Request { number, method, params, timeout });
                }
            }
        }
        for origin in origins {
            let to = To { id: "\"\\u0041\"", origin };
            for data in [None, Some(value)] {
                take(&Draft::Response { to, reply: Reply::Error { code, message: text, data } });
            }
            take(&Draft::TokenResult { to, member: text, token });
            for reply in [
                Reply::Result(value),
                Reply::Cancelled,
                Reply::ErrorRaw(value),
                Reply::ErrorRaw(raw(&error)),
                Reply::ErrorRaw(raw(&other)),
            ] {
                take(&Draft::Response { to, reply });
            }
            for met in [
                RequestStep::MarkCancelled,
                RequestStep::CancelledBefore,
                RequestStep::Completed,
                RequestStep::NotFound,
                RequestStep::Ignore,
            ] {
                let what = Acknowledged::Request { member: text, target: "1e0", met };
                take(&Draft::Acknowledgement { to, what });
            }
            take(&Draft::Acknowledgement { to, what: Acknowledged::Operation });
        }
        for id in [Id::Ours(number), Id::Token("\"\"")] {
            for reason in [None, Some((text, text))] {
                let names = Names { member: text, id, reason };
                for number in [None, Some(number)] {
                    take(&Draft::Cancel { number, method: text, names });
                }
            }
        }
        take(&Draft::Told { method: text, token: "\"AB\"", reason: text });
    }
}

#[test]
fn g08_the_bound_holds_where_every_character_is_escaped() {
    each_draft(&"\u{1}".repeat(100), raw("{}"), |draft| {
        for envelope in [Envelope::JsonRpc, Envelope::Abp] {
            written(draft, envelope);
        }
    });
}

#[test]
fn g08_the_length_is_known_before_anything_is_written() {
    for text in AWKWARD {
        for value in RAW {
            each_draft(text, raw(value), |draft| {
                for envelope in [Envelope::JsonRpc, Envelope::Abp] {
                    written(draft, envelope);
                }
            });
        }
    }
}

fn string(text: &str) -> String {
    let mut out = Vec::new();
    out.string(text);
    String::from_utf8(out).unwrap()
}

#[test]
fn strings_are_escaped_as_json_asks() {
    for text in AWKWARD {
        assert_eq!(serde_json::from_str::<String>(&string(text)).unwrap(), text);
    }
    for len in 0..=40 {
        let plain = "a".repeat(len);
        assert_eq!(string(&plain), format!("\"{plain}\""));
        for special in ["\"", "\\", "\u{0}", "\u{1f}"] {
            for at in 0..=len {
                let text = format!("{}{special}{}", &plain[..at], &plain[at..]);
                let json = string(&text);
                let read = serde_json::from_str::<String>(&json);
                assert_eq!(read.ok().as_deref(), Some(&*text), "{json}");
            }
        }
    }
}

#[test]
fn numbers_are_decimal() {
    for number in [0, 7, 9, 10, 99, 100, u64::from(u32::MAX), u64::MAX] {
        let (mut out, mut length) = (Vec::new(), Length(0));
        out.decimal(number);
        length.decimal(number);
        assert_eq!(String::from_utf8(out).unwrap(), format!("{number}"));
        assert_eq!(length.0, format!("{number}").len());
    }
    let to = To { id: "1", origin: None };
    let reply = Reply::Error { code: i64::MIN, message: "", data: None };
    let min = written(&Draft::Response { to, reply }, Envelope::JsonRpc);
    assert!(min.contains("-9223372036854775808"), "{min}");
}

#[test]
fn a_message_is_one_line() {
    for end in ["\n", "\r", "\r\n", "\r\r", "\n\n\r"] {
        let params = format!("{{\"a\":{end}1{end},\"b\":\"\\r\"}}");
        let params = Some(raw(&params));
        let draft = Draft::Request { number: 1, method: "m", params, timeout: None };
        let space = " ".repeat(end.len());
        assert_eq!(
            written(&draft, Envelope::JsonRpc),
            format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":{{\"a\":{space}1{space},\"b\":\"\\r\"}}}}"
            )
        );
    }
}

#[test]
fn the_token_of_an_operation_is_written_as_it_is_shown() {
    let token = OperationToken::from_bytes(*b"0123456789abcdef");
    let to = To { id: "1", origin: None };
    let draft = Draft::TokenResult { to, member: "token", token };
    let expected = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{{\"token\":\"{token}\"}}}}");
    assert_eq!(written(&draft, Envelope::JsonRpc), expected);
    assert!(WireId::from_token(&format!("\"{token}\"")).is_some());
}
