//! A relay that is wrong on purpose, for the judge to find out: `wrong_relay FAULT COMMAND…`.
//!
//! It is as small as a relay can be, and so also wrong where no fault says so: it loses requests
//! when one side ends, and passes malformed answers on.

use std::collections::{BTreeMap, HashSet};
use std::env;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio, exit};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use serde_json::{Value, json};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// Renames ids, and forwards cancels as they came: as a published multiplexer does.
    CancelsUnrenamed,
    LosesCancels,
    AnswersTwice,
    IdsAsStrings,
    /// Copies bytes.
    Tunnels,
}

/// What is in flight in one direction: the id on the far side, and the caller's own.
type Renamed = BTreeMap<u64, Value>;

#[derive(Default)]
struct Table {
    issued: u64,
    /// Of the client's requests, and of the server's.
    renamed: [Renamed; 2],
    /// By their ids on the far side.
    cancelled: HashSet<u64>,
}

fn main() {
    let arguments: Vec<String> = env::args().collect();
    let fault = match arguments[1].as_str() {
        "none" => Fault::None,
        "cancels-unrenamed" => Fault::CancelsUnrenamed,
        "loses-cancels" => Fault::LosesCancels,
        "answers-twice" => Fault::AnswersTwice,
        "ids-as-strings" => Fault::IdsAsStrings,
        "tunnels" => Fault::Tunnels,
        other => panic!("no such fault: {other}"),
    };
    let mut command = Command::new(&arguments[2]);
    command.args(&arguments[3..]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("the command starts");
    let (stdin, stdout) = child.stdin.take().zip(child.stdout.take()).expect("both are piped");

    let table = Arc::new(Mutex::new(Table::default()));
    let shared = table.clone();
    thread::spawn(move || relay(io::stdin(), stdin, 0, fault, &shared));
    // A broken pipe ends it as the end of input does.
    let _ = relay(stdout, io::stdout(), 1, fault, &table);
    exit(0);
}

/// Carries what one side says to the other; `way` is 0 from the client and 1 from the server.
fn relay(
    input: impl Read,
    mut output: impl Write,
    way: usize,
    fault: Fault,
    table: &Mutex<Table>,
) -> io::Result<()> {
    for line in BufReader::new(input).split(b'\n') {
        let line = line?;
        if fault == Fault::Tunnels {
            output.write_all(&[&line[..], b"\n"].concat())?;
        } else if let Ok(message) = serde_json::from_slice(&line) {
            let mut table = table.lock().unwrap_or_else(PoisonError::into_inner);
            for message in table.translate(message, way, fault) {
                output.write_all(format!("{message}\n").as_bytes())?;
            }
        }
        output.flush()?;
    }
    Ok(())
}

impl Table {
    /// What becomes of a message; nothing of one that is none.
    fn translate(&mut self, mut message: Value, way: usize, fault: Fault) -> Vec<Value> {
        let id = message.get("id").cloned();
        let Some(method) = message.get("method").and_then(Value::as_str) else {
            let near = id.and_then(|id| self.renamed[1 - way].remove(&id.as_u64()?));
            let Some(near) = near else { return Vec::new() };
            let string = near.as_str().map_or_else(|| near.to_string(), String::from);
            message["id"] = if fault == Fault::IdsAsStrings { json!(string) } else { near };
            let times = if fault == Fault::AnswersTwice { 2 } else { 1 };
            return vec![message; times];
        };
        if matches!(method, "$/cancel_request" | "notifications/cancelled") {
            return self.cancel(message, way, fault);
        }
        if let Some(id) = id {
            self.issued += 1;
            self.renamed[way].insert(self.issued, id);
            message["id"] = self.issued.into();
        }
        vec![message]
    }

    fn cancel(&mut self, mut cancel: Value, way: usize, fault: Fault) -> Vec<Value> {
        let target = &cancel["params"]["requestId"];
        let named = self.renamed[way].iter().find(|(_, near)| *near == target);
        match (fault, named) {
            (Fault::CancelsUnrenamed, _) => vec![cancel],
            (Fault::LosesCancels, _) | (_, None) => Vec::new(),
            (_, Some((&far, _))) if !self.cancelled.insert(far) => Vec::new(),
            (_, Some((&far, _))) => {
                cancel["params"]["requestId"] = far.into();
                vec![cancel]
            }
        }
    }
}
