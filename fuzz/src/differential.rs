//! Envelopes, read by the core and by `serde_json`.

use std::collections::BTreeSet;

use protocol_core::{
    CallOptions, Config, Connection, Dialect, Event, IdRule, Limits, Outcome, Timestamp, Violation,
};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::bytes::Bytes;
use crate::json::{Members, depth, string};

const NOW: Timestamp = Timestamp::ZERO;

/// The lines of which any one has to happen: a message may break several rules.
type Expected = Vec<String>;

/// The first byte chooses limits and ids. The rest is a message to a connection of plain JSON-RPC,
/// whose calls 1 and 2 are in flight. It must be accepted, refused and understood as `serde_json`
/// has it, with ids, params and results byte for byte.
pub fn differential(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let config = config(bytes.byte());
    let message = bytes.rest();
    let expected = Oracle::new(config.clone()).read(message);
    let mut conn: Connection<u8> = Connection::new(config);
    for tag in [1, 2] {
        let made = conn.call("work", None, tag, CallOptions::default(), NOW);
        made.expect("nothing is full");
        conn.poll_transmit(&mut Vec::new());
    }
    let first = conn.receive(message, NOW).map(|event| line(&event));
    let rest = std::iter::from_fn(|| conn.poll_event().map(|event| line(&event)));
    let seen: Vec<_> = first.into_iter().chain(rest).collect();
    let agree = seen.len() == expected.len()
        && seen.iter().zip(&expected).all(|(seen, expected)| expected.contains(seen));
    assert!(agree, "seen {seen:#?}, expected {expected:#?}");
}

fn config(choice: u8) -> Config {
    let mut config = Config::client(Dialect::JSON_RPC);
    config.dialect.ids = [
        IdRule::NumberOrString,
        IdRule::IntegerOrString,
        IdRule::IntegerStringOrNull,
        IdRule::Int32OrString,
    ][usize::from(choice % 4)];
    if choice & 4 != 0 {
        config.limits.depth = 3;
        config.limits.id_bytes = 6;
        config.limits.batch_members = 3;
    }
    config
}

/// An event as one line, without where in the message it happened.
fn line(event: &Event<'_, u8>) -> String {
    match event {
        Event::Request { id, method, params, .. } => request(id, method, raw(params.as_deref())),
        Event::Notification { method, params } => notification(method, raw(params.as_deref())),
        Event::Settled { outcome: Outcome::Malformed, data, .. } => malformed(*data),
        Event::Settled { outcome: Outcome::Error(error), data, .. } => {
            let said = raw(error.data.as_deref());
            failed(*data, (error.raw.get(), error.code, &error.message, said))
        }
        Event::Settled { outcome: Outcome::Result(result), data, .. } => {
            result_of(*data, result.get())
        }
        Event::Violation { violation, id } => {
            let problem = match violation {
                Violation::InvalidRequest { problem }
                | Violation::InvalidNotification { problem }
                | Violation::MalformedResponse { problem } => format!("{problem:?}"),
                _ => String::new(),
            };
            self::violation(
                violation.as_str(),
                &problem,
                id.as_ref().map(protocol_core::WireId::as_json),
            )
        }
        other => format!("{other:?}"),
    }
}

fn raw(value: Option<&RawValue>) -> Option<&str> {
    value.map(RawValue::get)
}

fn request(id: &str, method: &str, params: Option<&str>) -> String {
    format!("request {id} {method:?} {params:?}")
}

fn notification(method: &str, params: Option<&str>) -> String {
    format!("notification {method:?} {params:?}")
}

fn result_of(call: u8, result: &str) -> String {
    format!("call {call}: result {result}")
}

fn failed(call: u8, error: (&str, i64, &str, Option<&str>)) -> String {
    format!("call {call}: error {error:?}")
}

fn malformed(call: u8) -> String {
    format!("call {call}: malformed")
}

fn violation(rule: &str, problem: &str, id: Option<&str>) -> String {
    format!("violation {rule} {problem} {id:?}")
}

/// An oracle of the meaning of a message, after the pages of JSON-RPC 2.0 and of `Violation`.
struct Oracle {
    limits: Limits,
    ids: IdRule,
    /// The calls in flight.
    calls: BTreeSet<u8>,
    /// The ids of requests in flight, strings decoded.
    requests: BTreeSet<String>,
    expected: Vec<Expected>,
}

impl Oracle {
    fn new(config: Config) -> Self {
        let calls = [1, 2].into();
        let (requests, expected) = (BTreeSet::new(), Vec::new());
        Self { limits: config.limits, ids: config.dialect.ids, calls, requests, expected }
    }

    fn read(mut self, message: &[u8]) -> Vec<Expected> {
        let read: Result<&RawValue, _> = serde_json::from_slice(message);
        compare_with_value(message, read.is_ok());
        let limit = self.limits.batch_members;
        if std::str::from_utf8(message).is_err() {
            self.expect(violation("invalid_utf8", "", None));
        } else if let Ok(json) = read {
            let batch: Result<Vec<&RawValue>, _> = serde_json::from_str(json.get());
            match batch {
                Ok(members) if members.is_empty() || members.len() > limit => {
                    self.expect(violation("batch_size", "", None));
                }
                Ok(members) => members.into_iter().for_each(|member| self.message(member.get())),
                Err(_) => self.message(json.get()),
            }
        } else {
            self.expect(violation("parse", "", None));
        }
        self.expected
    }

    fn expect(&mut self, what: String) {
        self.expected.push(vec![what]);
    }

    fn expect_any(&mut self, rule: &str, problems: &[&str], id: Option<&str>) {
        let each = problems.iter().map(|problem| violation(rule, problem, id));
        self.expected.push(each.collect());
    }

