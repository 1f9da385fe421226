//! The texts of our messages in each envelope. Ids, params and members are JSON already.

use protocol_core::Envelope;
use serde_json::json;

/// A request, or a cancel that is one.
pub(crate) fn request(envelope: Envelope, id: &str, method: &str, params: &str) -> String {
    let method = json!(method);
    match envelope {
        Envelope::JsonRpc => {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{method},"params":{params}}}"#)
        }
        Envelope::Abp => {
            format!(r#"{{"type":{method},"id":{id},"timestamp":0,"payload":{params}}}"#)
        }
        Envelope::Dap => {
            format!(r#"{{"seq":{id},"type":"request","command":{method},"arguments":{params}}}"#)
        }
    }
}

/// A notification. `own` is its number, where messages have numbers.
pub(crate) fn notification(envelope: Envelope, method: &str, params: &str, own: &str) -> String {
    match envelope {
        Envelope::JsonRpc => {
            format!(r#"{{"jsonrpc":"2.0","method":{},"params":{params}}}"#, json!(method))
        }
        Envelope::Abp => request(envelope, "\"n\"", method, params),
        Envelope::Dap => {
            let event = json!(method);
            format!(r#"{{"seq":{own},"type":"event","event":{event},"body":{params}}}"#)
        }
    }
}

/// A response to a request of this id and method, with these members beside what the envelope wants.
pub(crate) fn response(
    envelope: Envelope,
    to: &str,
    method: &str,
    members: &str,
    own: &str,
) -> String {
    match envelope {
        Envelope::JsonRpc => format!(r#"{{"jsonrpc":"2.0","id":{to},{members}}}"#),
        Envelope::Abp => {
            let payload = format!(r#"{{"callId":{to},{members}}}"#);
            request(envelope, to, "capabilities/call-result", &payload)
        }
        Envelope::Dap => {
            let command = json!(method);
            format!(
                r#"{{"seq":{own},"type":"response","request_seq":{to},"command":{command},{members}}}"#
            )
        }
    }
}
