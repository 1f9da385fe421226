//! The known bugs that show from outside, tried on the SDKs and on us: docs/interop.md.
//! `BLESS=1` rewrites it.

use std::path::Path;
use std::{env, fs};

use rescind_interop::judge::{Rule, SCENARIOS};
use rescind_interop::peers::{line, node};
use rescind_interop::probe::Probe;
use serde_json::{Value, json};

struct Row {
    bug: &'static str,
    what: &'static str,
    ours: &'static str,
    run: fn(&mut Probe) -> String,
}

const ROWS: &[Row] = &[
    Row {
        bug: "B1",
        what: "a malformed response to its call (code as a string)",
        ours: "the call fails, -32603",
        run: malformed_response,
    },
    Row {
        bug: "B2",
        what: "a bad envelope with a readable id",
        ours: "-32600, with the id",
        run: bad_envelope,
    },
    Row {
        bug: "B3",
        what: "a line that is no JSON, with a secret in it",
        ours: "-32700, nothing echoed",
        run: secret_in_bad_json,
    },
    Row { bug: "B4", what: "invalid UTF-8", ours: "-32700, lives on", run: invalid_utf8 },
    Row {
        bug: "B5",
        what: "an id that is in flight, again",
        ours: "second refused, -32600; first untouched",
        run: duplicate_id,
    },
    Row {
        bug: "B6",
        what: "cancel of a handler that awaits it where it was called",
        ours: "-32800",
        run: inline_wait,
    },
    Row {
        bug: "B9",
        what: "request and cancel in one write",
        ours: "-32800",
        run: cancel_in_the_same_write,
    },
    Row {
        bug: "B13",
        what: "cancel with the id of its own call",
        ours: "its call goes on",
        run: cancel_of_own_call,
    },
    Row {
        bug: "B14",
        what: "cancel of \"7\" while 7 is in flight",
        ours: "7 goes on",
        run: other_json_type,
    },
    Row { bug: "B15", what: "a request with id `true`", ours: "-32600, id null", run: id_true },
    Row {
        bug: "B15",
        what: "a request with id 1.5",
        ours: "-32600, with the id",
        run: id_fraction,
    },
    Row {
        bug: "B17",
        what: "end of input with a request in flight",
        ours: "ends",
        run: end_of_input,
    },
    Row {
        bug: "B19",
        what: "a second response to its call",
        ours: "lives on",
        run: second_response,
    },
    Row {
        bug: "B24",
        what: "cancel of a request whose nested call has not left",
        ours: "neither is written",
        run: withdrawn,
    },
    Row { bug: "B30", what: "a line of 17 MiB", ours: "-32600, lives on", run: long_line },
    Row { bug: "B31", what: "a response to nothing", ours: "lives on", run: unknown_response },
    Row { bug: "", what: "a batch of two requests", ours: "one -32600, id null", run: batch },
    Row {
        bug: "B33",
        what: "a handler that panics or throws",
        ours: "-32603, lives on",
        run: panic,
    },
];

fn request(id: &Value, method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}

fn cancel(id: &Value) -> String {
    let params = json!({ "requestId": id });
    json!({ "jsonrpc": "2.0", "method": "$/cancel_request", "params": params }).to_string()
}

fn long() -> Value {
    json!({ "ms": 600_000 })
}

/// An answer in a few words.
fn words(answer: Option<&Value>) -> String {
    match answer {
        None => "no answer".into(),
        Some(answer) => match answer["error"]["code"].as_i64() {
            Some(code) => code.to_string(),
            None => "a result".into(),
        },
    }
}

fn life(probe: &mut Probe) -> &'static str {
    if probe.is_alive() { "lives on" } else { "dead" }
}

/// Makes the agent call us: `sleep`, on behalf of request 1.
fn its_call(probe: &mut Probe) -> Value {
    probe.send(&[&request(&json!(1), "nested", &long())]);
    probe.asks("sleep").expect("the agent calls us")["id"].clone()
}