    fn message(&mut self, json: &str) {
        let Some(members) = Members::of(json.as_bytes()) else {
            return self.expect_any("invalid_request", &["NotAnObject"], None);
        };
        let known = ["jsonrpc", "id", "method", "params", "result", "error"];
        let mut problems = Vec::new();
        if known.iter().any(|name| members.times(name) > 1) {
            problems.push("DuplicateMember");
        }
        if depth(json) > self.limits.depth {
            problems.push("TooDeep");
        }
        if members.get("jsonrpc").and_then(string).as_deref() != Some("2.0") {
            problems.push("Version");
        }
        // One that stands twice says nothing.
        let id = members.get("id").filter(|_| members.times("id") == 1);
        match members.get("method").map(string) {
            None => self.response(&members, id, problems),
            Some(None) => {
                problems.push("Method");
                self.expect_any("invalid_request", &problems, self.readable(id));
            }
            Some(Some(method)) => self.question(&members, id, &method, problems),
        }
    }

    fn question(
        &mut self,
        members: &Members<'_>,
        id: Option<&str>,
        method: &str,
        mut problems: Vec<&str>,
    ) {
        let params = members.get("params").filter(|params| *params != "null");
        if params.is_some_and(|params| !params.starts_with(['{', '['])) {
            problems.push("Params");
        }
        let readable = self.readable(id);
        if members.times("id") == 0 {
            if problems.is_empty() {
                return self.expect(notification(method, params));
            }
            return self.expect_any("invalid_notification", &problems, None);
        }
        if !problems.is_empty() {
            return self.expect_any("invalid_request", &problems, readable);
        }
        match readable.filter(|id| self.allows(id)) {
            None => self.expect_any("invalid_request", &["Id"], readable),
            Some(id) => {
                let key = string(id).map_or_else(|| id.into(), |text| format!("{text:?}"));
                if self.requests.insert(key) {
                    self.expect(request(id, method, params));
                } else {
                    self.expect(violation("duplicate_id", "", Some(id)));
                }
            }
        }
    }

    fn response(&mut self, members: &Members<'_>, id: Option<&str>, mut problems: Vec<&str>) {
        let (result, error) = (members.get("result"), members.get("error"));
        let number: Option<u8> =
            id.and_then(|id| id.parse().ok()).filter(|id| (1..=2).contains(id));
        let readable = self.readable(id);
        // A message with params that is no response can only be a broken request.
        let is_request = result.or(error).is_none() && members.get("params").is_some();
        let call = number.filter(|number| self.calls.contains(number) && !is_request);
        let failure = error.and_then(failure);
        match (result, error) {
            (Some(_), Some(_)) => problems.push("ResultAndError"),
            (None, Some(_)) if failure.is_none() => problems.push("Error"),
            (None, None) => problems.push("Empty"),
            _ => {}
        }
        let Some(call) = call else {
            return match (result.or(error), number) {
                (None, _) => self.expect_any("invalid_request", &problems, readable),
                (Some(_), Some(_)) => self.expect(violation("duplicate_response", "", readable)),
                (Some(_), None) => self.expect(violation("unknown_response", "", readable)),
            };
        };
        self.calls.remove(&call);
        if !problems.is_empty() {
            self.expect_any("malformed_response", &problems, readable);
            return self.expect(malformed(call));
        }
        match (result, failure) {
            (Some(result), _) => self.expect(result_of(call, result)),
            (None, Some((raw, code, message, data))) => {
                self.expect(failed(call, (raw, code, &message, data)));
            }
            (None, None) => unreachable!("it would be a problem"),
        }
    }

    /// An id that can be compared and echoed.
    fn readable<'m>(&self, id: Option<&'m str>) -> Option<&'m str> {
        let is_id = |id: &str| match id.as_bytes()[0] {
            b'"' => string(id).is_some(),
            b'n' | b'-' | b'0'..=b'9' => true,
            _ => false,
        };
        id.filter(|id| id.len() <= self.limits.id_bytes && is_id(id))
    }

    fn allows(&self, id: &str) -> bool {
        let is_integer = !id.contains(['.', 'e', 'E']);
        match (id.as_bytes()[0], self.ids) {
            (b'"', _) => true,
            (b'n', rule) => rule == IdRule::IntegerStringOrNull,
            (_, IdRule::NumberOrString) => true,
            (_, IdRule::Int32OrString) => id.parse::<i32>().is_ok(),
            _ => is_integer,
        }
    }
}

/// Reads an error: its token, its code, its message, its data.
fn failure(raw: &str) -> Option<(&str, i64, String, Option<&str>)> {
    let members = Members::of(raw.as_bytes())?;
    let code = members.get("code")?.parse().ok()?;
    Some((raw, code, string(members.get("message")?)?, members.get("data")))
}

/// A `RawValue` is checked as JSON, and not decoded: it accepts what `Value` accepts, and beyond it
/// exactly lone surrogates, numbers that no float can hold, and any nesting.
fn compare_with_value(message: &[u8], is_read: bool) {
    let value: Result<Value, _> = serde_json::from_slice(message);
    let Err(error) = value else {
        return assert!(is_read, "what can be decoded can be read");
    };
    let error = error.to_string();
    let only_undecodable = [
        "number out of range",
        "recursion limit exceeded",
        "lone leading surrogate",
        "unexpected end of hex escape",
        "invalid unicode code point",
    ];
    let is_known = only_undecodable.iter().any(|known| error.starts_with(known));
    assert!(!is_read || is_known, "it is read, but: {error}");
}
