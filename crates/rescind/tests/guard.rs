//! `rescind relay` with a guard: no request takes for ever.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;
use std::time::Duration;

use support::{RESCIND, Said, rescind};

/// Calls the built-in peer through a relay with these arguments.
fn call(call: &[&str], relay: &[&str]) -> Said {
    let serve = ["--", RESCIND, "serve"];
    rescind([&["call"], call, &["--", RESCIND, "relay"], relay, &serve].concat())
}

/// A server that never answers: it ignores cancels too.
const STUCK: [&str; 2] = ["stubborn", r#"{"ms":5000}"#];

#[test]
fn g05_a_stuck_server_does_not_hold_its_client() {
    for runtime in ["tokio", "smol"] {
        let said = call(&STUCK, &["--runtime", runtime, "--deadline", "200ms"]);
        assert_eq!(said.code, Some(1), "{said:?}");
        let answer = r#"-32803 "the next hop did not answer in time (deadline)""#;
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
    let said = rescind(["view", path, "stubborn & ~hop up"]);
    assert!(said.stdout.contains("error -32803, guard: deadline"), "{said:?}");
    let said = rescind(["view", path, "stubborn & ~hop down"]);
    assert!(said.stdout.contains("cancelled"), "{said:?}");
}
