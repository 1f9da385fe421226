//! A small client that does everything right, but for one planted fault.

use std::collections::{HashMap, HashSet};
use std::io::{self, BufRead, Write};
use std::process::{Command, exit};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// The one thing that is wrong with the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    CancelsTwice,
    CancelsBeforeItsRequest,
    CancelsUnknown,
    CancelsAsText,
    CancelsAfterTheAnswer,
    CancelsInitialize,
    CancelsUndeclared,
    WedgesOfCancelled,
    DiesOfResults,
    DiesOfLateAnswers,
    DiesOfSecondAnswers,
    DiesOfUnknownAnswers,
    TakesTextForNumber,
    DiesOfUnaskedCancelled,
    DiesOfContentModified,
    IgnoresUnknownRequests,
    AnswersNotifications,
    EchoesZeroAsNull,
    EchoesTextAsNumber,
    EchoesEmptyAsNull,
    RoundsIds,
    MixesDirections,
    NeverAnswersCancelled,
    AnswersCancelled,
    LosesImmediateCancels,
    IgnoresLaterCancels,
    AnswersLateCancels,
    AnswersUnknownCancels,
    RefusesCancelsOfNothing,
    DiesOfMalformedCancels,
    AnswersMalformedCancels,
    CancelsItsOwn,
    DiesOfManyCancels,
    DropsWhatDoesNotFit,
    PrintsBanner,
    AnswersNobody,
    OmitsTheVersion,
    ReusesIds,
    StaysAfterTheEnd,
    LeavesAnOrphan,
    /// No fault: it answers nothing for a while once many requests are answered.
    WorksAfterMany,
}

#[derive(Deserialize)]
struct Message<'m> {
    #[serde(borrow)]
    id: Option<&'m RawValue>,
    method: Option<String>,
    params: Option<Value>,
    result: Option<Value>,
    error: Option<Value>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Protocol {
    JsonRpc,
    Acp,
    Draft,
    Lsp,
    Mcp,
}

struct Client {
    fault: Fault,
    protocol: Protocol,
    out: SyncSender<String>,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    /// Its own requests, by their ids.
    own: HashMap<String, State>,
    /// Whether the server has declared that it knows cancels.
    declared: bool,
    /// The server's requests at work. Using the sender cancels one, and dropping it ends the work with a
    /// result.
    at_work: HashMap<String, Sender<()>>,
    answered: HashSet<String>,
    cancels: usize,
    /// The number of requests that have come.
    requests: usize,
    /// The number of requests that had come when each one began.
    began: HashMap<String, usize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    InFlight,
    Cancelled,
    Answered,
}

/// The id of the request that takes its time.
const WORK: &str = "7";
/// More answers than fit into a pipe: the last of so many has been written once they are read.
const MANY: usize = 4000;

