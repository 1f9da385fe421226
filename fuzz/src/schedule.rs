//! One host, twice: its output is drained at different times.

use std::collections::BTreeSet;
use std::time::Duration;

use protocol_core::{
    CallId, CancelRule, CancelTarget, Cancellers, Cause, Config, Dialect, Event, Params, Reply,
    RequestHandle, RevisionRule, Role, StreamConnection, Timestamp, TransmitKind,
};
use protocol_testkit::model::Told;
use protocol_testkit::{Answering, Asked, Hostile, Operation, framed};
use serde_json::value::RawValue;

use crate::bytes::Bytes;
use crate::json::Members;

/// A call by its place among all that were made, on both hosts.
type Tag = usize;

/// The first bytes choose the dialect, and when either host drains; the rest are operations, done on
/// both, up to a shutdown. What left and what happened must differ only by calls that one of them
/// could still withdraw, and by cancels that their answers overtook (G11).
pub fn schedule(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let mut config = Config::client(bytes.dialect());
    config.abandoned_grace = Duration::from_millis(40);
    config.role = bytes.pick(&[Role::Client, Role::Server]);
    let drains = [0, 1].map(|_| bytes.take(4));
    let mut hosts = [0, 1].map(|_| Host::new(config.clone()));
    let mut now = Timestamp::ZERO;
    for (step, operation) in protocol_testkit::operations(bytes.rest()).iter().enumerate() {
        if let Operation::Wait { millis } = *operation {
            now = now + Duration::from_millis(millis.into());
        }
        let is_shutdown = matches!(operation, Operation::Shutdown { .. });
        if is_shutdown {
            // What is abandoned unsent is lost, with or without a withdrawal.
            hosts.iter_mut().for_each(Host::drain);
        }
        if is_legal(&hosts, operation) {
            hosts.iter_mut().for_each(|host| host.act(operation, now));
        }
        if is_shutdown {
            // A withdrawn call lets it end earlier, and after its end nothing is read.
            break;
        }
        for (host, drains) in hosts.iter_mut().zip(drains) {
            let bits = drains.get(step / 8 % 4).copied().unwrap_or(0);
            if bits >> (step % 8) & 1 != 0 {
                host.drain();
            }
        }
    }
    hosts.iter_mut().for_each(|host| host.finish(now));
    compare(&hosts);
}

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

fn compare([one, other]: &[Host; 2]) {
    // A call that left only one of them was withdrawn from the other.
    let withdrawn: BTreeSet<Tag> = one.left.symmetric_difference(&other.left).copied().collect();
    assert_eq!(rest_of(&one.wire, &withdrawn), rest_of(&other.wire, &withdrawn), "G11: what left");
    assert_eq!(
        rest_of(&one.seen, &withdrawn),
        rest_of(&other.seen, &withdrawn),
        "G11: what happened"
    );
    for (a, b) in [(one, other), (other, one)] {
        let stray = a.cancels.iter().find(|tag| {
            !b.cancels.contains(tag) && !withdrawn.contains(tag) && !b.answered.contains(tag)
        });
        assert_eq!(stray, None, "G11: this call is cancelled by one of them only");
    }
}

