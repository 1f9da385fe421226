//! `rescind call` against the built-in peer: outcomes, exit codes, and its reports of cancels.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{RESCIND, Running, STUBBORN, Said, rescind, rescind_with, signal};

const HOUR: &str = r#"{"ms":3600000}"#;

fn call(arguments: &[&str]) -> Said {
    rescind(["call"].iter().chain(arguments))
}

/// Runs a call, and interrupts it once it prints this, however long that takes.
fn interrupted<'a>(arguments: impl IntoIterator<Item = &'a str>, words: &[&str]) -> Said {
    let mut running = Running::start(arguments, &[]);
    running.says(words);
    signal(running.id(), Signal::INT);
    running.end()
}

/// Returns the milliseconds before a word of the summary.
fn milliseconds(text: &str, before: &str) -> f64 {
    let (text, _) = text.split_once(&format!(" ms{before}")).expect(text);
    text.rsplit(' ').next().unwrap().parse().expect(text)
}

#[test]
fn a_result_is_all_of_standard_output_and_exits_0() {
    for dialect in ["jsonrpc", "acp", "lsp"] {
        let said = call(&["--dialect", dialect, "echo", r#"{"n":9007199254740993}"#]);
        assert_eq!(said.code, Some(0), "{said:?}");
        assert_eq!(
            (said.stdout.as_str(), said.stderr.as_str()),
            ("{\"n\":9007199254740993}\n", "")
        );
    }
}

/// An agent of ACP that ends its turn when it is stopped by the name of the session, and only then.
const AGENT: &str = r#"while read -r line; do case "$line" in
*'"initialize"'*) echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}' ;;
*'"session/cancel"'*) echo '{"jsonrpc":"2.0","id":2,"result":{"stopReason":"cancelled"}}' ;;
esac; done"#;

