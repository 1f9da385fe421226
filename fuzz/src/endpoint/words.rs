//! Messages that the peer of a scene writes.

use protocol_core::{CancelRule, Dialect, Envelope};

pub(super) fn text(length: usize) -> String {
    "x".repeat(length)
}

/// The token of the id that the peer uses for its request of this number, and for nothing else.
///
/// It is the only one with a 1 in front of five digits.
pub(super) fn fresh(number: usize, dialect: &Dialect) -> String {
    let id = format!("1{number:05}");
    if dialect.envelope == Envelope::Dap { id } else { format!("\"{id}\"") }
}

/// A request with this token as its id.
pub(super) fn request(id: &str, method: &str, param: &str, dialect: &Dialect) -> String {
    match dialect.envelope {
        Envelope::JsonRpc => {
            let params = format!(r#"{{"a":"{param}"}}"#);
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
        }
        Envelope::Abp if method == "tool/call" => {
            let payload = format!(r#"{{"capability":"m","options":{{"callId":{id}}}}}"#);
            format!(r#"{{"type":"capabilities/call","id":{id},"payload":{payload}}}"#)
        }
        Envelope::Abp => {
            format!(r#"{{"type":"{method}","id":{id},"payload":{{"a":"{param}"}}}}"#)
        }
        Envelope::Dap => {
            let command = format!(r#""command":"{method}","arguments":{{"a":"{param}"}}"#);
            format!(r#"{{"seq":{id},"type":"request",{command}}}"#)
        }
    }
}

/// Returns a notification in the words of the dialect.
pub(super) fn note(param: &str, dialect: &Dialect) -> String {
    match dialect.envelope {
        Envelope::JsonRpc => {
            format!(r#"{{"jsonrpc":"2.0","method":"note","params":["{param}"]}}"#)
        }
        Envelope::Abp => format!(r#"{{"type":"note","payload":{{"a":"{param}"}}}}"#),
        Envelope::Dap => {
            format!(r#"{{"seq":2,"type":"event","event":"note","body":{{"a":"{param}"}}}}"#)
        }
    }
}

/// A response to a call of that number.
pub(super) fn response(number: u32, length: usize, dialect: &Dialect) -> String {
    let long = text(length);
    match dialect.envelope {
        Envelope::JsonRpc => format!(r#"{{"jsonrpc":"2.0","id":{number},"result":"{long}"}}"#),
        Envelope::Abp => format!(
            r#"{{"type":"capabilities/call-result","id":"{number}","payload":{{"success":true,"data":"{long}"}}}}"#
        ),
        Envelope::Dap => {
            let outcome = format!(r#""success":true,"command":"m","body":"{long}""#);
            format!(r#"{{"seq":2,"type":"response","request_seq":{number},{outcome}}}"#)
        }
    }
}

/// The dialect's cancel of the request with this id, if it names a request.
pub(super) fn cancel(id: &str, dialect: &Dialect) -> Option<String> {
    let (method, member) = match &dialect.cancel {
        CancelRule::Notification { method, id, .. } => (method, id),
        CancelRule::Request { method, id, .. } => (method, id),
        _ => return None,
    };
    Some(match (dialect.envelope, &dialect.cancel) {
        (Envelope::Dap, _) => format!(
            r#"{{"seq":77,"type":"request","command":"{method}","arguments":{{"{member}":{id}}}}}"#
        ),
        (Envelope::Abp, _) => {
            format!(r#"{{"type":"{method}","id":"c","payload":{{"{member}":{id}}}}}"#)
        }
        (Envelope::JsonRpc, CancelRule::Request { .. }) => format!(
            r#"{{"jsonrpc":"2.0","id":"c","method":"{method}","params":{{"{member}":{id}}}}}"#
        ),
        (Envelope::JsonRpc, _) => {
            format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"{member}":{id}}}}}"#)
        }
    })
}
