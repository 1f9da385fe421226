//! The number of times that threads of a server sleep for a request. The kernel counts, so a busy machine changes
//! nothing. A file of its own, for other tests would count too.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;

use protocol_blocking::threaded::{Server, serve, unix};
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

/// Returns the number of sleeps in a round trip, with so many workers.
fn measure(method: &str, workers: usize) -> f64 {
    let (near, far) = UnixStream::pair().unwrap();
    let server = Server::new(Config::server(Dialect::JSON_RPC)).workers(workers);
    let served = server.immediate(["now"]).unix(far, Arc::new(echo)).unwrap();
    let counted = count(&near, method);
    assert!(served.wait().error.is_none());
    counted
}

/// Returns the same for workers that wait for the arrivals of a connection.
fn measure_waiting(workers: usize) -> f64 {
    let (near, far) = UnixStream::pair().unwrap();
    let (_, incoming) = unix(far, Config::server(Dialect::JSON_RPC)).unwrap();
    let server = thread::spawn(move || serve(&incoming, workers, &echo));
    let counted = count(&near, "work");
    server.join().unwrap();
    counted
}

fn count(near: &UnixStream, method: &str) -> f64 {
    let mut reader = BufReader::new(near.try_clone().unwrap());
    let mut round_trip = |id: u32| {
        let request = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#) + "\n";
        let mut writer = near;
        writer.write_all(request.as_bytes()).unwrap();
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        assert!(line.contains("result"), "{line}");
    };
    (0..100).for_each(&mut round_trip);
    let before = sleeps();
    (0..ROUND_TRIPS).for_each(&mut round_trip);
    let counted = sleeps() - before;
    near.shutdown(std::net::Shutdown::Write).unwrap();
    counted as f64 / f64::from(ROUND_TRIPS)
}

/// The reading thread and one worker sleep for a request, and on a busy machine also for a lock that the other one
/// holds. Waking all would add seven sleeps with 8 workers, and over a hundred with 128.
const SLEEPS_OF_TWO: f64 = 4.0;

/// One test, for the threads of others would count too.
#[test]
fn f96_f89_a_request_wakes_no_thread_that_has_nothing_to_do() {
    let immediate = measure("now", 8);
    let worker = measure("work", 8);
    println!("{immediate} sleeps of all threads for an immediate request, {worker} for a worker's");
    // Nearly always it is 1. On a busy machine the reading thread also sleeps for a lock, and a worker that is woken
    // would make it 2.
    assert!(immediate < 1.9, "only the reading thread sleeps: {immediate}");
    assert!(worker <= SLEEPS_OF_TWO, "the reading thread and one worker sleep: {worker}");
    for measure in [|workers| measure("work", workers), measure_waiting] {
        let [one, many] = [1, 128].map(measure);
        println!("{many} sleeps for a request with 128 workers that wait, {one} with one");
        let most = many.max(one);
        assert!(most <= SLEEPS_OF_TWO, "{many} with 128 workers, {one} with one");
    }
}