fn malformed_response(probe: &mut Probe) -> String {
    let id = its_call(probe);
    let error = json!({ "code": "-32000", "message": "no" });
    probe.send(&[&json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string()]);
    match probe.answer(&json!(1)) {
        None => "the call never settles".into(),
        answer => format!("the call fails, {}", words(answer.as_ref())),
    }
}

/// How a request was refused, and whether the refusal can be told from others.
fn refused(probe: &mut Probe, line: &str, id: &Value) -> String {
    probe.send(&[line]);
    let answer = probe.answer_or_refusal(id);
    match (words(answer.as_ref()).as_str(), answer) {
        (words, Some(answer)) if answer.get("id") == Some(id) => format!("{words}, with the id"),
        (words, Some(_)) => format!("{words}, id null"),
        (words, None) => words.into(),
    }
}

fn bad_envelope(probe: &mut Probe) -> String {
    refused(probe, r#"{"jsonrpc":"2.0","id":5,"method":7}"#, &json!(5))
}

fn secret_in_bad_json(probe: &mut Probe) -> String {
    probe.send(&[r#"{"jsonrpc":"2.0","id":5,"method":"login","params":{"password":"hunter2",}}"#]);
    let answer = probe.answer_or_refusal(&json!(5));
    let echoed = answer.as_ref().is_some_and(|answer| answer.to_string().contains("hunter2"));
    let echo = if echoed { "the secret echoed" } else { "nothing echoed" };
    format!("{}, {echo}", words(answer.as_ref()))
}

fn invalid_utf8(probe: &mut Probe) -> String {
    probe.send_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"\xff\xfe\"}\n");
    let answer = words(probe.answer_or_refusal(&json!(5)).as_ref());
    format!("{answer}, {}", life(probe))
}

fn duplicate_id(probe: &mut Probe) -> String {
    let id = json!(7);
    probe.send(&[&request(&id, "sleep", &long()), &request(&id, "echo", &json!([]))]);
    let second = words(probe.answer(&id).as_ref());
    probe.send(&[&cancel(&id)]);
    let first = words(probe.answer(&id).as_ref());
    match (second.as_str(), first.as_str()) {
        ("-32600", "-32800") => "second refused, -32600; first untouched".into(),
        ("a result", "-32800") => "both run, both answer".into(),
        ("a result", "no answer") => "both run; the first can't be cancelled".into(),
        (second, first) => format!("second: {second}; first: {first}"),
    }
}

fn inline_wait(probe: &mut Probe) -> String {
    let id = json!(7);
    probe.send(&[&request(&id, "inline", &json!([]))]);
    probe.send(&[&cancel(&id)]);
    match probe.answer(&id) {
        None => "hangs, and the connection with it".into(),
        answer => words(answer.as_ref()),
    }
}

fn cancel_in_the_same_write(probe: &mut Probe) -> String {
    let id = json!(7);
    probe.send(&[&request(&id, "sleep", &long()), &cancel(&id)]);
    words(probe.answer(&id).as_ref())
}

fn cancel_of_own_call(probe: &mut Probe) -> String {
    let id = its_call(probe);
    probe.send(&[&cancel(&id)]);
    assert!(probe.is_alive());
    probe.send(&[&json!({ "jsonrpc": "2.0", "id": id, "result": {} }).to_string()]);
    match words(probe.answer(&json!(1)).as_ref()).as_str() {
        "a result" => "its call goes on".into(),
        other => other.into(),
    }
}

fn other_json_type(probe: &mut Probe) -> String {
    let id = json!(7);
    probe.send(&[&request(&id, "sleep", &long()), &cancel(&json!("7"))]);
    let untouched = !probe.rest().iter().any(|message| message["id"] == id);
    probe.send(&[&cancel(&id)]);
    match (untouched, words(probe.answer(&id).as_ref()).as_str()) {
        (true, "-32800") => "7 goes on".into(),
        _ => "7 is cancelled".into(),
    }
}

fn id_true(probe: &mut Probe) -> String {
    refused(probe, r#"{"jsonrpc":"2.0","id":true,"method":"echo","params":[]}"#, &json!(true))
}

fn id_fraction(probe: &mut Probe) -> String {
    refused(probe, r#"{"jsonrpc":"2.0","id":1.5,"method":"echo","params":[]}"#, &json!(1.5))
}

fn end_of_input(probe: &mut Probe) -> String {
    its_call(probe);
    if probe.ends() { "ends".into() } else { "works on".into() }
}

fn second_response(probe: &mut Probe) -> String {
    let id = its_call(probe);
    let response = json!({ "jsonrpc": "2.0", "id": id, "result": {} }).to_string();
    probe.send(&[&response, &response]);
    assert_eq!(words(probe.answer(&json!(1)).as_ref()), "a result");
    match probe.rest().len() {
        0 => life(probe).into(),
        _ => format!("complains, {}", life(probe)),
    }
}

fn withdrawn(probe: &mut Probe) -> String {
    let id = json!(1);
    probe.send(&[&request(&id, "nested", &long()), &cancel(&id)]);
    let answer = probe.answer(&id);
    let rest = probe.rest();
    let wrote = |method: &str| rest.iter().any(|message| message["method"] == method);
    match (wrote("sleep"), wrote("$/cancel_request"), answer) {
        (false, false, Some(_)) => "neither is written".into(),
        (true, true, _) => "both are written".into(),
        (true, false, _) => "only the call is written".into(),
        (_, _, answer) => words(answer.as_ref()),
    }
}

fn long_line(probe: &mut Probe) -> String {
    let id = json!(7);
    probe.send(&[&request(&id, "echo", &json!(["x".repeat(17 << 20)]))]);
    let answer = words(probe.answer_or_refusal(&id).as_ref());
    format!("{answer}, {}", life(probe))
}

fn unknown_response(probe: &mut Probe) -> String {
    probe.send(&[r#"{"jsonrpc":"2.0","id":4711,"result":{}}"#]);
    match probe.rest().len() {
        0 => life(probe).into(),
        _ => format!("complains, {}", life(probe)),
    }
}

fn batch(probe: &mut Probe) -> String {
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

fn panic(probe: &mut Probe) -> String {
    let id = json!(7);
    probe.send(&[&request(&id, "panic", &json!([]))]);
    let answer = words(probe.answer(&id).as_ref());
    format!("{answer}, {}", life(probe))
}

#[test]
fn docs_say_what_each_does() {
    let rust = line(&[env!("CARGO_BIN_EXE_sdk_agent")]);
    let own = line(&[env!("CARGO_BIN_EXE_own_agent")]);
    let typescript = node("acp_agent.mjs");
    let mut table = String::new();
    for Row { bug, what, ours, run } in ROWS {
        assert_eq!(run(&mut Probe::start(&own)), *ours, "{bug}: {what}");
        let rust = run(&mut Probe::start(&rust));
        let typescript = typescript.as_ref().map(|agent| run(&mut Probe::start(agent)));
        let typescript = typescript.as_deref().unwrap_or("?");
        table += &format!("| {bug} | {what} | {rust} | {typescript} | {ours} |\n");
    }
    print!("{table}");
    if typescript.is_some() {
        let rules: String = Rule::ALL.iter().map(|rule| format!("- {rule}\n")).collect();
        let document = include_str!("side_by_side.page")
            .replace("{table}", &table)
            .replace("{rules}", &rules)
            .replace("{scenarios}", &SCENARIOS.len().to_string());
        committed(&document);
    }
}

fn committed(document: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/interop.md");
    if env::var("BLESS").as_deref() == Ok("1") {
        fs::write(path, document).expect("docs/ can be written to");
    } else {
        let committed = fs::read_to_string(path).expect("docs/interop.md is committed");
        assert_eq!(committed, document, "BLESS=1 rewrites it");
    }
}
