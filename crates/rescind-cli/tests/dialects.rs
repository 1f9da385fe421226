//! `rescind serve` and `rescind call` in every dialect: what a real peer expects at opening, and what
//! becomes of a cancel.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;

use protocol_core::{CancelRule, Dialect, Framing, ResponseRule};
use serde_json::{Value, json};

use crate::support::{RESCIND, Running, Said, rescind};

const HOUR: &str = r#"{"ms":3600000}"#;
const RUNTIMES: [&str; 4] = ["blocking", "single", "tokio", "smol"];

/// Sends a server these messages, one a line, and ends its input. Returns its messages.
fn said(runtime: &str, dialect: &str, messages: &[Value]) -> Vec<Value> {
    let mut server = Command::new(RESCIND)
        .args(["serve", "--dialect", dialect, "--runtime", runtime])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = server.stdin.take().unwrap();
    for message in messages {
        writeln!(stdin, "{message}").unwrap();
    }
    drop(stdin);
    let output = server.wait_with_output().unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A program that responds to one message at a time.
struct Conversation {
    program: Child,
    output: BufReader<ChildStdout>,
}

impl Conversation {
    fn start(arguments: &[&str]) -> Self {
        let mut program = Command::new(RESCIND)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(program.stdout.take().unwrap());
        Self { program, output }
    }

    /// Sends a message, and reads the next.
    fn ask(&mut self, message: &Value) -> Value {
        writeln!(self.program.stdin.as_ref().unwrap(), "{message}").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        // Its input ends with this.
        drop(self.program.stdin.take());
        let _ = self.program.wait();
    }
}

fn request(id: u64, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

fn answer(said: &[Value], id: u64) -> &Value {
    said.iter().find(|message| message["id"] == id).unwrap_or_else(|| panic!("{id}: {said:?}"))
}

#[test]
fn the_methods_work_in_every_dialect() {
    for dialect in Dialect::PRESETS.iter().cloned() {
        let said = rescind(["call", "--dialect", &dialect.name, "echo", r#"{"n":1.50}"#]);
        assert_eq!(said.code, Some(0), "{}: {said:?}", dialect.name);
        if dialect.has_operations() {
            let token = said.stdout.strip_prefix("{\"cancellationToken\":\"").unwrap();
            assert_eq!(token.find('"'), Some(32), "128 bits in hexadecimal: {said:?}");
        } else {
            assert_eq!(said.stdout, "{\"n\":1.50}\n", "{}: {said:?}", dialect.name);
        }
    }
}

/// The request has left before it is cancelled, on a busy machine too.
const CANCELLED: [&str; 4] = ["--cancel-after", "500ms", "sleep", HOUR];

/// Runs a check in every dialect at once, for most of it is waiting.
fn in_every_dialect(check: impl Fn(&Dialect) + Sync) {
    thread::scope(|scope| {
        for dialect in Dialect::PRESETS {
            scope.spawn(|| check(dialect));
        }
    });
}

#[test]
fn a_cancel_ends_the_call_in_every_dialect() {
    in_every_dialect(|dialect| {
        let call = ["call", "--trace", "--dialect", &dialect.name];
        let said = rescind([&call[..], &CANCELLED].concat());
        assert_eq!(said.code, Some(3), "{}: {said:?}", dialect.name);
        if let CancelRule::Notification { method, .. }
        | CancelRule::Request { method, .. }
        | CancelRule::Operation { method, .. } = &dialect.cancel
        {
            assert!(said.stderr.contains(&**method), "{}: {said:?}", dialect.name);
        }
        assert_eq!(said.stderr.contains("; acknowledged"), dialect.has_operations(), "{said:?}");
        let is_answered = dialect.response == ResponseRule::Required
            && dialect.cancel != CancelRule::Local
            && !dialect.has_operations();
        assert_eq!(said.stderr.contains("answered with -32800"), is_answered, "{said:?}");
    });
}

#[test]
fn a_cancel_passes_a_relay_in_every_dialect() {
    in_every_dialect(|dialect| {
        let [call, relay, serve] =
            ["call", "relay", "serve"].map(|command| [command, "--dialect", &dialect.name]);
        let started = &["--", RESCIND][..];
        let said = rescind([&call[..], &CANCELLED, started, &relay, started, &serve].concat());
        assert_eq!(said.code, Some(3), "{}: {said:?}", dialect.name);
    });
}

#[test]
fn the_draft_exchanges_capabilities() {
    for runtime in RUNTIMES {
        let open = json!({ "protocolVersion": 1, "clientCapabilities": {} });
        let cancel =
            json!({ "jsonrpc": "2.0", "method": "$/cancelRequest", "params": { "id": 1 } });
        let sleep = request(1, "sleep", &json!({ "ms": 3_600_000 }));
        let said = said(runtime, "acp-draft", &[request(0, "initialize", &open), sleep, cancel]);
        let capabilities = &answer(&said, 0)["result"]["agentCapabilities"];
        assert_eq!(*capabilities, json!({ "cancellation": { "request": true } }), "{runtime}");
    }
    let said = rescind(["call", "--dialect", "acp-draft", "--trace", "echo", "{}"]);
    assert!(said.stderr.contains(r#""clientCapabilities":{"cancellation":{"request":true}}"#));
    let said = rescind(["call", "--dialect", "acp-v2", "--trace", "echo", "{}"]);
    assert!(said.stderr.contains(r#""protocolVersion":2"#), "{said:?}");
}

#[test]
fn mcp_opens_with_the_revision() {
    for runtime in RUNTIMES {
        for (dialect, asked, agreed) in [
            ("mcp-2024-11-05", "2024-11-05", "2024-11-05"),
            ("mcp-2025-03-26-http", "2025-06-18", "2025-03-26"),
            ("mcp-2025-11-25", "1999-01-01", "2025-11-25"),
            ("mcp", "2025-06-18", "2025-06-18"),
            ("mcp", "1999-01-01", "2025-11-25"),
        ] {
            let open = request(0, "initialize", &json!({ "protocolVersion": asked }));
            let opened = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
            let said = said(runtime, dialect, &[open, opened, request(1, "ping", &json!({}))]);
            let result = &answer(&said, 0)["result"];
            assert_eq!(result["protocolVersion"], agreed, "{runtime} {dialect}");
            assert_eq!(result["serverInfo"]["name"], "rescind");
            assert!(answer(&said, 1)["result"].is_object());
        }
    }
}

#[test]
fn f72_the_shape_of_answers_follows_the_revision_that_was_agreed_on() {
    let echo = json!({ "name": "echo", "arguments": {} });
    let asked = [("ping", json!({})), ("tools/list", json!({})), ("tools/call", echo)];
    let discover = request(0, "server/discover", &json!({}));
    let initialize = |version| request(0, "initialize", &json!({ "protocolVersion": version }));
    for runtime in RUNTIMES {
        for (opening, is_newest) in [
            (initialize("2025-11-25"), false),
            (initialize("2024-11-05"), false),
            (initialize("2026-07-28"), false),
            (discover.clone(), true),
        ] {
            let mut server =
                Conversation::start(&["serve", "--dialect", "mcp", "--runtime", runtime]);
            let opened = server.ask(&opening);
            let is_said = |answer: &Value| answer["result"].get("resultType").is_some();
            assert_eq!(is_said(&opened), is_newest, "{runtime}: {opened}");
            for (id, (method, params)) in (1..).zip(&asked) {
                let answer = server.ask(&request(id, method, params));
                assert!(answer["result"].is_object(), "{runtime}: {answer}");
                assert_eq!(is_said(&answer), is_newest, "{runtime} {method}: {answer}");
            }
        }
    }
}

#[test]
fn f72_two_connections_of_one_server_agree_on_revisions_of_their_own() {
    let listening = ["serve", "--dialect", "mcp", "--listen", "ws://127.0.0.1:0"];
    let mut server = Running::start(listening, &[]);
    let line = server.says(&["listening on "]);
    let address = line.trim().trim_start_matches("listening on ");
    for (dialect, is_newest) in
        [("mcp-2025-11-25", false), ("mcp", true), ("mcp-2025-06-18", false)]
    {
        let said = rescind(["call", "--dialect", dialect, "--connect", address, "ping", "{}"]);
        assert_eq!(said.code, Some(0), "{said:?}");
        assert_eq!(said.stdout.contains("resultType"), is_newest, "{dialect}: {said:?}");
    }
}

#[test]
fn only_the_newest_mcp_is_discovered() {
    for runtime in RUNTIMES {
        for dialect in ["mcp-2024-11-05", "mcp-2025-06-18", "mcp-2025-11-25-http"] {
            let said = said(runtime, dialect, &[request(0, "server/discover", &json!({}))]);
            assert_eq!(answer(&said, 0)["error"]["code"], -32601, "{runtime} {dialect}");
        }
    }
}

/// Runs `rescind call` in front of a shell script that is its server.
fn call_script(dialect: &str, script: &str) -> Said {
    let server = ["sh", "-c", script, "sh", RESCIND];
    rescind([&["call", "--trace", "--dialect", dialect, "echo", "[1]", "--"], &server[..]].concat())
}

#[test]
fn mcp_falls_back_to_initialize() {
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let theirs = format!("mcp-{revision}");
        let arguments = ["call", "--trace", "--dialect", "mcp", "echo", "[1]", "--"];
        let said = rescind([&arguments, &[RESCIND, "serve", "--dialect", &theirs][..]].concat());
        assert_eq!((said.code, said.stdout.as_str()), (Some(0), "[1]\n"), "{said:?}");
        let heard = [
            r#""method":"server/discover""#,
            r#""code":-32601"#,
            r#""method":"initialize""#,
            &format!(r#""protocolVersion":"{revision}""#),
            r#""method":"notifications/initialized""#,
        ];
        let mut rest = said.stderr.as_str();
        for words in heard {
            let at = rest.find(words).unwrap_or_else(|| panic!("no {words} in order: {said:?}"));
            rest = &rest[at + words.len()..];
        }
        assert!(!rest.contains("server/discover"), "{said:?}");
        assert!(!said.stderr.contains("opening again"), "F66: it is started once: {said:?}");
    }
}

#[test]
fn mcp_opens_the_older_revision_that_was_asked_for() {
    let arguments = ["call", "--trace", "--dialect", "mcp-2025-11-25", "echo", "[1]", "--"];
    let theirs = [RESCIND, "serve", "--dialect", "mcp-2025-11-25"];
    let said = rescind([&arguments[..], &theirs].concat());
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(!said.stderr.contains("server/discover"), "{said:?}");
    assert!(!said.stderr.contains("opening again"), "{said:?}");
}

/// A cancel of a task-augmented request is not sent in 2025-11-25, where the stop awaits the name of the task. Those are the
/// rules that the connection has then.
#[test]
fn mcp_speaks_by_the_rules_of_the_revision_agreed_on() {
    for (theirs, is_sent) in [("mcp-2025-06-18", true), ("mcp-2025-11-25", false)] {
        let arguments = ["call", "--trace", "--dialect", "mcp", "--cancel-after", "500ms"];
        let params = r#"{"ms":3600000,"task":{}}"#;
        let server = ["sleep", params, "--", RESCIND, "serve", "--dialect", theirs];
        let said = rescind([&arguments[..], &server].concat());
        assert_eq!(said.stderr.contains("notifications/cancelled"), is_sent, "{said:?}");
        assert_eq!(said.code, Some(3), "{said:?}");
    }
}

#[test]
fn mcp_falls_back_where_the_server_ends_at_what_it_does_not_know() {
    let script = r#"read -r line
        case "$line" in *server/discover*) exit 1;; esac
        { printf '%s\n' "$line"; cat; } | "$1" serve --dialect mcp-2025-11-25"#;
    let said = call_script("mcp", script);
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), "[1]\n"), "{said:?}");
}

#[test]
fn mcp_falls_back_where_only_older_revisions_are_listed() {
    let script = r#"read -r line
        case "$line" in *server/discover*)
            echo '{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2025-06-18"]}}'
            cat; exit;;
        esac
        { printf '%s\n' "$line"; cat; } | "$1" serve --dialect mcp-2025-06-18"#;
    let said = call_script("mcp", script);
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), "[1]\n"), "{said:?}");
}

