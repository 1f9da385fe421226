//! A host for the tests. It commands one connection, and reports the events as plain lines.
//!
//! A call's data is its method, so a line about a call shows that its own data came back. Requests are named by
//! their number: r1, r2, …
#![allow(dead_code, reason = "`f81_growth` is a program of its own, and uses some of this")]

pub(crate) mod colliding;
mod hostile;
pub(crate) mod world;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use protocol_core::{
    CallId, CallOptions, CancelOutcome, Cause, Config, Connection, Dialect, Event, Refusal,
    RequestHandle, Response, Shutdown, StreamConnection, Timestamp, TransmitKind,
};
use serde_json::value::RawValue;

pub(crate) struct Host {
    pub(crate) conn: Connection<String, u32>,
    pub(crate) now: Timestamp,
    requests: Vec<RequestHandle>,
}

pub(crate) fn acp() -> Host {
    Host::new(Config::server(Dialect::ACP_V1))
}

pub(crate) fn lsp() -> Host {
    Host::new(Config::server(Dialect::LSP_3_17))
}

pub(crate) fn jsonrpc() -> Host {
    Host::new(Config::server(Dialect::JSON_RPC))
}

/// Returns a host of ACP with other limits.
pub(crate) fn limited(change: impl FnOnce(&mut Config)) -> Host {
    let mut config = Config::server(Dialect::ACP_V1);
    change(&mut config);
    Host::new(config)
}

impl Host {
    pub(crate) fn new(config: Config) -> Self {
        Self { conn: Connection::new(config), now: Timestamp::ZERO, requests: Vec::new() }
    }

    // Calls

    pub(crate) fn try_call(
        &mut self,
        method: &str,
        options: CallOptions,
    ) -> Result<CallId, Refusal> {
        self.try_call_with(method, None, options)
    }

    pub(crate) fn try_call_with(
        &mut self,
        method: &str,
        params: Option<&RawValue>,
        options: CallOptions,
    ) -> Result<CallId, Refusal> {
        self.conn.call(method, params, method.into(), options, self.now).map_err(|refused| {
            assert_eq!(refused.data, method, "a refused call gives its data back");
            refused.reason
        })
    }

    pub(crate) fn call_with(&mut self, method: &str, options: CallOptions) -> CallId {
        self.try_call(method, options).expect("the call is taken")
    }

    pub(crate) fn call(&mut self, method: &str) -> CallId {
        self.call_with(method, CallOptions::default())
    }

    /// Makes a call, and lets its request leave.
    pub(crate) fn sent_call(&mut self, method: &str) -> CallId {
        self.sent_call_with(method, CallOptions::default())
    }

    pub(crate) fn sent_call_with(&mut self, method: &str, options: CallOptions) -> CallId {
        let call = self.call_with(method, options);
        self.sent();
        call
    }

    pub(crate) fn cancel(&mut self, call: CallId) -> CancelOutcome {
        self.cancel_for(call, Cause::Caller)
    }

    pub(crate) fn cancel_for(&mut self, call: CallId, cause: Cause) -> CancelOutcome {
        self.conn.cancel(call, cause, self.now)
    }

    // Requests

    /// Returns the handle of the request with this number.
    pub(crate) fn request(&self, number: usize) -> RequestHandle {
        self.requests[number - 1]
    }

    /// Receives a request of the peer's with this id, and returns its handle.
    pub(crate) fn peer_requests(&mut self, id: &str) -> RequestHandle {
        let events = self.receive(&request(id, "work"));
        assert!(events.iter().any(|event| event.starts_with("request ")), "{events:?}");
        *self.requests.last().expect("just accepted")
    }

    pub(crate) fn respond(
        &mut self,
        request: RequestHandle,
        reply: Response<'_>,
    ) -> Result<u32, Refusal> {
        self.conn.respond(request, reply)
    }

    pub(crate) fn respond_ok(&mut self, request: RequestHandle) {
        self.respond(request, Response::Result(raw("null"))).expect("the answer is taken");
    }

    // Inputs

    pub(crate) fn receive(&mut self, message: &str) -> Vec<String> {
        self.receive_bytes(message.as_bytes())
    }

    pub(crate) fn receive_bytes(&mut self, message: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        let mut next = self.conn.receive(message, self.now);
        while let Some(event) = next {
            if let Event::Request { request, .. } = &event {
                self.requests.push(*request);
            }
            lines.push(line(&event));
            next = self.conn.poll_event();
        }
        lines
    }

    /// Lets time pass; due timers fire at its end.
    pub(crate) fn advance(&mut self, millis: u64) -> Vec<String> {
        self.now = self.now + Duration::from_millis(millis);
        self.conn.handle_timeout(self.now);
        self.events()
    }

    pub(crate) fn eof(&mut self) -> Vec<String> {
        self.conn.handle_eof(self.now);
        self.events()
    }

