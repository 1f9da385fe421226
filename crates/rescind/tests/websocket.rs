//! `rescind serve --listen` and `rescind call --connect`: the same over a WebSocket.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use support::{PATIENCE, Running, Said, rescind};
use tungstenite::{Message, WebSocket};

const HOUR: &str = r#"{"ms":3600000}"#;
const ANY_PORT: &str = "ws://127.0.0.1:0";

/// `rescind serve --listen`, ended by the test or with it.
struct Listening {
    running: Running,
    url: String,
}

impl Listening {
    fn start(more: &[&str]) -> Self {
        let mut running = Running::start([&["serve", "--listen"], more].concat(), &[]);
        let line = running.says(&["listening on ws://"]);
        let url = line.trim_start_matches("listening on ").trim().into();
        Self { running, url }
    }

    fn call(&self, arguments: &[&str]) -> Said {
        rescind([&["call", "--connect", &self.url], arguments].concat())
    }

    /// A peer that is not ours.
    fn open(&self) -> WebSocket<TcpStream> {
        let stream = TcpStream::connect(self.authority()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        tungstenite::client(&self.url, stream).unwrap().0
    }

    fn authority(&self) -> &str {
        self.url.trim_start_matches("ws://").split('/').next().unwrap()
    }

    /// The status line that a page of this origin gets.
    fn status(&self, origin: Option<&str>, path: &str) -> String {
        let mut stream = TcpStream::connect(self.authority()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let origin = origin.map_or(String::new(), |origin| format!("Origin: {origin}\r\n"));
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{origin}\r\n"
        )
        .unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        line.trim_end().into()
    }

    fn interrupt(&self) {
        self.signal(Signal::INT);
    }

    fn signal(&self, signal: Signal) {
        let id = Pid::from_raw(i32::try_from(self.running.id()).unwrap()).unwrap();
        kill_process(id, signal).unwrap();
    }
}

fn send(socket: &mut WebSocket<TcpStream>, id: u64, method: &str, params: &str) {
    let params: Value = serde_json::from_str(params).unwrap();
    let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    socket.send(Message::text(request.to_string())).unwrap();
}

fn receive(socket: &mut WebSocket<TcpStream>) -> Value {
    serde_json::from_str(socket.read().unwrap().to_text().unwrap()).unwrap()
}

#[test]
fn calls_are_answered_and_cancelled_in_every_dialect() {
    for dialect in ["jsonrpc", "acp", "acp-v2", "acp-draft", "lsp", "mcp", "mcp-2025-11-25", "abp"]
    {
        let server = Listening::start(&[ANY_PORT, "--dialect", dialect]);
        let said = server.call(&["--dialect", dialect, "echo", r#"{"a":1}"#]);
        assert_eq!((said.code, said.stdout.as_str()), (Some(0), "{\"a\":1}\n"), "{said:?}");
        let sleep = ["--dialect", dialect, "--cancel-after", "50ms", "sleep", HOUR];
        let said = server.call(&sleep);
        assert_eq!(said.code, Some(3), "{dialect}: {said:?}");
        assert!(said.stderr.contains("cancelled sleep after "), "{dialect}: {said:?}");
        assert!(said.took < Duration::from_secs(10), "{dialect}: {said:?}");
    }
}

#[test]
fn b26_connections_do_not_cancel_each_others_requests() {
    let server = Listening::start(&[ANY_PORT]);
    let (mut one, mut other) = (server.open(), server.open());
    send(&mut one, 1, "sleep", HOUR);
    send(&mut other, 1, "sleep", r#"{"ms":300}"#);
    let cancel = r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}"#;
    one.send(Message::text(cancel)).unwrap();
    assert_eq!(receive(&mut one)["error"]["code"], -32800);
    assert_eq!(receive(&mut other)["result"], json!({ "slept_ms": 300 }));
}

#[test]
fn g03_both_leave_in_one_write_and_the_cancel_is_there_in_time() {
    let server = Listening::start(&[ANY_PORT]);
    let said = server.call(&["--cancel-after", "0", "sleep", HOUR]);
    assert_eq!(said.code, Some(3), "{said:?}");
}

#[test]
fn g05_ctrl_c_cancels_and_answers_what_is_in_flight_and_says_goodbye() {
    let mut server = Listening::start(&[ANY_PORT]);
    let mut socket = server.open();
    send(&mut socket, 1, "echo", "[1]");
    assert_eq!(receive(&mut socket)["result"], json!([1]));
    send(&mut socket, 2, "sleep", HOUR);
    send(&mut socket, 3, "echo", "[3]");
    assert_eq!(receive(&mut socket)["id"], 3);
    server.interrupt();
    let answer = receive(&mut socket);
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(2), &json!(-32800)));
    assert!(socket.read().unwrap().is_close());
    while socket.read().is_ok() {}
    let said = server.running.end();
    assert_eq!(said.code, Some(0), "{said:?}");
}

#[test]
fn g07_a_server_that_goes_is_a_lost_connection() {
    let server = Listening::start(&[ANY_PORT]);
    let arguments = ["call", "--trace", "--connect", &server.url, "stubborn", HOUR];
    let mut caller = Running::start(arguments, &[]);
    caller.says(&["-->", "stubborn"]);
    let id = Pid::from_raw(i32::try_from(server.running.id()).unwrap()).unwrap();
    kill_process(id, Signal::KILL).unwrap();
    assert_eq!(caller.end().code, Some(5));
}

#[test]
fn pages_of_strangers_are_refused() {
    let server = Listening::start(&[ANY_PORT]);
    let switching = "HTTP/1.1 101 Switching Protocols";
    let forbidden = "HTTP/1.1 403 Forbidden";
    assert_eq!(server.status(None, "/"), switching);
    assert_eq!(server.status(Some("http://localhost:3000"), "/"), switching);
    assert_eq!(server.status(Some("https://example.com"), "/"), forbidden);
    assert_eq!(server.status(Some("null"), "/"), forbidden);

    let allowed = [ANY_PORT, "--allow-origin", "https://example.com", "--allow-origin", "null"];
    let server = Listening::start(&allowed);
    assert_eq!(server.status(Some("https://example.com"), "/"), switching);
    assert_eq!(server.status(Some("null"), "/"), switching);
    assert_eq!(server.status(Some("https://example.org"), "/"), forbidden);
}

#[test]
fn a_path_is_served_alone() {
    let server = Listening::start(&["ws://localhost:0/abp"]);
    assert!(server.url.ends_with("/abp"), "{}", server.url);
    assert_eq!(server.status(None, "/abp"), "HTTP/1.1 101 Switching Protocols");
    assert_eq!(server.status(None, "/"), "HTTP/1.1 404 Not Found");
}

/// One line that says what is wrong, and exit code 2.
#[track_caller]
fn says(arguments: &[&str], part: &str) {
    ends(2, arguments, part);
}

#[track_caller]
fn ends(code: i32, arguments: &[&str], part: &str) {
    let said = rescind(arguments);
    assert_eq!((said.code, said.stderr.lines().count()), (Some(code), 1), "{said:?}");
    assert!(said.stderr.contains(part), "{part:?} is not in {said:?}");
}

#[test]
fn what_can_not_be_is_said_in_one_line() {
    let server = Listening::start(&[ANY_PORT]);
    let taken = format!("can't listen on {}: Address already in use", server.url);
    says(&["serve", "--listen", &server.url], &taken);
    let elsewhere = format!("{}/elsewhere", Listening::start(&["ws://127.0.0.1:0/here"]).url);
    let unreached = format!("can't connect to {elsewhere}: ");
    ends(6, &["call", "--connect", &elsewhere, "m"], &unreached);
    says(&["serve", "--listen", "http://localhost:1"], "begins with ws://");
    says(&["call", "--connect", "wss://localhost:1", "m"], "TLS");
    says(&["serve", "--listen", ANY_PORT, "--runtime", "smol"], "--runtime <NAME>");
    says(&["serve", "--allow-origin", "null"], "--listen <URL>");
    says(&["call", "--connect", ANY_PORT, "m", "--", "cat"], "[COMMAND]...");
}