#[test]
fn mcp_gives_up_where_no_revision_can_be_agreed_on() {
    let unknown = r#"read -r line
        echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2099-01-01"}}'; cat"#;
    let said = call_script("mcp-2025-11-25", unknown);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.stderr.contains("the server speaks MCP 2099-01-01, which we don't"), "{said:?}");

    let contrary = r#"read -r line
        case "$line" in *2025-11-25*) version=2025-06-18;; *) version=2025-11-25;; esac
        echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"'$version'"}}'; cat"#;
    let said = call_script("mcp-2025-11-25", contrary);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.stderr.contains("no revision can be agreed on"), "{said:?}");
}

#[test]
fn mcp_discovers_and_calls_tools() {
    for runtime in RUNTIMES {
        let call = |id, name: &str, arguments: Value| {
            let meta = json!({ "progressToken": "t" });
            let params = json!({ "name": name, "arguments": arguments, "_meta": meta });
            request(id, "tools/call", &params)
        };
        let said = said(
            runtime,
            "mcp",
            &[
                request(0, "server/discover", &json!({})),
                request(1, "tools/list", &json!({})),
                call(2, "echo", json!({ "a": 1 })),
                call(3, "fail", json!({ "code": -5, "message": "no luck" })),
                call(4, "missing", json!({})),
                request(5, "resources/list", &json!({})),
            ],
        );
        let discovered = &answer(&said, 0)["result"];
        assert_eq!(discovered["supportedVersions"], json!(["2026-07-28"]));
        assert_eq!(discovered["resultType"], "complete");
        let server = &discovered["_meta"]["io.modelcontextprotocol/serverInfo"];
        assert_eq!(server["name"], "rescind");
        let tools = answer(&said, 1)["result"]["tools"].as_array().unwrap();
        let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["echo", "sleep", "count", "stubborn", "fail", "nested", "outcome"]);
        let echo = &answer(&said, 2)["result"];
        assert_eq!(echo["content"], json!([{ "type": "text", "text": "{\"a\":1}" }]));
        assert_eq!(echo["isError"], false);
        let failed = &answer(&said, 3)["result"];
        assert_eq!(failed["isError"], true);
        assert!(failed["content"][0]["text"].as_str().unwrap().contains("no luck"));
        assert_eq!(answer(&said, 4)["error"]["code"], -32602);
        assert_eq!(answer(&said, 5)["error"]["code"], -32601);
    }
}