    pub(crate) fn shutdown(&mut self, how: Shutdown) -> Vec<String> {
        self.conn.shutdown(how, self.now);
        self.events()
    }

    // Outputs

    pub(crate) fn events(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.conn.poll_event()).map(|event| line(&event)).collect()
    }

    /// Sends everything that waits, and returns it.
    pub(crate) fn sent(&mut self) -> Vec<String> {
        self.sent_with_kinds().into_iter().map(|(_, message)| message).collect()
    }

    pub(crate) fn sent_with_kinds(&mut self) -> Vec<(TransmitKind, String)> {
        std::iter::from_fn(|| self.send_one()).collect()
    }

    pub(crate) fn send_one(&mut self) -> Option<(TransmitKind, String)> {
        let next = self.conn.next_transmit_len();
        let mut message = Vec::new();
        let transmit = self.conn.poll_transmit(&mut message);
        assert_eq!(next, transmit.map(|it| it.len), "the announced length of the next message");
        let transmit = transmit?;
        assert_eq!(transmit.len, message.len());
        Some((transmit.kind, String::from_utf8(message).expect("our messages are UTF-8")))
    }

    pub(crate) fn next_timer(&self) -> Option<(u64, &'static str)> {
        let (due, reason) = self.conn.poll_timeout()?;
        let reason = match reason {
            protocol_core::TimerReason::Deadline => "deadline",
            protocol_core::TimerReason::IdleTimeout => "idle_timeout",
            protocol_core::TimerReason::HardCap => "hard_cap",
            protocol_core::TimerReason::Grace => "grace",
            _ => "another",
        };
        Some((due.as_millis(), reason))
    }

    /// Returns all that a refused command must leave as it was (G10).
    pub(crate) fn state(&self) -> (u64, usize, Option<usize>) {
        let conn = &self.conn;
        (fingerprint(conn.machine()), conn.unsent_bytes(), conn.next_transmit_len())
    }

    pub(crate) fn in_flight(&self) -> (usize, usize) {
        (self.conn.machine().calls_in_flight(), self.conn.machine().requests_in_flight())
    }
}

/// Returns a hash of everything that decides a machine's future.
pub(crate) fn fingerprint(machine: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    machine.hash(&mut hasher);
    hasher.finish()
}

/// Returns all events of a message.
pub(crate) fn all<O, I: Default>(
    conn: &mut Connection<O, I>,
    message: &[u8],
    now: Timestamp,
) -> Vec<Event<'static, O>> {
    let first = conn.receive(message, now).map(Event::into_owned);
    first.into_iter().chain(std::iter::from_fn(|| conn.poll_event())).collect()
}

/// Receives the beginning of these bytes. Returns the number of bytes that were used, and all events as lines.
pub(crate) fn take(
    stream: &mut StreamConnection<String>,
    unread: &[u8],
    now: Timestamp,
) -> (usize, Vec<String>) {
    let received = stream.receive(unread, now);
    let mut lines: Vec<String> = received.event.iter().map(line).collect();
    lines.extend(std::iter::from_fn(|| stream.connection_mut().poll_event()).map(|e| line(&e)));
    (received.consumed, lines)
}

/// Returns an event as a line.
pub(crate) fn line(event: &Event<'_, String>) -> String {
    match event {
        Event::Request { request, id, method, params, .. } => {
            let params = params.as_ref().map_or(String::new(), |params| format!(" {params}"));
            format!("request r{} {id} {method}{params}", request.number())
        }
        Event::Notification { method, params } => {
            let params = params.as_ref().map_or(String::new(), |params| format!(" {params}"));
            format!("notification {method}{params}")
        }
        Event::Cancelled { request, cause, .. } => {
            format!("cancelled r{} {cause}", request.number())
        }
        Event::Settled { outcome, data, .. } => {
            let cause = outcome.cause().map_or(String::new(), |cause| format!(" {cause}"));
            let value = outcome.value().map_or(String::new(), |value| format!(" {value}"));
            format!("settled {data} {}{cause}{value}", outcome.settlement().as_str())
        }
        Event::TreeSettled { request } => format!("tree_settled r{}", request.number()),
        Event::Violation { violation, id } => {
            let id = id.as_ref().map_or(String::new(), |id| format!(" {id}"));
            format!("violation {}{id}", violation.as_str())
        }
        Event::Ready => "ready".into(),
        Event::Closed { reason } => format!("closed {reason}"),
        other => format!("{other:?}"),
    }
}

// What a peer writes

pub(crate) fn raw(json: &str) -> &RawValue {
    serde_json::from_str(json).expect("a JSON value")
}

pub(crate) fn request(id: &str, method: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#)
}

pub(crate) fn result(id: &str, value: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{value}}}"#)
}

pub(crate) fn error(id: &str, code: i64) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"no"}}}}"#)
}

/// ACP's cancel.
pub(crate) fn cancel(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"$/cancel_request","params":{{"requestId":{id}}}}}"#)
}

pub(crate) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
