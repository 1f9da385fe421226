//! A connection that is driven line by line.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use protocol_core::{
    CallId, CallOptions, CancelOutcome, Cause, Connection, Event, Grace, InputBuffer, Refusal,
    RequestHandle, Role, StreamConnection, Timestamp,
};

use super::args::{Side, StepArgs};
use super::command::{Call, Command, Input, Notify};
use super::error::InputProblem;
use super::output;

/// The state of `rescind step` between two lines.
///
/// Every accepted call has a name: its own by `as`, or `c` and its number among them. If that name is taken, the next
/// free number counts.
#[derive(Debug)]
pub struct Session {
    /// Each call carries its name.
    connection: StreamConnection<String>,
    /// Stream bytes that are no whole message yet.
    unread: InputBuffer,
    /// Milliseconds; never runs backwards.
    now: u64,
    /// Every call that was ever accepted: a name never comes to mean another call.
    calls: BTreeMap<String, CallId>,
    /// Every request that was ever accepted, in order.
    requests: Vec<RequestHandle>,
    /// The number of them that began their operation, or start none.
    begun: usize,
    /// The seed for the tokens of operations.
    seed: u64,
    /// Whether messages stay in the outbox.
    is_held: bool,
}

impl Session {
    /// A session in which nothing happened, at time 0.
    #[must_use]
    pub fn new(args: &StepArgs) -> Self {
        let role = match args.side {
            Side::Client => Role::Client,
            Side::Server => Role::Server,
        };
        Self {
            connection: StreamConnection::new(args.dialect.spoken().config(role)),
            unread: InputBuffer::new(),
            now: 0,
            calls: BTreeMap::new(),
            requests: Vec::new(),
            begun: 0,
            seed: args.seed,
            is_held: false,
        }
    }

    /// Takes one line and appends what came of it to `out`: first the events in order, then the
    /// messages in order. A blank line does nothing.
    ///
    /// # Errors
    ///
    /// The problem with the line. Nothing happened then.
    pub fn take(&mut self, line: &[u8], out: &mut Vec<u8>) -> Result<(), InputProblem> {
        let Some(Input { at, command }) = Input::parse(line)? else { return Ok(()) };
        if let Some(at) = at {
            if at < self.now {
                let now = self.now;
                return Err(InputProblem::new(format!(
                    "at {at} is in the past, it is {now}; time never runs backwards"
                )));
            }
            self.move_time(at, out);
        }
        self.command(command, out);
        self.begin_operations(out);
        self.take_events(out);
        self.take_transmits(out);
        Ok(())
    }

    fn command(&mut self, command: Command<'_>, out: &mut Vec<u8>) {
        let now = self.timestamp();
        match command {
            Command::Receive(message) => {
                let event = self.connection.connection_mut().receive(message.0.as_bytes(), now);
                if let Some(event) = event {
                    tell(&event, &mut self.requests, out);
                }
                self.take_events(out);
            }
            Command::Bytes(bytes) => self.receive_bytes(&bytes, out),
            Command::Call(call) => self.call(&call, out),
            Command::Notify(notify) => self.notify(&notify, out),
            Command::Cancel(name, reason) => self.on_call(&name, out, |connection, call| {
                Some(connection.cancel_because(call, Cause::Caller, reason.as_deref(), now))
            }),
            Command::Drop(name) => self.on_call(&name, out, |connection, call| {
                // Nobody waits for the word that it is released later.
                connection.cancel(call, Cause::Dropped, now);
                None
            }),
            Command::Detach(name) => self.on_call(&name, out, |connection, call| {
                connection.detach(call, now);
                None
            }),
            Command::Respond(respond) => {
                let reply = respond.reply().expect("Input::parse lets only one answer through");
                self.on_request(&respond.request, out, |connection, request| {
                    connection.respond(request, reply)
                });
            }
            Command::End(name, reason) => self.on_request(&name, out, |connection, request| {
                connection.end_request(request, reason.as_deref())
            }),
            Command::Advance(millis) => self.move_time(self.now.saturating_add(millis), out),
            Command::Hold => self.is_held = true,
            Command::Drain => self.is_held = false,
            Command::Eof => self.finish(out),
            Command::Shutdown(how) => self.connection.connection_mut().shutdown(how, now),
        }
    }

    /// Lets time pass, and each timer fire when it is due.
    fn move_time(&mut self, to: u64, out: &mut Vec<u8>) {
        let target = Timestamp::from_millis(to);
        while let Some((due, _)) = self.connection.connection().poll_timeout() {
            if due > target {
                break;
            }
            self.connection.connection_mut().handle_timeout(due);
            self.take_events(out);
        }
        self.now = to;
    }

    fn receive_bytes(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.unread.extend_from_slice(bytes);
        let now = self.timestamp();
        loop {
            let received = self.connection.receive(self.unread.unread(), now);
            let consumed = received.consumed;
            if let Some(event) = received.event {
                tell(&event, &mut self.requests, out);
            }
            self.take_events(out);
            if consumed == 0 {
                return;
            }
            self.unread.consume(consumed);
        }
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        let now = self.timestamp();
        self.connection.handle_eof(self.unread.unread(), now);
        self.unread = InputBuffer::new();
        self.take_events(out);
    }

