//! `rescind export`, field by field, of a recording that is made by hand. Other programs read the formats in
//! `tests/interop/tests/suite/exports.rs`.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::{RESCIND, Said, rescind};

/// A request that a relay passes on, and that is cancelled. Its server asks for something; that was withheld, as one
/// message more.
const LINES: [&str; 13] = [
    r#"{"recording":{"version":1,"by":"x","start":"1970-01-01T00:00:01Z","part":1,"payloads":"kept","hops":[]}}"#,
    r#"{"opened":{"t":1,"hop":"up","role":"server","dialect":"mcp"}}"#,
    r#"{"opened":{"t":2,"hop":"down","role":"client","dialect":"mcp"}}"#,
    r#"{"opened":{"t":3,"hop":"side","role":"client","dialect":"acp"}}"#,
    r#"{"message":{"t":10,"hop":"up","dir":"received","bytes":9,"parts":[{"kind":"request","id":1,"method":"m"}],"text":"{\"jsonrpc\":\"2.0\",\n\"id\":1,\"method\":\"m\"}"}}"#,
    r#"{"message":{"t":20,"hop":"down","dir":"sent","bytes":9,"parts":[{"kind":"request","id":5,"method":"m"}],"text":"{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"m\"}"}}"#,
    r#"{"message":{"t":25,"hop":"down","dir":"received","bytes":9,"parts":[{"kind":"request","id":9,"method":"ask"}]}}"#,
    r#"{"message":{"t":30,"hop":"up","dir":"received","bytes":9,"parts":[{"kind":"cancel","cancels":1,"method":"notifications/cancelled"}],"text":"{}"}}"#,
    r#"{"message":{"t":40,"hop":"down","dir":"received","bytes":9,"parts":[{"kind":"result","id":5}],"text":"{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":{}}"}}"#,
    r#"{"message":{"t":50,"hop":"up","dir":"sent","bytes":9,"parts":[{"kind":"error","id":1,"code":-32603}],"text":"{}"}}"#,
    r#"{"message":{"t":60,"hop":"down","dir":"received","bytes":9,"parts":[{"kind":"notification","method":"n"}]}}"#,
    r#"{"verdict":{"t":70,"hop":"down","verdict":"closed"}}"#,
    r#"{"end":{"t":80,"lines":13,"dropped":0}}"#,
];

fn recording(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("export");
    fs::create_dir_all(&directory).unwrap();
    let path = directory.join(name).with_extension("jsonl");
    fs::write(&path, LINES.join("\n") + "\n").unwrap();
    path
}

fn export(path: &Path, format: &str, more: &[&str]) -> Said {
    rescind([&["export", "--format", format, path.to_str().unwrap()], more].concat())
}

#[test]
fn otlp_has_a_span_for_each_request_with_what_became_of_it() {
    let said = export(&recording("otlp"), "otlp", &[]);
    let line: Value = serde_json::from_str(&said.stdout).unwrap();
    let resource = &line["resourceSpans"][0];
    let service = json!([{ "key": "service.name", "value": { "stringValue": "x" } }]);
    assert_eq!(resource["resource"]["attributes"], service);
    let [up, down] = [0, 1].map(|at| &resource["scopeSpans"][0]["spans"][at]);
    let times = |span: &Value| {
        ["kind", "startTimeUnixNano", "endTimeUnixNano"].map(|name| span[name].clone())
    };
    assert_eq!(times(up), [json!(2), json!("1000010000"), json!("1000050000")], "{up}");
    assert_eq!(times(down), [json!(3), json!("1000020000"), json!("1000040000")], "{down}");
    assert_eq!(up["events"], json!([{ "name": "cancel", "timeUnixNano": "1000030000" }]));
    assert_eq!(up["status"], json!({ "code": 2, "message": "-32603" }), "an error is one");
    assert_eq!(down.get("status"), None, "and a result is none");
    let about = |span: &Value| -> Vec<(String, String)> {
        let attributes = span["attributes"].as_array().unwrap().iter();
        let text = |it: &Value| it.as_object().unwrap().values().next().unwrap().clone();
        attributes
            .map(|it| {
                (it["key"].as_str().unwrap().into(), text(&it["value"]).as_str().unwrap().into())
            })
            .collect()
    };
    let named = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
    };
    let expected = named(&[
        ("rpc.system.name", "jsonrpc"),
        ("rpc.method", "m"),
        ("jsonrpc.request.id", "1"),
        ("rescind.hop", "up"),
        ("rescind.outcome", "error"),
        ("rpc.response.status_code", "-32603"),
        ("rescind.cancel_to_settle_us", "20"),
    ]);
    assert_eq!(about(up), expected);
}

