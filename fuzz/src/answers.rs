//! The responses that a connection makes by itself: fixed sentences, and the id of the request (G9, B3).

use std::collections::{BTreeMap, BTreeSet};

use protocol_core::{CancelRule, Config, Dialect, Envelope, EnvelopeProblem, code};

use crate::json::{Members, asked_id, each_message, string};

/// Every sentence that a connection says by itself, but those of [`EnvelopeProblem`].
const SENTENCES: [&str; 8] = [
    "Parse error: the message is not JSON",
    "Invalid request: no such batch is accepted",
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

const PROBLEMS: [EnvelopeProblem; 14] = [
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
    EnvelopeProblem::TooLarge,
];

/// The messages of a peer so far.
#[derive(Default)]
pub(crate) struct Said {
    bytes: Vec<u8>,
    /// The types and commands of its messages.
    kinds: BTreeSet<String>,
    /// By id token, the number of responses that it may still get.
    owed: BTreeMap<String, usize>,
    /// By id token, the number of responses that the host made, and that have to leave.
    due: BTreeMap<String, usize>,
    /// The number of messages over the limit that are no JSON. Their outlines may be.
    unreadable: usize,
}

impl Said {
    /// Adds a message.
    pub(crate) fn push(&mut self, message: &[u8], config: &Config) {
        let envelope = config.dialect.envelope;
        let is_too_long = message.len() > config.limits.message_bytes;
        self.unreadable += usize::from(is_too_long && Members::of(message).is_none());
        self.bytes.extend_from_slice(message);
        self.bytes.push(b'\n');
        for members in each_message(message).into_iter().filter_map(Members::of) {
            let kinds = ["type", "command"].map(|name| members.get(name).and_then(string));
            self.kinds.extend(kinds.into_iter().flatten());
            if let Some(id) = asked_id(&members, envelope) {
                *self.owed.entry(id.into()).or_default() += 1;
            }
        }
    }

    /// Notes a response of the host's to the request with this id.
    pub(crate) fn expect(&mut self, id: String) {
        *self.due.entry(id).or_default() += 1;
    }

    /// Returns the id of a request to which the host responded, though no response has left.
    pub(crate) fn unheard(&self) -> Option<&String> {
        self.due.iter().find(|(_, due)| **due > 0).map(|(id, _)| id)
    }

    /// Takes a response to this id. That of a message whose id can't be read is `null`.
    fn take_response(&mut self, id: Option<&str>) {
        let id = id.expect("an answer has an id");
        if let Some(due) = self.due.get_mut(id) {
            *due = due.saturating_sub(1);
        }
        if id != "null" {
            let owed = self.owed.get_mut(id).filter(|owed| **owed > 0);
            let unreadable = Some(&mut self.unreadable).filter(|unreadable| **unreadable > 0);
            let owed = owed.or(unreadable);
            *owed.unwrap_or_else(|| panic!("G2, B14: nobody asked {id}, or not so often")) -= 1;
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
pub(crate) fn judge(answers: &[u8], said: &mut Said, dialect: &Dialect) {
    for answer in each_message(answers) {
        let members = Members::of(answer).expect("G9: an answer is an object");
        match dialect.envelope {
            Envelope::JsonRpc => judge_json_rpc(&members, said, dialect),
            Envelope::Abp => judge_abp(&members, said),
            Envelope::Dap => judge_dap(&members, said),
        }
    }
}

fn judge_json_rpc(answer: &Members<'_>, said: &mut Said, dialect: &Dialect) {
    assert_eq!(answer.get("jsonrpc"), Some("\"2.0\""));
    said.take_response(answer.get("id"));
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

fn judge_abp(answer: &Members<'_>, said: &mut Said) {
    assert_eq!(answer.names().collect::<Vec<_>>(), ["type", "id", "timestamp", "payload"]);
    said.take_response(answer.get("id"));
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
            "callId" => assert!(value == "null" || said.holds(value), "B14: {value} is no token"),
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

fn judge_dap(answer: &Members<'_>, said: &mut Said) {
    assert_eq!(answer.get("type"), Some("\"response\""));
    said.take_response(answer.get("request_seq"));
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
