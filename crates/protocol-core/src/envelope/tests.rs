use alloc::boxed::Box;
use alloc::string::String;
use alloc::{format, vec};

use core::time::Duration;

use super::*;
use crate::config::Config;
use crate::dialect::Dialect;
use crate::event::Response;
use crate::time::Timestamp;

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

fn written(message: &OutgoingMessage<'_>, envelope: Envelope) -> String {
    let mut out = vec![b'x'];
    let config = config(envelope);
    let context = Context { config: &config, now: Timestamp::from_millis(1_234), next: 7 };
    message.write(&context, usize::MAX, &mut out).unwrap();
    let len = out.len() - 1;
    assert_eq!(len, message.len(&context), "{message:?}");
    let mut exact = Vec::new();
    assert_eq!((message.write(&context, len, &mut exact), &*exact), (Ok(()), &out[1..]));
    for most in [0, len / 2, len - 1] {
        let mut part = Vec::new();
        assert_eq!(message.write(&context, most, &mut part), Err(len), "{message:?}");
        assert!(part.len() <= most + 200, "{message:?}");
    }
    let text = String::from_utf8(out).unwrap();
    assert!(!text.contains(['\n', '\r']), "{text:?}");
    serde_json::from_str::<&RawValue>(&text[1..]).expect("it is JSON");
    text[1..].into()
}

/// Returns the origins of two requests in ABP's envelope: a call, and a message of another type.
fn origins() -> [Box<Origin>; 2] {
    ["capabilities/call", "a/\\\"b"].map(|kind| {
        let message = format!(
            "{{\"type\":\"{kind}\",\"id\":\"m\",\"payload\":{{\"capability\":\"x\",\"callId\":\"c\"}}}}"
        );
        match Envelope::Abp.read(message.as_bytes(), &Limits::default()) {
            Some(Message::Request(Request { origin: Some(origin), .. })) => origin,
            other => panic!("{other:?}"),
        }
    })
}

/// Hands over messages of every kind that contain this text or this value.
fn each_message(text: &str, value: &RawValue, mut take: impl FnMut(&OutgoingMessage<'_>)) {
    let origins = origins();
    let origins = [None, Some(&*origins[0]), Some(&*origins[1])];
    // Of any length: what the host names can be longer than there is room for.
    let token = &*format!("\"{}\"", "0A".repeat(1_000));
    let error =
        format!("{{\"code\":-32800,\n\"message\":{}}}", serde_json::to_string(text).unwrap());
    let other = format!("{{\"code\":-1,\"message\":{}}}", serde_json::to_string(text).unwrap());
    for (number, code) in [(0, i64::MIN), (9, -1), (10, 0), (u32::MAX, i64::MAX)] {
        for params in [None, Some(value)] {
            for method in [text, "initialize", "capabilities/progress"] {
                let params = params.map(Value::Raw);
                take(&OutgoingMessage::Notification { method, params });
                for limit in [None, Some(Duration::ZERO), Some(Duration::MAX)] {
                    for kind in [RequestKind::Ordinary, RequestKind::Typed] {
                        let chosen = Some(value).filter(|_| number == 9);
                        take(&OutgoingMessage::Request {
                            number,
                            kind,
                            method,
                            params,
                            limit,
                            chosen,
                        });
                    }
                }
            }
        }
        for origin in origins {
            let to = Addressee { id: token, origin };
            for data in [None, Some(value)] {
                take(&OutgoingMessage::Response {
                    to,
                    response: Response::Error { code, message: text, data },
                });
            }
            for response in [
                Response::Result(value),
                Response::Cancelled,
                Response::ErrorRaw(value),
                Response::ErrorRaw(raw(&error)),
                Response::ErrorRaw(raw(&other)),
            ] {
                take(&OutgoingMessage::Response { to, response });
            }
            take(&OutgoingMessage::Result { to, members: &[] });
            for value in [Value::Number(number.into()), Value::Token(token), Value::Text(text)] {
                take(&OutgoingMessage::Result { to, members: &[(text, Some(value))] });
            }
        }
        for id in [Value::Number(number.into()), Value::Token(token)] {
            for why in [None, Some(Value::Text(text))] {
                let members = &[(text, Some(id)), (text, why)];
                take(&OutgoingMessage::cancel(None, text, members));
                take(&OutgoingMessage::cancel(Some(number), text, members));
            }
        }
    }
}

#[test]
fn g08_the_length_is_exact_where_every_character_is_escaped() {
    each_message(&"\u{1}".repeat(100), raw("{}"), |message| {
        for envelope in [Envelope::JsonRpc, Envelope::Abp, Envelope::Dap] {
            written(message, envelope);
        }
    });
}

#[test]
fn g08_no_more_is_written_than_there_is_room_for() {
    for text in AWKWARD {
        for value in RAW {
            each_message(text, raw(value), |message| {
                for envelope in [Envelope::JsonRpc, Envelope::Abp, Envelope::Dap] {
                    written(message, envelope);
                }
            });
        }
    }
}

#[test]
fn a_code_may_be_any_number() {
    let to = Addressee { id: "1", origin: None };
    for code in [i64::MIN, -1, 0, 1, i64::MAX] {
        let response = Response::Error { code, message: "", data: None };
        let error = written(&OutgoingMessage::Response { to, response }, Envelope::JsonRpc);
        assert!(error.contains(&format!("\"code\":{code},")), "{error}");
    }
}

#[test]
fn a_message_is_one_line() {
    for end in ["\n", "\r", "\r\n", "\r\r", "\n\n\r"] {
        let params = format!("{{\"a\":{end}1{end},\"b\":\"\\r\"}}");
        let (kind, params) = (RequestKind::Ordinary, Some(Value::Raw(raw(&params))));
        let (method, limit, chosen) = ("m", None, None);
        let message = OutgoingMessage::Request { number: 1, kind, method, params, limit, chosen };
        let space = " ".repeat(end.len());
        assert_eq!(
            written(&message, Envelope::JsonRpc),
            format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":{{\"a\":{space}1{space},\"b\":\"\\r\"}}}}"
            )
        );
    }
}

