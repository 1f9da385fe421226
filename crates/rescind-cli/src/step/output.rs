//! One line of output.

use protocol_core::{Event, RequestHandle, TransmitKind, WireId};
use serde_json::value::RawValue;

/// Writes an event as a line. It writes nothing for the events that only tell a host when to go on
/// (`TreeSettled`, `Ready`): here the next line does.
pub(super) fn event(event: &Event<'_, String>, out: &mut Vec<u8>) {
    match event {
        Event::Request { request, id, method, params, options } => {
            let line = Line::begin(out, "event", "request");
            let line = line.text("request", &request_name(*request)).raw("id", id);
            let line = line.text("method", method);
            let line = line.optional("params", params.as_deref().map(RawValue::get));
            line.optional("options", options.as_deref().map(RawValue::get)).end();
        }
        Event::Notification { method, params } => {
            let line = Line::begin(out, "event", "notification").text("method", method);
            line.optional("params", params.as_deref().map(RawValue::get)).end();
        }
        Event::Cancelled { request, cause, reason } => {
            let line = Line::begin(out, "event", "cancelled");
            let line = line.text("request", &request_name(*request));
            let line = line.text("cause", cause.as_str());
            match reason {
                Some(reason) => line.text("reason", reason).end(),
                None => line.end(),
            }
        }
        Event::Settled { outcome, data: name, .. } => {
            let line = Line::begin(out, "event", "settled").text("call", name);
            let line = line.text("outcome", outcome.settlement().as_str());
            let line = line.optional("value", outcome.value().map(RawValue::get));
            match outcome.cause() {
                Some(cause) => line.text("cause", cause.as_str()).end(),
                None => line.end(),
            }
        }
        Event::Violation { violation, id } => {
            let line = Line::begin(out, "event", "violation").text("kind", violation.as_str());
            line.optional("id", id.as_ref().map(WireId::as_json)).end();
        }
        Event::Closed { reason } => {
            Line::begin(out, "event", "closed").text("reason", reason.as_str()).end();
        }
        _ => {}
    }
}

/// A message that leaves.
pub(super) fn send(message: &[u8], kind: TransmitKind, out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"send":"#);
    let line = Line { out };
    line.out.extend_from_slice(message);
    line.text("kind", kind.as_str()).end();
}

/// A command that can't be taken, and what it was about.
pub(super) fn refused(reason: &str, member: &str, name: &str, out: &mut Vec<u8>) {
    Line::begin(out, "refused", reason).text(member, name).end();
}

/// Returns the name that a session has for a request.
pub(super) fn request_name(request: RequestHandle) -> String {
    format!("r{}", request.number())
}

/// An object on one line, member by member.
#[must_use = "a line has to end"]
struct Line<'o> {
    out: &'o mut Vec<u8>,
}

impl<'o> Line<'o> {
    fn begin(out: &'o mut Vec<u8>, name: &str, text: &str) -> Self {
        out.push(b'{');
        let line = Self { out };
        line.name(name).string(text)
    }

    fn text(self, name: &str, text: &str) -> Self {
        self.out.push(b',');
        self.name(name).string(text)
    }

    /// Adds a JSON value as it stands. Line ends in it can only be white space between tokens.
    fn raw(self, name: &str, json: &str) -> Self {
        self.out.push(b',');
        let line = self.name(name);
        let one_line =
            json.bytes().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte });
        line.out.extend(one_line);
        line
    }

    fn optional(self, name: &str, json: Option<&str>) -> Self {
        match json {
            Some(json) => self.raw(name, json),
            None => self,
        }
    }

    fn end(self) {
        self.out.extend_from_slice(b"}\n");
    }

    fn name(self, name: &str) -> Self {
        let line = self.string(name);
        line.out.push(b':');
        line
    }

    fn string(self, text: &str) -> Self {
        serde_json::to_writer(&mut *self.out, text).expect("a string can be written to memory");
        self
    }
}
