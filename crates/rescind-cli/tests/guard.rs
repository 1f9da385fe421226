//! `rescind relay` with a guard: no request takes for ever.

use std::path::Path;
#[cfg(unix)]
use std::sync::mpsc::Receiver;
use std::time::Duration;
#[cfg(target_os = "linux")]
use std::time::Instant;

#[cfg(unix)]
use crate::support::PATIENCE;
use crate::support::{self, RESCIND, Said, rescind};

/// Calls the built-in peer through a relay with these arguments.
fn call(call: &[&str], relay: &[&str]) -> Said {
    let serve = ["--", RESCIND, "serve"];
    rescind([&["call"], call, &["--", RESCIND, "relay"], relay, &serve].concat())
}

/// A server that never responds: it ignores cancels too.
const STUCK: [&str; 2] = ["stubborn", r#"{"ms":5000}"#];

#[test]
fn g05_a_stuck_server_does_not_hold_its_client() {
    for runtime in ["tokio", "smol"] {
        let said = call(
            &STUCK,
            &["--runtime", runtime, "--deadline", "200ms", "--method", "initialize=none"],
        );
        assert_eq!(said.code, Some(1), "{said:?}");
        let answer = r#"-32803 "the next hop did not respond in time (deadline)""#;
        assert!(said.stderr.contains(answer), "{said:?}");
        let told = "rescind relay: up: id 2: took too long (deadline), and was cancelled";
        assert!(said.stderr.contains(told), "{said:?}");
        assert!(said.took >= Duration::from_millis(200), "{said:?}");
    }
}

#[test]
fn g05_progress_ends_a_silence_and_a_cap_ends_progress() {
    let count = ["count", r#"{"to":20,"every_ms":100}"#];
    let counted = call(&count, &["--idle", "1s"]);
    assert_eq!((counted.code, counted.stdout.trim()), (Some(1), ""), "{counted:?}");
    // The built-in peer's progress names a session, and there is none: it is nobody's progress.
    assert!(counted.stderr.contains("(idle_timeout)"), "{counted:?}");
    let capped = call(&count, &["--cap", "300ms", "--method", "other=none"]);
    assert!(capped.stderr.contains("the next hop took too long (hard_cap)"), "{capped:?}");
    let free = call(&["echo", "[1]"], &["--deadline", "10s", "--method", "echo=cap:10s"]);
    assert_eq!((free.code, free.stdout.trim()), (Some(0), "[1]"), "{free:?}");
}

#[test]
fn g05_what_the_guard_did_is_recorded() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guard.jsonl");
    let path = path.to_str().unwrap();
    let relay = ["--record", path, "--trace", "--method", "stubborn=deadline:100ms"];
    let said = call(&["stubborn", r#"{"ms":300}"#], &relay);
    assert_eq!(said.code, Some(1));
    // Whoever watches besides still does.
    assert!(said.stderr.contains("took too long (deadline)"), "{said:?}");
    assert!(
        said.stderr.contains(r#"down --> {"jsonrpc":"2.0","id":2,"method":"stubborn""#),
        "{said:?}"
    );
    let said = rescind(["view", path, "stubborn & ~cause deadline"]);
    assert!(said.stdout.contains("error -32803 (deadline), guard"), "{said:?}");
    let said = rescind(["view", "--json", path, "~cause deadline"]);
    assert!(said.stdout.contains(r#""cause":"deadline""#), "{said:?}");
    let said = rescind(["view", path, "stubborn & ~hop down"]);
    assert!(said.stdout.contains("cancelled"), "{said:?}");
}

/// A relay in front of a server, and a client that reads its messages.
#[cfg(unix)]
struct Client {
    _relay: support::Program,
    input: std::process::ChildStdin,
    answers: Receiver<String>,
    said: Receiver<String>,
}

#[cfg(unix)]
impl Client {
    fn start(relay: &[&str], server: &[&str]) -> Self {
        use std::process::{Command, Stdio};

        let mut command = Command::new(RESCIND);
        command.arg("relay").args(relay).args([
            "--answer-after-end",
            "0",
            "--grace",
            "100ms",
            "--",
        ]);
        command.args(server).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let answers = support::lines(child.stdout.take().unwrap());
        let said = support::lines(child.stderr.take().unwrap());
        let input = child.stdin.take().unwrap();
        Self { _relay: child.into(), input, answers, said }
    }

    fn ask(&mut self, id: u64, method: &str, params: serde_json::Value) {
        use std::io::Write;

        let request = support::request(id, method, params);
        self.input.write_all(format!("{request}\n").as_bytes()).unwrap();
    }

    fn answer(&self, wait: Duration) -> Option<String> {
        self.answers.recv_timeout(wait).ok()
    }

    fn says(&self, part: &str) {
        while !self.said.recv_timeout(PATIENCE).unwrap().contains(part) {}
    }
}

/// Returns whether every thread of a process is stopped.
#[cfg(target_os = "linux")]
fn is_stopped(id: i32) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{id}/task")).unwrap();
    tasks.flatten().all(|task| {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T'))
    })
}

/// Stops a server and sends it a request. Returns the response and the time until it came, or `None` if there
/// was none in time.
#[cfg(target_os = "linux")]
fn stopped(name: &str, relay: &[&str], wait: Duration) -> Option<(String, Duration)> {
    use rustix::process::{Pid, Signal, kill_process};

    let pid = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name).with_extension("pid");
    let server = r#"echo $$ > "$1"; exec "$0" serve"#;
    let mut client = Client::start(relay, &["sh", "-c", server, RESCIND, pid.to_str().unwrap()]);
    client.ask(1, "initialize", serde_json::json!({ "protocolVersion": 1 }));
    client.answer(PATIENCE).unwrap();
    let id: i32 = std::fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
    let id = Pid::from_raw(id).unwrap();
    kill_process(id, Signal::STOP).unwrap();
    // That was only asked for: a thread may be at work still.
    let patient = Instant::now() + PATIENCE;
    while !is_stopped(id.as_raw_nonzero().get()) {
        assert!(Instant::now() < patient, "it does not stop");
    }
    let begun = Instant::now();
    client.ask(2, "echo", serde_json::json!([1]));
    let answered = client.answer(wait).map(|answer| (answer, begun.elapsed()));
    // Stopped, it would stay behind.
    kill_process(id, Signal::KILL).unwrap();
    answered
}

#[cfg(target_os = "linux")]
#[test]
fn g05_a_stopped_server_holds_its_client_for_ever_without_a_guard() {
    assert!(stopped("free", &[], Duration::from_secs(3)).is_none(), "nobody else answers");
}

#[cfg(target_os = "linux")]
#[test]
fn g05_a_stopped_server_holds_its_client_no_longer_than_the_deadline() {
    // Long enough for half of it to be more than a loaded machine takes.
    let deadline = Duration::from_secs(6);
    let (answer, waited) = stopped("guarded", &["--deadline", "6s"], PATIENCE).unwrap();
    println!("answered after {waited:?}");
    assert!(answer.contains("-32803"), "{answer}");
    assert!(waited >= deadline && waited < deadline.mul_f64(1.5), "{waited:?}");
}

#[test]
fn who_gives_no_request_up_can_not_ask_what_is_stuck() {
    let said = rescind(["relay", "--on-stuck", "kill", "--", "true"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains("--deadline"), "{said:?}");
}

#[cfg(unix)]
#[test]
fn g05_a_stuck_server_is_reported_or_ended_and_one_that_speaks_is_neither() {
    let stuck = |after, what| ["--deadline", "300ms", "--stuck-after", after, "--on-stuck", what];
    // It answers the cancel, so it is not stuck, and lives to answer what takes longer than a stuck one has.
    let free = ["--method", "initialize=none", "--method", "stubborn=none"];
    let mut client =
        Client::start(&[&stuck("1s", "kill")[..], &free].concat(), &[RESCIND, "serve"]);
    client.ask(1, "initialize", serde_json::json!({ "protocolVersion": 1 }));
    client.answer(PATIENCE).unwrap();
    client.ask(2, "sleep", serde_json::json!({ "ms": 60_000 }));
    client.ask(3, "stubborn", serde_json::json!({ "ms": 2_500 }));
    assert!(client.answer(PATIENCE).unwrap().contains("-32803"));
    let answer = client.answer(PATIENCE).unwrap();
    assert!(answer.contains("\"result\""), "{answer}");
    for (what, told) in [("kill", "is stuck, and is ended"), ("report", "is stuck: it has said")] {
        let relay = [&stuck("100ms", what)[..], &["--method", "for/ever=none"]].concat();
        let mut client = Client::start(&relay, &["sleep", "600"]);
        client.ask(1, "for/ever", serde_json::Value::Null);
        client.ask(2, "echo", serde_json::Value::Null);
        client.says(told);
        assert!(client.answer(PATIENCE).unwrap().contains("-32803"));
        if what == "kill" {
            let answer = client.answer(PATIENCE).unwrap();
            assert!(answer.contains("the next hop is gone"), "{answer}");
        }
    }
}

#[cfg(unix)]
#[test]
fn g05_a_server_that_answers_one_cancel_after_the_other_is_not_stuck() {
    let relay = ["--deadline", "300ms", "--stuck-after", "2s", "--on-stuck", "kill"];
    let relay = [&relay[..], &["--method", "count=none"]].concat();
    let mut client = Client::start(&relay, &[RESCIND, "serve"]);
    // The second is given up while the first is still looked into.
    for id in [1, 2] {
        client.ask(id, "sleep", serde_json::json!({ "ms": 60_000 }));
        assert!(client.answer(PATIENCE).unwrap().contains("-32803"));
    }
    // It has nothing to say for longer than the silence that both looks last.
    client.ask(3, "count", serde_json::json!({ "to": 1, "every_ms": 6_000 }));
    let answer = client.answer(PATIENCE).unwrap();
    assert!(!answer.contains("the next hop is gone"), "{answer}");
    let said: Vec<String> = client.said.try_iter().collect();
    assert!(!said.iter().any(|line| line.contains("is stuck")), "{said:?}");
}

/// An agent that asks for permission when it is prompted, and ignores the stop.
#[cfg(unix)]
const DEAF_AGENT: &str = r#"while read -r line; do case $line in *session/prompt*)
    echo '{"jsonrpc":"2.0","id":77,"method":"session/request_permission","params":{"sessionId":"s"}}';;
esac; done"#;

#[cfg(unix)]
#[test]
fn f111_a_stopped_turn_of_an_agent_that_ignores_the_stop_ends_within_its_grace() {
    use std::io::Write;

    let relay = ["--cap", "60s", "--stuck-after", "300ms", "--on-stuck", "kill"];
    let mut client = Client::start(&relay, &["sh", "-c", DEAF_AGENT]);
    client.ask(1, "session/prompt", serde_json::json!({ "sessionId": "s" }));
    let permission = client.answer(PATIENCE).unwrap();
    assert!(permission.contains("session/request_permission"), "{permission}");
    let stop = r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#;
    client.input.write_all(format!("{stop}\n").as_bytes()).unwrap();
    client.says("id 1: was stopped by the name of its work");
    // The client is asked to close its open question.
    let cancel = client.answer(PATIENCE).unwrap();
    assert!(cancel.contains("$/cancel_request"), "{cancel}");
    client.says("is stuck, and is ended");
    let response = client.answer(PATIENCE).unwrap();
    let expected = r#"{"jsonrpc":"2.0","id":1,"result":{"stopReason":"cancelled"}}"#;
    assert_eq!(response.trim(), expected);
}
