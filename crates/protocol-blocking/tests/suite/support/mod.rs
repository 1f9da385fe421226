//! A peer that speaks raw lines, and a server under test on either runtime.

pub(crate) mod streams;

use std::error::Error;
use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::ops::ControlFlow;
use std::os::unix::net::UnixStream;
use std::panic::panic_any;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use protocol_blocking::single::{FdTransport, Host};
use protocol_blocking::{
    Answer, Failure, Handler, Internal, InvalidParams, Notification, Request, Responder, Undo,
    Undone, threaded,
};
use protocol_core::{CallOptions, CloseReason, Config, Dialect, Violation, WireId};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

/// Longer than anything takes on a loaded machine. A wait of this length would never end.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn acp() -> Config {
    Config::server(Dialect::ACP_V1)
}

pub(crate) fn raw(value: &Value) -> Box<RawValue> {
    to_raw_value(value).unwrap()
}

pub(crate) fn request(id: u64, method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}

pub(crate) fn notification(method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string()
}

pub(crate) fn cancel(id: u64) -> String {
    notification("$/cancel_request", &json!({ "requestId": id }))
}

pub(crate) fn result(id: u64, result: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string()
}

pub(crate) fn cancelled(id: u64) -> Value {
    let error = json!({ "code": -32800, "message": "Request cancelled" });
    json!({ "jsonrpc": "2.0", "id": id, "error": error })
}

/// The other end of a connection, one JSON a line.
pub(crate) struct Wire {
    reader: BufReader<UnixStream>,
}

impl Wire {
    pub(crate) fn new(stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { reader: BufReader::new(stream) }
    }

    /// Returns our end of a connection, and the stream for what is under test.
    pub(crate) fn pair() -> (Self, UnixStream) {
        let (near, far) = UnixStream::pair().unwrap();
        (Self::new(near), far)
    }

    /// Writes the messages in one write.
    pub(crate) fn send<S: AsRef<str>>(&mut self, messages: impl IntoIterator<Item = S>) {
        let mut bytes = Vec::new();
        for message in messages {
            bytes.extend_from_slice(message.as_ref().as_bytes());
            bytes.push(b'\n');
        }
        self.write(&bytes);
    }

    /// Writes bytes as they are.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.reader.get_mut().write_all(bytes).unwrap();
    }

    /// Returns the next message, or `None` at the end.
    pub(crate) fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        let read = self.reader.read_line(&mut line).expect("it comes in time");
        (read > 0).then(|| serde_json::from_str(&line).unwrap())
    }

    pub(crate) fn receive(&mut self) -> Value {
        self.next().expect("a message")
    }

    /// Returns so many responses, by id.
    pub(crate) fn answers(&mut self, count: u64) -> Vec<Value> {
        let mut answers: Vec<Value> = (0..count).map(|_| self.receive()).collect();
        answers.sort_by_key(|answer| answer["id"].as_u64());
        answers
    }

    pub(crate) fn request(&mut self, id: u64, method: &str, params: &Value) {
        self.send([request(id, method, params)]);
    }

    /// Reads bytes, of whatever message they are.
    pub(crate) fn read(&mut self, room: &mut [u8]) -> usize {
        self.reader.read(room).unwrap()
    }

    /// Ends our output. The peer's output can still be read.
    pub(crate) fn hang_up(&self) {
        self.reader.get_ref().shutdown(Shutdown::Write).unwrap();
    }
}

/// Every way of running a handler.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Runtime {
    /// With so many workers.
    Threaded(usize),
    /// A server with so many workers, and no immediate methods.
    Server(usize),
    /// A server with one worker, whose reading thread serves what does not wait for the test.
    Immediate,
    Single,
}

/// One worker, several, and no thread at all but the host's.
pub(crate) const RUNTIMES: [Runtime; 6] = [
    Runtime::Threaded(1),
    Runtime::Threaded(3),
    Runtime::Server(1),
    Runtime::Server(3),
    Runtime::Immediate,
    Runtime::Single,
];
/// Those that take everything in order.
pub(crate) const ORDERED: [Runtime; 3] =
    [Runtime::Threaded(1), Runtime::Server(1), Runtime::Single];

/// Methods that the reading thread serves. Some of them wait after all.
pub(crate) const IMMEDIATE: [&str; 10] = [
    "echo",
    "big",
    "leak",
    "steps",
    "sleep",
    "nested",
    "stop",
    "progress",
    "panic",
    "fail with a bomb",
];

/// A server under test, and the reports of its handlers.
pub(crate) struct Server {
    pub(crate) wire: Wire,
    told: Receiver<String>,
    release: Sender<()>,
    running: JoinHandle<CloseReason>,
}

impl Server {
    pub(crate) fn start(runtime: Runtime) -> Self {
        Self::with(runtime, acp())
    }

    pub(crate) fn with(runtime: Runtime, config: Config) -> Self {
        let (wire, stream) = Wire::pair();
        let (tell, told) = channel();
        let (release, gate) = channel();
        let methods = Methods { tell, gate: Mutex::new(gate) };
        let running = thread::spawn(move || match runtime {
            Runtime::Threaded(workers) => {
                let (_, incoming) = threaded::unix(stream, config).unwrap();
                threaded::serve(&incoming, workers, &methods)
            }
            Runtime::Server(workers) => {
                let server = threaded::Server::new(config).workers(workers);
                server.unix(stream, Arc::new(methods)).unwrap().wait().reason
            }
            Runtime::Immediate => {
                let server = threaded::Server::new(config).immediate(IMMEDIATE);
                server.unix(stream, Arc::new(methods)).unwrap().wait().reason
            }
            Runtime::Single => {
                let transport = FdTransport::new(stream.try_clone().unwrap(), stream);
                Host::new(transport, config).run(&methods).unwrap()
            }
        });
        Self { wire, told, release, running }
    }

