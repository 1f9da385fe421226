//! The number of times that threads of a server sleep for a request. The kernel counts, so a busy machine changes
//! nothing. A file of its own, for other tests would count too.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use protocol_blocking::threaded::Server;
use protocol_blocking::{Answer, Request, Responder};
use protocol_core::{Config, Dialect};
use serde_json::value::RawValue;

const ROUND_TRIPS: u32 = 1_000;

fn echo(request: &Request, _: &mut dyn Responder) -> Answer {
    Ok(request.params.clone().unwrap_or_else(|| RawValue::NULL.to_owned()))
}

/// Counts how often threads other than this one went to sleep.
fn sleeps() -> u64 {
    let own = fs::read_link("/proc/thread-self").unwrap();
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let slept = |task: fs::DirEntry| {
        let status = fs::read_to_string(task.path().join("status")).ok()?;
        let count =
            status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        count.trim().parse::<u64>().ok()
    };
    let others = tasks.flatten().filter(|task| Some(&*task.file_name()) != own.file_name());
    others.filter_map(slept).sum()
}

/// The sleeps of a round trip.
fn measure(method: &str) -> f64 {
    let (near, far) = UnixStream::pair().unwrap();
    let server = Server::new(Config::server(Dialect::JSON_RPC)).workers(8).immediate(["now"]);
    let served = server.unix(far, Arc::new(echo)).unwrap();
    let mut reader = BufReader::new(near.try_clone().unwrap());
    let mut round_trip = |id: u32| {
        let request = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#) + "\n";
        (&near).write_all(request.as_bytes()).unwrap();
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        assert!(line.contains("result"), "{line}");
    };
    (0..100).for_each(&mut round_trip);
    let before = sleeps();
    (0..ROUND_TRIPS).for_each(&mut round_trip);
    let counted = sleeps() - before;
    near.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(served.wait().error.is_none());
    counted as f64 / f64::from(ROUND_TRIPS)
}

#[test]
fn f96_a_request_wakes_no_thread_that_has_nothing_to_do() {
    let immediate = measure("now");
    let worker = measure("work");
    println!("{immediate} sleeps of all threads for an immediate request, {worker} for a worker's");
    assert!(immediate <= 1.2, "only the reading thread sleeps: {immediate}");
    assert!(worker <= 2.4, "the reading thread and one worker sleep: {worker}");
}