#[test]
fn an_mcp_trace_is_what_passed_on_one_connection() {
    let path = recording("mcp-trace");
    let events = |more: &[&str]| -> Vec<Value> {
        let said = export(&path, "mcp-trace", more);
        assert_eq!(said.code, Some(0), "{said:?}");
        said.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let event = |seq: u64, direction: &str, t: u64, kind: &str, body: (&str, Value)| {
        let mut event = json!({
            "seq": seq, "direction": direction, "transport": "stdio",
            "ts": format!("1970-01-01T00:00:01.{t:06}Z"), "kind": kind,
        });
        event[body.0] = body.1;
        event
    };
    let [to_server, to_client] = ["client-to-server", "server-to-client"];
    let down = [
        event(0, to_server, 2, "lifecycle", ("event", "transport-open".into())),
        event(
            1,
            to_server,
            20,
            "message",
            ("payload", json!({ "jsonrpc": "2.0", "id": 5, "method": "m" })),
        ),
        event(
            2,
            to_client,
            40,
            "message",
            ("payload", json!({ "jsonrpc": "2.0", "id": 5, "result": {} })),
        ),
        event(3, to_server, 70, "lifecycle", ("event", "transport-close".into())),
    ];
    assert_eq!(events(&[]), down, "the first that leads to a server");
    assert_eq!(events(&["--hop", "down"]), down);
    let up = [
        event(0, to_server, 1, "lifecycle", ("event", "transport-open".into())),
        event(
            1,
            to_server,
            10,
            "message",
            ("payload", json!({ "jsonrpc": "2.0", "id": 1, "method": "m" })),
        ),
        event(2, to_server, 30, "message", ("payload", json!({}))),
        event(3, to_client, 50, "message", ("payload", json!({}))),
    ];
    assert_eq!(events(&["--hop", "up"]), up);
    let left_out = "messages that are no JSON or were withheld, and not in the trace: 2";
    assert!(export(&path, "mcp-trace", &[]).stderr.contains(left_out));
    let over_http = fs::read_to_string(&path).unwrap().replace(r#""mcp""#, r#""mcp-http""#);
    fs::write(&path, over_http).unwrap();
    assert!(events(&[]).iter().all(|event| event["transport"] == "streamable-http"));
}

#[test]
fn what_can_not_be_exported_is_wrong_usage() {
    let path = recording("usage");
    for (format, hop, why) in [
        ("otlp", "up", "--hop goes with --format mcp-trace"),
        ("perfetto", "up", "--hop goes with --format mcp-trace"),
        ("mcp-trace", "nowhere", "the recording has no hop nowhere"),
    ] {
        let said = export(&path, format, &["--hop", hop]);
        assert_eq!((said.code, &*said.stdout), (Some(2), ""), "{said:?}");
        assert!(said.stderr.contains(why), "{said:?}");
    }
}

/// A field of a message of Protocol Buffers.
#[derive(Debug)]
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Returns the fields of a message, by number.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let value = varint(&mut bytes);
        let field = match tag & 7 {
            0 => Field::Number(value),
            2 => {
                let (field, rest) = bytes.split_at(usize::try_from(value).unwrap());
                bytes = rest;
                Field::Bytes(field)
            }
            kind => panic!("a field of kind {kind}"),
        };
        found.push((tag >> 3, field));
    }
    found
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let length = bytes.iter().position(|byte| byte & 0x80 == 0).unwrap() + 1;
    let (varint, rest) = bytes.split_at(length);
    *bytes = rest;
    varint.iter().rev().fold(0, |value, byte| value << 7 | u64::from(byte & 0x7f))
}

/// Returns the value of the first field of this tag that is a number.
fn number(of: &[(u64, Field<'_>)], wanted: u64) -> Option<u64> {
    of.iter().find_map(|(field, value)| match value {
        Field::Number(value) if *field == wanted => Some(*value),
        _ => None,
    })
}

fn bytes<'a>(of: &[(u64, Field<'a>)], wanted: u64) -> Option<&'a [u8]> {
    of.iter().find_map(|(field, value)| match value {
        Field::Bytes(value) if *field == wanted => Some(*value),
        _ => None,
    })
}

#[test]
fn perfetto_has_a_track_for_each_request_below_what_it_was_made_for() {
    let path = recording("perfetto");
    let output = std::process::Command::new(RESCIND)
        .args(["export", "--format", "perfetto", path.to_str().unwrap()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let (mut tracks, mut events) = (Vec::new(), Vec::new());
    // The numbers are those of perfetto/protos/perfetto/trace/.
    for (tag, packet) in fields(&output.stdout) {
        let (1, Field::Bytes(packet)) = (tag, packet) else { panic!("no packet") };
        let packet = fields(packet);
        if let Some(track) = bytes(&packet, 60).map(fields) {
            let name = std::str::from_utf8(bytes(&track, 2).unwrap()).unwrap();
            tracks.push((number(&track, 1).unwrap(), number(&track, 5), name));
        }
        if let Some(event) = bytes(&packet, 11).map(fields) {
            let t = number(&packet, 8).unwrap();
            events.push((t, number(&event, 9).unwrap(), number(&event, 11).unwrap()));
        }
    }
    let [root, up, down, side] = [1, 2, 3, 4];
    let [first, second, third] = [4, 5, 6].map(|at: usize| tracks[at].0);
    assert!(first > side && second > first && third > second, "{tracks:?}");
    let expected = [
        (root, None, "x"),
        (up, Some(root), "up (mcp)"),
        (down, Some(root), "down (mcp)"),
        (side, Some(root), "side (acp)"),
        (first, Some(up), "m"),
        (second, Some(first), "m"),
        (third, Some(second), "ask"),
    ];
    assert_eq!(tracks, expected);
    let [begin, end, instant] = [1, 2, 3];
    let expected = [
        (10_000, begin, first),
        (30_000, instant, first),
        (50_000, end, first),
        (20_000, begin, second),
        (40_000, end, second),
        (25_000, begin, third),
    ];
    assert_eq!(events, expected);
}