    /// Returns the next report of a handler.
    pub(crate) fn told(&self) -> String {
        self.told.recv_timeout(PATIENCE).expect("a handler says something")
    }

    /// Returns all reports of handlers that nobody has asked for.
    pub(crate) fn told_so_far(&self) -> Vec<String> {
        self.told.try_iter().collect()
    }

    /// Lets one `gate` through.
    pub(crate) fn release(&self) {
        self.release.send(()).unwrap();
    }

    /// Hangs up and waits for its end. Returns the reason, and the messages that it still sent.
    pub(crate) fn end(self) -> (CloseReason, Vec<Value>) {
        self.wire.hang_up();
        self.wait()
    }

    /// Waits until it ends by itself. Returns the reason, and the messages that it still sent.
    pub(crate) fn wait(mut self) -> (CloseReason, Vec<Value>) {
        let rest = std::iter::from_fn(|| self.wire.next()).collect();
        (self.running.join().unwrap(), rest)
    }
}

/// The handlers.
struct Methods {
    tell: Sender<String>,
    gate: Mutex<Receiver<()>>,
}

impl Methods {
    fn tell(&self, what: impl ToString) {
        // A test may have seen enough.
        let _ = self.tell.send(what.to_string());
    }
}

impl Handler for Methods {
    fn request(&self, request: &Request, responder: &mut dyn Responder) -> Answer {
        match request.method.as_str() {
            "echo" => Ok(request.params.clone().unwrap_or_else(|| raw(&Value::Null))),
            "big" => {
                let (bytes,): (usize,) = request.params()?;
                Ok(raw(&json!("x".repeat(bytes))))
            }
            "leak" => Ok(raw(&serde_json::from_str::<u8>("\"hunter2\"")?.into())),
            // Works in steps for ever, until it is cancelled.
            "steps" => {
                self.tell("started");
                loop {
                    if let Err(cancelled) = responder.checkpoint() {
                        self.tell(cancelled.cause);
                        return Err(cancelled.into());
                    }
                    thread::sleep(Duration::from_millis(1));
                }
            }
            "sleep" => {
                self.tell("asleep");
                if let Err(cancelled) = responder.sleep(Duration::from_secs(600)) {
                    self.tell(cancelled.cause);
                    return Err(cancelled.into());
                }
                Ok(raw(&Value::Null))
            }
            // Does nothing, not even look, until the test says so.
            "gate" => {
                self.tell("at the gate");
                self.gate.lock().unwrap().recv_timeout(PATIENCE).expect("it is released");
                responder.checkpoint()?;
                Ok(raw(&Value::Null))
            }
            "nested" => {
                let answer = responder.call_raw("inner", None, CallOptions::default())?;
                Ok(raw(&json!({ "inner": answer })))
            }
            "stop" => loop {
                self.tell("waiting");
                responder.sleep(Duration::from_millis(10))?;
                if let Some(stop) = responder.take_notification("stop") {
                    return Ok(raw(&json!({ "stopped": stop.params })));
                }
            },
            "progress" => {
                for step in 1..=3 {
                    responder.notify("step", [step]).unwrap();
                }
                Ok(raw(&Value::Null))
            }
            "panic" => panic!("as the test wants"),
            "fail with a bomb" => Err(Failure::internal(Bomb)),
            "panic with a bomb" => panic_any(Bomb),
            "undo with a bomb" => {
                for _ in 0..2 {
                    responder.undo_with(Undo::new(|_| Err(Failure::internal(Bomb)))).unwrap();
                }
                Err(Failure::Cancelled)
            }
            _ => Err(request.unknown_method()),
        }
    }

    fn notification(&self, notification: &Notification, _: &mut dyn Responder) -> ControlFlow<()> {
        match notification.method.as_str() {
            "exit" => ControlFlow::Break(()),
            "panic" => panic!("as the test wants"),
            "panic with a bomb" => panic_any(Bomb),
            method => {
                self.tell(method);
                ControlFlow::Continue(())
            }
        }
    }

    fn violation(&self, violation: Violation, id: Option<&WireId>) {
        let id = id.map_or_else(String::new, ToString::to_string);
        self.tell(format_args!("request {id}: {violation}"));
    }

    fn invalid_params(&self, invalid: &InvalidParams) {
        self.tell(format_args!("{}: {}", invalid.method(), invalid.reason()));
    }

    fn failed(&self, request: &Request, failure: &Internal) {
        self.tell(format_args!("{} failed: {}", request.method, failure.reason()));
    }

    fn undone(&self, _: &Request, undone: &Undone) {
        self.tell(undone);
    }
}

/// An error and the value of a panic, whose destructor panics.
#[derive(Debug)]
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("as the test wants");
    }
}

impl fmt::Display for Bomb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a bomb")
    }
}

impl Error for Bomb {}
