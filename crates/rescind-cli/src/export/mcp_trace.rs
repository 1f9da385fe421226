//! A trace for `mcp-trace-validator`: every message of one hop, whole.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::slice;
use std::time::{Duration, SystemTime};

use protocol_record::Line;
use protocol_record::line::{Direction, Message, Payloads, Role};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::terminal::harmless;
use crate::view::files;
use crate::view::walk::{Visitor, start};

/// The roles on the hop found so far and on a better one: a hop to a server is preferred to one to a client.
const BETTER: (Role, Role) = (Role::Server, Role::Client);

pub(super) struct McpTrace<'a> {
    out: &'a mut dyn Write,
    hop: String,
    /// The side of the connection that records.
    role: Role,
    transport: &'static str,
    start: u64,
    written: u64,
    /// Messages that were not recorded whole, or are no JSON.
    left_out: u64,
}

impl<'a> McpTrace<'a> {
    /// A trace of the hop that is wanted; else of the first that leads to a server, which sees what a relay makes
    /// of its client's messages.
    pub(super) fn of(
        path: &Path,
        wanted: Option<&str>,
        out: &'a mut dyn Write,
    ) -> Result<Self, String> {
        let mut is_whole = true;
        let mut found: Option<(String, Role, &str)> = None;
        files::read(path, |line| {
            let opened = match &line {
                Line::Recording(header) => {
                    is_whole &= header.payloads == Payloads::Kept;
                    &*header.hops
                }
                Line::Opened(hop) => slice::from_ref(hop),
                // All that there are at the beginning are open.
                Line::Message(_) if found.is_some() => return ControlFlow::Break(()),
                _ => &[],
            };
            for hop in opened.iter().filter(|hop| wanted.is_none_or(|wanted| wanted == hop.hop)) {
                if found.as_ref().is_none_or(|(_, role, _)| (*role, hop.role) == BETTER) {
                    let is_http = hop.dialect.ends_with("-http");
                    let transport = if is_http { "streamable-http" } else { "stdio" };
                    found = Some((hop.hop.to_string(), hop.role, transport));
                }
            }
            ControlFlow::Continue(())
        })?;
        if !is_whole {
            return Err("a trace of MCP needs whole messages: record it with --payloads".into());
        }
        let Some((hop, role, transport)) = found else {
            let wanted = wanted.map(|hop| format!(" {}", harmless(hop))).unwrap_or_default();
            return Err(format!("the recording has no hop{wanted}"));
        };
        Ok(Self { out, hop, role, transport, start: 0, written: 0, left_out: 0 })
    }

    fn message(&mut self, message: &Message<'_>) -> io::Result<()> {
        // Between the tokens of JSON there may be line ends, and an event is one line.
        let text = message.text.as_deref().map(|text| text.replace(['\n', '\r'], " "));
        let payload: Option<&RawValue> =
            text.as_deref().and_then(|text| serde_json::from_str(text).ok());
        match payload {
            Some(payload) => self.write(message.t, message.dir, Body::Message { payload }),
            None => {
                self.left_out += 1;
                Ok(())
            }
        }
    }

    /// The transport opens or closes, on the client's side.
    fn lifecycle(&mut self, t: u64, event: &str) -> io::Result<()> {
        let is_client = self.role == Role::Client;
        let dir = if is_client { Direction::Sent } else { Direction::Received };
        self.write(t, dir, Body::Lifecycle { event })
    }

    fn write(&mut self, t: u64, dir: Direction, body: Body<'_>) -> io::Result<()> {
        let is_client_s = (self.role == Role::Client) == (dir == Direction::Sent);
        let event = Event {
            seq: self.written,
            direction: if is_client_s { "client-to-server" } else { "server-to-client" },
            transport: self.transport,
            ts: wall_clock(self.start, t),
            body,
        };
        self.written += 1;
        writeln!(self.out, "{}", serde_json::to_string(&event)?)
    }
}

/// An event of the trace, which is one line of the file.
#[derive(Serialize)]
struct Event<'a> {
    seq: u64,
    direction: &'a str,
    transport: &'a str,
    ts: String,
    #[serde(flatten)]
    body: Body<'a>,
}

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Body<'a> {
    /// The bytes that passed.
    Message {
        payload: &'a RawValue,
    },
    Lifecycle {
        event: &'a str,
    },
}

impl Visitor for McpTrace<'_> {
    fn line(&mut self, line: &Line<'_>, _: &[Option<u64>]) -> io::Result<()> {
        match line {
            Line::Recording(header) => self.start = start(header),
            Line::Opened(hop) if hop.hop == self.hop => {
                return self.lifecycle(hop.t, "transport-open");
            }
            Line::Message(message) if message.hop == self.hop => return self.message(message),
            Line::Verdict(verdict) if verdict.hop == self.hop && verdict.verdict == "closed" => {
                return self.lifecycle(verdict.t, "transport-close");
            }
            _ => {}
        }
        Ok(())
    }

    fn finish(&mut self) -> io::Result<Option<String>> {
        let Self { left_out, .. } = self;
        let note =
            format!("messages that are no JSON or were withheld, and not in the trace: {left_out}");
        Ok(Some(note).filter(|_| *left_out > 0))
    }
}

/// A time of a recording as RFC 3339 writes it.
fn wall_clock(start: u64, micros: u64) -> String {
    // A file may claim more than a date can hold.
    const END: u64 = 253_402_300_799;
    let since = Duration::from_nanos(start).saturating_add(Duration::from_micros(micros));
    let time = SystemTime::UNIX_EPOCH + since.min(Duration::from_secs(END));
    humantime::format_rfc3339_micros(time).to_string()
}
