//! `rescind relay --listen http://…` in front of servers on standard streams, and clients that vanish in every way. Each
//! server hears the cancel and ends, and the memory of the bridge goes back.

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rescind_hostile_suite::{MIB, PATIENCE, mib};
use rustix::net::sockopt::set_socket_linger;
use serde_json::{Value, json};

use crate::alone;
use crate::program::Program;

/// The sessions at the same time, if `BRIDGE_SESSIONS` does not say otherwise.
const SESSIONS: usize = 100;

/// The bytes that a session takes, at least.
const SESSION: usize = MIB / 16;

/// A client with a call that goes on.
struct Client {
    /// The connection on which it opened its session.
    opened: TcpStream,
    /// The stream of its call.
    call: BufReader<TcpStream>,
    session: String,
}

impl Client {
    fn new(authority: &str) -> Self {
        let params =
            json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {} });
        let mut opened = send(authority, "POST", "", "initialize", params);
        let mut session = String::new();
        until(&mut opened, |line| {
            if let Some(id) = line.strip_prefix("mcp-session-id: ") {
                session = id.trim().into();
            }
            line.contains("protocolVersion")
        });
        let headers = headers(&session);
        let params = json!({ "name": "wait", "arguments": {}, "_meta": { "progressToken": 1 } });
        let mut call = send(authority, "POST", &headers, "tools/call", params);
        until(&mut call, |line| line.contains("notifications/progress"));
        Self { opened: opened.into_inner(), call, session }
    }

    /// Goes in one of four ways, and returns the connections that stay, on which nothing is sent.
    fn vanish(self, way: usize, authority: &str) -> Option<[TcpStream; 2]> {
        let call = self.call.into_inner();
        match way {
            0 => call.shutdown(Shutdown::Both).unwrap(),
            1 => set_socket_linger(&call, Some(Duration::ZERO)).unwrap(),
            2 => {
                let headers = headers(&self.session);
                until(&mut send(authority, "DELETE", &headers, "", Value::Null), |line| {
                    line.contains("204")
                });
            }
            _ => {
                call.shutdown(Shutdown::Write).unwrap();
                return Some([self.opened, call]);
            }
        }
        None
    }
}

fn headers(session: &str) -> String {
    format!("Mcp-Session-Id: {session}\r\nMcp-Protocol-Version: 2025-11-25\r\n")
}

fn send(
    authority: &str,
    verb: &str,
    headers: &str,
    method: &str,
    params: Value,
) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(authority).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let body = match params {
        Value::Null => String::new(),
        params => {
            json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string()
        }
    };
    write!(
        stream,
        "{verb} /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n{headers}\r\n{body}",
        body.len()
    )
    .unwrap();
    BufReader::new(stream)
}

/// Reads up to a line.
fn until(stream: &mut BufReader<TcpStream>, mut is_it: impl FnMut(&str) -> bool) {
    loop {
        let mut line = String::new();
        assert!(stream.read_line(&mut line).unwrap() > 0, "it ended");
        if is_it(&line) {
            return;
        }
    }
}

/// Waits until each server has noted in the file that it was cancelled and that it ended.
fn await_told(file: &Path, sessions: usize) {
    let begun = Instant::now();
    loop {
        let told = std::fs::read_to_string(file).unwrap();
        let count = |mark| told.chars().filter(|it| *it == mark).count();
        if (count('c'), count('e')) == (sessions, sessions) {
            return;
        }
        let counts = (count('c'), count('e'));
        assert!(begun.elapsed() < PATIENCE, "of {sessions}: cancelled and ended {counts:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

fn children(relay: u32) -> usize {
    let children = std::fs::read_to_string(format!("/proc/{relay}/task/{relay}/children"));
    children.unwrap().split_whitespace().count()
}

#[test]
fn g08_a_bridge_gives_back_what_it_had_of_clients_that_vanish_and_leaves_no_server() {
    let _alone = alone();
    let sessions = std::env::var("BRIDGE_SESSIONS").map_or(SESSIONS, |it| it.parse().unwrap());
    let told: PathBuf = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bridge-told");
    let _ = std::fs::remove_file(&told);
    let (places, connections) = ((sessions + 1).to_string(), (3 * sessions + 8).to_string());
    let mut relay = Program::start(&[
        "relay",
        "--listen",
        "http://127.0.0.1:0/mcp",
        "--servers",
        &places,
        "--connections",
        &connections,
        "--session-idle",
        "5s",
        "--",
        env!("CARGO_BIN_EXE_stub"),
        told.to_str().unwrap(),
    ]);
    let line = relay.first_line();
    let authority = line.trim().trim_start_matches("listening on http://").trim_end_matches("/mcp");

    Client::new(authority).vanish(2, authority);
    await_told(&told, 1);
    let start = relay.process().resident().unwrap();
    let clients: Vec<_> = (0..sessions).map(|_| Client::new(authority)).collect();
    let (held, servers) = (relay.process().resident().unwrap(), children(relay.process().0));
    assert_eq!(servers, sessions);
    let least = sessions * SESSION;
    assert!(held - start > least, "{} of {sessions} sessions are no measure", mib(held - start));
    let silent: Vec<_> = clients
        .into_iter()
        .enumerate()
        .filter_map(|(number, client)| client.vanish(number % 4, authority))
        .collect();
    await_told(&told, sessions + 1);

    let begun = Instant::now();
    let most = start + (held - start) / 2;
    while children(relay.process().0) > 0 || relay.process().resident().unwrap() > most {
        let (left, now) = (children(relay.process().0), relay.process().resident().unwrap());
        assert!(
            begun.elapsed() < PATIENCE,
            "{left} servers and {} left of {}",
            mib(now),
            mib(held)
        );
        thread::sleep(Duration::from_millis(50));
    }
    let now = relay.process().resident().unwrap();
    println!(
        "{sessions} sessions: {} at first, {} with all, {} behind them",
        mib(start),
        mib(held),
        mib(now)
    );
    drop(silent);
}