    fn call(&mut self, call: &Call<'_>, out: &mut Vec<u8>) {
        let mut number = self.calls.len() + 1;
        while self.calls.contains_key(&format!("c{number}")) {
            number += 1;
        }
        let name = call.name.clone().unwrap_or_else(|| format!("c{number}"));
        let Entry::Vacant(entry) = self.calls.entry(name.clone()) else {
            return output::refused("name_taken", "call", &name, out);
        };
        let parent = call.parent.as_deref().map(|parent| request(&self.requests, parent));
        if parent == Some(None) {
            return output::refused("unknown_parent", "call", &name, out);
        }
        let options = CallOptions::default()
            .timeout(call.timeout_ms.map(Duration::from_millis))
            .idle_timeout(call.idle_ms.map(Duration::from_millis))
            .hard_cap(call.cap_ms.map(Duration::from_millis))
            .grace(call.grace_ms.map(Duration::from_millis).map(Grace::Settle))
            .parent(parent.flatten());
        let now = Timestamp::from_millis(self.now);
        let connection = self.connection.connection_mut();
        match connection.call(&call.method, call.params, name, options, now) {
            Ok(id) => {
                entry.insert(id);
            }
            Err(refused) => output::refused(refused.reason.as_str(), "call", &refused.data, out),
        }
    }

    fn notify(&mut self, notify: &Notify<'_>, out: &mut Vec<u8>) {
        let connection = self.connection.connection_mut();
        if let Err(reason) = connection.notify(&notify.method, notify.params) {
            output::refused(reason.as_str(), "method", &notify.method, out);
        }
    }

    /// Answers each new request that starts an operation with its token.
    fn begin_operations(&mut self, out: &mut Vec<u8>) {
        for &request in &self.requests[self.begun..] {
            let entropy = entropy(self.seed, request.number());
            match self.connection.connection_mut().begin_operation(request, entropy) {
                Ok(_) | Err(Refusal::NoOperation | Refusal::AlreadyResponded) => {}
                Err(refusal) => {
                    let name = output::request_name(request);
                    output::refused(refusal.as_str(), "request", &name, out);
                }
            }
        }
        self.begun = self.requests.len();
    }

    /// Does something to a request that was accepted, responded to or not.
    fn on_request(
        &mut self,
        name: &str,
        out: &mut Vec<u8>,
        act: impl FnOnce(&mut Connection<String>, RequestHandle) -> Result<(), Refusal>,
    ) {
        let Some(request) = request(&self.requests, name) else {
            return output::refused("unknown_request", "request", name, out);
        };
        if let Err(refusal) = act(self.connection.connection_mut(), request) {
            output::refused(refusal.as_str(), "request", name, out);
        }
    }

    /// Does something to a call that was accepted, settled or not.
    fn on_call(
        &mut self,
        name: &str,
        out: &mut Vec<u8>,
        act: impl FnOnce(&mut Connection<String>, CallId) -> Option<CancelOutcome>,
    ) {
        let Some(&call) = self.calls.get(name) else {
            return output::refused("unknown_call", "call", name, out);
        };
        if let Some(CancelOutcome::Refused(why)) = act(self.connection.connection_mut(), call) {
            output::refused(why.as_str(), "call", name, out);
        }
    }

    fn take_events(&mut self, out: &mut Vec<u8>) {
        while let Some(event) = self.connection.connection_mut().poll_event() {
            tell(&event, &mut self.requests, out);
        }
    }

    fn take_transmits(&mut self, out: &mut Vec<u8>) {
        if self.is_held {
            return;
        }
        let mut message = Vec::new();
        while let Some(transmit) = self.connection.connection_mut().poll_transmit(&mut message) {
            output::send(&message, transmit.kind, out);
            message.clear();
        }
    }

    fn timestamp(&self) -> Timestamp {
        Timestamp::from_millis(self.now)
    }
}

/// Sixteen bytes that look random and are the same every time (`SplitMix64`). Real tokens need real
/// entropy.
fn entropy(seed: u64, number: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    for (half, bytes) in (0_u64..).zip(bytes.chunks_exact_mut(8)) {
        let steps = number.wrapping_mul(2).wrapping_add(half).wrapping_add(1);
        let mut mixed = seed.wrapping_add(steps.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bytes.copy_from_slice(&(mixed ^ (mixed >> 31)).to_be_bytes());
    }
    bytes
}

/// Writes an event, and remembers the request that it may bring.
fn tell(event: &Event<'_, String>, requests: &mut Vec<RequestHandle>, out: &mut Vec<u8>) {
    if let Event::Request { request, .. } = event {
        requests.push(*request);
    }
    output::event(event, out);
}

/// The request of that name.
fn request(requests: &[RequestHandle], name: &str) -> Option<RequestHandle> {
    let number: usize = name.strip_prefix('r')?.parse().ok()?;
    let handle = *requests.get(number.checked_sub(1)?)?;
    (output::request_name(handle) == name).then_some(handle)
}
