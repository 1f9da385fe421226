//! The MCP SDKs and `rescind serve`, opened by `initialize` with 2025-11-25.

use rescind_interop::peers::{line, node, python, serve};
use rescind_interop::probe::Probe;
use serde_json::{Value, json};

use crate::wire::{
    Row, bad_envelope, columns, id_fraction, id_true, invalid_utf8, life, ours_is, request,
    secret_in_bad_json, unknown_response, words,
};

const ROWS: &[Row] = &[
    Row {
        bug: "B11",
        what: "cancel of a call that reports progress",
        ours: "no answer, no further progress",
        run: cancel_live,
    },
    Row {
        bug: "B9",
        what: "request and cancel in one write",
        ours: "no answer, no further progress",
        run: cancel_in_the_same_write,
    },
    Row {
        bug: "",
        what: "cancel of the request with id 0",
        ours: "no answer, no further progress",
        run: cancel_zero,
    },
    Row {
        bug: "B14",
        what: "cancel of \"7\" while 7 is in flight",
        ours: "no answer, progress goes on",
        run: other_json_type,
    },
    Row {
        bug: "B5",
        what: "an id that is in flight, again",
        ours: "second: -32600, the first goes on",
        run: duplicate_id,
    },
    Row {
        bug: "",
        what: "cancels of nothing, and malformed ones",
        ours: "nothing is said, lives on",
        run: cancels_of_nothing,
    },
    Row {
        bug: "",
        what: "`server/discover`, in a session of 2025-11-25",
        ours: "-32601",
        run: discover,
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
    Row { bug: "B31", what: "a response to nothing", ours: "lives on", run: unknown_response },
];

fn open(command: &[String]) -> Probe {
    let mut probe = Probe::start(command).alive_by("ping");
    let opening = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": { "name": "interop", "version": "0" },
    });
    let id = json!("open");
    probe.send(&[&request(&id, "initialize", &opening)]);
    // Some take their time to start.
    let opened = (0..10).find_map(|_| probe.answer(&id)).expect("it opens");
    assert_eq!(opened["result"]["protocolVersion"], "2025-11-25");
    probe.send(&[r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#]);
    probe
}

fn tool(id: &Value, name: &str, arguments: &Value) -> String {
    let meta = json!({ "progressToken": "t" });
    let params = json!({ "name": name, "arguments": arguments, "_meta": meta });
    request(id, "tools/call", &params)
}

/// A call that reports progress for ten minutes.
fn count(id: &Value) -> String {
    tool(id, "count", &json!({ "to": 60_000, "every_ms": 10 }))
}

fn cancel(id: &Value) -> String {
    let params = json!({ "requestId": id });
    json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }).to_string()
}

/// Describes the messages about a count that still come, once all before them were read.
fn aftermath(probe: &mut Probe, id: &Value) -> String {
    probe.rest();
    let pause = json!("pause");
    probe.send(&[&tool(&pause, "sleep", &json!({ "ms": 200 }))]);
    probe.answer(&pause).expect("it sleeps");
    let rest = probe.rest();
    let answer = rest.iter().find(|message| message.get("id") == Some(id));
    let goes_on = rest.iter().any(|message| message["method"] == "notifications/progress");
    let progress = if goes_on { "progress goes on" } else { "no further progress" };
    format!("{}, {progress}", words(answer))
}

fn cancel_running(probe: &mut Probe, id: &Value, cancelled: &Value) -> String {
    probe.send(&[&count(id)]);
    probe.asks("notifications/progress").expect("progress");
    probe.send(&[&cancel(cancelled)]);
    aftermath(probe, id)
}

fn cancel_live(probe: &mut Probe) -> String {
    cancel_running(probe, &json!(7), &json!(7))
}

fn cancel_zero(probe: &mut Probe) -> String {
    cancel_running(probe, &json!(0), &json!(0))
}

fn other_json_type(probe: &mut Probe) -> String {
    cancel_running(probe, &json!(7), &json!("7"))
}

fn cancel_in_the_same_write(probe: &mut Probe) -> String {
    let id = json!(7);
    probe.send(&[&count(&id), &cancel(&id)]);
    aftermath(probe, &id)
}

fn duplicate_id(probe: &mut Probe) -> String {
    let id = json!(7);
    probe.send(&[&count(&id)]);
    probe.asks("notifications/progress").expect("progress");
    probe.send(&[&tool(&id, "echo", &json!({ "text": "twin" }))]);
    let second = words(probe.answer(&id).as_ref());
    probe.rest();
    let goes_on = probe.asks("notifications/progress").is_some();
    format!("second: {second}, the first {}", if goes_on { "goes on" } else { "is gone" })
}

fn cancels_of_nothing(probe: &mut Probe) -> String {
    let malformed =
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}"#;
    let bare = r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#;
    probe.send(&[&cancel(&json!(4711)), malformed, bare]);
    let said = if probe.rest().is_empty() { "nothing is said" } else { "complains" };
    format!("{said}, {}", life(probe))
}

fn discover(probe: &mut Probe) -> String {
    let id = json!(7);
    probe.send(&[&request(&id, "server/discover", &json!({}))]);
    words(probe.answer(&id).as_ref())
}

fn end_of_input(probe: &mut Probe) -> String {
    probe.send(&[&count(&json!(7))]);
    probe.asks("notifications/progress").expect("progress");
    if probe.ends() { "ends".into() } else { "works on".into() }
}

/// The table; `None` if a peer is missing.
pub(crate) fn table() -> Option<String> {
    let [own] = columns(ROWS, &[serve("mcp-2025-11-25")], open);
    ours_is(ROWS, &own);
    let rust = line(&[env!("CARGO_BIN_EXE_rmcp_server")]);
    let peers = [rust, node("mcp_server.mjs")?, python("mcp_server.py")?];
    let [rust, typescript, python] = columns(ROWS, &peers, open);
    let rows = ROWS.iter().zip(rust).zip(typescript).zip(python);
    let lines = rows.map(|(((Row { bug, what, ours, .. }, rust), typescript), python)| {
        format!("| {bug} | {what} | {rust} | {typescript} | {python} | {ours} |\n")
    });
    Some(lines.collect())
}
