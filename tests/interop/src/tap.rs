//! A tap on the wire between a client and a server. It keeps all messages, and checks a rule on
//! them, whatever either side would have noticed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use serde_json::{Value, json};

/// The side that wrote a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    Client,
    Server,
}

impl Side {
    const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }

    const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// Spawns a server, and passes lines between it and standard input and output until both ways have
/// ended. Each line is in the record before it is passed on, so every reaction to a line stands
/// after it.
///
/// # Errors
///
/// Those of the record and of spawning.
pub fn tap(record: &str, command: &[String]) -> io::Result<()> {
    let record = Arc::new(Mutex::new(File::create(record)?));
    let mut server = Command::new(&command[0])
        .args(&command[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let (stdin, stdout) = pipes(&mut server);
    let shared = record.clone();
    // It ends with the process when the server ends first.
    thread::spawn(move || pass(Side::Client, io::stdin().lock(), stdin, &shared));
    let passed = pass(Side::Server, BufReader::new(stdout), io::stdout(), &record);
    server.wait()?;
    passed
}

fn pipes(server: &mut Child) -> (ChildStdin, ChildStdout) {
    server.stdin.take().zip(server.stdout.take()).expect("both are piped")
}

fn pass(
    from: Side,
    mut input: impl BufRead,
    mut output: impl Write,
    record: &Mutex<File>,
) -> io::Result<()> {
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line)? > 0 {
        let message = serde_json::from_slice(&line).unwrap_or(Value::Null);
        let entry = json!({ "from": from.name(), "message": message });
        writeln!(record.lock().unwrap_or_else(PoisonError::into_inner), "{entry}")?;
        output.write_all(&line)?;
        output.flush()?;
        line.clear();
    }
    Ok(())
}

/// The result of a check of MCP's rule: a side that a cancel has reached writes nothing more about
/// that request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Silence {
    /// The number of cancels of requests that were in flight.
    pub cancels: usize,
    /// The messages about them that came all the same.
    pub broken: Vec<String>,
}

/// A request in flight.
struct Asked {
    /// The number of the line that it was.
    line: usize,
    token: Option<Value>,
    cancelled: Option<usize>,
    /// Something that was asked after the cancel has been answered: the cancel has been read.
    cancel_was_read: bool,
}

/// Checks a tap's record.
///
/// Progress that crosses the cancel is no breach. A response is one, for the scripts cancel work
/// that takes longer than any crossing.
///
/// # Panics
///
/// If the record is none of a tap's.
#[must_use]
pub fn silence(record: &str) -> Silence {
    let mut silence = Silence::default();
    let mut asked: BTreeMap<(Side, String), Asked> = BTreeMap::new();
    for (line, entry) in record.lines().enumerate() {
        let entry: Value = serde_json::from_str(entry).expect("taps write JSON");
        let from = if entry["from"] == "client" { Side::Client } else { Side::Server };
        let message = &entry["message"];
        let id = message.get("id").map(Value::to_string);
        match (message["method"].as_str(), id) {
            (Some(_), Some(id)) => {
                let token = message["params"]["_meta"].get("progressToken").cloned();
                let request = Asked { line, token, cancelled: None, cancel_was_read: false };
                asked.insert((from, id), request);
            }
            (Some("notifications/cancelled"), None) => {
                let id = message["params"]["requestId"].to_string();
                if let Some(asked) = asked.get_mut(&(from, id)) {
                    asked.cancelled = Some(line);
                    silence.cancels += 1;
                }
            }
            (Some("notifications/progress"), None) => {
                let token = message["params"].get("progressToken");
                let is_broken = asked.iter().any(|((side, _), asked)| {
                    *side == from.other() && asked.cancel_was_read && asked.token.as_ref() == token
                });
                if is_broken {
                    silence.broken.push(message.to_string());
                }
            }
            (None, Some(id)) => {
                let Some(answered) = asked.remove(&(from.other(), id)) else { continue };
                if answered.cancelled.is_some() {
                    silence.broken.push(message.to_string());
                }
                let of_side = asked.iter_mut().filter(|((side, _), _)| *side == from.other());
                for (_, asked) in of_side {
                    asked.cancel_was_read |= asked.cancelled.is_some_and(|at| at < answered.line);
                }
            }
            (_, None) => {}
        }
    }
    silence
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(messages: &[(&str, Value)]) -> String {
        let lines = messages.iter().map(|(from, message)| {
            let entry = json!({ "from": from, "message": message });
            format!("{entry}\n")
        });
        lines.collect()
    }

    fn ask(id: u64) -> (&'static str, Value) {
        let params = json!({ "_meta": { "progressToken": id } });
        ("client", json!({ "id": id, "method": "tools/call", "params": params }))
    }

    fn cancel(id: u64) -> (&'static str, Value) {
        let params = json!({ "requestId": id });
        ("client", json!({ "method": "notifications/cancelled", "params": params }))
    }

    fn answer(id: u64) -> (&'static str, Value) {
        ("server", json!({ "id": id, "result": {} }))
    }

    fn progress(token: u64) -> (&'static str, Value) {
        let params = json!({ "progressToken": token });
        ("server", json!({ "method": "notifications/progress", "params": params }))
    }

    #[test]
    fn silence_is_kept() {
        let kept = record(&[ask(1), ask(2), cancel(1), progress(1), ask(3), answer(2), answer(3)]);
        assert_eq!(silence(&kept), Silence { cancels: 1, broken: vec![] });
        let crossed = record(&[ask(1), answer(1), cancel(1)]);
        assert_eq!(silence(&crossed), Silence::default());
    }

    #[test]
    fn silence_is_broken() {
        let answered = record(&[ask(1), cancel(1), answer(1)]);
        assert_eq!(silence(&answered).broken.len(), 1);
        let progressed = record(&[ask(1), cancel(1), ask(2), answer(2), progress(1)]);
        assert_eq!(silence(&progressed).broken.len(), 1);
    }
}
