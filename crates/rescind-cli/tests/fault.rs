//! `rescind relay --fault`: faults on purpose, and their effects on a caller.

use std::path::Path;

use crate::support::{self, RESCIND, Said, rescind};

/// Calls the built-in peer through a relay with these arguments.
fn call(call: &[&str], relay: &[&str]) -> Said {
    let serve = ["--", RESCIND, "serve"];
    rescind([&["call"], call, &["--", RESCIND, "relay"], relay, &serve].concat())
}

#[test]
fn a_dropped_cancel_cancels_nothing_and_the_method_is_looked_at() {
    // The server is at work, so the cancel is no withdrawal.
    let count = ["count", r#"{"to":8,"every_ms":50}"#];
    let cancelled = [&["--cancel-after-notifications", "1"], &count[..]].concat();
    for runtime in ["tokio", "smol"] {
        let said = call(&cancelled, &["--runtime", runtime, "--fault", "drop cancel"]);
        let is_whole = said.stdout.contains(r#""counted":8"#);
        assert_eq!((said.code, is_whole), (Some(0), true), "{said:?}");
        assert!(said.stderr.contains("down: fault: drop cancel"), "{said:?}");
        let long = ["--cancel-after", "50ms", "sleep", r#"{"ms":60000}"#];
        let other = call(&long, &["--runtime", runtime, "--fault", "drop request method nap*"]);
        assert_eq!(other.code, Some(3), "{other:?}");
    }
}

/// Sends an `echo` and a `no/such` through a relay with these faults. Returns the ids of the responses in their
/// order, and the standard error.
fn answers(faults: &[&str]) -> (Vec<u64>, String) {
    use std::io::Write;
    use std::process::{Command, Stdio};

    let mut relay = Command::new(RESCIND);
    relay.arg("relay");
    for fault in faults {
        relay.args(["--fault", fault]);
    }
    relay.args(["--", RESCIND, "serve"]);
    relay.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = relay.spawn().unwrap();
    let requests = [(1, "echo"), (2, "no/such")]
        .map(|(id, method)| format!("{}\n", support::request(id, method, serde_json::json!([1]))));
    child.stdin.take().unwrap().write_all(requests.concat().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let id = |line: &str| {
        let answer: serde_json::Value = serde_json::from_str(line).unwrap();
        answer["id"].as_u64().unwrap()
    };
    (text(output.stdout).lines().map(id).collect(), text(output.stderr))
}

#[test]
fn what_is_delayed_comes_when_it_is_due_and_not_in_its_turn() {
    let delays = ["delay response 1500ms method echo", "delay response 100ms method no/*"];
    let (order, said) = answers(&delays);
    assert_eq!(order, [2, 1], "{said}");
}

#[test]
fn a_relay_ends_with_its_last_delayed_message() {
    // The longest delay is the time-out of the pipe's end.
    let delays = ["delay response 100ms method echo", "delay response 10m method other"];
    let (order, said) = answers(&delays);
    assert_eq!(order, [2, 1], "{said}");
}

#[test]
fn messages_with_headers_are_told_apart_too() {
    let lsp = ["--dialect", "lsp"];
    let fault = ["--fault", "duplicate notification to client", "--"];
    let count = ["count", r#"{"to":3,"every_ms":0}"#, "--"];
    let relay = [RESCIND, "relay"];
    let serve = [RESCIND, "serve"];
    let said = rescind([&["call"], &lsp[..], &count, &relay, &lsp, &fault, &serve, &lsp].concat());
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.stderr.contains("up: fault: duplicate notification"), "{said:?}");
    for count in 1..=3 {
        let shown = format!(r#""count":{count}"#);
        assert_eq!(said.stderr.matches(&shown).count(), 2, "{said:?}");
    }
}

#[test]
fn a_delayed_answer_is_late_and_others_pass_it() {
    let (order, said) = answers(&["delay response 2s method echo"]);
    assert_eq!(order, [2, 1], "{said}");
    let told = "up: id 1: fault: delay response 2s method echo";
    assert_eq!((said.matches(told).count(), said.matches("fault:").count()), (1, 1), "{said}");
}

#[test]
fn b04_a_doubled_answer_is_told_from_the_first() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("doubled.jsonl");
    let path = path.to_str().unwrap();
    let fault = ["--fault", "duplicate response to client method initialize"];
    let said = call(&["--record", path, "echo", "[1]"], &fault);
    assert_eq!((said.code, said.stdout.trim()), (Some(0), "[1]"), "{said:?}");
    let said = rescind(["stats", "--fail-on", "violation", path]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.stderr.contains("second answers: 1"), "{said:?}");
}

#[test]
fn g07_a_cut_connection_settles_its_calls() {
    let said = call(&["echo", "[1]"], &["--fault", "cut after 1KiB to client"]);
    assert_eq!(said.code, Some(0), "fewer bytes than the fault needs: {said:?}");
    let said = call(&["echo", "[1]"], &["--fault", "cut after 10B to client"]);
    assert_eq!(said.code, Some(5), "{said:?}");
    assert!(said.stderr.contains("up: fault: cut after 10B to client"), "{said:?}");
}

#[test]
fn the_same_seed_draws_the_same_faults_and_they_are_recorded() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("drawn.jsonl");
    let path = path.to_str().unwrap();
    let count = ["count", r#"{"to":64,"every_ms":0}"#];
    let fault = ["--record", path, "--payloads", "--fault", "drop notification 50%"];
    let drawn = || {
        let said = call(&count, &[&fault[..], &["--fault-seed", "7"]].concat());
        assert!(said.stderr.contains("faults are drawn with --fault-seed 7"), "{said:?}");
        let text = std::fs::read_to_string(path).unwrap();
        let of = |line: &&str| line.contains(r#""verdict":"fault""#);
        let which: Vec<usize> =
            text.lines().enumerate().filter(|(_, line)| of(line)).map(|(at, _)| at).collect();
        (which.len(), said.stderr.matches("session/update {").count())
    };
    let (faults, passed) = drawn();
    assert!((16..=48).contains(&faults), "half of 64: {faults}");
    assert_eq!(passed, 64 - faults);
    assert_eq!(drawn(), (faults, passed));
    // What was done to a message after the core had let it go is none of the core's decisions.
    let said = rescind(["replay", path]);
    assert_eq!(said.code, Some(0), "{said:?}");
}

#[test]
fn what_is_wrong_in_a_fault_is_said() {
    let said = rescind(["relay", "--fault", "drop cancle", "--", "true"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains("at byte 5: `cancle` is none of request"), "{said:?}");
    for dialect in ["abp", "dap"] {
        let said = rescind(["relay", "--dialect", dialect, "--fault", "drop cancel", "--", "true"]);
        assert_eq!(said.code, Some(2), "{said:?}");
    }
}