#[test]
fn mcp_tools_report_progress_and_are_silent_after_a_cancel() {
    let count = r#"{"name":"count","arguments":{"to":2,"every_ms":1},"_meta":{"progressToken":7}}"#;
    for dialect in ["mcp", "mcp-2025-06-18"] {
        let said = rescind(["call", "--trace", "--dialect", dialect, "tools/call", count]);
        assert_eq!(said.code, Some(0), "{said:?}");
        for progress in [1, 2] {
            let params = format!(r#"{{"progressToken":7,"progress":{progress},"total":2}}"#);
            assert!(said.stderr.contains(&params), "{said:?}");
        }
        assert!(said.stdout.contains(r#"\"counted\":2"#), "{said:?}");
    }
    for runtime in RUNTIMES {
        let sleep = json!({ "name": "sleep", "arguments": { "ms": 3_600_000 } });
        let params = json!({ "requestId": 1, "reason": "enough" });
        let cancel =
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
        let said = said(runtime, "mcp", &[request(1, "tools/call", &sleep), cancel]);
        assert!(said.is_empty(), "{runtime}: {said:?}");
    }
}

#[test]
fn whole_messages_are_lines_on_standard_streams() {
    // Of a revision in which the end of input is no cancel: it comes at once here.
    assert_eq!(Dialect::MCP_2025_06_18_HTTP.framing, Framing::Whole);
    let said = said("blocking", "mcp-2025-06-18-http", &[request(1, "echo", &json!([1]))]);
    assert_eq!(answer(&said, 1)["result"], json!([1]));
}

#[test]
fn erlmcps_operations_are_told_of_and_counted() {
    for runtime in RUNTIMES {
        let metrics =
            std::env::temp_dir().join(format!("rescind-dialects-{}-{runtime}", std::process::id()));
        let mut server = Command::new(RESCIND)
            .args(["serve", "--dialect", "erlmcp", "--runtime", runtime, "--metrics"])
            .arg(&metrics)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = server.stdin.take().unwrap();
        let tool = json!({ "name": "count", "arguments": { "to": 1_000_000, "every_ms": 1 } });
        writeln!(stdin, "{}", request(1, "tool/call", &tool)).unwrap();
        let mut lines = std::io::BufReader::new(server.stdout.take().unwrap()).lines();
        let mut next =
            || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
        let token = next()["result"].take();
        while next()["method"] != "progress" {}
        writeln!(stdin, "{}", request(2, "cancel", &token)).unwrap();
        while next()["id"] != 2 {}
        drop(stdin);
        let output = server.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        let begin = &token["cancellationToken"].as_str().unwrap()[..4];
        let line =
            format!("tool/call OperationToken({begin}…) cancelled (client_requested); it had made");
        assert!(said.contains(&line) && said.contains(r#""of":1000000}"#), "{runtime}: {said}");
        let counts = std::fs::read_to_string(&metrics).unwrap();
        std::fs::remove_file(&metrics).unwrap();
        let count = "rescind_operations_cancelled_total{reason=\"client_requested\"} 1";
        assert!(counts.contains(count), "{runtime}: {counts}");
    }
}