/// Speaks to its server on standard output and input.
pub(crate) fn run(fault: Fault, dialect: &str) {
    let protocol = match dialect {
        "jsonrpc" => Protocol::JsonRpc,
        "acp-draft" => Protocol::Draft,
        "lsp" => Protocol::Lsp,
        acp if acp.starts_with("acp") => Protocol::Acp,
        _ => Protocol::Mcp,
    };
    if fault == Fault::LeavesAnOrphan {
        // Never waited for: that is the fault.
        drop(Command::new("sleep").arg("1000").spawn().expect("there is a sleep"));
    }
    let room = if fault == Fault::DropsWhatDoesNotFit { 1500 } else { 1 << 20 };
    let (out, lines) = sync_channel(room);
    thread::spawn(move || write(&lines, protocol, fault));
    let client = Arc::new(Client { fault, protocol, out, table: Mutex::default() });
    match fault {
        Fault::PrintsBanner => client.say("Starting client…".into()),
        Fault::AnswersNobody => {
            client.say(r#"{"jsonrpc":"2.0","id":"nobody","result":{}}"#.into());
        }
        _ => {}
    }
    client.open();
    let mut input = io::stdin().lock();
    while let Some(message) = read(&mut input, protocol) {
        client.take(&message);
    }
    if fault == Fault::StaysAfterTheEnd {
        thread::sleep(Duration::from_secs(1000));
    }
}

fn read(input: &mut impl BufRead, protocol: Protocol) -> Option<String> {
    let mut line = String::new();
    if protocol != Protocol::Lsp {
        return (input.read_line(&mut line).ok()? > 0).then_some(line);
    }
    let mut length = 0;
    loop {
        line.clear();
        if input.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.strip_prefix("Content-Length: ") {
            Some(number) => length = number.trim().parse().ok()?,
            None if line.trim().is_empty() => break,
            None => {}
        }
    }
    let mut message = vec![0; length];
    input.read_exact(&mut message).ok()?;
    String::from_utf8(message).ok()
}

fn write(lines: &Receiver<String>, protocol: Protocol, fault: Fault) {
    let mut out = io::stdout().lock();
    let mut count = 0;
    loop {
        let line = lines.try_recv().or_else(|_| {
            if fault == Fault::WorksAfterMany && count > MANY {
                count = 0;
                work();
            }
            lines.recv()
        });
        let Ok(line) = line else { return };
        count += 1;
        let written = match protocol {
            Protocol::Lsp => write!(out, "Content-Length: {}\r\n\r\n{line}", line.len()),
            _ => writeln!(out, "{line}"),
        };
        if written.and_then(|()| out.flush()).is_err() {
            exit(0);
        }
    }
}

/// Uses a processor for longer than the tester is patient.
fn work() {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(8) {
        std::hint::spin_loop();
    }
}

impl Client {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say(&self, line: String) {
        if self.fault == Fault::DropsWhatDoesNotFit {
            // Lost, on purpose.
            let _ = self.out.try_send(line);
        } else {
            let _ = self.out.send(line);
        }
    }

    fn notify(&self, method: &str, params: &str) {
        self.say(format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#));
    }

    fn call(&self, id: &str, method: &str, params: &Value) {
        self.lock().own.insert(id.into(), State::InFlight);
        self.say(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#));
    }

    /// Returns the id of the request that opens the session.
    fn opening(&self) -> &'static str {
        if self.fault == Fault::ReusesIds { WORK } else { "1" }
    }

    fn open(self: &Arc<Self>) {
        let info = json!({ "name": "planted", "version": "1" });
        let params = match self.protocol {
            Protocol::JsonRpc => return self.work(),
            Protocol::Mcp => {
                json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info })
            }
            Protocol::Lsp => json!({ "processId": null, "rootUri": null, "capabilities": {} }),
            _ => {
                json!({ "protocolVersion": 1, "clientCapabilities": { "cancellation": { "request": true } }, "clientInfo": info })
            }
        };
        self.call(self.opening(), "initialize", &params);
    }

    fn opened(self: &Arc<Self>, result: &Value) {
        let declared = result["agentCapabilities"]["cancellation"]["request"] == true;
        self.lock().declared =
            declared || self.protocol != Protocol::Draft || self.fault == Fault::CancelsUndeclared;
        match self.protocol {
            Protocol::Mcp => self.notify("notifications/initialized", "{}"),
            Protocol::Lsp => self.notify("initialized", "{}"),
            _ => {}
        }
        self.work();
    }

    /// Makes the request that takes its time.
    fn work(self: &Arc<Self>) {
        if self.fault == Fault::CancelsBeforeItsRequest {
            self.cancel(WORK);
        }
        let (method, params) = match self.protocol {
            Protocol::Mcp => ("tools/call", json!({ "name": "slow", "arguments": {} })),
            _ => ("work", json!({})),
        };
        self.call(WORK, method, &params);
    }

    /// Cancels when the server has reported that it is time to.
    fn stop(&self) {
        let is_opening = self.lock().own.contains_key(WORK);
        let id = match self.fault {
            Fault::CancelsBeforeItsRequest => return,
            Fault::CancelsInitialize if !is_opening => self.opening(),
            _ => WORK,
        };
        let mut table = self.lock();
        let is_due = match table.own.get(id) {
            Some(State::InFlight) => true,
            Some(State::Cancelled) => self.fault == Fault::CancelsTwice,
            Some(State::Answered) => self.fault == Fault::CancelsAfterTheAnswer,
            None => false,
        };
        if is_due && (table.declared || self.fault == Fault::CancelsInitialize) {
            table.own.insert(id.into(), State::Cancelled);
            drop(table);
            self.cancel(id);
        }
    }

    fn cancel(&self, id: &str) {
        let id = match self.fault {
            Fault::CancelsUnknown => "8",
            Fault::CancelsAsText => "\"7\"",
            _ => id,
        };
        let (method, member) = self.cancelling();
        self.notify(method, &format!(r#"{{"{member}":{id}}}"#));
    }

    /// Returns the method of a cancel, and the member that names the request.
    fn cancelling(&self) -> (&'static str, &'static str) {
        match self.protocol {
            Protocol::JsonRpc => ("", ""),
            Protocol::Acp => ("$/cancel_request", "requestId"),
            Protocol::Draft | Protocol::Lsp => ("$/cancelRequest", "id"),
            Protocol::Mcp => ("notifications/cancelled", "requestId"),
        }
    }

    fn take(self: &Arc<Self>, message: &str) {
        let Ok(message) = serde_json::from_str::<Message<'_>>(message) else { return };
        let id = message.id.map(|id| id.get().to_owned());
        match (message.method.as_deref(), id) {
            (None, Some(id)) => {
                self.answered(&id, message.result.as_ref(), message.error.as_ref());
            }
            (Some(method), Some(id)) => {
                self.request(&id, method, &message.params.unwrap_or_default());
            }
            (Some(method), None) if method == self.cancelling().0 => {
                self.cancelled(message.params);
            }
            (Some("stop"), None) => self.stop(),
            (Some(_), None) if self.fault == Fault::AnswersNotifications => {
                self.error("null", -32601);
            }
            _ => {}
        }
    }

    /// Takes a response, perhaps to one of its requests.
    fn answered(self: &Arc<Self>, id: &str, result: Option<&Value>, error: Option<&Value>) {
        let id = match self.fault {
            Fault::TakesTextForNumber => id.trim_matches('"'),
            _ => id,
        };
        let state = self.lock().own.get(id).copied();
        let code = error.and_then(|error| error["code"].as_i64());
        match (self.fault, state) {
            (Fault::DiesOfUnknownAnswers, None)
            | (Fault::DiesOfSecondAnswers, Some(State::Answered)) => exit(3),
            (Fault::DiesOfLateAnswers, Some(State::Cancelled)) => exit(3),
            (Fault::DiesOfResults, Some(State::Cancelled)) if code.is_none() => exit(3),
            (Fault::WedgesOfCancelled, Some(State::Cancelled)) if code == Some(-32800) => loop {
                thread::park();
            },
            (Fault::DiesOfUnaskedCancelled, Some(State::InFlight)) if code == Some(-32800) => {
                exit(3)
            }
            (Fault::DiesOfContentModified, _) if code == Some(-32801) => exit(3),
            (_, None) => return,
            _ => {}
        }
        self.lock().own.insert(id.into(), State::Answered);
        let is_opening = id == self.opening() && self.protocol != Protocol::JsonRpc;
        if let (true, Some(result), Some(State::InFlight)) = (is_opening, result, state) {
            if result.get("content").is_none() {
                self.opened(result);
            }
        }
    }

    fn answer(&self, id: &str, result: &Value) {
        self.lock().answered.insert(id.into());
        let id = match (self.fault, id) {
            (Fault::EchoesZeroAsNull, "0") | (Fault::EchoesEmptyAsNull, "\"\"") => "null".into(),
            (Fault::EchoesTextAsNumber, "\"7\"") => "7".into(),
            (Fault::RoundsIds, id) => rounded(id),
            (_, id) => id.into(),
        };
        let version = if self.fault == Fault::OmitsTheVersion { "" } else { r#""jsonrpc":"2.0","# };
        self.say(format!(r#"{{{version}"id":{id},{}"#, &result.to_string()[1..]));
    }

    fn error(&self, id: &str, code: i64) {
        self.answer(id, &json!({ "error": { "code": code, "message": "no" } }));
    }

    fn request(self: &Arc<Self>, id: &str, method: &str, params: &Value) {
        self.lock().requests += 1;
        let is_own = self.lock().own.get(id) == Some(&State::InFlight);
        match method {
            _ if is_own && self.fault == Fault::MixesDirections => {}
            "ping" => self.answer(id, &json!({ "result": {} })),
            "sleep" => self.sleep(id, params["ms"].as_u64().unwrap_or(0)),
            _ if self.fault == Fault::IgnoresUnknownRequests => {}
            _ => self.error(id, -32601),
        }
    }

    /// Works for so long, or until it is cancelled.
    fn sleep(self: &Arc<Self>, id: &str, ms: u64) {
        let (stop, stopped) = channel();
        let mut table = self.lock();
        table.at_work.insert(id.into(), stop);
        let requests = table.requests;
        table.began.insert(id.into(), requests);
        drop(table);
        let (client, id) = (self.clone(), id.to_owned());
        thread::spawn(move || {
            let is_cancelled = stopped.recv_timeout(Duration::from_millis(ms)).is_ok();
            client.lock().at_work.remove(&id);
            match (is_cancelled, client.protocol) {
                (false, _) => client.answer(&id, &json!({ "result": {} })),
                (true, Protocol::Mcp) if client.fault != Fault::AnswersCancelled => {}
                (true, _) if client.fault == Fault::NeverAnswersCancelled => {}
                (true, _) => client.error(&id, -32800),
            }
        });
    }

    fn cancelled(&self, params: Option<Value>) {
        let named = match &params {
            Some(Value::Object(members)) => members.get(self.cancelling().1).cloned(),
            _ => None,
        };
        let named = named.filter(|id| id.is_string() || id.is_i64() || id.is_u64());
        let Some(id) = named.map(|id| id.to_string()) else {
            match self.fault {
                Fault::DiesOfMalformedCancels if params.is_none() => exit(3),
                Fault::AnswersMalformedCancels => self.error("null", -32602),
                _ => {}
            }
            return;
        };
        let mut table = self.lock();
        table.cancels += 1;
        let began = table.began.get(&id).copied();
        let answers = match self.fault {
            Fault::DiesOfManyCancels if table.cancels > 100 => exit(3),
            Fault::CancelsItsOwn => {
                table.own.remove(&id);
                false
            }
            Fault::LosesImmediateCancels if began == Some(table.requests) => return,
            Fault::IgnoresLaterCancels if began.is_some_and(|began| began < table.requests) => {
                return;
            }
            Fault::AnswersLateCancels => table.answered.contains(&id),
            Fault::AnswersUnknownCancels => id == "900001",
            _ => false,
        };
        let stop = table.at_work.remove(&id);
        drop(table);
        if let Some(stop) = stop {
            // It may be done meanwhile.
            let _ = stop.send(());
        } else if self.fault == Fault::RefusesCancelsOfNothing {
            self.error("null", -32602);
        }
        if answers {
            self.error(&id, -32800);
        }
    }
}

fn rounded(id: &str) -> String {
    match id.parse::<u64>() {
        Ok(number) => {
            #[expect(
                clippy::cast_precision_loss,
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss
            )]
            let number = number as f64 as u64;
            number.to_string()
        }
        Err(_) => id.into(),
    }
}
