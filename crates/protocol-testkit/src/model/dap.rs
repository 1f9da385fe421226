//! The envelope of DAP, `{seq, type, …}`, read the slow way.

use protocol_core::code;
use serde_json::Value;

use super::message::{Answered, Asked, Message, NOTHING, Origin};

pub(super) fn message(value: &Value) -> Message<'_> {
    let Some(members) = value.as_object() else {
        return Message::Invalid { id: NOTHING, origin: None };
    };
    let member = |name: &str| members.get(name).unwrap_or(NOTHING);
    let is_params = |value: &Value| value.is_object() || value.is_array() || value.is_null();
    match member("type").as_str() {
        Some("request") => {
            let (id, params) = (member("seq"), member("arguments"));
            let is_number = id.as_i64().is_some_and(|seq| i32::try_from(seq).is_ok());
            // Its answer repeats both.
            let Some(method) = member("command").as_str().filter(|_| is_number) else {
                return Message::Invalid { id, origin: None };
            };
            let origin = Some(Origin { message: id.to_string(), asked: Asked::Command });
            match is_params(params) {
                true => Message::Request { id, method, params, origin },
                false => Message::Invalid { id, origin },
            }
        }
        Some("event") => match (member("event").as_str(), member("body")) {
            (Some(method), params) if is_params(params) => Message::Notification { method, params },
            _ => Message::InvalidNotification,
        },
        Some("response") => {
            let answer = match member("success").as_bool() {
                Some(true) => Some(Answered::Result(member("body"))),
                Some(false) => Some(Answered::Error(code_of(value))),
                None => None,
            };
            Message::Response { id: member("request_seq"), asked: None, answer }
        }
        _ => Message::InvalidNotification,
    }
}

fn code_of(response: &Value) -> i64 {
    match response["message"].as_str() {
        Some("cancelled") => code::REQUEST_CANCELLED,
        _ => response["body"]["error"]["id"].as_i64().unwrap_or(code::REQUEST_FAILED),
    }
}
