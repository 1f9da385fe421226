//! `rescind conform client`: its verdicts on `rescind call`, and the form of its reports.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::{env, fs, thread};

use serde_json::{Value, json};
use tungstenite::Message;

use crate::conform::{AT_ONCE, dialects, has_turn};
use crate::support::{RESCIND, at_once, judged};

const WORK: [&str; 2] = ["sleep", r#"{"ms":1}"#];

/// Tests a client that starts its server itself.
fn conform(arguments: &[&str], client: &[&str]) -> Output {
    let mut command = Command::new(RESCIND);
    command.args(["conform", "client", "--ask-time", "500ms"]);
    command.args(arguments).args(["--", RESCIND]).args(client);
    judged(|| command.output().unwrap(), text)
}

/// Tests `rescind call`, which cancels as these arguments say.
fn conform_call(dialect: &str, arguments: &[&str], cancels: &[&str]) -> Output {
    let own = ["--dialect", dialect];
    let call = [&["call"][..], &own, cancels, &WORK, &["--", "{server}"]].concat();
    conform(&[&own, arguments].concat(), &call)
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The checks that can't be made of a client that ends once its call is settled. In a silent dialect the cancel
/// settles it.
const ENDS: [&str; 2] = ["client-answer/twice", "client-answer/late"];

/// Asserts that the client passes, and that everything is exercised that can be.
fn passes(dialect: &str, output: &Output) {
    let said = text(output);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{dialect}:\n{said}{error}");
    assert!(said.lines().last().unwrap().starts_with("pass: "), "{said}");
    let open = said.lines().filter(|line| line.starts_with("not exercised"));
    for line in open {
        assert!(ENDS.iter().any(|id| line.contains(id)), "{dialect}: {line}");
    }
}

/// The dialects that are tested without `RESCIND_EVERY_CHECK=1`, which tests all of them. They have either
/// framing, and in one a cancelled request has no response.
const WITHOUT: [&str; 2] = ["lsp", "mcp-2025-11-25"];

#[test]
fn call_passes_everything_in_every_dialect() {
    // Its slow request is found: `sleep`.
    let options = ["--trigger", "stop", "{}"];
    // What is asked of those in which a cancel is acknowledged is below.
    let all = dialects().filter(|dialect| !["abp", "dap"].contains(dialect));
    let is_tried = |dialect: &&str| {
        let is_sample = WITHOUT.contains(dialect) || has_turn(dialect);
        is_sample || env::var_os("RESCIND_EVERY_CHECK").is_some()
    };
    at_once(AT_ONCE, all.filter(is_tried), |dialect| {
        passes(dialect, &conform_call(dialect, &options, &["--cancel-on", "stop"]));
    });
}

#[test]
fn call_that_cancels_by_itself_passes_everything() {
    at_once(AT_ONCE, ["acp", "abp", "dap"], |dialect| {
        // None of these asks for a request of ours that takes time.
        let options =
            ["--only", "client-cancel", "--only", "client-answer", "--only", "client-end"];
        passes(dialect, &conform_call(dialect, &options, &["--cancel-after", "500ms"]));
    });
}

/// Any port that is free.
const LISTEN: [&str; 2] = ["--listen", "ws://127.0.0.1:0"];

#[test]
fn call_passes_everything_at_a_websocket() {
    let trigger = ["--trigger", "stop", "{}", "--ask", "sleep", r#"{"ms":"$MS"}"#];
    let all = [
        ("acp", &trigger[..], ["--cancel-on", "stop"]),
        ("mcp", &trigger, ["--cancel-on", "stop"]),
        ("abp", &[], ["--cancel-after", "500ms"]),
    ];
    at_once(AT_ONCE, all, |(dialect, options, cancels)| {
        let own = ["--dialect", dialect];
        let client = [&["call"][..], &own, &["--connect", "{server}"], &cancels, &WORK].concat();
        passes(dialect, &conform(&[&LISTEN[..], &own, options].concat(), &client));
    });
}

/// Connects as a client until nobody listens. Each time it makes a request and cancels this id.
fn visits(address: &str, cancels: u64) {
    while let Ok((mut socket, _)) = tungstenite::connect(address) {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "work" });
        let params = json!({ "requestId": cancels });
        let cancel = json!({ "jsonrpc": "2.0", "method": "$/cancel_request", "params": params });
        // Whoever listens may be gone at any time.
        let _ = socket.send(Message::text(request.to_string()));
        let _ = socket.send(Message::text(cancel.to_string()));
        while let Ok(message) = socket.read() {
            let asked: Value = serde_json::from_slice(&message.into_data()).unwrap_or_default();
            if asked["method"].is_string() && !asked["id"].is_null() {
                let error = json!({ "code": -32601, "message": "Method not found" });
                let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "error": error });
                let _ = socket.send(Message::text(answer.to_string()));
            }
        }
    }
}

