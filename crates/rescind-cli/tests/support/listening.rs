//! `rescind serve --listen`, and a peer that is not ours.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tungstenite::{Message, WebSocket};

use super::{PATIENCE, Running, Said, rescind};

pub(crate) const HOUR: &str = r#"{"ms":3600000}"#;
pub(crate) const LOCAL: &str = "ws://127.0.0.1:0";
pub(crate) const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

/// A server, ended by the test or with it.
pub(crate) struct Listening {
    pub(crate) running: Running,
    pub(crate) url: String,
}

impl Listening {
    pub(crate) fn start(more: &[&str]) -> Self {
        let mut running = Running::start([&["serve", "--listen"], more].concat(), &[]);
        let line = running.says(&["listening on ws://"]);
        let url = line.trim_start_matches("listening on ").trim();
        Self { running, url: url.replace("0.0.0.0", "127.0.0.1") }
    }

    pub(crate) fn call(&self, arguments: &[&str]) -> Said {
        rescind([&["call", "--connect", &self.url], arguments].concat())
    }

    pub(crate) fn authority(&self) -> &str {
        self.url.trim_start_matches("ws://").split('/').next().unwrap()
    }

    pub(crate) fn stream(&self) -> TcpStream {
        let stream = TcpStream::connect(self.authority()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    pub(crate) fn open(&self) -> WebSocket<TcpStream> {
        tungstenite::client(&self.url, self.stream()).unwrap().0
    }

    /// Returns the status line that a request for this path gets.
    pub(crate) fn status(&self, path: &str, headers: &str) -> String {
        let mut stream = self.stream();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n").unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        line.trim_end().into()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let id = Pid::from_raw(i32::try_from(self.running.id()).unwrap()).unwrap();
        kill_process(id, signal).unwrap();
    }

    pub(crate) fn end(mut self) -> Said {
        self.running.end()
    }
}

pub(crate) fn send(socket: &mut WebSocket<TcpStream>, id: u64, method: &str, params: &str) {
    let params: Value = serde_json::from_str(params).unwrap();
    let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    socket.send(Message::text(request.to_string())).unwrap();
}

pub(crate) fn receive(socket: &mut WebSocket<TcpStream>) -> Value {
    serde_json::from_str(socket.read().unwrap().to_text().unwrap()).unwrap()
}
