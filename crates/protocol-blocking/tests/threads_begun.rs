//! The number of threads that a server begins for what is immediate. A file of its own, for those of other tests would
//! count too.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;

use protocol_blocking::threaded::Server;
use protocol_blocking::{Answer, Request, Responder};
use protocol_core::{Config, Dialect};
use serde_json::value::RawValue;

const PAIRS: u64 = 1_000;

/// Begins a thread, and returns its number: threads of this process are counted.
fn number_of_a_new_thread() -> u64 {
    let id = thread::spawn(|| thread::current().id()).join().unwrap();
    let digits = format!("{id:?}").replace(|c: char| !c.is_ascii_digit(), "");
    digits.parse().unwrap()
}

/// Pipelines pairs of what the only worker serves and of what is immediate, and returns the number of threads begun.
fn begun() -> u64 {
    let echo = |_: &Request, _: &mut dyn Responder| -> Answer { Ok(RawValue::NULL.to_owned()) };
    let (mut near, far) = UnixStream::pair().unwrap();
    let server = Server::new(Config::server(Dialect::JSON_RPC)).immediate(["ping"]);
    let served = server.unix(far, Arc::new(echo)).unwrap();
    let reader = BufReader::new(near.try_clone().unwrap());
    let reading = thread::spawn(move || reader.lines().take(2 * PAIRS as usize).count());
    let request =
        |id, method| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#) + "\n";
    let all: String =
        (0..PAIRS).flat_map(|id| [request(2 * id, "work"), request(2 * id + 1, "ping")]).collect();
    let before = number_of_a_new_thread();
    near.write_all(all.as_bytes()).unwrap();
    assert_eq!(reading.join().unwrap(), 2 * PAIRS as usize, "nothing is stuck");
    let begun = number_of_a_new_thread() - before - 1;
    near.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(served.wait().error.is_none());
    println!("{begun} threads for {PAIRS} pairs");
    begun
}

/// There would be one for each pair. How soon each looks is up to the machine, so the best of some rounds counts.
#[test]
fn pipelined_pairs_begin_few_threads() {
    assert!((0..20).any(|_| begun() <= PAIRS / 2), "one thread at a time is on its way");
}