/// The envelope of ABP has the token twice: in the params, and as the id of the message.
#[test]
fn a_progress_whose_token_is_written_on_many_lines_is_one_line() {
    let params = Some(Value::Raw(raw("{\"progressToken\":{\"a\":\n1}}")));
    let progress = OutgoingMessage::Notification { method: "capabilities/progress", params };
    let progress = written(&progress, Envelope::Abp);
    assert!(progress.contains(r#""id":{"a": 1},"#), "{progress}");
}

#[test]
fn a_call_that_is_forwarded_has_the_token_and_the_time_that_the_agent_chose() {
    let options = |chosen| -> String {
        let kind = RequestKind::Ordinary;
        let (method, params, limit) = ("a", None, Some(Duration::from_secs(1)));
        let call = OutgoingMessage::Request { number: 1, kind, method, params, limit, chosen };
        let call = written(&call, Envelope::Abp);
        call.split_once(r#""options":"#).expect("they are there").1.into()
    };
    let own = r#"{"callId":"1","timeout":1000,"progressToken":"1"}}}"#;
    assert_eq!(options(None), own);
    assert_eq!(options(Some(raw("{}"))), r#"{"callId":"1","timeout":1000}}}"#);
    let chosen = raw(r#"{"callId":"c","progressToken":[7],"timeout":5,"more":1}"#);
    let passed = r#"{"callId":"1","timeout":5,"progressToken":[7]}}}"#;
    assert_eq!(options(Some(chosen)), passed);
}

#[test]
fn a_cancel_in_abp_is_no_call_of_a_capability_whatever_its_method() {
    let members = [("callId", Some(Value::QuotedNumber(7)))];
    let cancel = written(&OutgoingMessage::cancel(Some(8), "stop", &members), Envelope::Abp);
    assert!(cancel.starts_with(r#"{"type":"stop","id":"8","#), "{cancel}");
    assert!(cancel.ends_with(r#""payload":{"callId":"7"}}"#), "{cancel}");
}

#[test]
fn only_in_abp_has_progress_an_id() {
    let params = Some(Value::Raw(raw(r#"{"progressToken":5}"#)));
    let progress = OutgoingMessage::Notification { method: "capabilities/progress", params };
    assert!(written(&progress, Envelope::Abp).contains(r#""id":5,"#));
    for envelope in [Envelope::JsonRpc, Envelope::Dap] {
        let progress = written(&progress, envelope);
        assert!(!progress.contains(r#""id":"#) && !progress.contains(r#""seq":5"#), "{progress}");
    }
}
