//! What a connection may answer by itself: fixed sentences, and the id of what it answers (G9, B3).

use protocol_core::{Envelope, EnvelopeProblem};

use crate::json::{Members, each_message, string};

/// Every sentence that a connection says by itself, but those of [`EnvelopeProblem`].
const SENTENCES: [&str; 9] = [
    "Parse error: the message is not JSON",
    "Invalid request: no such batch is accepted",
    "Invalid request: the message is too long",
    "Invalid request: the id is that of a request in flight",
    "The request was refused: too much is in flight",
    "The request was refused: shutting down",
    "The session is not open",
    "Invalid params: the cancel names nothing",
    "Operation not found",
];

/// Why a cancel is acknowledged as one that did nothing.
const REASONS: [&str; 3] =
    ["Operation already completed", "Operation not found", "Operation can't be cancelled"];

const PROBLEMS: [EnvelopeProblem; 13] = [
    EnvelopeProblem::NotAnObject,
    EnvelopeProblem::Version,
    EnvelopeProblem::DuplicateMember,
    EnvelopeProblem::Method,
    EnvelopeProblem::Type,
    EnvelopeProblem::Capability,
    EnvelopeProblem::Params,
    EnvelopeProblem::Id,
    EnvelopeProblem::Empty,
    EnvelopeProblem::ResultAndError,
    EnvelopeProblem::Error,
    EnvelopeProblem::InBatch,
    EnvelopeProblem::TooDeep,
];

/// Judges what a connection answered to `message` by itself.
///
/// # Panics
///
/// If it is no answer in that envelope, or holds any of the message but its id.
pub(crate) fn judge(answers: &[u8], message: &[u8], envelope: Envelope) {
    for answer in each_message(answers) {
        let members = Members::of(answer).expect("G9: an answer is an object");
        match envelope {
            Envelope::JsonRpc => judge_json_rpc(&members, message),
            Envelope::Abp => judge_abp(&members, message),
            Envelope::Dap => judge_dap(&members, message),
        }
    }
}

fn judge_json_rpc(answer: &Members<'_>, message: &[u8]) {
    assert_eq!(answer.get("jsonrpc"), Some("\"2.0\""));
    judge_id(answer.get("id"), message);
    assert_eq!(answer.names().count(), 3, "an answer has no further members");
    match answer.get("error") {
        Some(error) => {
            let error = Members::of(error.as_bytes()).expect("an error is an object");
            assert_eq!(error.names().collect::<Vec<_>>(), ["code", "message"], "B3");
            let code = error.get("code").and_then(|code| code.parse::<i64>().ok());
            assert!(code.is_some(), "an error has an integer code");
            judge_sentence(error.get("message"));
        }
        None => assert_eq!(answer.get("result"), Some(r#"{"status":"cancelled"}"#)),
    }
}

fn judge_abp(answer: &Members<'_>, message: &[u8]) {
    assert_eq!(answer.names().collect::<Vec<_>>(), ["type", "id", "timestamp", "payload"]);
    judge_id(answer.get("id"), message);
    let kind = answer.get("type").and_then(string).expect("a type");
    let asked = Members::of(message).and_then(|message| string(message.get("type")?));
    assert_eq!(kind.strip_suffix("-result"), asked.as_deref());
    let payload = answer.get("payload").expect("a payload");
    let payload = Members::of(payload.as_bytes()).expect("a payload is an object");
    for name in payload.names() {
        let value = payload.get(name).expect("it is one of the names");
        match name {
            "callId" => judge_id(Some(value), message),
            "success" => assert_eq!(value, "false", "nothing succeeds by itself"),
            "cancelled" => assert!(matches!(value, "true" | "false")),
            "reason" => assert!(string(value).is_some_and(|it| REASONS.contains(&&*it)), "{value}"),
            "error" => {
                let error = Members::of(value.as_bytes()).expect("an error is an object");
                assert_eq!(error.names().collect::<Vec<_>>(), ["code", "message", "retryable"]);
                assert!(matches!(
                    error.get("code"),
                    Some("\"NOT_INITIALIZED\"" | "\"OPERATION_FAILED\"")
                ));
                judge_sentence(error.get("message"));
            }
            _ => panic!("an answer has a member {name}"),
        }
    }
}

fn judge_dap(answer: &Members<'_>, message: &[u8]) {
    assert_eq!(answer.get("type"), Some("\"response\""));
    judge_id(answer.get("request_seq"), message);
    let command = answer.get("command").and_then(string).expect("a command");
    let asked = Members::of(message).and_then(|message| string(message.get("command")?));
    assert_eq!(Some(command), asked);
    if answer.get("success") == Some("true") {
        // The acknowledgement of a cancel.
        return assert!(answer.get("body").is_none() && answer.get("message").is_none());
    }
    assert_eq!(answer.get("success"), Some("false"));
    let sentence = answer.get("message").and_then(string).expect("an error has a message");
    if !REASONS.contains(&&*sentence) {
        judge_sentence(answer.get("message"));
    }
}

fn judge_sentence(token: Option<&str>) {
    let sentence = token.and_then(string).expect("an error has a message");
    let mut known = SENTENCES.into_iter().chain(PROBLEMS.map(EnvelopeProblem::as_str));
    assert!(known.any(|known| known == sentence), "B3: who says {sentence:?}?");
}

fn judge_id(id: Option<&str>, message: &[u8]) {
    let id = id.expect("an answer has an id");
    let is_of_message = message.windows(id.len()).any(|part| part == id.as_bytes());
    assert!(id == "null" || is_of_message, "B14: id {id} is not the peer's token");
}
