//! `rescind serve --runtime single` has one thread, and a cancel reaches it at work all the same.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Dialect, Server, cancelled};

/// The threads that don't serve. One writes the reports, and two wait for a signal.
const OTHERS: [&str; 3] = ["log", "signals", "ending"];

/// Counts the threads that serve.
fn threads(server: &Server) -> usize {
    let threads = fs::read_dir(format!("/proc/{}/task", server.id())).unwrap();
    let names = threads.map(|thread| fs::read_to_string(thread.unwrap().path().join("comm")));
    names.filter(|name| name.as_ref().is_ok_and(|name| !OTHERS.contains(&name.trim()))).count()
}

/// Asserts that one thread serves. A thread that has just begun names itself, so it may have another name
/// first.
#[track_caller]
fn one_thread_serves(server: &Server) {
    let begun = Instant::now();
    while threads(server) != 1 {
        assert!(begun.elapsed() < Duration::from_secs(10), "{} threads", threads(server));
        thread::yield_now();
    }
}

/// Starts a request that reports when its handler runs.
fn start(server: &mut Server, id: u64) {
    let params = json!({ "to": 1_000_000, "every_ms": 1 });
    server.request(id, "count", params);
    assert_eq!(server.receive()["method"], "session/update");
}

#[test]
fn g03_a_running_sleep_is_cancelled_within_50_ms_on_one_thread() {
    let mut server = Server::start("single", Dialect::Acp);
    let mut took = Vec::new();
    for id in 1..=20 {
        server.request(id, "sleep", json!({ "ms": 3_600_000 }));
        // Whatever follows a request is read by the sleep itself: an answer to a bad message shows
        // that it sleeps.
        server.send_text(["{"]);
        assert_eq!(server.receive()["error"]["code"], -32700);
        one_thread_serves(&server);
        let begun = Instant::now();
        server.cancel(id);
        assert_eq!(server.receive(), cancelled(id));
        took.push(begun.elapsed());
    }
    // The machine may be busy with other things now and then, but the median is ours.
    took.sort_unstable();
    assert!(took[took.len() / 2] < Duration::from_millis(50), "{took:?}");
}

#[test]
fn g03_work_in_steps_is_cancelled_at_its_next_checkpoint() {
    let mut server = Server::start("single", Dialect::Acp);
    start(&mut server, 1);
    one_thread_serves(&server);
    server.request(2, "echo", json!(["queued"]));
    server.cancel(1);
    let mut answers = std::iter::repeat_with(|| server.receive())
        .filter(|message: &Value| message.get("id").is_some());
    assert_eq!(answers.next().unwrap()["result"]["of"], 1_000_000);
    assert_eq!(answers.next().unwrap()["result"], json!(["queued"]));
}
