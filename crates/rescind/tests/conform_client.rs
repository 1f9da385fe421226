//! `rescind conform client`: what it says of `rescind call`, and how it says it.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::{env, fs};

use serde_json::Value;

use crate::support::RESCIND;

const WORK: [&str; 2] = ["sleep", r#"{"ms":1}"#];

/// Tests a client that starts its server itself.
fn conform(arguments: &[&str], client: &[&str]) -> Output {
    let mut command = Command::new(RESCIND);
    command.args(["conform", "client", "--ask-time", "500ms", "--patience", "10s"]);
    command.args(arguments).args(["--", RESCIND]).args(client);
    command.output().unwrap()
}

/// Tests `rescind call`, which cancels as these say.
fn conform_call(dialect: &str, arguments: &[&str], cancels: &[&str]) -> Output {
    let own = ["--dialect", dialect];
    let call = [&["call"][..], &own, cancels, &WORK, &["--", "{server}"]].concat();
    conform(&[&own, arguments].concat(), &call)
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// What can't be seen of a client that ends once its call is settled, which is when it has cancelled where nobody
/// answers that.
const ENDS: [&str; 2] = ["client-answer/twice", "client-answer/late"];

/// It passes, and all of it is exercised that can be.
fn passes(dialect: &str, output: &Output) {
    let said = text(output);
    assert_eq!(output.status.code(), Some(0), "{dialect}:\n{said}");
    assert!(said.lines().last().unwrap().starts_with("pass: "), "{said}");
    let open = said.lines().filter(|line| line.starts_with("not exercised"));
    for line in open {
        assert!(ENDS.iter().any(|id| line.contains(id)), "{dialect}: {line}");
    }
}

/// All of them are tested with `RESCIND_EVERY_CHECK=1`, as in `.ci/run`, and these without: with either framing, and one
/// in which a cancelled request is not answered.
const WITHOUT: [&str; 2] = ["lsp", "mcp-2025-11-25"];

#[test]
fn call_passes_everything_in_every_dialect() {
    let options = ["--trigger", "stop", "{}", "--ask", "sleep", r#"{"ms":"$MS"}"#];
    for dialect in [
        "jsonrpc",
        "acp",
        "acp-v2",
        "acp-draft",
        "lsp",
        "mcp",
        "mcp-2024-11-05",
        "mcp-2025-03-26",
        "mcp-2025-06-18",
        "mcp-2025-11-25",
        "mcp-2026-07-28",
        "erlmcp",
    ] {
        if env::var_os("RESCIND_EVERY_CHECK").is_some() || WITHOUT.contains(&dialect) {
            passes(dialect, &conform_call(dialect, &options, &["--cancel-on", "stop"]));
        }
    }
}

#[test]
fn call_that_cancels_by_itself_passes_everything() {
    for dialect in ["acp", "abp"] {
        // Neither asks for a request of ours that takes time.
        let options =
            ["--only", "client-cancel", "--only", "client-answer", "--only", "client-end"];
        passes(dialect, &conform_call(dialect, &options, &["--cancel-after", "500ms"]));
    }
}

#[test]
fn what_a_client_does_not_cancel_is_no_pass() {
    let output = conform_call("acp", &["--only", "client-cancel"], &[]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(8), "{said}");
    assert!(said.starts_with("not exercised MUST"), "{said}");
    assert!(said.contains("the client cancels nothing by itself (--trigger)"), "{said}");
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

/// A folder of this test's own.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// A client that says what is no message.
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