/// What is not about a withdrawn call; nor that a tree has settled, which such a call may be of.
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
    /// What left, but the cancels of calls.
    wire: Vec<Line>,
    /// What happened.
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

    /// What a host does or its peer writes; the line itself is not simulated.
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
            Operation::Respond { request, answer, .. } => {
                if let Some(request) = pick(&self.requests, request) {
                    let revision = revision(&conn.config().dialect, answer);
                    let reply = match answer {
                        Answering::Result | Answering::Revision(_) => Reply::Result(raw(&revision)),
                        Answering::Error => Reply::Error { code: -1, message: "no", data: None },
                        Answering::Cancelled => Reply::Cancelled,
                    };
                    // It may be answered.
                    let _ = conn.respond(request, reply);
                }
            }
            Operation::Begin { request: place, .. } => {
                if let Some(request) = pick(&self.requests, place) {
                    // It may start no operation.
                    let _ = conn.begin_operation(request, [place; 16]);
                }
            }
            Operation::End { request, .. } => {
                if let Some(request) = pick(&self.requests, request) {
                    // It may not be ours to end.
                    let _ = conn.end_request(request, None);
                }
            }
            Operation::GiveUp { request, .. } => {
                if let Some(request) = pick(&self.requests, request) {
                    conn.cancel_request(request, Cause::Internal, now);
                }
            }
            Operation::Notify { .. } => {
                // It may be closed.
                let _ = conn.notify("note", Params::Absent);
            }
            Operation::Progress { token, .. } => {
                if let Some(rule) = conn.config().dialect.progress.first().cloned() {
                    let params = format!(r#"{{"{}":{token}}}"#, rule.token);
                    // It may be withheld.
                    let _ = conn.notify(&rule.method, Params::Raw(raw(&params)));
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
        self.note_waiting();
    }

    fn call(&mut self, asked: Asked, now: Timestamp) {
        let parent = asked.parent.and_then(|parent| pick(&self.requests, parent));
        let (options, params) = (asked.options().parent(parent), asked.params());
        let (method, params) = (asked.method.name(), Params::Raw(raw(&params)));
        let tag = self.calls.len();
        // It may be closed, or have no session.
        if let Ok(call) = self.stream.connection_mut().call(method, params, tag, options, now) {
            self.highest = self.highest.max(call.number());
            self.calls.push(call);
        }
    }

    fn receive(&mut self, bytes: &[u8], now: Timestamp) {
        let mut at = 0;
        loop {
            let taken = self.stream.receive(&bytes[at..], now);
            if let Some(event) = taken.event {
                self.note(&event);
            }
            self.note_waiting();
            if taken.used == 0 {
                return;
            }
            at += taken.used;
        }
    }

    fn note_waiting(&mut self) {
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

    fn drain(&mut self) {
        let mut out = Vec::new();
        while let Some(transmit) = self.stream.poll_transmit(&mut out) {
            let message = String::from_utf8_lossy(transmit.message(&out)).into_owned();
            match transmit.kind {
                TransmitKind::Request => {
                    let tag = self.number_in(&message, "id").and_then(|number| self.tag(number));
                    let tag = tag.expect("only calls are requests");
                    self.left.insert(tag);
                    self.wire.push(Line { about: About::Call(tag), text: format!("call {tag}") });
                }
                TransmitKind::Cancel if !self.ends_requests() => {
                    let (member, number) = self.cancelled_by(&message);
                    let tag = number.and_then(|number| self.tag(number));
                    let tag = tag.unwrap_or_else(|| panic!("{member} names no call: {message}"));
                    assert!(self.left.contains(&tag), "G4: the cancel overtook call {tag}");
                    assert!(self.cancels.insert(tag), "G4: call {tag} is cancelled twice");
                    self.highest = self.highest.max(self.number_in(&message, "id").unwrap_or(0));
                }
                _ => self.wire.push(Line { about: About::Else, text: message }),
            }
            out.clear();
        }
    }

    /// Whether its cancels name requests of the peer's, which it ends.
    fn ends_requests(&self) -> bool {
        let config = self.stream.connection().config();
        config.role == Role::Server
            && matches!(config.dialect.cancellers, Cancellers::Client { .. })
    }

    fn cancelled_by<'s>(&'s self, message: &str) -> (&'s str, Option<u32>) {
        let member = match &self.stream.connection().config().dialect.cancel {
            CancelRule::Notification { id, .. } => id,
            CancelRule::Request { target: CancelTarget::Id { member }, .. } => member,
            rule => panic!("{rule:?} writes a cancel"),
        };
        let message = Members::of(message.as_bytes()).expect("we write objects");
        let params = message.get("params").or(message.get("payload")).unwrap_or("{}");
        (member, self.number_in(params, member))
    }

    /// The number that an id of ours says, as a number or, in some dialects, as a string.
    fn number_in(&self, object: &str, member: &str) -> Option<u32> {
        let id = Members::of(object.as_bytes())?.get(member)?;
        id.trim_matches('"').parse().ok()
    }

    /// Everything leaves, the peer hangs up, and the host answers all that it owes.
    fn finish(&mut self, now: Timestamp) {
        self.drain();
        self.stream.finish(&[], now);
        self.note_waiting();
        self.drain();
    }
}

/// A result that names the revision of this place in the dialect's list, if it asks for one.
fn revision(dialect: &Dialect, answer: Answering) -> String {
    let (Answering::Revision(place), RevisionRule::Negotiated { revisions, .. }) =
        (answer, &dialect.revisions)
    else {
        return "{}".into();
    };
    let version = &revisions[usize::from(place) % revisions.len()].version;
    format!(r#"{{"protocolVersion":"{version}","supportedVersions":["{version}"]}}"#)
}

fn pick<T: Copy>(from: &[T], place: u8) -> Option<T> {
    from.get(usize::from(place).checked_rem(from.len())?).copied()
}

fn raw(json: &str) -> &RawValue {
    serde_json::from_str(json).expect("it is written as JSON")
}
