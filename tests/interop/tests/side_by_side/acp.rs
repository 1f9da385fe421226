//! The ACP SDKs and our agent on tokio.

use rescind_interop::peers::{line, node};
use rescind_interop::probe::Probe;
use serde_json::{Value, json};

use crate::wire::{
    Row, bad_envelope, batch, columns, id_fraction, id_true, invalid_utf8, life, ours_is, request,
    secret_in_bad_json, unknown_response, words,
};

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

fn cancel(id: &Value) -> String {
    let params = json!({ "requestId": id });
    json!({ "jsonrpc": "2.0", "method": "$/cancel_request", "params": params }).to_string()
}

fn long() -> Value {
    json!({ "ms": 600_000 })
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

fn panic(probe: &mut Probe) -> String {
    let id = json!(7);
    probe.send(&[&request(&id, "panic", &json!([]))]);
    let answer = words(probe.answer(&id).as_ref());
    format!("{answer}, {}", life(probe))
}

fn long_line(probe: &mut Probe) -> String {
    let id = json!(7);
    probe.send(&[&request(&id, "echo", &json!(["x".repeat(17 << 20)]))]);
    // A debug build on a busy machine reads it for longer than anything else.
    let answer = (0..5).find_map(|_| probe.answer_or_refusal(&id));
    format!("{}, {}", words(answer.as_ref()), life(probe))
}

/// The table; `None` if a peer is missing.
pub(crate) fn table() -> Option<String> {
    let own = line(&[env!("CARGO_BIN_EXE_own_agent")]);
    let [own] = columns(ROWS, &[own], Probe::start);
    ours_is(ROWS, &own);
    let peers = [line(&[env!("CARGO_BIN_EXE_sdk_agent")]), node("acp_agent.mjs")?];
    let [rust, typescript] = columns(ROWS, &peers, Probe::start);
    let rows = ROWS.iter().zip(rust).zip(typescript);
    let lines = rows.map(|((Row { bug, what, ours, .. }, rust), typescript)| {
        format!("| {bug} | {what} | {rust} | {typescript} | {ours} |\n")
    });
    Some(lines.collect())
}
