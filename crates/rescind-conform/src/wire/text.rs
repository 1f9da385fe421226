//! The texts of our messages in each envelope. Ids, params and members are JSON already.

use std::fmt::Display;

use protocol_core::{Envelope, code};
use serde_json::{Value, json};

use super::Wire;

impl Wire {
    /// A request, or a cancel that is one.
    pub(crate) fn raw_request(
        &self,
        id: impl Display,
        method: &str,
        params: impl Display,
    ) -> String {
        let method = json!(method);
        match self.dialect.envelope {
            Envelope::JsonRpc => {
                format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{method},"params":{params}}}"#)
            }
            Envelope::Abp => {
                format!(r#"{{"type":{method},"id":{id},"timestamp":0,"payload":{params}}}"#)
            }
            Envelope::Dap => {
                format!(
                    r#"{{"seq":{id},"type":"request","command":{method},"arguments":{params}}}"#
                )
            }
        }
    }

    /// A notification. `own` is its number, where messages have numbers.
    pub(crate) fn raw_notification(
        &self,
        method: &str,
        params: impl Display,
        own: impl Display,
    ) -> String {
        match self.dialect.envelope {
            Envelope::JsonRpc => {
                format!(r#"{{"jsonrpc":"2.0","method":{},"params":{params}}}"#, json!(method))
            }
            Envelope::Abp => self.raw_request("\"n\"", method, params),
            Envelope::Dap => {
                let event = json!(method);
                format!(r#"{{"seq":{own},"type":"event","event":{event},"body":{params}}}"#)
            }
        }
    }

    /// Returns the answer that is an error.
    pub(crate) fn error(code: i64, message: &str) -> Value {
        json!({ "error": { "code": code, "message": message } })
    }

    /// A response to a request of this id and method. The answer is `{"result": …}` or `{"error": …}`, or has other members, which
    /// stay as they are.
    pub(crate) fn respond(
        &self,
        to: impl Display,
        method: &str,
        answer: &Value,
        own: impl Display,
    ) -> String {
        let answer = enveloped(self.dialect.envelope, answer).to_string();
        let members = answer.strip_prefix('{').and_then(|members| members.strip_suffix('}'));
        let members = members.expect("an answer is an object");
        match self.dialect.envelope {
            Envelope::JsonRpc => format!(r#"{{"jsonrpc":"2.0","id":{to},{members}}}"#),
            Envelope::Abp => {
                let payload = format!(r#"{{"callId":{to},{members}}}"#);
                self.raw_request(to, "capabilities/call-result", payload)
            }
            Envelope::Dap => {
                let command = json!(method);
                format!(
                    r#"{{"seq":{own},"type":"response","request_seq":{to},"command":{command},{members}}}"#
                )
            }
        }
    }
}

/// Returns an answer with the members that an envelope has for its result or error.
fn enveloped(envelope: Envelope, answer: &Value) -> Value {
    let is_dap = envelope == Envelope::Dap;
    match (answer.get("result"), answer.get("error")) {
        _ if envelope == Envelope::JsonRpc => answer.clone(),
        (Some(result), None) if is_dap => json!({ "success": true, "body": result }),
        (Some(result), None) => json!({ "success": true, "data": result }),
        (None, Some(error)) if error["code"] == code::REQUEST_CANCELLED && is_dap => {
            json!({ "success": false, "message": "cancelled" })
        }
        (None, Some(error)) if error["code"] == code::REQUEST_CANCELLED => {
            json!({ "success": false, "cancelled": true })
        }
        (None, Some(error)) if is_dap => {
            let told = json!({ "id": error["code"], "format": error["message"] });
            json!({ "success": false, "message": error["message"], "body": { "error": told } })
        }
        (None, Some(error)) => {
            let told = json!({ "code": "OPERATION_FAILED", "message": error["message"] });
            json!({ "success": false, "error": told })
        }
        _ => answer.clone(),
    }
}
