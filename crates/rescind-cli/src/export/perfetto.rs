//! A trace for Perfetto: a track for each request, below the track of what it was made for.
//!
//! The numbers are those of `perfetto/protos/perfetto/trace/`.

use std::collections::HashMap;
use std::io::{self, Write};

use protocol_record::Line;
use protocol_record::line::{Direction, Hop};

use super::protobuf::Message;
use crate::terminal::harmless;
use crate::view::row::Row;
use crate::view::walk::{Visitor, start};

/// The number of a packet, which is the only field of a trace.
const PACKET: u64 = 1;

mod packet {
    pub(super) const CLOCK_SNAPSHOT: u64 = 6;
    pub(super) const TIMESTAMP: u64 = 8;
    pub(super) const SEQUENCE: u64 = 10;
    pub(super) const TRACK_EVENT: u64 = 11;
    pub(super) const TRACK_DESCRIPTOR: u64 = 60;
}
mod clocks {
    pub(super) const CLOCK: u64 = 1;
    pub(super) const ID: u64 = 1;
    pub(super) const TIMESTAMP: u64 = 2;
    pub(super) const REALTIME: u64 = 1;
    pub(super) const BOOTTIME: u64 = 6;
}
mod track {
    pub(super) const UUID: u64 = 1;
    pub(super) const NAME: u64 = 2;
    pub(super) const PARENT: u64 = 5;
    pub(super) const ORDERING: u64 = 11;
    pub(super) const CHRONOLOGICAL: u64 = 2;
}
mod event {
    pub(super) const ANNOTATION: u64 = 4;
    pub(super) const TYPE: u64 = 9;
    pub(super) const TRACK: u64 = 11;
    pub(super) const CATEGORY: u64 = 22;
    pub(super) const NAME: u64 = 23;
    pub(super) const BEGIN: u64 = 1;
    pub(super) const END: u64 = 2;
    pub(super) const INSTANT: u64 = 3;
}
mod annotation {
    pub(super) const INT: u64 = 4;
    pub(super) const TEXT: u64 = 6;
    pub(super) const NAME: u64 = 10;
}

/// The track of the whole recording, those of its hops, and from here on those of its requests.
const ROOT: u64 = 1;
const HOPS: u64 = 2;
const REQUESTS: u64 = 1 << 32;

pub(super) struct Perfetto<'a> {
    out: &'a mut dyn Write,
    hops: HashMap<String, u64>,
    is_begun: bool,
}

impl<'a> Perfetto<'a> {
    pub(super) fn new(out: &'a mut dyn Write) -> Self {
        Self { out, hops: HashMap::new(), is_begun: false }
    }

    fn packet(&mut self, packet: Message) -> io::Result<()> {
        let packet = packet.uint(packet::SEQUENCE, 1);
        self.out.write_all(Message::default().message(PACKET, &packet).as_bytes())
    }

    fn track(&mut self, uuid: u64, parent: Option<u64>, name: &str) -> io::Result<()> {
        let mut track = Message::default()
            .uint(track::UUID, uuid)
            .text(track::NAME, &harmless(name))
            .uint(track::ORDERING, track::CHRONOLOGICAL);
        if let Some(parent) = parent {
            track = track.uint(track::PARENT, parent);
        }
        self.packet(Message::default().message(packet::TRACK_DESCRIPTOR, &track))
    }

    /// Something on the track of a request.
    fn event(&mut self, row: &Row, kind: u64, t: u64, more: &Message) -> io::Result<()> {
        let mut event =
            Message::default().uint(event::TYPE, kind).uint(event::TRACK, REQUESTS + row.number);
        event.append(more);
        let packet = Message::default()
            .uint(packet::TIMESTAMP, t.saturating_mul(1000))
            .message(packet::TRACK_EVENT, &event);
        self.packet(packet)
    }

    fn hop(&mut self, name: &str, dialect: Option<&str>) -> io::Result<u64> {
        if let Some(uuid) = self.hops.get(name) {
            return Ok(*uuid);
        }
        let uuid = HOPS + self.hops.len() as u64;
        self.hops.insert(name.into(), uuid);
        let dialect = dialect.map(|it| format!(" ({it})")).unwrap_or_default();
        self.track(uuid, Some(ROOT), &format!("{name}{dialect}"))?;
        Ok(uuid)
    }

    fn opened(&mut self, hop: &Hop<'_>) -> io::Result<()> {
        self.hop(&hop.hop, Some(&hop.dialect)).map(drop)
    }
}

impl Visitor for Perfetto<'_> {
    fn line(&mut self, line: &Line<'_>, _: &[Option<u64>]) -> io::Result<()> {
        match line {
            Line::Recording(header) if !self.is_begun => {
                self.is_begun = true;
                // The clock of the recording at its beginning, and the one on the wall.
                let clock = |id, time| {
                    Message::default().uint(clocks::ID, id).uint(clocks::TIMESTAMP, time)
                };
                let both = Message::default()
                    .message(clocks::CLOCK, &clock(clocks::BOOTTIME, 0))
                    .message(clocks::CLOCK, &clock(clocks::REALTIME, start(header)));
                self.packet(Message::default().message(packet::CLOCK_SNAPSHOT, &both))?;
                let name = header.program.as_deref().unwrap_or(&header.by);
                self.track(ROOT, None, name)?;
                header.hops.iter().try_for_each(|hop| self.opened(hop))
            }
            Line::Opened(hop) => self.opened(hop),
            _ => Ok(()),
        }
    }

    fn row(&mut self, row: &Row) -> io::Result<()> {
        let hop = self.hop(&row.hop.name, None)?;
        let parent = row.parent.map_or(hop, |parent| REQUESTS + parent);
        self.track(REQUESTS + row.number, Some(parent), &row.method)?;
        let dir = if row.dir == Direction::Sent { "sent" } else { "received" };
        let mut about = named(&row.method)
            .text(event::CATEGORY, "request")
            .message(event::ANNOTATION, &text("id", row.id.as_json()))
            .message(event::ANNOTATION, &text("hop", &row.hop.name))
            .message(event::ANNOTATION, &text("dir", dir))
            .message(event::ANNOTATION, &text("outcome", row.outcome.as_str()));
        for (name, value) in [("cause", &row.cause), ("refused", &row.refused)] {
            if let Some(value) = value {
                about = about.message(event::ANNOTATION, &text(name, value));
            }
        }
        if let Some(code) = row.code {
            let code = Message::default().text(annotation::NAME, "code").int(annotation::INT, code);
            about = about.message(event::ANNOTATION, &code);
        }
        self.event(row, event::BEGIN, row.start, &about)?;
        if let Some(t) = row.cancelled {
            self.event(row, event::INSTANT, t, &named("cancel"))?;
        }
        // A bar without an end is drawn to the end of the trace.
        if let Some(t) = row.over() {
            self.event(row, event::END, t, &Message::default())?;
        }
        match row.late {
            Some(t) => self.event(row, event::INSTANT, t, &named("late answer")),
            None => Ok(()),
        }
    }
}

fn named(name: &str) -> Message {
    Message::default().text(event::NAME, &harmless(name))
}

fn text(name: &str, value: &str) -> Message {
    Message::default().text(annotation::NAME, name).text(annotation::TEXT, &harmless(value))
}
