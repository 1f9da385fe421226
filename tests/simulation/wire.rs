//! The messages that one side read and wrote, and the rules for those that it wrote.

use std::collections::BTreeMap;

use protocol_async::Way;
use protocol_core::{CancelRule, Dialect, ResponseRule};
use serde_json::Value;

/// Every message of one side, in its order.
pub(crate) type Log = Vec<(Way, String)>;

enum Message {
    Request(String),
    Response(String),
    /// And the id that it names.
    Cancel(String),
    Other,
    Torn,
}

/// Returns the kind of a message, in either envelope.
fn read(dialect: &Dialect, message: &str) -> Message {
    // A line that was cut may end with the beginning of a message.
    let Ok(message) = serde_json::from_str::<Value>(message) else { return Message::Torn };
    let member = match &dialect.cancel {
        CancelRule::Notification { id, .. } => &**id,
        CancelRule::Request { id: member, .. } => member,
        _ => "",
    };
    let id = message.get("id").map(ToString::to_string);
    // The App-Browser Protocol has types, which say what expects an answer.
    let kind = message.get("method").or(message.get("type")).and_then(Value::as_str);
    let content = message.get("params").or(message.get("payload"));
    match (kind, id) {
        (Some(kind), _) if dialect.cancel.has_method(kind) && !dialect.has_operations() => {
            Message::Cancel(content.map_or(Value::Null, |it| it[member].clone()).to_string())
        }
        (Some("capabilities/progress" | "capabilities/cancel-result"), _) => Message::Other,
        (Some("capabilities/call-result" | "initialize-result") | None, Some(id)) => {
            Message::Response(id)
        }
        (Some(_), Some(id)) => Message::Request(id),
        _ => Message::Other,
    }
}

/// The responses and the cancels of one request.
#[derive(Default)]
struct Request {
    answers: usize,
    cancels: usize,
}

/// Judges the output of one side: its responses (G2) and its cancels (G4).
pub(crate) fn judge(dialect: &Dialect, log: &Log, is_interrupted: bool) -> Vec<String> {
    let mut problems = Vec::new();
    let mut problem = |what: &str, id: &str| problems.push(format!("{what}: request {id}"));
    let (mut ours, mut theirs) = (BTreeMap::new(), BTreeMap::<_, Request>::new());
    for (way, message) in log {
        match (way, read(dialect, message)) {
            // It is refused, and its id can't be read.
            (Way::Received, Message::Torn) => {
                theirs.insert("null".into(), Request::default());
            }
            (Way::Received, Message::Request(id)) => _ = theirs.insert(id, Request::default()),
            (Way::Received, Message::Cancel(id)) => {
                if let Some(request) = theirs.get_mut(&id) {
                    request.cancels += 1;
                }
            }
            (Way::Sent, Message::Response(id)) => match theirs.get_mut(&id) {
                Some(request) => request.answers += 1,
                None => problem("G2: an answer to nothing", &id),
            },
            (Way::Sent, Message::Request(id)) => _ = ours.insert(id, 0),
            (Way::Sent, Message::Cancel(id)) => match ours.get_mut(&id) {
                Some(0) => *ours.get_mut(&id).unwrap() = 1,
                Some(_) => problem("G4: a second cancel", &id),
                None => problem("G4: a cancel before its request", &id),
            },
            (Way::Sent, Message::Torn) => problem("G9: no JSON", message),
            _ => {}
        }
    }
    let may_be_silent = dialect.response != ResponseRule::Required;
    for (id, Request { answers, cancels }) in &theirs {
        let is_excused = is_interrupted || may_be_silent && *cancels > 0;
        if !(*answers == 1 || *answers == 0 && is_excused) {
            problem(&format!("G2: {answers} answers"), id);
        }
    }
    problems
}
