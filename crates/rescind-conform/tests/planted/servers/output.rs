//! Writes the messages of the server.

use std::io::{self, Write};
use std::process::exit;
use std::sync::Weak;
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::Duration;

use super::{Fault, Protocol, Server};

pub(super) fn write(
    lines: &Receiver<String>,
    fault: Fault,
    protocol: Protocol,
    framed: fn(&str) -> String,
) {
    let mut out = io::stdout().lock();
    let mut numbers = Numbers::default();
    for line in lines {
        let line: String = match protocol {
            Protocol::Dap => line.lines().map(|it| framed(&numbers.number(it, fault))).collect(),
            Protocol::Lsp if line.starts_with('{') => line.lines().map(framed).collect(),
            _ => line + "\n",
        };
        if write!(out, "{line}").and_then(|()| out.flush()).is_err() {
            exit(0);
        }
    }
}

/// Says all the time that the server is alive.
pub(super) fn beat(server: Weak<Server>) {
    thread::spawn(move || {
        while let Some(server) = server.upgrade() {
            server.say(r#"{"jsonrpc":"2.0","method":"alive","params":{}}"#.into());
            drop(server);
            thread::sleep(Duration::from_millis(100));
        }
    });
}

/// The numbers of messages.
#[derive(Default)]
struct Numbers(u64);

impl Numbers {
    /// Returns a message with the next number.
    fn number(&mut self, message: &str, fault: Fault) -> String {
        let says_cancelled = message.contains("\"cancelled\"");
        self.0 += 1 + u64::from(fault == Fault::SkipsNumbers && says_cancelled);
        message.replacen(r#""seq":0"#, &format!(r#""seq":{}"#, self.0), 1)
    }
}
