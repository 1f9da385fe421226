//! `--dialect-file`: dialects that nobody compiled in, in every command that speaks one.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::support::{RESCIND, rescind};

const HOUR: &str = r#"{"ms":3600000}"#;

/// Each command that takes one, and what else it needs.
const COMMANDS: [(&str, &[&str]); 4] =
    [("call", &["echo"]), ("serve", &[]), ("step", &[]), ("relay", &["--", "cat"])];

/// A file that is removed with this.
struct File(PathBuf);

impl File {
    fn new(name: &str, text: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("rescind-dialect-{}-{name}", std::process::id()));
        fs::write(&path, text).unwrap();
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // The system removes it some day.
        let _ = fs::remove_file(&self.0);
    }
}

/// Returns the example in the documentation.
fn example() -> String {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/dialects.md");
    let docs = fs::read_to_string(docs).unwrap();
    docs.split("```json\n").nth(1).unwrap().split("```").next().unwrap().to_owned()
}

/// Starts the program with pipes for its standard input and output.
fn started(arguments: &[&str]) -> Child {
    Command::new(RESCIND)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

/// Returns what the program writes to its standard output for this input.
fn filtered(arguments: &[&str], input: &str) -> String {
    let mut filter = started(arguments);
    filter.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    String::from_utf8(filter.wait_with_output().unwrap().stdout).unwrap()
}

#[test]
fn the_example_of_the_documentation_can_be_spoken() {
    let file = File::new("example.json", &example());
    let input = r#"{"call": {"method": "slow"}}
        {"cancel": "c1", "reason": "enough"}
        {"call": {"method": "shutdown"}}
        {"cancel": "c2"}
        {"advance": 2000}"#;
    let said = filtered(&["step", "--dialect-file", file.path()], input);
    let cancel = r#"{"jsonrpc":"2.0","method":"house/stop","params":{"request":1,"why":"enough"}}"#;
    assert!(said.contains(cancel), "{said}");
    assert!(said.contains(r#""refused""#), "{said}");
    assert!(said.contains(r#""call":"c1","outcome":"cancelled""#), "{said}");
}

#[test]
fn call_and_its_built_in_peer_speak_it() {
    let file = File::new("call.json", &example());
    let common = ["call", "--trace", "--dialect-file", file.path()];
    let said = rescind([&common[..], &["--cancel-after", "500ms", "sleep", HOUR]].concat());
    assert_eq!(said.code, Some(3), "{said:?}");
    assert!(said.stderr.contains(r#""method":"house/stop""#), "{said:?}");
    assert!(said.stderr.contains(r#""message":"Stopped""#), "{said:?}");
    // As its base, it opens with `initialize` and `initialized`.
    assert!(said.stderr.contains(r#""method":"initialized""#), "{said:?}");
}

#[test]
fn work_of_a_file_is_stopped_by_the_name_that_the_file_gives_it() {
    const PEER: &str = r#"while read -r line; do case "$line" in
*'"initialize"'*) echo '{"jsonrpc":"2.0","id":1,"result":{}}' ;;
*'"house/halt"'*) echo '{"jsonrpc":"2.0","id":2,"result":{"end":"stopped"}}' ;;
esac; done"#;
    let file = File::new("work.json", &example());
    let ours = ["call", "--trace", "--dialect-file", file.path(), "--stop-after", "50ms"];
    let job = ["house/run", r#"{"job":"j"}"#, "--", "sh", "-c", PEER];
    let said = rescind([&ours[..], &job].concat());
    assert!(said.stderr.contains(r#""method":"house/halt","params":{"job":"j"}"#), "{said:?}");
    assert!(said.stderr.contains("; the result says so, "), "{said:?}");
    assert_eq!((said.code, &*said.stdout), (Some(0), "{\"end\":\"stopped\"}\n"), "{said:?}");
}

#[test]
fn relay_speaks_it_on_either_side() {
    let file = File::new("relay.json", &example());
    let call = ["call", "--trace", "--cancel-after", "500ms"];
    let ours = ["--dialect-file", file.path()];
    let theirs = ["--dialect", "acp"];
    let sides = [
        (ours, vec!["--dialect-file", file.path()], ours),
        (ours, vec!["--up-file", file.path(), "--down", "acp"], theirs),
        (theirs, vec!["--up", "acp", "--down-file", file.path()], ours),
    ];
    for (near, relayed, far) in sides {
        let arguments = [
            &call[..],
            &near,
            &["sleep", HOUR, "--", RESCIND, "relay"],
            &relayed,
            &["--", RESCIND, "serve"],
            &far,
        ];
        let said = rescind(arguments.concat());
        assert_eq!(said.code, Some(3), "{relayed:?}: {said:?}");
    }
}

#[test]
fn what_is_wrong_in_a_file_is_named_with_its_line_and_member() {
    let wrong = [
        ("{\n  \"base\": \"lps\"\n}", &["line 2, member base: unknown preset `lps`", "lsp"][..]),
        ("{\n  \"name\": \"x\"\n}", &["missing field `base`"]),
        ("{\n \"base\": \"lsp\",\n \"grease\": 1\n}", &["line 3, member grease: unknown field"]),
        ("{\"base\": \"lsp\",\n\"response\": 3}", &["line 2, member response: invalid type"]),
        (
            "{\"base\": \"lsp\", \"response\": \"loud\"}",
            &["member response: unknown variant `loud`"],
        ),
        (
            "{\"base\": \"lsp\", \"cancel\": {\n\"notification\": {\n\"method\": 1}}}",
            &["line 3, member cancel.notification.method: invalid type: integer `1`"],
        ),
        (
            "{\"base\": \"lsp\", \"cancel\": {\"notification\": {\"method\": \"m\", \"why\": 1}}}",
            &["member cancel.notification.why: unknown field `why`"],
        ),
        ("{\"base\": \"lsp\", \"progress\": [{}]}", &["member progress[0]: missing field"]),
        ("{\"base\": \"lsp\", \"envelope\": \"abp\"}", &["only have a place for a cancel"]),
        (
            r#"{"base": "dap", "revisions": {"negotiated": {"exchanges": [], "revisions": [{"version": "2", "dialect": {"base": "lsp"}}]}}}"#,
            &["only have a place for a cancel"],
        ),
        (
            r#"{"base": "lsp", "work": [{"kind": "k", "begins": [{"request": {"method": "b", "name": ["a"]}}], "stops": {"request": {"method": "s", "name": "a"}}}]}"#,
            &["work[0]: `stops` is a request"],
        ),
        (r#"{"base": "lsp", "work": [{}]}"#, &["member work[0]: missing field `kind`"]),
        (
            r#"{"base": "lsp", "work": [{"kind": "k", "begins": [{"event": {}}]}]}"#,
            &["member work[0].begins[0]", "unknown variant `event`", "expected one of `request`, "],
        ),
        (
            "{\"base\": \"lsp\", \"work\": [{\"kind\": \"k\",\n\"stops\": {\"request\": {\"method\": \"m\", \"name\": [\"a\"]}}}]}",
            &[
                "line 2, member work[0].stops.request.name: invalid type: sequence, expected a string",
            ],
        ),
        (
            r#"{"base": "lsp", "work": [{"kind": "k", "within": [{"method": "m", "name": [], "sender": "waits"}]}]}"#,
            &["member work[0].within[0].name: expected a path of at least one member"],
        ),
        (
            r#"{"base": "lsp", "work": [{"kind": "k", "ends": [{"result": {"name": ["n"], "stopped": {"path": ["a", "b", "c"], "text": "t"}}}]}]}"#,
            &["member work[0].ends[0].result.stopped.path: expected a path of one or two members"],
        ),
        (
            r#"{"base": "lsp", "work": [{"kind": "k", "begins": [{"notification": {"method": "m", "name": ["n"]}}], "stops": {"notification": {"method": "s", "name": "n"}}}]}"#,
            &["member work[0]: `ends` is empty, expected a message"],
        ),
        (
            r#"{"base": "lsp", "work": [{"kind": "k", "begins": [], "stops": {"notification": {"method": "s", "name": "n"}}}]}"#,
            &["member work[0]: `begins` is empty, expected a message"],
        ),
        (
            r#"{"base": "lsp", "work": [{"kind": "k", "begins": [{"request": {"method": "", "name": ["n"]}}]}]}"#,
            &["line 1, member work[0].begins[0].request.method: expected a method"],
        ),
        (
            "{\"base\": \"lsp\", \"work\": [{\"kind\": \"k\",\n\"stops\": {\"notification\": {\"method\": \"\", \"name\": \"n\"}}}]}",
            &["line 2, member work[0].stops.notification.method: expected a method"],
        ),
        (
            r#"{"base": "lsp", "work": [{"kind": "k", "within": [{"method": "", "name": ["n"], "sender": "waits"}]}]}"#,
            &["member work[0].within[0].method: expected a method"],
        ),
        (
            r#"{"base": "lsp", "work": [{"kind": "k", "ends": [{"notification": {"method": "", "name": ["n"]}}]}]}"#,
            &["member work[0].ends[0].notification.method: expected a method"],
        ),
        (
            r#"{"base": "lsp", "work": [{"kind": "k", "asks": [{"method": ""}]}]}"#,
            &["member work[0].asks[0].method: expected a method"],
        ),
        ("{\"base\": \"lsp\"}\n]", &["line 2: trailing characters"]),
        ("{\"base\": \"lsp\", \"base\": \"acp\"}", &["duplicate field `base`"]),
        ("", &["line 1: EOF"]),
    ];
    for (text, parts) in wrong {
        let file = File::new("wrong.json", text);
        for (command, rest) in COMMANDS {
            let said = rescind([&[command, "--dialect-file", file.path()], rest].concat());
            assert_eq!(said.code, Some(2), "{command:?} {text}: {said:?}");
            let parts = parts.iter().copied().chain([file.path()]);
            for part in parts {
                assert!(said.stderr.contains(part), "{part:?} is not in {said:?}");
            }
        }
    }
    let said = rescind(["serve", "--dialect-file", "/nowhere/at/all"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains("/nowhere/at/all: "), "{said:?}");
}

#[test]
fn a_name_and_a_file_exclude_each_other() {
    let file = File::new("both.json", "{\"base\": \"lsp\"}");
    for (command, rest) in COMMANDS {
        let both = [command, "--dialect", "lsp", "--dialect-file", file.path()];
        let said = rescind([&both, rest].concat());
        assert_eq!(said.code, Some(2), "{command:?}: {said:?}");
        assert!(said.stderr.contains("cannot be used with"), "{said:?}");
    }
    for half in [["--up", "lsp"], ["--down-file", file.path()]] {
        let said = rescind([&["relay"][..], &half, &["--", "cat"]].concat());
        assert_eq!(said.code, Some(2), "{half:?}: {said:?}");
    }
}

#[test]
fn a_file_that_is_made_from_a_family_holds_in_each_of_its_revisions() {
    let text = r#"{"base": "mcp", "name": "ours", "cancelled_message": "x", "batches": {"accepted": {"except": []}}}"#;
    let file = File::new("family.json", text);
    let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#;
    let mut server = started(&["serve", "--dialect-file", file.path()]);
    let (mut to, from) = (server.stdin.take().unwrap(), server.stdout.take().unwrap());
    let mut answers = BufReader::new(from).lines().map(Result::unwrap);
    writeln!(to, "{initialize}").unwrap();
    // Only then is the revision settled.
    let said = answers.next().unwrap();
    assert!(said.contains(r#""protocolVersion":"2025-06-18""#), "{said}");
    writeln!(to, r#"[{{"jsonrpc":"2.0","id":2,"method":"ping"}}]"#).unwrap();
    assert_eq!(answers.next().unwrap(), r#"[{"jsonrpc":"2.0","id":2,"result":{}}]"#);
    drop(to);
    server.wait().unwrap();
}
