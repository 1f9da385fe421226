//! The responses that a connection makes by itself: fixed sentences, and the id of the request (G9, B3).

use std::collections::BTreeSet;

use protocol_core::{CancelRule, Dialect, Envelope, EnvelopeProblem, code};

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

/// The reasons in acknowledgements of cancels that did nothing.
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

/// The messages of a peer so far.
#[derive(Default)]
pub(crate) struct Said {
    bytes: Vec<u8>,
    /// The types and commands of its messages.
    kinds: BTreeSet<String>,
}

impl Said {
    /// Adds a message.
    pub(crate) fn push(&mut self, message: &[u8]) {
        self.bytes.extend_from_slice(message);
        self.bytes.push(b'\n');
        if let Some(members) = Members::of(message) {
            let kinds = ["type", "command"].map(|name| members.get(name).and_then(string));
            self.kinds.extend(kinds.into_iter().flatten());
        }
    }

    /// The bytes of all messages.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    fn holds(&self, token: &str) -> bool {
        self.bytes.windows(token.len()).any(|part| part == token.as_bytes())
    }
}

/// Judges the responses that a connection made by itself to the input of a peer. Of the host's responses, which begin
/// with `host` or are null, it judges the id.
///
/// # Panics
///
/// If it is no answer in that envelope, or holds anything of the peer's but an id.
pub(crate) fn judge(answers: &[u8], said: &Said, dialect: &Dialect) {
    for answer in each_message(answers) {
        let members = Members::of(answer).expect("G9: an answer is an object");
        match dialect.envelope {
            Envelope::JsonRpc => judge_json_rpc(&members, said, dialect),
            Envelope::Abp => judge_abp(&members, said),
            Envelope::Dap => judge_dap(&members, said),
        }
    }
}

fn judge_json_rpc(answer: &Members<'_>, said: &Said, dialect: &Dialect) {
    assert_eq!(answer.get("jsonrpc"), Some("\"2.0\""));
    judge_id(answer.get("id"), said);
    assert_eq!(answer.names().count(), 3, "an answer has no further members");
    match answer.get("error") {
        Some(error) => {
            let error = Members::of(error.as_bytes()).expect("an error is an object");
            let code = error.get("code").and_then(|code| code.parse::<i64>().ok());
            assert!(code.is_some(), "an error has an integer code");
            if is_of_host(error.get("message")) || code == Some(code::REQUEST_CANCELLED) {
                return;
            }
            assert_eq!(error.names().collect::<Vec<_>>(), ["code", "message"], "B3");
            judge_sentence(error.get("message"));
        }
        // A host may say where its operation can be cancelled.
        None if matches!(dialect.cancel, CancelRule::Operation { .. }) => {}
        None => assert!(is_of_host(answer.get("result")), "it is nobody's result"),
    }
}

/// Whether the host said this value.
fn is_of_host(value: Option<&str>) -> bool {
    value.is_some_and(|value| {
        value == "null" || value.starts_with("\"host") || value.starts_with("[\"host")
    })
}

fn judge_abp(answer: &Members<'_>, said: &Said) {
    assert_eq!(answer.names().collect::<Vec<_>>(), ["type", "id", "timestamp", "payload"]);
    judge_id(answer.get("id"), said);
    let kind = answer.get("type").and_then(string).expect("a type");
    assert!(kind.strip_suffix("-result").is_some_and(|kind| said.kinds.contains(kind)), "{kind}");
    let payload = answer.get("payload").expect("a payload");
    if is_of_host(Some(payload)) {
        return;
    }
    let payload = Members::of(payload.as_bytes()).expect("a payload is an object");
    for name in payload.names() {
        let value = payload.get(name).expect("it is one of the names");
        match name {
            "callId" => judge_id(Some(value), said),
            "success" if is_of_host(payload.get("data")) => assert_eq!(value, "true"),
            "success" => assert_eq!(value, "false", "nothing succeeds by itself"),
            "data" => assert!(is_of_host(Some(value)), "it is nobody's result"),
            "cancelled" => assert!(matches!(value, "true" | "false")),
            "reason" => assert!(string(value).is_some_and(|it| REASONS.contains(&&*it)), "{value}"),
            "error" => {
                let error = Members::of(value.as_bytes()).expect("an error is an object");
                if is_of_host(error.get("message")) {
                    continue;
                }
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

fn judge_dap(answer: &Members<'_>, said: &Said) {
    assert_eq!(answer.get("type"), Some("\"response\""));
    judge_id(answer.get("request_seq"), said);
    let command = answer.get("command").and_then(string).expect("a command");
    assert!(said.kinds.contains(&command), "{command}");
    if is_of_host(answer.get("message")) || is_of_host(answer.get("body")) {
        return;
    }
    if answer.get("success") == Some("true") {
        // The acknowledgement of a cancel.
        return assert!(answer.get("body").is_none() && answer.get("message").is_none());
    }
    assert_eq!(answer.get("success"), Some("false"));
    if answer.get("message") == Some("\"cancelled\"") {
        return;
    }
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

fn judge_id(id: Option<&str>, said: &Said) {
    let id = id.expect("an answer has an id");
    assert!(id == "null" || said.holds(id), "B14: id {id} is not the peer's token");
}
