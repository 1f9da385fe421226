//! `rescind replay` repeats the decisions of a relay.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{self, RESCIND, Said, rescind};

/// Returns the path of a file of this test's own.
fn path(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("replay");
    fs::create_dir_all(&directory).unwrap();
    directory.join(name).with_extension("jsonl")
}

/// Records a call through a relay, whatever its outcome. [`CANCELLED`] is cancelled once the trace shows the
/// call that the server makes for it. A sooner cancel may meet its request at the relay, which then withdraws
/// it.
fn record(path: &Path, call: &[&str], relay: &[&str], server: &[&str]) {
    let recorded = ["--record", path.to_str().unwrap(), "--payloads"];
    let relay = [&["--", RESCIND, "relay"], relay, &recorded, &["--"], server].concat();
    let arguments = [&["call"], call, &relay].concat();
    let said = if call.ends_with(&CANCELLED) { cancelled(&arguments) } else { rescind(arguments) };
    assert!(said.code.is_some_and(|code| code < 5 && code != 2), "{said:?}");
}

#[cfg(unix)]
fn cancelled(arguments: &[&str]) -> Said {
    let mut running = support::Running::start(arguments, &[]);
    running.says(&["<--", r#""method":"sleep""#]);
    support::signal(running.id(), rustix::process::Signal::INT);
    running.end()
}

/// Cancels after a time, for these systems have no such signal to one process.
#[cfg(not(unix))]
fn cancelled(arguments: &[&str]) -> Said {
    rescind([&["call", "--cancel-after", "2s"], &arguments[1..]].concat())
}

fn replay(path: &Path) -> Said {
    rescind(["replay", path.to_str().unwrap()])
}

const SERVE: [&str; 2] = [RESCIND, "serve"];
const SERVE_LSP: [&str; 4] = [RESCIND, "serve", "--dialect", "lsp"];
const CANCELLED: [&str; 3] = ["--trace", "nested", r#"{"ms":60000}"#];
const SAME: &str = "the same, byte for byte\n";

/// A name, the arguments of the call and of the relay, and the server.
type Session<'a> = (&'a str, Vec<&'a str>, Vec<&'a str>, &'a [&'a str]);

#[test]
fn g10_what_a_relay_decided_it_decides_again() {
    let noisy = ["sh", "-c", r#"echo hello; exec "$0" serve"#, RESCIND];
    let lsp: [&str; 2] = ["--dialect", "lsp"];
    let long = path("long");
    fs::write(&long, format!("[{:?}]", "x".repeat(17 << 20))).unwrap();
    let long = format!("@{}", long.to_str().unwrap());
    let ends = [
        "sh",
        "-c",
        r#"response='{"jsonrpc":"2.0","id":'
        read opening; echo "${response}1,\"result\":{\"protocolVersion\":1}}"
        read request; printf %s "${response}2,\"result\":\""
        head -c 17000000 /dev/zero | tr '\0' x; printf '"}'"#,
    ];
    let sessions: [Session<'_>; 9] = [
        ("cancelled", CANCELLED.to_vec(), vec![], &SERVE),
        ("smol", CANCELLED.to_vec(), vec!["--runtime", "smol"], &SERVE),
        ("progress", vec!["count", r#"{"to":9,"every_ms":1}"#], vec![], &SERVE),
        ("refused", vec!["no/such"], vec![], &SERVE),
        ("too-large", vec!["echo", &long], vec![], &SERVE),
        ("too-large-at-the-end", vec!["echo", "[1]"], vec![], &ends),
        ("noise", vec!["echo", "[1]"], vec![], &noisy),
        (
            "guarded",
            vec!["stubborn", r#"{"ms":400}"#],
            vec!["--method", "stub*=deadline:100ms500us"],
            &SERVE,
        ),
        ("headers", [&lsp[..], &CANCELLED].concat(), lsp.to_vec(), &SERVE_LSP),
    ];
    for (name, call, relay, server) in sessions {
        let path = path(name);
        record(&path, &call, &relay, server);
        let said = replay(&path);
        // `call` ends a relay that is slow to end, as it may be on a busy machine.
        assert_eq!(said.code, Some(0), "{name}: {said:?}");
        assert!(said.stdout.contains(": the same"), "{name}: {said:?}");
        assert_eq!(said.stderr, "", "{name}");
    }
}

/// Records a session, and changes the first line that has all of `parts` in it. Returns the number of the line,
/// and the output of the replay.
fn changed(name: &str, parts: &[&str], from: &str, to: &str) -> (usize, Said) {
    let path = path(name);
    record(&path, &CANCELLED, &[], &SERVE);
    let text = fs::read_to_string(&path).unwrap();
    let mut lines: Vec<String> = text.lines().map(|line| format!("{line}\n")).collect();
    let fits = |line: &String| parts.iter().all(|part| line.contains(part));
    let at = lines.iter().position(fits).unwrap_or_else(|| panic!("{parts:?} in {text}"));
    assert!(lines[at].contains(from), "{}", lines[at]);
    lines[at] = lines[at].replacen(from, to, 1);
    fs::write(&path, lines.concat()).unwrap();
    (at + 1, replay(&path))
}

fn stops_at(line: usize, said: &Said, words: &[&str]) {
    assert_eq!(said.code, Some(1), "{said:?}");
    let place = format!("line {line}: ");
    assert!(said.stderr.contains(&place), "{place}{said:?}");
    assert!(words.iter().all(|word| said.stderr.contains(word)), "{said:?}");
}

#[test]
fn g10_one_changed_byte_of_what_was_sent_is_placed_and_both_sides_are_shown() {
    let sent = [r#""hop":"down","dir":"sent""#, r#""method":"nested""#];
    let (line, said) = changed("sent", &sent, r#"\"ms\":60000"#, r#"\"ms\":60001"#);
    let nested = r#"down --> {"jsonrpc":"2.0","id":2,"method":"nested","params":{"ms":"#;
    let [recorded, decided] = [("recorded: ", 60001), ("decided:  ", 60000)]
        .map(|(side, ms)| format!("{side}{nested}{ms}}}}}"));
    stops_at(line, &said, &["the core decides otherwise", &recorded, &decided]);
}

#[test]
fn g10_one_changed_byte_of_what_was_received_is_caught_where_it_makes_a_difference() {
    let cancel = [r#""hop":"up","dir":"received""#, r#""kind":"cancel""#];
    let (line, said) = changed("received", &cancel, r#"{\"requestId\":2}"#, r#"{\"requestId\":9}"#);
    stops_at(line + 1, &said, &["recorded: down -->", "decided:  (nothing)"]);
}

#[test]
fn g10_one_changed_byte_of_a_verdict_is_placed() {
    let closed = [r#"{"verdict""#, r#""hop":"up""#, r#""closed""#];
    let (line, said) = changed("verdict", &closed, "peer_gone", "peer_lone");
    stops_at(line, &said, &["recorded: up closed, peer_lone", "decided:  up closed, peer_gone"]);
}

#[test]
fn a_line_that_is_missing_or_none_is_placed() {
    let closed = [r#"{"verdict""#, r#""hop":"up""#, r#""closed""#];
    let (line, said) = changed("broken", &closed, r#"{"verdict""#, r#"{"verdikt""#);
    stops_at(line, &said, &["this is no line of a recording"]);
    let received = [r#""hop":"up","dir":"received""#, r#""method":"nested""#];
    let (line, said) = changed("longer", &received, "60000", "600000");
    stops_at(line, &said, &["a message that is not as long as its line says"]);
}

#[test]
fn what_can_not_be_replayed_is_refused_with_what_to_do() {
    let path = path("redacted");
    let file = path.to_str().unwrap();
    let relay = ["--", RESCIND, "relay", "--record", file, "--", RESCIND, "serve"];
    rescind([&["call", "echo", "[1]"], &relay[..]].concat());
    let said = replay(&path);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(
        said.stderr.contains("only a recording made with --payloads can be replayed"),
        "{said:?}"
    );

    rescind(["call", "--record", file, "--payloads", "echo", "[1]", "--", RESCIND, "serve"]);
    let said = replay(&path);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains("only what `rescind relay` recorded can be replayed"), "{said:?}");
}

#[test]
fn an_end_whose_last_bytes_were_withheld_is_refused() {
    let path = path("withheld");
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/replayed/cancelled.jsonl");
    let text = fs::read_to_string(kept).unwrap();
    let end = r#","hop":"up","input":"end""#;
    fs::write(&path, text.replace(end, &format!(r#"{end},"bytes":3"#))).unwrap();
    stops_at(20, &replay(&path), &["what came here was withheld"]);
}

fn against(path: &Path, options: &[&str], server: &[&str]) -> Said {
    let file = path.to_str().unwrap();
    rescind([&["replay", file, "--against"], options, &["--"], server].concat())
}

#[test]
fn a_server_is_asked_again_what_was_recorded() {
    let path = path("against");
    record(&path, &CANCELLED, &[], &SERVE);
    for pace in ["recorded", "fast"] {
        let said = against(&path, &["--pace", pace], &SERVE);
        assert_eq!(said.code, Some(0), "{said:?}");
        let same = "2 requests: 2 ended in the same way, 0 of them with another result\n";
        assert_eq!(said.stdout, same);
    }
    // It answers nothing.
    let said = against(&path, &["--wait", "100ms"], &["sh", "-c", "cat > /dev/null"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    for line in [
        "id 1 initialize: recorded a result, now no answer\n",
        "id 2 nested: recorded error -32800, now no answer\n",
        "2 requests: 0 ended in the same way",
    ] {
        assert!(said.stdout.contains(line), "{said:?}");
    }
    let said = against(&path, &[], &["/no/such/server"]);
    assert_eq!(said.code, Some(6), "{said:?}");
}

#[test]
fn a_server_that_is_gone_or_reads_nothing_answers_nothing_and_is_not_waited_for() {
    let path = path("deaf");
    record(&path, &CANCELLED, &[], &SERVE);
    // More than a pipe holds.
    let message =
        serde_json::json!({ "jsonrpc": "2.0", "method": "n", "params": ["x".repeat(1 << 20)] });
    let message = message.to_string();
    let part = serde_json::json!({ "kind": "notification", "method": "n" });
    let line = serde_json::json!({ "message": {
        "t": 0, "hop": "down", "dir": "sent", "bytes": message.len(), "parts": [part], "text": message,
    } });
    let text = fs::read_to_string(&path).unwrap();
    let (before, end) = text.split_at(text.find(r#"{"end":"#).unwrap_or(text.len()));
    fs::write(&path, format!("{before}{line}\n{end}")).unwrap();
    // Nobody waits an hour for a server that is gone.
    let gone = ["--wait", "1h", "--pace", "fast"];
    for (more, server) in [(&gone[..], &["true"][..]), (&["--wait", "100ms"], &["sleep", "600"])] {
        let said = against(&path, more, server);
        assert_eq!(said.code, Some(1), "{said:?}");
        let first = "id 1 initialize: recorded a result, now no answer\n";
        assert!(said.stdout.contains(first), "{said:?}");
    }
}

/// Records a call of this server.
fn record_call(name: &str, server: &[&str]) -> PathBuf {
    let path = path(name);
    let record = ["--record", path.to_str().unwrap(), "--payloads"];
    let call = ["call", "--dialect", "jsonrpc", "sleep", r#"{"ms":1}"#];
    rescind([&call[..], &record, &["--"], server].concat());
    path
}

#[cfg(unix)]
#[test]
fn a_malformed_response_is_no_result() {
    let path = record_call("whole", &SERVE);
    for members in [
        r#""jsonrpc":"2.0","error":{"message":"no"}"#,
        r#""jsonrpc":"2.0","error":{"code":-5}"#,
        r#""jsonrpc":"2.0","error":{"code":-5.0,"message":"no"}"#,
        r#""jsonrpc":"2.0","error":"no""#,
        r#""jsonrpc":"2.0","error":{"code":-5,"message":"no"},"result":5"#,
        r#""jsonrpc":"2.0","result":4,"result":5"#,
        r#""jsonrpc":"2.0""#,
        r#""result":5"#,
    ] {
        let script = format!("read -r line; echo '{{\"id\":1,{members}}}'");
        let server = ["sh", "-c", &script];
        let call =
            rescind([&["call", "--dialect", "jsonrpc", "sleep", "{}", "--"], &server[..]].concat());
        assert!(call.stderr.contains("malformed"), "{call:?}");
        let said = against(&path, &[], &server);
        assert_eq!(said.code, Some(1), "{members}: {said:?}");
        let line = "id 1 sleep: recorded a result, now a malformed response\n";
        assert!(said.stdout.contains(line), "{members}: {said:?}");
    }
    // A null is a result as good as any. An error that is null is none.
    for members in [r#""result":null"#, r#""method":null,"error":null,"result":5"#] {
        let null = format!("read -r line; echo '{{\"jsonrpc\":\"2.0\",\"id\":1,{members}}}'");
        assert_eq!(against(&path, &[], &["sh", "-c", &null]).code, Some(0));
    }

    let malformed = ["sh", "-c", r#"read -r line; echo '{"jsonrpc":"2.0","id":1,"error":"no"}'"#];
    let path = record_call("malformed", &malformed);
    assert_eq!(against(&path, &[], &malformed).code, Some(0));
    let said = against(&path, &[], &SERVE);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.stdout.contains("recorded a malformed response, now "), "{said:?}");
}

#[cfg(unix)]
#[test]
fn the_last_response_needs_no_end_of_line() {
    let path = record_call("unended", &SERVE);
    let last = r#"read -r line; printf '{"jsonrpc":"2.0","id":1,"result":5}'"#;
    let said = against(&path, &[], &["sh", "-c", last]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.stdout.starts_with("1 requests: 1 ended in the same way"), "{said:?}");
}

#[test]
fn a_recording_that_does_not_hold_everything_is_not_played_to_a_server() {
    let path = record_call("lacking", &SERVE);
    let text = fs::read_to_string(&path).unwrap();
    let (header, rest) = text.split_once('\n').unwrap();
    let gap = r#"{"dropped":{"t":1,"until":2,"lines":5,"bytes":500}}"#;
    for (line, words) in [(gap, "a gap: "), ("garbage", "this is no line of a recording")] {
        fs::write(&path, format!("{header}\n{line}\n{rest}")).unwrap();
        let said = against(&path, &[], &SERVE);
        assert_eq!(said.stdout, "");
        stops_at(2, &said, &[words]);
    }
    fs::write(&path, text.replacen(r#""part":1"#, r#""part":3"#, 1)).unwrap();
    let said = against(&path, &[], &SERVE);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains("its first 2 files are gone"), "{said:?}");
}

#[test]
fn a_time_that_runs_backwards_is_no_time_to_wait() {
    let path = path("backwards");
    record(&path, &CANCELLED, &[], &SERVE);
    let text = fs::read_to_string(&path).unwrap();
    let sent = r#","hop":"down","dir":"sent""#;
    let (before, rest) = text.split_once(sent).unwrap();
    fs::write(&path, format!("{before}999{sent}{rest}")).unwrap();
    let said = against(&path, &[], &SERVE);
    assert!(said.stdout.contains("2 requests: "), "{said:?}");
}

#[test]
fn only_json_rpc_is_played_to_a_server() {
    let path = path("dap");
    let dap = ["--dialect", "dap"];
    let server = [RESCIND, "serve", "--dialect", "dap"];
    record(&path, &[&dap[..], &["echo", "{}"]].concat(), &dap, &server);
    assert_eq!(replay(&path).code, Some(0));
    let said = against(&path, &[], &server);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains("abp and dap are not played to servers"), "{said:?}");
}

/// The recording of a `call` is no relay's, but it has a client's side as well.
#[test]
fn a_server_gets_the_answers_that_it_had_when_it_was_recorded() {
    let path = path("asked");
    let file = path.to_str().unwrap();
    let nested = ["nested", r#"{"ms":1}"#, "--", RESCIND, "serve"];
    let said = rescind([&["call", "--record", file, "--payloads"], &nested[..]].concat());
    assert_eq!(said.code, Some(0), "{said:?}");
    let said = against(&path, &["--pace", "fast"], &SERVE);
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{said:?}");
    assert!(said.stdout.ends_with("with another result\n"), "{said:?}");
}

/// Recordings that are kept: every later relay decides what one relay decided once.
#[test]
fn g10_the_kept_recordings_are_replayed_byte_for_byte() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/replayed");
    let kept: Vec<PathBuf> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(kept.len() >= 3, "{kept:?}");
    for path in kept {
        let said = replay(&path);
        assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{said:?}");
        assert!(said.stdout.ends_with(SAME), "{path:?}: {said:?}");
    }
}