/// Returns the report on such a client. Only the test starts it.
fn of_visitor(cancels: u64) -> Output {
    let mut command = Command::new(RESCIND);
    command
        .args(["conform", "client"])
        .args(LISTEN)
        .args(["--only", "client-cancel/names-request"]);
    command.args(["--patience", "2s"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut tester = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(tester.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim_end().strip_prefix("listening on ").unwrap().to_owned();
    let visitor = thread::spawn(move || visits(&address, cancels));
    let output = tester.wait_with_output().unwrap();
    visitor.join().unwrap();
    output
}

#[test]
fn a_client_that_connects_by_itself_is_tested_and_a_wrong_one_found() {
    let right = thread::spawn(|| of_visitor(1));
    let (wrong, right) = (of_visitor(2), right.join().unwrap());
    assert_eq!(right.status.code(), Some(0), "{}", text(&right));
    let said = text(&wrong);
    assert_eq!(wrong.status.code(), Some(1), "{said}");
    assert!(said.contains("a cancel names 2, which was never the id of a request"), "{said}");
    assert!(
        said.contains("rescind conform client --dialect acp --listen ws://127.0.0.1:0"),
        "{said}"
    );
}

#[test]
fn a_client_that_can_not_connect_is_told_in_one_line() {
    for (listen, client, code, why) in [
        (LISTEN[1], &["dialects"][..], 2, "COMMAND has no {server}, where the address goes"),
        (
            LISTEN[1],
            &["dialects", "{server}"],
            6,
            "the client ended before it connected (exit status: 2)",
        ),
        ("unix:/nowhere", &["{server}"], 6, "clients connect to ws://HOST:PORT"),
        ("wss://localhost", &["{server}"], 6, "no TLS is spoken there"),
    ] {
        let output = conform(&["--listen", listen], client);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{error}");
        assert!(error.contains(why), "{error}");
    }
}

/// Returns the report on a shell that asks for work, and then cancels the request with this number.
fn debugger(cancels: u64) -> Output {
    let say = r#"say() { printf 'Content-Length: %d\r\n\r\n%s' ${#1} "$1"; }"#;
    let work = r#"{"seq":1,"type":"request","command":"work"}"#;
    let arguments = json!({ "requestId": cancels });
    let cancel =
        json!({ "seq": 2, "type": "request", "command": "cancel", "arguments": arguments });
    let script = format!("{say}; say '{work}'; say '{cancel}'; exec cat >/dev/null");
    let mut command = Command::new(RESCIND);
    command.args([
        "conform",
        "client",
        "--dialect",
        "dap",
        "--only",
        "client-cancel/names-request",
    ]);
    command.args(["--patience", "2s", "--", "sh", "-c", &script]).output().unwrap()
}

#[test]
fn a_debugger_names_what_it_cancels_by_its_number() {
    let (right, wrong) = (debugger(1), debugger(9));
    assert_eq!(right.status.code(), Some(0), "{}", text(&right));
    let said = text(&wrong);
    assert_eq!(wrong.status.code(), Some(1), "{said}");
    assert!(said.contains("a cancel names 9, which was never the id of a request"), "{said}");
}

#[test]
fn what_a_client_does_not_cancel_is_no_pass() {
    let quickly = ["--only", "client-cancel", "--jobs", "4", "--patience", "5s"];
    let output = conform_call("acp", &quickly, &[]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(8), "{said}");
    assert!(said.starts_with("not exercised MUST"), "{said}");
    assert!(said.contains("the client cancels nothing, by itself or by --trigger"), "{said}");
    assert!(said.contains("incomplete: 0 pass, 0 fail, 4 not exercised"), "{said}");
}

#[test]
fn a_client_that_makes_no_request_is_told_in_one_line() {
    for (client, why) in [
        (&["dialects"][..], "the client ended before it made its request"),
        (&["dialects", "{server}"], "the client ended before it started its server"),
    ] {
        let output = conform(&[], client);
        assert_eq!(output.status.code(), Some(6), "{}", text(&output));
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(why), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

/// Returns a folder of this test's own.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// The client prints a line that is no message.
#[test]
fn a_failure_has_its_evidence_in_every_report() {
    let folder = folder("conform-client-reports");
    let file = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let (json, junit, markdown) = (file("a.json"), file("a.xml"), file("a.md"));
    // A shell that writes one request, and then what is none.
    let script =
        r#"printf '{"jsonrpc":"2.0","id":1,"method":"work"}\nhello\n'; exec cat >/dev/null"#;
    let mut command = Command::new(RESCIND);
    command.args(["conform", "client", "--dialect", "jsonrpc", "--only", "client-output/clean"]);
    command.args(["--patience", "1s", "--seed", "5"]);
    command.args(["--json", &json, "--junit", &junit, "--markdown", &markdown]);
    let output = command.args(["--", "sh", "-c", script]).output().unwrap();
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("fail          MUST        client-output/clean"), "{said}");
    assert!(
        said.contains("rescind conform client --dialect jsonrpc --patience 1000ms --only client-output/clean --seed 5 -- sh -c "),
        "the line that runs it again: {said}"
    );
    let report: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!((&report["verdict"], &report["seed"]), (&"fail".into(), &5.into()));
    assert_eq!(report["facts"]["held"], "work");
    assert_eq!(report["checks"][0]["runs"], serde_json::json!(["fail", "fail"]));
    let xml = fs::read_to_string(&junit).unwrap();
    assert!(xml.contains("failures=\"1\"") && xml.contains("hello"), "{xml}");
    assert!(
        fs::read_to_string(&markdown)
            .unwrap()
            .contains("| `client-output/clean` | does not hold |")
    );

    let known = folder.join("known.txt");
    fs::write(&known, "client-output/clean # it says hello\n").unwrap();
    let known = known.to_string_lossy();
    let listed = ["--known-failing", &known, "--only", "client-output/clean", "--patience", "1s"];
    let mut command = Command::new(RESCIND);
    command.args(["conform", "client", "--dialect", "jsonrpc"]).args(listed);
    let output = command.args(["--", "sh", "-c", script]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
}

#[test]
fn unknown_checks_are_wrong_usage() {
    for arguments in [
        ["--only", "cancel/one-read"],
        ["--known-failing", "/nowhere"],
        ["--only", "client-cancel/nothing"],
    ] {
        assert_eq!(conform_call("acp", &arguments, &[]).status.code(), Some(2));
    }
    let output = conform_call("acp", &["--trigger", "stop", "{"], &[]);
    assert_eq!(output.status.code(), Some(2));
}
