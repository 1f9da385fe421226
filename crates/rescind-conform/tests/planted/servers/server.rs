//! A small server that does everything right, but for one planted fault.

use std::io::{self, BufRead};
use std::process::{Command, exit};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

#[path = "agent.rs"]
mod agent;
#[path = "asks.rs"]
mod asks;
#[path = "dap.rs"]
mod dap;
#[path = "fault.rs"]
mod fault;
#[path = "mcp.rs"]
mod mcp;
#[path = "output.rs"]
mod output;
#[path = "table.rs"]
mod table;
#[path = "works.rs"]
mod works;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

pub(crate) use fault::Fault;
use table::Table;

/// The cancels after which no place for work is left.
const PLACES: usize = 8;

#[derive(Deserialize)]
struct Message<'m> {
    #[serde(borrow)]
    id: Option<&'m RawValue>,
    method: Option<String>,
    params: Option<Value>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Acp,
    V2,
    Draft,
    Mcp,
    Lsp,
    Dap,
}

struct Server {
    fault: Fault,
    protocol: Protocol,
    out: SyncSender<String>,
    table: Mutex<Table>,
    turns: agent::Turns,
    /// Whether the end of a response stream cancels its request.
    has_streams: bool,
}

/// Serves standard input and output.
pub(crate) fn serve(fault: Fault, dialect: &str) {
    let protocol = match dialect {
        "acp-draft" => Protocol::Draft,
        "acp" => Protocol::Acp,
        "acp-v2" => Protocol::V2,
        "lsp" => Protocol::Lsp,
        "dap" => Protocol::Dap,
        _ => Protocol::Mcp,
    };
    if fault == Fault::LeavesAnOrphan {
        // Never waited for: that is the fault.
        drop(Command::new("sleep").arg("1000").spawn().expect("there is a sleep"));
    }
    let room = if fault == Fault::DropsWhatDoesNotFit { 1500 } else { 1 << 20 };
    let (out, lines) = sync_channel(room);
    let counts =
        if fault == Fault::CountsCharacters { dap::framed_by_characters } else { dap::framed };
    let writer = thread::spawn(move || output::write(&lines, fault, protocol, counts));
    if fault == Fault::PrintsBanner {
        out.send("Starting server…".into()).expect("it is written");
    }
    if fault == Fault::AnswersNobody {
        let answer = r#"{"jsonrpc":"2.0","id":"nobody","result":{}}"#;
        out.send(answer.into()).expect("it is written");
    }
    let server = Arc::new(Server {
        fault,
        protocol,
        out,
        table: Mutex::default(),
        turns: agent::Turns::default(),
        has_streams: dialect == "mcp-2026-07-28-http" || fault == Fault::CancelsWhatIsLost,
    });
    if fault == Fault::BeatsInSilence {
        output::beat(Arc::downgrade(&server));
    }
    if matches!(protocol, Protocol::Dap | Protocol::Lsp) {
        let take = if protocol == Protocol::Dap { Server::take_dap } else { Server::take };
        while let Some(message) = dap::frame(&mut io::stdin().lock()) {
            take(&server, &message);
        }
    } else {
        for line in io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            server.take(&line);
        }
    }
    let stays = match fault {
        Fault::StaysAfterTheEnd => true,
        Fault::StaysAfterCancels => server.lock().cancelled > 0,
        _ => false,
    };
    if stays {
        thread::sleep(Duration::from_secs(1000));
    }
    server.lock().at_work.clear();
    drop(server);
    // What is at work ends, and lets the writer end.
    let _ = writer.join();
}

impl Server {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say(&self, mut line: String) {
        let says_cancelled = line.contains("-32800") || line.contains("\"cancelled\"");
        if self.fault == Fault::AnswersWithTheNext && says_cancelled {
            return self.lock().kept.push(line);
        }
        if self.fault == Fault::AnswersTwice && says_cancelled {
            // In one write, so that no other answer comes between them.
            line = format!("{line}\n{line}");
        }
        if self.fault == Fault::DropsWhatDoesNotFit {
            // Lost, on purpose.
            let _ = self.out.try_send(line);
        } else {
            let _ = self.out.send(line);
        }
    }

    fn say_kept(&self) {
        for line in std::mem::take(&mut self.lock().kept) {
            let _ = self.out.send(line);
        }
    }

