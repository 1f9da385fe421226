//! `rescind export`, read by the descriptors of Perfetto and OpenTelemetry, and by mcp-trace-validator.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use mcp_trace_validator::judge::judge;
use mcp_trace_validator::report::Verdict;
use rescind_interop::peers::{CommandLine, node, python, rescind};
use serde_json::Value;

/// The real sessions that are committed with the command line.
const RECORDINGS: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/rescind-cli/tests/recordings");

/// Returns the file that `rescind` makes of a recording.
fn run(args: &[&str], recording: &Path) -> Vec<u8> {
    let output = Command::new(rescind()).args(args).arg(recording).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {said}");
    output.stdout
}

fn directory() -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("exports");
    fs::create_dir_all(&directory).expect("it can be made");
    directory
}

/// Exports a recording, and returns its spans as a reader of the format sees them.
fn spans(reader: &CommandLine, format: &str, name: &str, recording: &Path) -> Vec<Value> {
    let path = directory().join(format!("{name}.{format}"));
    let exported = run(&["export", "--format", format], recording);
    fs::write(&path, exported).expect("it can be written");
    let read = Command::new(&reader[0]).args(&reader[1..]).arg(format).arg(&path).output();
    let read = read.expect("Python runs");
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    serde_json::from_slice(&read.stdout).expect("it prints JSON")
}

/// The requests of a recording, as `rescind view --json` prints them.
fn requests(recording: &Path) -> Vec<Value> {
    let printed = String::from_utf8(run(&["view", "--json"], recording)).expect("it is UTF-8");
    let lines =
        printed.lines().map(|line| serde_json::from_str::<Value>(line).expect("it is JSON"));
    lines.filter(|line| line["method"].is_string()).collect()
}

#[test]
fn each_request_of_real_sessions_is_a_span_below_its_parent() {
    let Some(reader) = python("exports.py") else { return };
    for name in ["clangd", "acp", "everything", "pyright"] {
        let recording = Path::new(RECORDINGS).join(name).with_extension("jsonl");
        let requests = requests(&recording);
        for format in ["perfetto", "otlp"] {
            let spans = spans(&reader, format, name, &recording);
            assert_eq!(spans.len(), requests.len(), "{name} as {format}");
            for (span, request) in spans.iter().zip(&requests) {
                assert_eq!(span["name"], request["method"]);
                let about = &span["about"];
                let outcome = about.get("outcome").or(about.get("rescind.outcome"));
                assert_eq!(outcome, Some(&request["outcome"]), "{span}");
                let is_cancelled = request["cancelled"].is_u64();
                let events = span["events"].as_array().expect("they are a list");
                assert_eq!(events.iter().any(|it| it == "cancel"), is_cancelled, "{span}");
                if let Some(parent) = request["parent"].as_u64() {
                    let parent = requests.iter().find(|it| it["number"] == parent);
                    assert_eq!(span["parent"], parent.expect("it is there")["method"]);
                }
                // OTLP: whoever cancels has what they asked for; what failed is an error.
                if format == "otlp" {
                    let is_failure = request["outcome"] == "error";
                    assert_eq!(span["status"], if is_failure { 2 } else { 0 }, "{span}");
                }
            }
        }
    }
}

#[test]
fn a_span_is_below_the_one_that_its_request_names() {
    let Some(reader) = python("exports.py") else { return };
    let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let text = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{"_meta":{{"traceparent":"{traceparent}"}}}}}}"#
    );
    let line = |t: u64, hop: &str, dir: &str| {
        let parts = serde_json::json!([{ "kind": "request", "id": 1, "method": "m" }]);
        let message = serde_json::json!({
            "t": t, "hop": hop, "dir": dir, "bytes": text.len(), "parts": parts, "text": text,
        });
        serde_json::json!({ "message": message }).to_string()
    };
    let hops = r#"[{"t":0,"hop":"up","role":"server","dialect":"mcp"},{"t":0,"hop":"down","role":"client","dialect":"mcp"}]"#;
    let head = format!(
        r#"{{"recording":{{"version":1,"by":"x","start":"2026-11-22T11:02:33Z","part":1,"payloads":"kept","hops":{hops}}}}}"#
    );
    let late = [
        r#"{"verdict":{"t":50,"hop":"down","verdict":"settled","id":1,"outcome":"timed_out","cause":"deadline"}}"#,
        r#"{"message":{"t":60,"hop":"down","dir":"received","bytes":9,"parts":[{"kind":"result","id":1}]}}"#,
        r#"{"verdict":{"t":60,"hop":"down","verdict":"violation","why":"late_response","id":1}}"#,
    ];
    let lines = [&head, &line(10, "up", "received"), &line(20, "down", "sent")];
    let lines = lines.into_iter().map(String::as_str).chain(late).collect::<Vec<_>>();
    let recording = directory().join("traced.jsonl");
    fs::write(&recording, lines.join("\n") + "\n").expect("it can be written");

    let spans = spans(&reader, "otlp", "traced", &recording);
    assert_eq!(spans.len(), 2);
    for span in &spans {
        assert_eq!(span["trace"], "0af7651916cd43dd8448eb211c80319c");
    }
    assert_eq!(spans[0]["parent"], "b7ad6b7169203331", "its caller's span");
    assert_eq!(spans[1]["parent"], "m", "what is passed on is below what was received");
    assert_eq!(spans[1]["status"], 2, "a time-out is an error");
    assert_eq!(spans[1]["events"], serde_json::json!(["late answer"]));
    assert_eq!(spans[1]["about"]["rescind.cause"], "deadline");
}

#[test]
fn mcp_trace_validator_finds_nothing_wrong_with_server_everything() {
    let package = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";
    let (Some(client), Some(server)) = (node("everything_client.mjs"), node(package)) else {
        return;
    };
    let recording = directory().join("everything.jsonl");
    let relay = ["relay", "--dialect", "mcp", "--answer-after-end", "0", "--payloads", "--record"];
    let output = Command::new(&client[0])
        .args(&client[1..])
        .arg(rescind())
        .args(relay)
        .arg(&recording)
        .arg("--")
        .args(&server)
        .output()
        .expect("node runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    for hop in ["up", "down"] {
        let trace = run(&["export", "--format", "mcp-trace", "--hop", hop], &recording);
        let trace = String::from_utf8(trace).expect("it is UTF-8");
        let judgment = judge(&trace).unwrap_or_else(|error| panic!("{hop}: {error}\n{trace}"));
        let report = &judgment.reports[0];
        assert_eq!(report.verdict(), Verdict::Pass, "{hop}: {report:#?}");
        assert!(report.totals.pass > 20, "it judged: {:?}", report.totals);
    }
}
