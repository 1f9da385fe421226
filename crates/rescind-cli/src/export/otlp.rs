//! Spans for OpenTelemetry: lines of OTLP's JSON, as its file exporter writes them.

use std::io::{self, Write};
use std::mem;

use protocol_record::Line;
use protocol_record::line::Direction;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::own_name;
use crate::view::row::{Outcome, Row};
use crate::view::walk::{Visitor, start, time};

/// So many spans in one line.
const SPANS: usize = 1_000;

/// `Span.SpanKind` and `Status.StatusCode` of opentelemetry-proto.
const SERVER: u64 = 2;
const CLIENT: u64 = 3;
const ERROR: u64 = 2;

pub(super) struct Otlp<'a> {
    out: &'a mut dyn Write,
    /// The name of the recorded service.
    service: String,
    /// When, in nanoseconds since 1970.
    start: u64,
    /// The last time that the recording knows.
    until: u64,
    spans: Vec<Value>,
}

impl<'a> Otlp<'a> {
    pub(super) fn new(out: &'a mut dyn Write) -> Self {
        Self { out, service: String::new(), start: 0, until: 0, spans: Vec::new() }
    }

    fn write(&mut self) -> io::Result<()> {
        if self.spans.is_empty() {
            return Ok(());
        }
        let spans = json!([{ "scope": own_name(), "spans": mem::take(&mut self.spans) }]);
        let resource = json!({ "attributes": [text("service.name", &self.service)] });
        let line = json!({ "resourceSpans": [{ "resource": resource, "scopeSpans": spans }] });
        writeln!(self.out, "{line}")
    }

    /// The same for the same recording, and another for every other: so many hexadecimal digits.
    fn id(&self, what: &str, number: u64, digits: usize) -> String {
        let seed = format!("{what} {} {} {number}", self.service, self.start);
        let digest = Sha256::digest(seed);
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        hex[..digits].to_owned()
    }

    fn span_id(&self, number: u64) -> String {
        self.id("span", number, 16)
    }

    fn time(&self, micros: u64) -> String {
        self.start.saturating_add(micros.saturating_mul(1000)).to_string()
    }

    fn span(&self, row: &Row) -> Value {
        let trace = row.trace.as_ref();
        let own = trace.filter(|trace| trace.is_own).map(|trace| trace.span().to_owned());
        let parent = own.or_else(|| row.parent.map(|parent| self.span_id(parent)));
        let end = row.over().unwrap_or(self.until.max(row.start));
        let mut span = json!({
            "traceId": trace.map_or_else(|| self.id("trace", row.root, 32), |it| it.id().into()),
            "spanId": self.span_id(row.number),
            "name": row.method,
            "kind": if row.dir == Direction::Sent { CLIENT } else { SERVER },
            "startTimeUnixNano": self.time(row.start),
            "endTimeUnixNano": self.time(end),
            "attributes": attributes(row),
        });
        if let Some(parent) = parent {
            span["parentSpanId"] = parent.into();
        }
        let events = [("cancel", row.cancelled), ("late answer", row.late)];
        let events = events
            .into_iter()
            .filter_map(|(name, t)| Some(json!({ "name": name, "timeUnixNano": self.time(t?) })));
        span["events"] = events.collect();
        if let Some(message) = failure(row) {
            span["status"] = json!({ "code": ERROR, "message": message });
        }
        span
    }
}

impl Visitor for Otlp<'_> {
    fn line(&mut self, line: &Line<'_>, _: &[Option<u64>]) -> io::Result<()> {
        if let Line::Recording(header) = line {
            self.service = header.program.as_deref().unwrap_or(&header.by).into();
            self.start = start(header);
        }
        self.until = self.until.max(time(line));
        Ok(())
    }

    fn row(&mut self, row: &Row) -> io::Result<()> {
        let span = self.span(row);
        self.spans.push(span);
        if self.spans.len() == SPANS { self.write() } else { Ok(()) }
    }

    fn finish(&mut self) -> io::Result<Option<String>> {
        self.write().map(|()| None)
    }
}

/// The names are OpenTelemetry's where it has some (docs/guide/tracing.md).
fn attributes(row: &Row) -> Vec<Value> {
    let token = row.id.as_json();
    let mut attributes = vec![
        text("rpc.system.name", "jsonrpc"),
        text("rpc.method", &row.method),
        text("jsonrpc.request.id", token.trim_matches('"')),
        text("rescind.hop", &row.hop.name),
        text("rescind.outcome", row.outcome.as_str()),
    ];
    if let Some(code) = row.code {
        attributes.push(text("rpc.response.status_code", &code.to_string()));
    }
    for (name, value) in [("rescind.cause", &row.cause), ("rescind.refused", &row.refused)] {
        attributes.extend(value.as_deref().map(|value| text(name, value)));
    }
    if let Some(micros) = row.settling() {
        // As text: JSON's numbers don't hold all that OTLP's do.
        let value = json!({ "intValue": micros.to_string() });
        attributes.push(json!({ "key": "rescind.cancel_to_settle_us", "value": value }));
    }
    attributes
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

/// Returns the error of a request, if it failed. A cancelled request did as it was asked, and one that has no
/// answer yet may get one.
fn failure(row: &Row) -> Option<String> {
    match row.outcome {
        Outcome::Result | Outcome::Cancelled | Outcome::Unanswered => None,
        Outcome::Error => Some(row.code.map_or("error".into(), |code| code.to_string())),
        Outcome::TimedOut => Some(row.cause.clone().unwrap_or_else(|| "timed_out".into())),
        Outcome::Malformed | Outcome::ConnectionLost | Outcome::DuplicateId => {
            Some(row.outcome.as_str().into())
        }
    }
}
