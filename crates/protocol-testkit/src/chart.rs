//! Histories as sequence charts in plain text.

use std::fmt::Write as _;

use serde_json::Value;

/// One line of a chart. Lanes are counted from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Something happens in one lane.
    At {
        /// The number of the lane, counted from 0.
        lane: usize,
        /// The text that is drawn in the lane.
        text: String,
    },
    /// An arrow from one lane to another.
    Arrow {
        /// From this lane.
        from: usize,
        /// In this one.
        to: usize,
        /// The text that is drawn in the arrow.
        text: String,
    },
}

impl Mark {
    /// Something happens in one lane.
    #[must_use]
    pub const fn at(lane: usize, text: String) -> Self {
        Self::At { lane, text }
    }

    /// Something arrives in the lane `to`.
    #[must_use]
    pub const fn arrow(from: usize, to: usize, text: String) -> Self {
        Self::Arrow { from, to, text }
    }
}

const WIDTH: usize = 36;

/// Draws a chart with these lanes.
///
/// ```
/// use protocol_testkit::{Mark, chart};
///
/// let marks = [Mark::arrow(0, 1, "request 1 work".into()), Mark::at(1, "works".into())];
/// assert_eq!(chart(&["client", "server"], &marks), "\
/// client                              server
///   |----- request 1 work ------------->|
///   |                                   |  works
/// ");
/// ```
#[must_use]
pub fn chart(lanes: &[&str], marks: &[Mark]) -> String {
    let mut chart = String::new();
    for (lane, name) in lanes.iter().enumerate() {
        let width = if lane + 1 == lanes.len() { 0 } else { WIDTH };
        let _ = write!(chart, "{name:<width$}");
    }
    chart.push('\n');
    for mark in marks {
        let mut row = blank(lanes.len());
        match mark {
            Mark::At { lane, text } => {
                let text: Vec<char> = text.chars().collect();
                put(&mut row, column(*lane) + 3, &text);
            }
            Mark::Arrow { from, to, text } => arrow(&mut row, *from, *to, text),
        }
        let row: String = row.into_iter().collect();
        let _ = writeln!(chart, "{}", row.trim_end());
    }
    chart
}

const fn column(lane: usize) -> usize {
    2 + lane * WIDTH
}

fn blank(lanes: usize) -> Vec<char> {
    let mut row = vec![' '; column(lanes)];
    for lane in 0..lanes {
        row[column(lane)] = '|';
    }
    row
}

fn arrow(row: &mut Vec<char>, from: usize, to: usize, text: &str) {
    let (left, right) = (column(from.min(to)), column(from.max(to)));
    for cell in &mut row[left + 1..right] {
        *cell = '-';
    }
    if from < to {
        row[right - 1] = '>';
    } else {
        row[left + 1] = '<';
    }
    let text: Vec<char> = format!(" {text} ").chars().take(WIDTH - 9).collect();
    put(row, left + 6, &text);
}

fn put(row: &mut Vec<char>, at: usize, text: &[char]) {
    if row.len() < at + text.len() {
        row.resize(at + text.len(), ' ');
    }
    row[at..at + text.len()].copy_from_slice(text);
}

/// A message in few words, framed or not: `request 1 work`, `answer 1 error -32800`.
#[must_use]
pub fn label(message: &[u8]) -> String {
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