#[test]
fn f111_a_turn_that_is_stopped_ends_with_the_stop_reason_and_without_a_cancel_of_its_request() {
    let prompt = ["session/prompt", r#"{"sessionId":"s","prompt":[]}"#];
    let options = ["--dialect", "acp", "--stop-after", "50ms", "--trace"];
    let said = call(&[&options[..], &prompt, &["--", "sh", "-c", AGENT]].concat());
    assert_eq!(said.stdout, "{\"stopReason\":\"cancelled\"}\n", "{said:?}");
    assert!(said.stderr.contains(r#""method":"session/cancel""#), "{said:?}");
    assert!(!said.stderr.contains("$/cancel_request"), "{said:?}");
    assert!(said.stderr.contains("; the result says so, "), "{said:?}");
    assert_eq!(said.code, Some(0), "{said:?}");
}

#[test]
fn an_error_exits_1_and_says_code_and_message() {
    let said = call(&["fail", r#"{"code":-5,"message":"no \"luck\""}"#]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(1), ""));
    assert_eq!(said.stderr, "error: -5 \"no \"luck\"\"\n");
}

#[test]
fn g05_a_cancel_ends_within_a_second_exits_3_and_tells_the_story() {
    for dialect in ["acp", "lsp"] {
        let said = call(&["--dialect", dialect, "--cancel-after", "300ms", "sleep", HOUR]);
        assert_eq!((said.code, said.stdout.as_str()), (Some(3), ""), "{said:?}");
        let summary = said.stderr.lines().next().unwrap();
        assert!(summary.starts_with("cancelled sleep after "), "{summary}");
        assert!(summary.contains(r#"answered with -32800 "Request cancelled""#), "{summary}");
        assert!(milliseconds(summary, ";") >= 300.0, "{summary}");
        assert!(milliseconds(summary, " later") < 1_000.0, "{summary}");
        assert_eq!(said.stderr.lines().count(), 1, "F66: {said:?}");
    }
}

#[test]
fn g12_without_a_cancel_on_the_wire_it_settles_here() {
    let said = call(&["--dialect", "jsonrpc", "--cancel-after", "50ms", "--trace", "sleep", HOUR]);
    assert_eq!(said.code, Some(3), "{said:?}");
    assert!(said.stderr.contains("settled here, without an answer"), "{said:?}");
    assert!(!said.stderr.contains("cancel_request"), "{said:?}");
}

#[test]
fn g05_a_timeout_exits_4_and_sends_the_cancel() {
    let said = call(&["--timeout", "1s", "--trace", "sleep", HOUR]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(4), ""), "{said:?}");
    let summary = said.stderr.lines().find(|line| line.starts_with("sleep timed out after "));
    assert!(milliseconds(summary.unwrap(), "") >= 1_000.0, "{said:?}");
    assert!(
        said.stderr.contains(r#"--> {"jsonrpc":"2.0","method":"$/cancel_request""#),
        "{said:?}"
    );
}

#[test]
fn g07_a_lost_connection_exits_5() {
    for script in ["exit 0", "read line", "exec <&-; exec >&-; sleep 1"] {
        let said = call(&["sleep", HOUR, "--", "sh", "-c", script]);
        assert_eq!((said.code, said.stdout.as_str()), (Some(5), ""), "{script}: {said:?}");
        assert!(said.stderr.contains("error: "), "{said:?}");
    }
}

#[test]
fn g12_grace_bounds_the_wait_for_a_stubborn_server() {
    let said = call(&["--cancel-after", "100ms", "--grace", "200ms", "stubborn", HOUR]);
    assert_eq!(said.code, Some(3), "{said:?}");
    let summary = said.stderr.lines().next().unwrap();
    assert!(summary.contains("settled here, without an answer"), "{summary}");
    assert!(milliseconds(summary, " later") >= 190.0, "{summary}");
    assert!(said.took < Duration::from_secs(10), "a stubborn server is killed: {said:?}");
}

#[test]
fn b23_a_result_wins_over_a_cancel() {
    let call = ["call", "work", "--"];
    let said = interrupted(call.into_iter().chain(STUBBORN), &["working"]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), "\"done\"\n"), "{said:?}");
    assert!(said.stderr.contains("answered with a result all the same"), "{said:?}");
}

#[test]
fn a_cancelled_count_answers_with_its_part() {
    let said = call(&["--cancel-after", "400ms", "count", r#"{"to":100000,"every_ms":20}"#]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let result: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(result["of"], 100_000);
    let counted = result["counted"].as_u64().unwrap();
    assert!(counted < 100_000);
    let shown = said.stderr.matches("session/update").count() as u64;
    assert_eq!(shown, counted, "each progress is shown before the end");
}

#[test]
fn progress_is_never_lost_at_the_end() {
    for to in [0, 1, 5, 5_000] {
        let said = call(&["count", &format!(r#"{{"to":{to},"every_ms":0}}"#)]);
        assert_eq!(said.stdout, format!("{{\"counted\":{to},\"of\":{to}}}\n"));
        assert_eq!(said.stderr.matches("session/update {").count(), to);
        assert!(!said.stderr.contains("sessionId"), "no session was named");
    }
}

#[test]
fn g06_a_cancel_cascades_through_a_nested_call() {
    let sleeps = ["<--", r#""method":"sleep""#];
    let said = interrupted(["call", "--trace", "nested", HOUR], &sleeps);
    assert_eq!(said.code, Some(3), "{said:?}");
    let place = |arrow: &str, part: &str| {
        let line = |line: &str| line.contains(arrow) && line.contains(part);
        said.stderr.lines().position(line).unwrap_or_else(|| panic!("{arrow} {part}: {said:?}"))
    };
    let story = [
        place("-->", r#""method":"nested""#),
        place("<--", r#""method":"sleep""#),
        place("-->", "$/cancel_request"),
        place("<--", "$/cancel_request"),
        place("-->", "-32800"),
        place("<--", "-32800"),
    ];
    assert!(story.is_sorted(), "{story:?}: {said:?}");
}

#[test]
fn notifications_cancel_the_call_by_their_number_or_their_text() {
    let count = ["count", r#"{"to":1000000,"every_ms":5}"#];
    for (trigger, least) in [
        (["--cancel-after-notifications", "3"], 3),
        (["--cancel-on", r#""count":5,"#], 5),
        (["--cancel-on", "session/up"], 1),
    ] {
        let said = call(&[&["--json"], &trigger[..], &count].concat());
        assert_eq!(said.code, Some(0), "{trigger:?}: {said:?}");
        let told: Value = serde_json::from_str(&said.stdout).unwrap();
        assert!(told["cancelled"].is_u64(), "{trigger:?}: {said:?}");
        let counted = told["result"]["counted"].as_u64().unwrap();
        assert!((least..1_000_000).contains(&counted), "{trigger:?}: {said:?}");
        let cancelled = said.stderr.lines().filter(|line| line.starts_with("cancelled ")).count();
        assert_eq!(cancelled, 1, "F66: {said:?}");
    }
    let few = ["--json", "--cancel-after-notifications", "3", "count", r#"{"to":2,"every_ms":0}"#];
    let said = call(&few);
    assert!(!said.stdout.contains("cancelled"), "too few came: {said:?}");
    let operation = ["--dialect", "erlmcp", "--cancel-after-notifications", "2"];
    let said = call(&[&operation, &count[..]].concat());
    assert_eq!(said.code, Some(3), "{said:?}");
    assert!(said.stderr.contains("; acknowledged"), "{said:?}");
}

#[test]
fn notifications_are_sent_after_the_opening_and_before_the_call() {
    let notify = ["--notify", "a", r#"{"n":1}"#, "--notify", "b", "[2]"];
    for cancel in [&[][..], &["--cancel-after", "0"]] {
        let said = call(&[&["--trace"], &notify[..], cancel, &["echo", "[1]"]].concat());
        let sent = said.stderr.lines().filter(|line| line.contains("-->"));
        let sent: Vec<Value> = sent
            .map(|line| line.split_once("--> ").unwrap().1)
            .map(|message| serde_json::from_str(&message[..=message.rfind('}').unwrap()]).unwrap())
            .collect();
        let methods: Vec<_> = sent.iter().filter_map(|sent| sent["method"].as_str()).collect();
        assert_eq!(methods[..3], ["initialize", "a", "b"], "{said:?}");
        assert!(sent[1].get("id").is_none() && sent[1]["params"]["n"] == 1, "{said:?}");
    }
    let said = call(&["--notify", "a", "{", "m"]);
    assert_eq!((said.code, said.stderr.lines().count()), (Some(2), 1), "{said:?}");
    assert!(said.stderr.contains("--notify a: not JSON at byte "), "{said:?}");
}

#[test]
fn what_servers_ask_their_client_for_is_answered() {
    let script = r#"read -r line
        printf '{"jsonrpc":"2.0","id":7,"method":"%s","params":{"items":[{},{}]}}\n' "$0"
        read -r answer; printf '{"jsonrpc":"2.0","id":1,"result":%s}\n' "$answer"; read -r line"#;
    for (method, answer) in [
        ("workspace/configuration", r#""result":[null,null]"#),
        ("client/registerCapability", r#""result":null"#),
        ("session/request_permission", r#""result":{"outcome":{"outcome":"cancelled"}}"#),
        ("no/such", r#""error":{"code":-32601"#),
    ] {
        let said = call(&["--dialect", "jsonrpc", "m", "--", "sh", "-c", script, method]);
        assert_eq!(said.code, Some(0), "{said:?}");
        assert!(said.stdout.contains(answer), "{method}: {said:?}");
    }
}

#[test]
fn an_app_of_abp_says_what_it_can() {
    let said = call(&["--dialect", "abp", "--trace", "echo", "[1]"]);
    let capabilities =
        r#""capabilities":["echo","sleep","count","stubborn","fail","nested","outcome"]"#;
    assert!(said.stderr.contains(capabilities), "{said:?}");
}

#[test]
fn a_prompt_opens_its_session_streams_and_is_cancelled() {
    let prompt = ["call", "session/prompt", r#"{"prompt":["sessionId"]}"#];
    let said = interrupted(prompt, &["agent_message_chunk"]);
    assert_eq!(said.code, Some(3), "{said:?}");
    assert!(said.stderr.contains(r#""sessionId":"session-1""#), "{said:?}");
    assert!(said.stderr.contains("agent_message_chunk"), "{said:?}");
    assert!(said.stderr.contains("cancelled session/prompt after "), "{said:?}");
}

#[test]
fn a_trace_shows_direction_milliseconds_and_the_request() {
    let said = call(&["--trace", "echo", "[1]"]);
    let lines: Vec<&str> = said.stderr.lines().collect();
    assert_eq!(lines.len(), 4, "initialize, echo, and their answers: {said:?}");
    for (line, arrow) in lines.iter().zip(["-->", "<--"].iter().cycle()) {
        let (time, message) = line.split_once(" ms ").unwrap();
        // A program does not start in less than a tenth of one.
        assert!((0.1..60_000.0).contains(&time.trim().parse::<f64>().unwrap()), "{line}");
        let message = message.strip_prefix(arrow).unwrap();
        let (message, behind) = message.split_at(message.rfind('}').unwrap() + 1);
        assert_eq!(behind.starts_with(" (answers "), *arrow == "<--", "{line}");
        serde_json::from_str::<Value>(message).unwrap();
    }
}

#[test]
fn a_file_of_messages_replaces_the_opening() {
    let path = std::env::temp_dir().join(format!("rescind-open-{}.jsonl", std::process::id()));
    let lines = [
        json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {} }),
        json!({ "jsonrpc": "2.0", "method": "note", "params": { "n": 1 } }),
    ];
    std::fs::write(&path, lines.map(|line| line.to_string()).join("\n\n")).unwrap();
    let said = call(&["--open", path.to_str().unwrap(), "--trace", "echo", "[1]"]);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(said.code, Some(0), "{said:?}");
    let sent: Vec<&str> = said.stderr.lines().filter(|line| line.contains("-->")).collect();
    assert!(sent[0].contains("initialize") && sent[1].contains("note"), "{sent:?}");
    assert!(sent[2].contains("echo"), "{sent:?}");
}

#[test]
fn colour_is_for_terminals_or_on_demand() {
    let failing = ["call", "fail", r#"{"code":1,"message":"m"}"#];
    let coloured = |arguments: &[&str], environment: &[(&str, &str)]| {
        let said = rescind_with(failing.iter().chain(arguments), environment);
        assert_eq!(said.code, Some(1));
        said.stderr.contains('\u{1b}')
    };
    assert!(!coloured(&[], &[]), "a pipe is no terminal");
    assert!(coloured(&["--color", "always"], &[]));
    assert!(coloured(&[], &[("CLICOLOR_FORCE", "1")]));
    assert!(!coloured(&[], &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
    assert!(!coloured(&["--color", "never"], &[("CLICOLOR_FORCE", "1")]));
}

/// A full disk, or a `head` that has seen enough, ends the reading of a trace and not the call.
#[cfg(target_os = "linux")]
#[test]
fn nobody_has_to_take_what_it_says() {
    use std::process::{Command, Stdio};

    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = Command::new(RESCIND);
    command.args(["call", "--trace", "count", r#"{"to":20,"every_ms":1}"#]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(full);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(output.stdout, b"{\"counted\":20,\"of\":20}\n");
}
