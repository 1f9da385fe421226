//! A server as a child, over pipes: its input, its output, and its costs.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The form in which messages follow each other.
#[derive(Clone, Copy, Debug)]
pub enum Framing {
    /// One a line.
    Lines,
    /// After a header with their length.
    ContentLength,
}

/// One message of the server.
#[derive(Debug, Deserialize)]
pub struct Message<'a> {
    pub id: Option<u64>,
    pub method: Option<&'a str>,
    #[serde(borrow)]
    pub params: Option<&'a RawValue>,
    #[serde(borrow)]
    pub result: Option<&'a RawValue>,
    pub error: Option<ResponseError>,
}

#[derive(Debug, Deserialize)]
pub struct ResponseError {
    pub code: i64,
}

/// The pipe to the server. Messages are gathered, and written at once.
#[derive(Debug)]
pub struct Input {
    pipe: ChildStdin,
    framing: Framing,
    gathered: Vec<u8>,
}

impl Input {
    /// Gathers a request.
    pub fn request(&mut self, id: u64, method: &str, params: &str) {
        self.message(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#
        ));
    }

    /// Gathers a notification.
    pub fn notify(&mut self, method: &str, params: &str) {
        self.message(&format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#));
    }

    fn message(&mut self, text: &str) {
        if matches!(self.framing, Framing::ContentLength) {
            let header = format!("Content-Length: {}\r\n\r\n", text.len());
            self.gathered.extend_from_slice(header.as_bytes());
        }
        self.gathered.extend_from_slice(text.as_bytes());
        if matches!(self.framing, Framing::Lines) {
            self.gathered.push(b'\n');
        }
    }

    /// Writes the messages that are gathered.
    pub fn write(&mut self) {
        self.pipe.write_all(&self.gathered).expect("the server reads");
        self.gathered.clear();
    }
}

/// Returns the CPU time that a process has used in all its threads, user and system.
///
/// # Panics
///
/// If the process is gone.
#[must_use]
pub fn cpu(process: u32) -> Duration {
    let process = Pid::from_raw(process.try_into().expect("a process id"));
    let clock: ClockId = clock_getcpuclockid(process).expect("it runs");
    Duration::from(clock_gettime(clock).expect("it runs"))
}

/// A server that runs.
#[derive(Debug)]
pub struct Server {
    child: Child,
    pub input: Option<Input>,
    output: BufReader<ChildStdout>,
    framing: Framing,
    buffer: Vec<u8>,
}

impl Server {
    pub(crate) fn start(program: &str, framing: Framing) -> Self {
        let mut command = Command::new(program);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{program} does not start: {error}"));
        let pipe = child.stdin.take().expect("it is piped");
        let output = BufReader::with_capacity(64 << 10, child.stdout.take().expect("it is piped"));
        let input = Some(Input { pipe, framing, gathered: Vec::new() });
        Self { child, input, output, framing, buffer: Vec::new() }
    }

    /// Returns the pipe to the server.
    pub fn input(&mut self) -> &mut Input {
        self.input.as_mut().expect("it is here")
    }

    /// Waits for the next message.
    ///
    /// # Panics
    ///
    /// If the server ends, and if it writes something else.
    pub fn receive(&mut self) -> Message<'_> {
        assert!(self.read() > 0, "the server ended");
        parse(&self.buffer)
    }

    /// Returns whether a message has begun to arrive in the same read as the last one.
    #[must_use]
    pub fn has_more(&self) -> bool {
        !self.output.buffer().is_empty()
    }

    fn read(&mut self) -> usize {
        self.buffer.clear();
        let mut until_newline = |buffer: &mut Vec<u8>| {
            self.output.read_until(b'\n', buffer).expect("a pipe can be read")
        };
        if matches!(self.framing, Framing::Lines) {
            return until_newline(&mut self.buffer);
        }
        let mut length = 0;
        while until_newline(&mut self.buffer) > 0 && self.buffer != b"\r\n" {
            if let Some(value) = self.buffer.strip_prefix(b"Content-Length: ") {
                let value = std::str::from_utf8(value).expect("a number");
                length = value.trim().parse().expect("a number");
            }
            self.buffer.clear();
        }
        self.buffer.resize(length, 0);
        self.output.read_exact(&mut self.buffer).expect("a whole message");
        length
    }

    /// Returns the CPU time that the server has used.
    #[must_use]
    pub fn cpu(&self) -> Duration {
        cpu(self.child.id())
    }

    /// Returns the most memory that the server has had, in KiB.
    ///
    /// # Panics
    ///
    /// If the server is gone.
    #[must_use]
    pub fn most_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.expect("the server runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let number = line.and_then(|line| line.split_whitespace().next());
        number.and_then(|number| number.parse().ok()).expect("Linux counts it")
    }

    /// Hangs up, and checks that nothing comes any more.
    pub(crate) fn end(mut self) {
        drop(self.input.take());
        let mut child = self.child;
        // Some servers stay until their reading thread gets another byte.
        let ending = thread::spawn(move || {
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_secs(1) {
                if child.try_wait().expect("a child").is_some() {
                    return;
                }
                thread::sleep(Duration::from_millis(5));
            }
            child.kill().and_then(|()| child.wait()).expect("a child");
        });
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).expect("text");
        ending.join().expect("it waits");
        assert!(rest.is_empty(), "more than the responses: {}", &rest[..rest.len().min(300)]);
    }
}

fn parse(bytes: &[u8]) -> Message<'_> {
    let text = || String::from_utf8_lossy(&bytes[..bytes.len().min(300)]);
    serde_json::from_slice(bytes).unwrap_or_else(|error| panic!("{error}: {}", text()))
}