    fn take(self: &Arc<Self>, line: &str) {
        let Ok(message) = serde_json::from_str::<Message<'_>>(line) else { return };
        let id = message.id.map(|id| id.get().to_owned());
        match (message.method.as_deref(), id) {
            (Some(method), Some(id)) => {
                self.request(&id, method, &message.params.unwrap_or_default());
            }
            (Some(method), None) if method == self.cancel_method() => self.cancel(message.params),
            (Some("exit"), None) => exit(0),
            (Some("textDocument/didClose"), None) => self.lock().is_closed = true,
            (Some("textDocument/didChange"), None) => {
                let text = &message.params.unwrap_or_default()["contentChanges"][0]["text"];
                self.lock().lines = text.as_str().map_or(0, |text| text.lines().count());
            }
            (Some("$/loss"), None) => self.lose(&message.params.unwrap_or_default()["id"]),
            (Some("session/cancel" | "window/workDoneProgress/cancel"), None) => {
                self.stop(&message.params.unwrap_or_default());
            }
            (None, Some(id)) if self.fault == Fault::DiesOfWithdrawn && self.has_withdrawn(&id) => {
                exit(3)
            }
            (None, Some(id))
                if self.fault == Fault::AnswersWithdrawn && self.has_withdrawn(&id) =>
            {
                let asked_for = self.lock().own.get(&id).cloned();
                asked_for.iter().for_each(|id| self.answer(id, &json!({ "result": {} })));
            }
            (None, Some(id)) => self.permitted(&id, line),
            (Some(_), None) if self.fault == Fault::AnswersNotifications => {
                self.say(
                    r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"no"}}"#.into(),
                );
            }
            _ => {}
        }
    }

    fn cancel_method(&self) -> &'static str {
        match self.protocol {
            Protocol::Acp | Protocol::V2 => "$/cancel_request",
            Protocol::Dap => "cancel",
            Protocol::Draft | Protocol::Lsp => "$/cancelRequest",
            Protocol::Mcp => "notifications/cancelled",
        }
    }

    fn answer(&self, id: &str, result: &Value) {
        let id = match (self.fault, id) {
            (Fault::EchoesZeroAsNull, "0") | (Fault::EchoesEmptyAsNull, "\"\"") => "null".into(),
            (Fault::EchoesTextAsNumber, "\"7\"") => "7".into(),
            (Fault::RoundsIds, id) => rounded(id),
            (_, id) => id.into(),
        };
        if self.protocol == Protocol::Dap {
            return self.answer_dap(&id, result);
        }
        let version = if self.fault == Fault::OmitsTheVersion { "" } else { r#""jsonrpc":"2.0","# };
        self.say(format!(r#"{{{version}"id":{id},{}"#, &result.to_string()[1..]));
    }

    fn error(&self, id: &str, code: i64) {
        self.answer(id, &json!({ "error": { "code": code, "message": "no" } }));
    }

    fn request(self: &Arc<Self>, id: &str, method: &str, params: &Value) {
        self.lock().requests += 1;
        if self.fault == Fault::AnswersWithTheNext {
            self.say_kept();
        }
        let tool = params["name"].as_str().filter(|_| method == "tools/call");
        let arguments = if tool.is_some() { &params["arguments"] } else { params };
        match tool.unwrap_or(method.trim_start_matches("textDocument/")) {
            "initialize" if self.fault == Fault::CancelsInitialize => {
                let (server, id) = (self.clone(), id.to_owned());
                self.register(move || server.work(&id, Duration::from_millis(50), None));
            }
            "initialize" => self.answer(id, &json!({ "result": self.initialized() })),
            "server/discover" if self.has_streams => self.answer(id, &json!({ "result": {} })),
            "outcome" => self.outcome(id, arguments),
            "ping" => self.answer(id, &json!({ "result": {} })),
            "tools/list" => self.answer(id, &json!({ "result": mcp::tools() })),
            _ if method.starts_with("tasks/") || params["task"].is_object() => {
                self.of_task(id, method, params);
            }
            "count" => self.count(id, params),
            "slow"
                if self.fault == Fault::ForgetsDuplicates
                    && self.lock().at_work.contains_key(id) =>
            {
                self.lock().early.push("a duplicate".into());
                self.error(id, -32600);
            }
            "slow" => {
                let (server, id, ms) =
                    (self.clone(), id.to_owned(), arguments["ms"].as_u64().unwrap_or(0));
                let refused = id.clone();
                let token = params["_meta"]["progressToken"].as_str();
                let token = token.or(params["workDoneToken"].as_str()).map(String::from);
                if token.is_some() {
                    self.lock().with_token.push(id.clone());
                }
                let work = move || server.work(&id, Duration::from_millis(ms), token);
                let works_in_line = match self.fault {
                    Fault::WorksInLine => true,
                    Fault::WorksInLineLater => self.lock().cancelled >= 64,
                    fault if self.lock().is_full(fault) => return self.error(&refused, -32000),
                    Fault::FailsAfterFour if self.lock().cancelled >= 4 => {
                        return self.answer(&refused, &json!({ "result": { "isError": true } }));
                    }
                    Fault::FailsAfterCancels if self.lock().cancelled == 1 => {
                        return self.answer(&refused, &json!({ "result": { "isError": true } }));
                    }
                    _ => false,
                };
                if works_in_line { work() } else { self.register(work) }
            }
            "disconnect" if self.fault == Fault::WaitsForWhatWasCancelled => {
                // Until its work has seen the cancel.
                while self.lock().is_ending() {
                    thread::sleep(Duration::from_millis(1));
                }
                let until = self.lock().over_at;
                thread::sleep(until.map_or(Duration::ZERO, |until| until - Instant::now()));
                self.answer(id, &json!({ "result": {} }));
            }
            "shutdown" | "disconnect"
                if self.fault == Fault::NeverShutsDown && self.lock().cancelled > 0 => {}
            "ask" => self.ask(id),
            "session/new" => self.open_session(id),
            "session/prompt" => {
                let (server, id, params) = (self.clone(), id.to_owned(), params.clone());
                if self.turns.is_held(&params) {
                    self.error(&id, -32603);
                } else if let Some(ask) = self.begin_turn(&id, &params) {
                    thread::spawn(move || server.turn(&id, &params, &ask));
                }
            }
            _ if self.fault == Fault::IgnoresUnknownRequests && method.starts_with("$/") => {}
            _ if self.fault == Fault::AnswersOutOfOrder
                && [2, 4, 6, 8].contains(&self.lock().requests) =>
            {
                let (server, id) = (self.clone(), id.to_owned());
                thread::spawn(move || {
                    thread::sleep(Duration::from_millis(30));
                    server.error(&id, -32601);
                });
            }
            _ => self.error(id, -32601),
        }
    }

    /// Begins work, once it can be cancelled.
    fn register(self: &Arc<Self>, work: impl FnOnce() + Send + 'static) {
        let before = self.lock().registered;
        thread::spawn(work);
        // The reader goes on when the request is in the table.
        while self.lock().registered == before {
            thread::yield_now();
        }
    }

    fn initialized(&self) -> Value {
        match self.protocol {
            Protocol::Mcp => {
                let tasks = json!({ "cancel": {}, "requests": { "tools": { "call": {} } } });
                json!({ "protocolVersion": "2025-11-25", "capabilities": { "tools": {}, "tasks": tasks }, "serverInfo": { "name": "planted", "version": "1" } })
            }
            Protocol::Dap => json!({ "supportsCancelRequest": true }),
            Protocol::Lsp => json!({ "capabilities": { "foldingRangeProvider": true } }),
            _ => {
                json!({ "protocolVersion": 1, "agentCapabilities": { "cancellation": { "request": true } } })
            }
        }
    }

    /// Works for so long, or until it is cancelled.
    fn work(&self, id: &str, time: Duration, token: Option<String>) {
        let (stop, stopped) = channel();
        {
            let mut table = self.lock();
            if self.fault == Fault::DiesOfDuplicates && table.at_work.contains_key(id) {
                exit(3);
            }
            if std::mem::take(&mut table.stale) || table.early.iter().any(|early| early == id) {
                table.cancelled += 1;
                drop(stop);
            } else {
                table.at_work.insert(id.into(), stop);
            }
            let requests = table.requests;
            table.registered += 1;
            table.began.insert(id.into(), requests);
            table.lines_before = table.lines;
        }
        let is_full = self.fault == Fault::KeepsPlaces && self.lock().cancelled >= PLACES;
        if is_full || self.lock().is_held {
            return;
        }
        self.report_work("progressStart", id, token.as_deref());
        let end = Instant::now() + time;
        let mut steps = 0;
        let cancelled = self.lock().cancelled;
        let is_cancelled = loop {
            let left = end.saturating_duration_since(Instant::now());
            match stopped.recv_timeout(left.min(time / 10)) {
                Ok(()) | Err(RecvTimeoutError::Disconnected) => break true,
                Err(RecvTimeoutError::Timeout) if left.is_zero() => break false,
                Err(RecvTimeoutError::Timeout) => {
                    steps += 1;
                    if self.fault == Fault::SilencesOthers && self.lock().cancelled > cancelled {
                        continue;
                    }
                    if token.is_some() {
                        self.lock().progressed.push(id.into());
                    }
                    self.progress(token.as_deref(), steps);
                }
            }
        };
        if self.fault == Fault::IsCancelledInTheEnd {
            thread::sleep(end.saturating_duration_since(Instant::now()));
        }
        if !(is_cancelled && self.fault == Fault::NeverEndsProgress) {
            self.report_work("progressEnd", id, token.as_deref());
        }
        self.lock().end_work(id, is_cancelled.then_some(end));
        if self.fault == Fault::LosesWhatIsClosed && self.lock().is_held {
            return;
        }
        self.lock().left += usize::from(self.fault == Fault::LeavesAPart && is_cancelled);
        if self.fault == Fault::AnswersAgainBehindAnother {
            if is_cancelled && !self.lock().at_work.is_empty() {
                let again = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
                self.lock().kept.push(again);
            } else if !is_cancelled {
                self.say_kept();
            }
        }
        self.keep_outcome(token.as_deref(), is_cancelled);
        match (is_cancelled, self.protocol) {
            (false, _) if id.starts_with("\"open-") => {
                self.answer(id, &json!({ "result": self.initialized() }));
            }
            (false, _)
                if self.fault == Fault::CancelsInitialize && time < Duration::from_millis(60) =>
            {
                self.answer(id, &json!({ "result": self.initialized() }));
            }
            (false, _) if self.fault == Fault::RollsBack => {
                let lines = self.lock().lines;
                self.answer(id, &json!({ "result": vec!["line"; lines] }));
            }
            (false, _) => {
                let parts = 2 + std::mem::take(&mut self.lock().left);
                self.answer(id, &json!({ "result": { "content": vec!["done"; parts] } }));
            }
            (true, Protocol::Mcp) if self.fault == Fault::ProgressGoesOn => {
                for more in 0..20 {
                    thread::sleep(Duration::from_millis(20));
                    self.progress(token.as_deref(), steps + more);
                }
            }
            (true, Protocol::Mcp)
                if self.fault == Fault::AnswersEachEighth && self.lock().cancelled % 8 == 0 =>
            {
                self.answer(id, &json!({ "result": { "content": [] } }));
            }
            (true, Protocol::Mcp) => {}
            (true, _)
                if matches!(self.fault, Fault::NeverAnswersCancelled | Fault::BeatsInSilence) => {}
            (true, _) if self.fault == Fault::AnswersBoth => {
                let error = json!({ "code": -32800, "message": "no" });
                self.answer(id, &json!({ "result": {}, "error": error }));
            }
            (true, _) if self.fault == Fault::AnswersAgainIfNearlyDone => {
                self.error(id, -32800);
                let left = end.saturating_duration_since(Instant::now());
                if left < time * 15 / 100 {
                    thread::sleep(left);
                    self.answer(id, &json!({ "result": {} }));
                }
            }
            (true, _) if self.fault == Fault::AnswersAPart => {
                self.answer(id, &json!({ "result": {} }));
            }
            (true, _) if self.fault == Fault::AnswersANull => {
                let error = json!({ "code": -32800, "message": "no" });
                self.answer(id, &json!({ "result": null, "error": error }));
            }
            (true, _) if self.fault == Fault::AnswersAnotherError => self.error(id, -32000),
            (true, _) => self.error(id, -32800),
        }
    }

    fn progress(&self, token: Option<&str>, progress: usize) {
        if let Some(token) = token.filter(|_| self.protocol == Protocol::Mcp) {
            let params = json!({ "progressToken": token, "progress": progress });
            self.say(
                json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params })
                    .to_string(),
            );
        }
    }

    fn cancel(&self, params: Option<Value>) {
        if self.fault == Fault::DiesOfUnreadableCancels && matches!(params, Some(Value::String(_)))
        {
            exit(3);
        }
        let named = match &params {
            Some(Value::Object(members)) => members.get(self.cancel_member()).cloned(),
            _ => None,
        };
        let named = named.filter(|id| id.is_string() || id.is_i64() || id.is_u64());
        let Some(named) = named else {
            if self.fault == Fault::DiesOfMalformedCancels && params.is_none() {
                exit(3);
            }
            if self.fault == Fault::AnswersMalformedCancels {
                self.error("null", -32602);
            }
            return;
        };
        let mut id = named.to_string();
        if self.fault == Fault::HoldsItsSession {
            self.turns.hold(&id);
        }
        // Whether the turn has no response in its end.
        let is_answered = match self.fault {
            Fault::GoesOnReporting | Fault::HoldsItsSession => Some(true),
            Fault::AnswersStopAndCancel => Some(false),
            _ => None,
        };
        if is_answered.is_some_and(|is_answered| self.turns.runs(&id, is_answered)) {
            self.error(&id, -32800);
        }
        let mut table = self.lock();
        table.cancels += 1;
        let requests = table.requests;
        let before = table.before_cancel.replace(requests);
        let many = table.cancels > 40;
        let members = params.as_ref().and_then(Value::as_object).map_or(0, serde_json::Map::len);
        match self.fault {
            Fault::IgnoresCancels => return,
            Fault::HonoursTheFirst if table.cancels > 1 => return,
            Fault::ForgetsTheOldest
                if table.began.get(&id).is_some_and(|began| table.requests > began + 8) =>
            {
                return;
            }
            Fault::HonoursOneOfMany if before == Some(table.requests) => return,
            Fault::KeysByToken if table.with_token.contains(&id) => return,
            Fault::LosesWhatIsClosed if table.is_closed => {
                table.is_held = true;
            }
            Fault::RollsBack => table.lines = table.lines_before,
            Fault::CancelsTheNewest if !table.at_work.contains_key(&id) => {
                id = table.at_work.keys().max().cloned().unwrap_or(id);
            }
            Fault::HonoursSixty if table.cancels > 60 => return,
            Fault::ForgetsDuplicates if !table.early.is_empty() => return,
            Fault::CancelsAllItAsked => {
                let own: Vec<String> = table.own.keys().cloned().collect();
                drop(table);
                own.iter().for_each(|own| self.cancel_own(own));
                table = self.lock();
            }
            Fault::KnowsAllMembers if members > 1 => return,
            Fault::DiesOfManyCancels if table.cancels > 100 => exit(3),
            Fault::AnswersManyCancels if many && !table.at_work.contains_key(&id) => {
                drop(table);
                return self.error(&id, -32800);
            }
            Fault::CannotCancelZero if id == "0" => return,
            Fault::CannotCancelEmpty if id == "\"\"" => return,
            Fault::CannotCancelText if id == "\"7\"" => return,
            Fault::RoundsCancels => id = rounded(&id),
            Fault::TakesTextForNumber => id = id.trim_matches('"').to_owned(),
            Fault::MixesDirections if table.own.contains_key(&id) => {
                drop(table);
                return self.cancel_own(&id);
            }
            Fault::WedgesAfterFour if table.cancelled >= 4 => loop {
                thread::park();
            },
            Fault::LosesImmediateCancels if table.began.get(&id) == Some(&table.requests) => {
                return;
            }
            Fault::IgnoresLaterCancels
                if table.began.get(&id).is_some_and(|began| *began < table.requests)
                    || table.progressed.contains(&id) =>
            {
                return;
            }
            Fault::CancelsAll => {
                table.cancelled += 1;
                return table.at_work.clear();
            }
            _ => {}
        }
        match table.at_work.remove(&id) {
            Some(_) => {
                table.cancelled += 1;
                table.is_held |=
                    self.fault == Fault::HoldsItsLine && table.progressed.contains(&id);
                if self.fault == Fault::RemembersIds {
                    table.early.push(id);
                }
                drop(table);
                if self.fault == Fault::PausesAfterCancels {
                    thread::sleep(Duration::from_millis(1500));
                }
            }
            None => {
                let was_known = table.began.contains_key(&id);
                table.stale = self.fault == Fault::KeepsLateCancels && was_known;
                let is_early = self.fault == Fault::RemembersEarlyCancels && !was_known;
                if is_early {
                    table.early.push(id.clone());
                }
                drop(table);
                let answers = match self.fault {
                    Fault::AnswersLateCancels => id.len() < 6,
                    Fault::AnswersUnknownCancels => id == "900001",
                    _ => false,
                };
                if answers {
                    self.error(&id, -32800);
                } else if self.fault == Fault::RefusesCancelsOfNothing {
                    self.error("null", -32602);
                }
            }
        }
    }
}

fn rounded(id: &str) -> String {
    match id.parse::<u64>() {
        Ok(number) => {
            #[expect(clippy::cast_precision_loss, reason = "it is a fault that is planted")]
            let number = number as f64;
            format!("{number:.0}")
        }
        Err(_) => id.into(),
    }
}
