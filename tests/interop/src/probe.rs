//! An agent on two pipes, spoken to in raw lines.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Longer than an agent that answers at all needs.
const PATIENCE: Duration = Duration::from_secs(3);

/// A running agent. Dropping it kills it.
#[derive(Debug)]
pub struct Probe {
    agent: Child,
    input: Option<ChildStdin>,
    output: Receiver<Value>,
    /// A method that it answers whatever else it does.
    ping: &'static str,
    /// The messages that arrived and were not asked for yet.
    kept: Vec<Value>,
}

impl Probe {
    /// Starts an agent.
    ///
    /// # Panics
    ///
    /// If it does not start.
    #[must_use]
    pub fn start(command: &[String]) -> Self {
        let mut spawn = Command::new(&command[0]);
        spawn.args(&command[1..]).stderr(Stdio::null());
        spawn.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut agent = spawn.spawn().expect("the agent starts");
        let (input, stdout) = agent.stdin.take().zip(agent.stdout.take()).expect("both are piped");
        let (arrive, output) = channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let message = serde_json::from_str(&line).expect("agents write JSON");
                if arrive.send(message).is_err() {
                    break;
                }
            }
        });
        Self { agent, input: Some(input), output, ping: "echo", kept: Vec::new() }
    }

    /// Asks for this, instead of an echo, to find out whether it lives.
    #[must_use]
    pub fn alive_by(mut self, ping: &'static str) -> Self {
        self.ping = ping;
        self
    }

    /// Writes lines, all at once.
    pub fn send(&mut self, lines: &[&str]) {
        self.send_bytes(format!("{}\n", lines.join("\n")).as_bytes());
    }

    /// Writes bytes. An error is ignored: an agent that is gone does not respond either.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        if let Some(input) = &mut self.input {
            let _ = input.write_all(bytes).and_then(|()| input.flush());
        }
    }

    /// Sends another request, and returns whether the agent responds to it.
    pub fn is_alive(&mut self) -> bool {
        let ping = json!({ "jsonrpc": "2.0", "id": "ping", "method": self.ping, "params": {} });
        self.send(&[&ping.to_string()]);
        self.find(|message| message["id"] == "ping").is_some()
    }

    /// Waits for the answer with that id.
    pub fn answer(&mut self, id: &Value) -> Option<Value> {
        self.find(|message| message.get("method").is_none() && message.get("id") == Some(id))
    }

    /// As [`answer`](Self::answer), or for an error that says no id.
    pub fn answer_or_refusal(&mut self, id: &Value) -> Option<Value> {
        self.find(|message| {
            let named = message.get("id").unwrap_or(&Value::Null);
            message.get("method").is_none() && (named == id || named.is_null())
        })
    }

    /// Waits for a request or notification of the agent's.
    pub fn asks(&mut self, method: &str) -> Option<Value> {
        self.find(|message| message["method"] == method)
    }

    /// Returns the messages that have arrived and were not waited for, once the agent has responded
    /// to another request.
    pub fn rest(&mut self) -> Vec<Value> {
        self.is_alive();
        self.kept.drain(..).chain(self.output.try_iter()).collect()
    }

    /// Closes its input, and says whether it ends.
    pub fn ends(&mut self) -> bool {
        self.input = None;
        let start = Instant::now();
        // The channel is closed when its output is.
        while start.elapsed() < PATIENCE {
            match self.output.recv_timeout(PATIENCE) {
                Ok(message) => self.kept.push(message),
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return true,
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => return false,
            }
        }
        false
    }

    fn find(&mut self, wanted: impl Fn(&Value) -> bool) -> Option<Value> {
        if let Some(index) = self.kept.iter().position(&wanted) {
            return Some(self.kept.remove(index));
        }
        let start = Instant::now();
        loop {
            let left = PATIENCE.checked_sub(start.elapsed())?;
            let message = self.output.recv_timeout(left).ok()?;
            if wanted(&message) {
                return Some(message);
            }
            self.kept.push(message);
        }
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.agent.kill();
        let _ = self.agent.wait();
    }
}
