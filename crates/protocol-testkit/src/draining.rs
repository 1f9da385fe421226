//! One host, twice: its outputs are drained at different times (G11).

use std::collections::BTreeSet;
use std::time::Duration;

use protocol_core::{
    CallId, CancelRule, Cancellers, Cause, Config, Event, RequestHandle, Response, Role,
    StreamConnection, Timestamp, TransmitKind,
};
use serde_json::Value;

use crate::guarantee::{Broken, Guarantee};
use crate::hostile::{Hostile, framed};
use crate::model::{Told, cancel_member};
use crate::operation::{Answering, Asked, Operation, pick, raw};

/// Does the same operations to two equal connections, up to a shutdown, and drains them at different times. A
/// bit of each number says whether its connection is drained behind the operation at that place, modulo 32.
///
/// The two may differ only by calls that one of them could still withdraw, and by the places of cancels, which
/// overtake waiting messages. A cancel may also be missing if the answer to its call came before the cancel had
/// left.
///
/// ```
/// use protocol_core::{Config, Dialect};
/// use protocol_testkit::{judge_draining, operations};
///
/// let config = Config::client(Dialect::ACP_V1);
/// let operations = operations(b"any bytes at all make some operations");
/// judge_draining(&config, [0, u32::MAX], &operations)?;
/// # Ok::<(), protocol_testkit::Broken>(())
/// ```
///
/// # Errors
///
/// G11. G4 if a cancel overtakes its own request, or is the second.
pub fn judge_draining(
    config: &Config,
    drains: [u32; 2],
    operations: &[Operation],
) -> Result<(), Broken> {
    let mut hosts = [0, 1].map(|_| Host::new(config.clone()));
    let mut now = Timestamp::ZERO;
    for (place, operation) in (0_u32..).zip(operations) {
        if let Operation::Wait { millis } = *operation {
            now = now + Duration::from_millis(millis.into());
        }
        let is_shutdown = matches!(operation, Operation::Shutdown { .. });
        if is_shutdown {
            // Messages that are abandoned unsent are lost, with or without a withdrawal.
            hosts.iter_mut().try_for_each(Host::drain)?;
        }
        if is_legal(&hosts, operation) {
            hosts.iter_mut().for_each(|host| host.act(operation, now));
        }
        if is_shutdown {
            // A withdrawn call lets it end earlier, and after its end nothing is read.
            break;
        }
        for (host, drains) in hosts.iter_mut().zip(drains) {
            if drains >> (place % 32) & 1 == 1 {
                host.drain()?;
            }
        }
    }
    hosts.iter_mut().try_for_each(|host| host.finish(now))?;
    compare(&hosts)
}

/// A call by its place among all that were made, on both hosts.
type Tag = usize;

/// Whether the peers of both hosts could do it: none answers or names a call that has not left.
fn is_legal([one, other]: &[Host; 2], operation: &Operation) -> bool {
    let Operation::Hostile { id, .. } = operation else { return true };
    let id = Hostile::id(*id).trim_matches('"').replace("\\u003", "");
    let Ok(number) = id.parse::<u32>() else { return true };
    let is_unused = number > one.highest && number > other.highest;
    is_unused
        || one.tag(number).is_some_and(|tag| {
            other.tag(number) == Some(tag) && one.left.contains(&tag) && other.left.contains(&tag)
        })
}

fn compare([one, other]: &[Host; 2]) -> Result<(), Broken> {
    // A call that left only one of them was withdrawn from the other.
    let withdrawn: BTreeSet<Tag> = one.left.symmetric_difference(&other.left).copied().collect();
    let same = |what: &str, [one, other]: [&[Line]; 2]| {
        let (one, other) = (rest_of(one, &withdrawn), rest_of(other, &withdrawn));
        Broken::unless(one == other, Guarantee::G11, || {
            format!("{what}, drained at other times: {one:?} and {other:?}")
        })
    };
    same("what left", [&one.wire, &other.wire])?;
    same("what happened", [&one.seen, &other.seen])?;
    [(one, other), (other, one)].into_iter().try_for_each(|(a, b)| {
        let stray = a.cancels.iter().find(|tag| {
            !b.cancels.contains(tag) && !withdrawn.contains(tag) && !b.answered.contains(tag)
        });
        Broken::unless(stray.is_none(), Guarantee::G11, || {
            format!("call {stray:?} is cancelled only where outputs were drained at one time")
        })
    })
}

/// Returns the lines that are not about a withdrawn call. If a call was withdrawn, those about settled trees go
/// too: the call may be part of one.
fn rest_of<'a>(lines: &'a [Line], withdrawn: &BTreeSet<Tag>) -> Vec<&'a str> {
    let is_other = |line: &&Line| match line.about {
        About::Call(tag) => !withdrawn.contains(&tag),
        About::Tree => withdrawn.is_empty(),
        About::Else => true,
    };
    lines.iter().filter(is_other).map(|line| &*line.text).collect()
}

