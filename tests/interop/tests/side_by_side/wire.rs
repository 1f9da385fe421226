//! The rows that are tried on every peer, whatever it speaks.

use std::thread;

use rescind_interop::peers::CommandLine;
use rescind_interop::probe::Probe;
use serde_json::{Value, json};

/// A line of a table.
pub(crate) struct Row {
    pub(crate) bug: &'static str,
    pub(crate) what: &'static str,
    pub(crate) ours: &'static str,
    pub(crate) run: fn(&mut Probe) -> String,
}

/// Tries each row on each peer. Returns a column for each peer; all peers run at the same time.
pub(crate) fn columns<const N: usize>(
    rows: &[Row],
    peers: &[CommandLine; N],
    start: fn(&[String]) -> Probe,
) -> [Vec<String>; N] {
    thread::scope(|scope| {
        let tried = |peer| rows.iter().map(move |row| (row.run)(&mut start(peer))).collect();
        let columns = peers.each_ref().map(|peer| scope.spawn(move || tried(peer)));
        columns.map(|column| column.join().expect("every row can be tried"))
    })
}

/// We do what the rows say.
pub(crate) fn ours_is(rows: &[Row], column: &[String]) {
    for (Row { bug, what, ours, .. }, did) in rows.iter().zip(column) {
        assert_eq!(did, ours, "{bug}: {what}");
    }
}

pub(crate) fn request(id: &Value, method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}

/// An answer in a few words.
pub(crate) fn words(answer: Option<&Value>) -> String {
    match answer {
        None => "no answer".into(),
        Some(answer) => match answer["error"]["code"].as_i64() {
            Some(code) => code.to_string(),
            None => "a result".into(),
        },
    }
}

pub(crate) fn life(probe: &mut Probe) -> &'static str {
    if probe.is_alive() { "lives on" } else { "dead" }
}

/// Describes the refusal of a request, and whether it has the request's id.
fn refused(probe: &mut Probe, line: &str, id: &Value) -> String {
    probe.send(&[line]);
    let answer = probe.answer_or_refusal(id);
    match (words(answer.as_ref()).as_str(), answer) {
        (words, Some(answer)) if answer.get("id") == Some(id) => format!("{words}, with the id"),
        (words, Some(_)) => format!("{words}, id null"),
        (words, None) => words.into(),
    }
}

pub(crate) fn bad_envelope(probe: &mut Probe) -> String {
    refused(probe, r#"{"jsonrpc":"2.0","id":5,"method":7}"#, &json!(5))
}

pub(crate) fn secret_in_bad_json(probe: &mut Probe) -> String {
    probe.send(&[r#"{"jsonrpc":"2.0","id":5,"method":"login","params":{"password":"hunter2",}}"#]);
    let answer = probe.answer_or_refusal(&json!(5));
    let echoed = answer.as_ref().is_some_and(|answer| answer.to_string().contains("hunter2"));
    let echo = if echoed { "the secret echoed" } else { "nothing echoed" };
    format!("{}, {echo}", words(answer.as_ref()))
}

pub(crate) fn invalid_utf8(probe: &mut Probe) -> String {
    probe.send_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"\xff\xfe\"}\n");
    let answer = words(probe.answer_or_refusal(&json!(5)).as_ref());
    format!("{answer}, {}", life(probe))
}

pub(crate) fn id_true(probe: &mut Probe) -> String {
    refused(probe, r#"{"jsonrpc":"2.0","id":true,"method":"echo","params":[]}"#, &json!(true))
}

pub(crate) fn id_fraction(probe: &mut Probe) -> String {
    refused(probe, r#"{"jsonrpc":"2.0","id":1.5,"method":"echo","params":[]}"#, &json!(1.5))
}

pub(crate) fn unknown_response(probe: &mut Probe) -> String {
    probe.send(&[r#"{"jsonrpc":"2.0","id":4711,"result":{}}"#]);
    match probe.rest().len() {
        0 => life(probe).into(),
        _ => format!("complains, {}", life(probe)),
    }
}

pub(crate) fn batch(probe: &mut Probe) -> String {
    let (one, two) = (json!(1), json!(2));
    let members = [request(&one, "echo", &json!([])), request(&two, "echo", &json!([]))];
    probe.send(&[&format!("[{}]", members.join(","))]);
    let answers = probe.rest();
    match &answers[..] {
        [] => format!("no answer, {}", life(probe)),
        [one] if one["id"].is_null() => format!("one {}, id null", words(Some(one))),
        answers => format!("{} answers", answers.len()),
    }
}
