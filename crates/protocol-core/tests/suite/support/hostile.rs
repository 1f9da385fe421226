//! Messages that no well-behaved peer would write.

use protocol_core::{CancelRule, Dialect, Envelope, Framing};

use super::world::Random;

/// The methods that some dialect treats in a way of its own, and one that none does.
pub(crate) const METHODS: [&str; 4] = ["m", "m", "initialize", "subscriptions/listen"];
/// Params with tokens, tasks and capabilities.
pub(crate) const PARAMS: [&str; 4] = [
    r#"{"sessionId":1,"workDoneToken":1,"_meta":{"progressToken":1}}"#,
    r#"{"sessionId":2,"task":{},"_meta":{"progressToken":2}}"#,
    r#"{"clientCapabilities":{"cancellation":{"request":true}}}"#,
    r#"{"clientCapabilities":{"cancellation":{"request":"true"}},"task":null}"#,
];
const IDS: [&str; 10] =
    ["1", "2", "3", "\"1\"", "\"2\"", "\"3\"", "null", "[]", "1.0", "\"\\u0031\""];

/// Returns something that no well-behaved peer would write, framed.
pub(crate) fn hostile(random: &mut Random, dialect: &Dialect) -> Vec<u8> {
    let message = match dialect.envelope {
        Envelope::JsonRpc => json_rpc(random, dialect),
        Envelope::Abp => abp(random, dialect),
        Envelope::Dap => dap(random, dialect),
    };
    match dialect.framing {
        Framing::ContentLength if random.below(60) == 0 => b"no length\r\n\r\n".to_vec(),
        Framing::ContentLength => {
            format!("content-length: {}\r\n\r\n{message}", message.len()).into_bytes()
        }
        _ => format!("{message}\n").into_bytes(),
    }
}

fn json_rpc(random: &mut Random, dialect: &Dialect) -> String {
    let id = random.pick(&IDS).expect("some");
    let asked = random.pick(&METHODS).expect("some");
    let params = random.pick(&PARAMS).expect("some");
    let request = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{asked}","params":{params}}}"#);
    match random.below(14) {
        0 => super::request(id, "m"),
        1 => super::result(id, "1"),
        2 => super::error(id, -32800),
        3 | 4 => cancel(random, dialect, id),
        5 => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":1,"error":2}}"#),
        6 => format!("[{request},{},1]", cancel(random, dialect, id)),
        7 => format!(r#"[{request},{{"\ud800":{id}}},{}]"#, super::result(id, "1")),
        8 => "x".repeat(random.below(1_500)),
        9 => format!(r#"{{"id":{id}}}"#),
        10 => request,
        11 => super::result(id, &format!(r#"{{"token":{}}}"#, token(random))),
        12 => super::result(id, r#"{"status":"cancelled"}"#),
        _ => super::result(id, r#"{"agentCapabilities":{"cancellation":{"request":true}}}"#),
    }
}

fn cancel(random: &mut Random, dialect: &Dialect, id: &str) -> String {
    let own = random.pick(&IDS).expect("some");
    let (method, own, member, named) = match &dialect.cancel {
        CancelRule::Notification { method, id: member, .. } => {
            (&**method, None, &**member, id.into())
        }
        CancelRule::Request { method, id: member, .. } => {
            (&**method, Some(own), &**member, id.into())
        }
        CancelRule::Operation { method, token, .. } => {
            // One that a host may have made.
            let guess = format!("\"{}\"", format!("{:02x}", random.below(200)).repeat(16));
            (&**method, Some(own), &**token, guess)
        }
        _ => ("$/cancelRequest", None, "id", id.to_owned()),
    };
    let own = own.map_or(String::new(), |own| format!(r#""id":{own},"#));
    let why = format!(r#""why":[{id}],"reason":{id}"#);
    format!(r#"{{"jsonrpc":"2.0",{own}"method":"{method}","params":{{"{member}":{named},{why}}}}}"#)
}

/// Returns a token that nobody made, never the same again. One in four is none.
fn token(random: &mut Random) -> String {
    match random.below(4) {
        0 => random.pick(&["null", "{}"]).expect("two").into(),
        _ => format!("\"{:x}-{:x}\"", random.below(usize::MAX), random.below(usize::MAX)),
    }
}

fn dap(random: &mut Random, dialect: &Dialect) -> String {
    let (id, own) = (random.pick(&IDS).expect("some"), random.pick(&IDS).expect("some"));
    let asked = random.pick(&METHODS).expect("some");
    let params = random.pick(&PARAMS).expect("some");
    let cancel = match &dialect.cancel {
        CancelRule::Request { method, .. } => &**method,
        _ => "cancel",
    };
    let request = |command: &str, arguments: &str| {
        format!(r#"{{"seq":{id},"type":"request","command":"{command}","arguments":{arguments}}}"#)
    };
    let answer = |rest: &str| {
        format!(r#"{{"seq":{own},"type":"response","request_seq":{id},"command":"m",{rest}}}"#)
    };
    match random.below(12) {
        0 | 1 => request("m", params),
        2 => request(asked, params),
        3 | 4 => request(cancel, &format!(r#"{{"requestId":{own},"progressId":{id}}}"#)),
        5 => request(cancel, &format!(r#"{{"progressId":{own}}}"#)),
        6 => answer(r#""success":true,"body":{"supportsCancelRequest":true}"#),
        7 => answer(r#""success":false,"message":"cancelled""#),
        8 => answer(r#""success":false,"message":7,"body":{"error":{"id":-1,"data":[]}}"#),
        9 => format!(r#"{{"seq":{own},"type":"event","event":"{asked}","body":{params}}}"#),
        10 => "x".repeat(random.below(1_500)),
        _ => format!(r#"{{"seq":{id},"seq":{own},"type":"request","command":"{asked}"}}"#),
    }
}

fn abp(random: &mut Random, dialect: &Dialect) -> String {
    let (id, own) = (random.pick(&IDS).expect("some"), random.pick(&IDS).expect("some"));
    let asked = random.pick(&METHODS).expect("some");
    let params = random.pick(&PARAMS).expect("some");
    let cancel = match &dialect.cancel {
        CancelRule::Request { method, .. } => &**method,
        _ => "capabilities/cancel",
    };
    let message = |kind: &str, id: &str, payload: &str| {
        format!(r#"{{"type":"{kind}","id":{id},"timestamp":1,"payload":{payload}}}"#)
    };
    let result = |payload: &str| {
        message("capabilities/call-result", own, &format!(r#"{{"callId":{id},{payload}}}"#))
    };
    match random.below(14) {
        0 | 1 => message(
            "capabilities/call",
            own,
            &format!(r#"{{"capability":"m","params":{params},"options":{{"callId":{id}}}}}"#),
        ),
        2 => message("capabilities/call", own, &format!(r#"{{"capability":"{asked}"}}"#)),
        3 | 4 => message(cancel, own, &format!(r#"{{"callId":{id},"reason":{id}}}"#)),
        5 => result(r#""success":true,"data":1"#),
        6 => result(r#""success":false,"cancelled":true"#),
        7 => result(r#""success":true,"success":false"#),
        8 => message(&format!("{cancel}-result"), id, r#"{"cancelled":true}"#),
        9 => message(&format!("{asked}-result"), id, "{}"),
        10 => message(asked, id, params),
        11 => format!("[{}]", message(asked, id, params)),
        12 => "x".repeat(random.below(1_500)),
        _ => format!(r#"{{"id":{id},"id":{own},"type":"{asked}"}}"#),
    }
}
