//! Messages in few words, for charts.

use serde_json::Value;

/// A message in few words, framed or not: `request 1 work`, `answer 1 error -32800`.
pub(crate) fn label(message: &[u8]) -> String {
    let text = String::from_utf8_lossy(message);
    let text = text.split_once("\r\n\r\n").map_or(&*text, |(_, body)| body).trim();
    let Ok(message) = serde_json::from_str::<Value>(text) else {
        return format!("bad: {}", text.chars().take(18).collect::<String>());
    };
    match message.as_array() {
        Some(members) => members.iter().map(word).collect::<Vec<_>>().join(", "),
        None => word(&message),
    }
}

fn word(message: &Value) -> String {
    match message["type"].as_str() {
        Some(kind @ ("request" | "response" | "event")) => return word_of_dap(kind, message),
        Some(kind) => return word_of_abp(kind, message),
        None => {}
    }
    let id = message.get("id").map(|id| format!(" {id}")).unwrap_or_default();
    let method = message["method"].as_str();
    match (method, message.get("result"), message.get("error")) {
        (Some(method), ..) if !id.is_empty() => format!("request{id} {method}"),
        (Some(method), ..) => {
            let params = &message["params"];
            let names = ["requestId", "id", "progressToken", "token", "sessionId", "callId"];
            let named = names.iter().find_map(|name| params.get(name));
            let method = method.rsplit('/').next().unwrap_or(method);
            named.map_or_else(|| method.into(), |named| format!("{method} {named}"))
        }
        (None, Some(_), None) => format!("answer{id} result"),
        (None, None, Some(error)) => format!("answer{id} error {}", error["code"]),
        _ => format!("bad{id}"),
    }
}

/// The type, the number that it is known by, and what it asks for or says.
fn word_of_dap(kind: &str, message: &Value) -> String {
    let id = [&message["request_seq"], &message["seq"]].into_iter().find(|id| !id.is_null());
    let id = id.map(|id| format!(" {id}")).unwrap_or_default();
    let what = ["event", "message", "command"].iter().find_map(|name| message[*name].as_str());
    let names = message["arguments"].get("requestId").map(|id| format!(" of {id}"));
    format!("{kind}{id} {}{}", what.unwrap_or_default(), names.unwrap_or_default())
}

/// The type without what all have in common, its call, and what an answer says.
fn word_of_abp(kind: &str, message: &Value) -> String {
    let payload = &message["payload"];
    let kind = kind.rsplit('/').next().unwrap_or(kind);
    let id = [&payload["callId"], &payload["options"]["callId"], &message["id"]];
    let id = id.into_iter().find(|id| !id.is_null()).map(|id| format!(" {id}"));
    let says = [("success", "success"), ("cancelled", "cancelled"), ("capability", "")];
    let says = says.iter().find_map(|(member, word)| match payload.get(member)? {
        Value::Bool(is) => Some(format!(" {word} {is}")),
        name => Some(format!(" {name}")),
    });
    format!("{kind}{}{}", id.unwrap_or_default(), says.unwrap_or_default())
}