struct Line {
    about: About,
    text: String,
}

#[derive(Clone, Copy)]
enum About {
    Call(Tag),
    Tree,
    Else,
}

struct Host {
    stream: StreamConnection<Tag>,
    /// By their tags, and the number that each has on the wire.
    calls: Vec<CallId>,
    requests: Vec<RequestHandle>,
    /// The highest number on the wire.
    highest: u32,
    /// The calls that have left.
    left: BTreeSet<Tag>,
    /// The calls whose cancel has left.
    cancels: BTreeSet<Tag>,
    /// The calls that were answered.
    answered: BTreeSet<Tag>,
    /// The messages that left, without the cancels of calls.
    wire: Vec<Line>,
    /// Everything that the host saw happen, in order.
    seen: Vec<Line>,
}

impl Host {
    fn new(config: Config) -> Self {
        Self {
            stream: StreamConnection::new(config),
            calls: Vec::new(),
            requests: Vec::new(),
            highest: 0,
            left: BTreeSet::new(),
            cancels: BTreeSet::new(),
            answered: BTreeSet::new(),
            wire: Vec::new(),
            seen: Vec::new(),
        }
    }

    fn tag(&self, number: u32) -> Option<Tag> {
        self.calls.iter().position(|call| call.number() == number)
    }

    /// Does what a host does or its peer writes. The line itself is not simulated. An operation that is too
    /// late or not ours is refused by both connections.
    fn act(&mut self, operation: &Operation, now: Timestamp) {
        let conn = self.stream.connection_mut();
        match *operation {
            Operation::Call { asked, .. } => self.call(asked, now),
            Operation::Cancel { call, cause, .. } => {
                if let Some(call) = pick(&self.calls, call) {
                    conn.cancel(call, cause, now);
                }
            }
            Operation::Detach { call, .. } => {
                if let Some(call) = pick(&self.calls, call) {
                    conn.detach(call, now);
                }
            }
            Operation::Respond { request, answer, .. } => self.respond(request, answer),
            Operation::Begin { request: place, .. } => {
                if let Some(request) = pick(&self.requests, place) {
                    let _ = conn.begin_operation(request, [place; 16]);
                }
            }
            Operation::End { request, .. } => {
                if let Some(request) = pick(&self.requests, request) {
                    let _ = conn.end_request(request, None);
                }
            }
            Operation::GiveUp { request, .. } => {
                if let Some(request) = pick(&self.requests, request) {
                    conn.cancel_request(request, Cause::Internal, now);
                }
            }
            Operation::Notify { .. } => {
                let _ = conn.notify("note", None);
            }
            Operation::Progress { token, .. } => {
                if let Some(rule) = conn.config().dialect.progress.first().cloned() {
                    let params = format!(r#"{{"{}":{token}}}"#, rule.token);
                    let _ = conn.notify(&rule.method, Some(raw(&params)));
                }
            }
            Operation::Hostile { message, id, .. } => {
                let dialect = &conn.config().dialect;
                let bytes = framed(&message.message(Hostile::id(id), dialect), dialect.framing);
                self.receive(&bytes, now);
            }
            Operation::Wait { .. } => conn.handle_timeout(now),
            Operation::Shutdown { how, .. } => conn.shutdown(how, now),
            Operation::Drain { .. }
            | Operation::Arrive { .. }
            | Operation::HangUp { .. }
            // Routed by the host: it is about no call of this connection.
            | Operation::SendCancel { .. }
            | Operation::Cut => {}
        }
        self.poll_events();
    }

    fn call(&mut self, asked: Asked, now: Timestamp) {
        let parent = asked.parent.and_then(|parent| pick(&self.requests, parent));
        let (options, params) = (asked.options().parent(parent), asked.params());
        let (method, params) = (asked.method.name(), Some(raw(&params)));
        let tag = self.calls.len();
        // It may be closed, or have no session.
        if let Ok(call) = self.stream.connection_mut().call(method, params, tag, options, now) {
            self.highest = self.highest.max(call.number());
            self.calls.push(call);
        }
    }

    fn respond(&mut self, request: u8, answer: Answering) {
        let Some(request) = pick(&self.requests, request) else { return };
        let conn = self.stream.connection_mut();
        let result = answer.result(&conn.config().dialect);
        let reply = match answer {
            Answering::Result | Answering::Revision(_) => Response::Result(raw(&result)),
            Answering::Error => Response::Error { code: -1, message: "no", data: None },
            Answering::Cancelled => Response::Cancelled,
        };
        let _ = conn.respond(request, reply);
    }

    fn receive(&mut self, bytes: &[u8], now: Timestamp) {
        let mut at = 0;
        loop {
            let received = self.stream.receive(&bytes[at..], now);
            let consumed = received.consumed;
            if let Some(event) = received.event {
                self.note(&event);
            }
            self.poll_events();
            if consumed == 0 {
                return;
            }
            at += consumed;
        }
    }

    fn poll_events(&mut self) {
        while let Some(event) = self.stream.connection_mut().poll_event() {
            self.note(&event);
        }
    }

    fn note(&mut self, event: &Event<'_, Tag>) {
        let text = match event {
            // Cancels that are requests take numbers, so calls may have different ones.
            Event::Settled { outcome, .. } => format!("{outcome:?}"),
            event => format!("{:?}", Told::of(event)),
        };
        let about = match event {
            Event::Settled { data: tag, outcome, .. } => {
                if outcome.cause().is_none() || outcome.value().is_some() {
                    self.answered.insert(*tag);
                }
                About::Call(*tag)
            }
            Event::TreeSettled { .. } => About::Tree,
            Event::Request { request, .. } => {
                self.requests.push(*request);
                About::Else
            }
            _ => About::Else,
        };
        // When it is over depends on what is in flight.
        if !matches!(event, Event::Closed { .. }) {
            self.seen.push(Line { about, text });
        }
    }

    fn drain(&mut self) -> Result<(), Broken> {
        let mut out = Vec::new();
        while let Some(transmit) = self.stream.poll_transmit(&mut out) {
            let text = String::from_utf8_lossy(transmit.message(&out)).into_owned();
            match transmit.kind {
                TransmitKind::Request => {
                    let tag = number_of(&message(&text)).and_then(|number| self.tag(number));
                    let tag = tag.expect("only calls are requests");
                    self.left.insert(tag);
                    self.wire.push(Line { about: About::Call(tag), text: format!("call {tag}") });
                }
                TransmitKind::Cancel if !self.ends_requests() => self.has_left(&text)?,
                _ => self.wire.push(Line { about: About::Else, text: without_number(text) }),
            }
            out.clear();
        }
        Ok(())
    }

    /// Whether its cancels name requests of the peer's, which it ends.
    fn ends_requests(&self) -> bool {
        let config = self.stream.connection().config();
        config.role == Role::Server
            && matches!(config.dialect.cancellers, Cancellers::Client { .. })
    }

    /// A cancel of ours has left.
    fn has_left(&mut self, cancel: &str) -> Result<(), Broken> {
        let (message, dialect) = (message(cancel), &self.stream.connection().config().dialect);
        let member = match (&dialect.cancel, message["method"].as_str()) {
            (CancelRule::Request { id: member, .. }, _) => Some(&**member),
            (_, method) => method.and_then(|method| cancel_member(dialect, method)),
        };
        let params = ["params", "payload", "arguments"].into_iter().find_map(|it| message.get(it));
        let params = params.unwrap_or(&Value::Null);
        let named = member.map_or(&Value::Null, |member| &params[member]);
        let tag = number_in(named).and_then(|number| self.tag(number));
        let tag = tag.unwrap_or_else(|| panic!("a cancel names no call: {cancel}"));
        let is_behind = self.left.contains(&tag);
        Broken::unless(is_behind && self.cancels.insert(tag), Guarantee::G4, || {
            format!("the cancel of call {tag} overtook it, or is the second")
        })?;
        self.highest = self.highest.max(number_of(&message).unwrap_or(0));
        Ok(())
    }

    /// Everything leaves, the peer hangs up, and what that makes leaves too.
    fn finish(&mut self, now: Timestamp) -> Result<(), Broken> {
        self.drain()?;
        self.stream.handle_eof(&[], now);
        self.poll_events();
        self.drain()
    }
}

fn message(text: &str) -> Value {
    serde_json::from_str(text).expect("a connection writes JSON")
}

/// The number of a request or a cancel of ours.
fn number_of(message: &Value) -> Option<u32> {
    number_in(message.get("id").unwrap_or(&message["seq"]))
}

/// Without the number that every message has in DAP: it counts the cancels that went before.
fn without_number(text: String) -> String {
    let behind = text.strip_prefix(r#"{"seq":"#).and_then(|text| text.split_once(','));
    behind.map_or(text.clone(), |(_, text)| format!("{{{text}"))
}

/// The number that an id of ours says, as a number or, in some dialects, as a string.
fn number_in(id: &Value) -> Option<u32> {
    id.to_string().trim_matches('"').parse().ok()
}
