//! A recording as a sequence chart: a lane for each party, an arrow for each message.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;

use protocol_record::line::{Direction, Hop, Kind, Line, Message, Part, Role, Verdict};
use protocol_record::{Mark, chart};

use super::filter::Filter;
use super::row::{Row, milliseconds};
use super::walk::{Trouble, Visitor, walk};
use crate::terminal::harmless;

/// Draws the messages of the requests that are wanted, in two readings: the first finds these, and who takes part.
pub(crate) fn draw(
    path: &Path,
    filter: Option<Filter>,
    out: &mut dyn Write,
) -> Result<(), Trouble> {
    let mut cast = Cast { filter, lanes: Lanes::default(), wanted: BTreeSet::new() };
    walk(path, &mut cast)?;
    let Cast { filter, lanes, wanted } = cast;
    writeln!(out, "{}", lanes.head())?;
    let wanted = filter.is_some().then_some(wanted);
    walk(path, &mut Drawing { lanes, wanted, out })?;
    Ok(())
}

struct Cast {
    filter: Option<Filter>,
    lanes: Lanes,
    /// The requests that the filter admits.
    wanted: BTreeSet<u64>,
}

impl Visitor for Cast {
    fn line(&mut self, line: &Line<'_>, _: &[Option<u64>]) -> io::Result<()> {
        lanes(line, &mut self.lanes);
        Ok(())
    }

    fn row(&mut self, row: &Row) -> io::Result<()> {
        if self.filter.as_ref().is_some_and(|filter| filter.admits(row)) {
            self.wanted.insert(row.number);
        }
        Ok(())
    }
}

struct Drawing<'a> {
    lanes: Lanes,
    /// Everything is drawn, if there is no filter.
    wanted: Option<BTreeSet<u64>>,
    out: &'a mut dyn Write,
}

impl Visitor for Drawing<'_> {
    fn line(&mut self, line: &Line<'_>, requests: &[Option<u64>]) -> io::Result<()> {
        let drawn = match (line, &self.wanted) {
            (Line::Message(message), None) => self.lanes.message(message, |_| true),
            (Line::Message(message), Some(wanted)) => self.lanes.message(message, |part| {
                requests[part].is_some_and(|number| wanted.contains(&number))
            }),
            (Line::Verdict(verdict), None) if &verdict.verdict != "settled" => {
                self.lanes.verdict(verdict)
            }
            _ => return Ok(()),
        };
        drawn.lines().try_for_each(|line| writeln!(self.out, "{line}"))
    }
}

/// The parties: whoever records stands between its clients and its servers.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    /// Each with its name in the recording, and the one that is shown.
    clients: Vec<(String, String)>,
    servers: Vec<(String, String)>,
    /// Whether there are messages of other connections.
    has_others: bool,
}

/// More connections than these are drawn as one lane.
const LANES: usize = 8;

/// The width of the times before a chart.
const TIME: usize = 16;

impl Lanes {
    /// A connection makes a lane for its peer.
    pub(crate) fn open(&mut self, hop: &Hop<'_>) {
        let side = if hop.role == Role::Server { &mut self.clients } else { &mut self.servers };
        if side.len() < LANES && !side.iter().any(|(name, _)| *name == hop.hop) {
            side.push((hop.hop.to_string(), harmless(peer(&hop.hop))));
        }
    }

    /// The names above the lanes.
    pub(crate) fn head(&self) -> String {
        format!("{:TIME$}{}", "", chart(&self.names(), &[]).trim_end())
    }

    fn names(&self) -> Vec<&str> {
        let sides = [&self.clients, &self.servers];
        let [clients, servers] = sides.map(|side| side.iter().map(|(_, shown)| &**shown));
        let others = self.has_others.then_some("(others)");
        clients.chain(["(recorded here)"]).chain(servers).chain(others).collect()
    }

    /// Returns the lane of a connection's peer, if it has one of its own.
    fn lane(&self, hop: &str) -> Option<usize> {
        let of = |side: &[(String, String)]| side.iter().position(|(name, _)| name == hop);
        of(&self.clients).or_else(|| Some(self.here() + 1 + of(&self.servers)?))
    }

    fn here(&self) -> usize {
        self.clients.len()
    }

    /// A message, for those of its parts that are wanted.
    pub(crate) fn message(
        &self,
        message: &Message<'_>,
        is_wanted: impl Fn(usize) -> bool,
    ) -> String {
        let place = (message.t, &*message.hop, message.dir);
        let parts = message.parts.iter().enumerate().filter(|(number, _)| is_wanted(*number));
        parts.map(|(_, part)| self.arrow(place, label(part))).collect()
    }

    /// Draws a message over a connection at that time, in its direction.
    pub(crate) fn arrow(&self, (t, hop, dir): (u64, &str, Direction), label: String) -> String {
        let others = || self.names().len() - 1;
        let (here, peer) = (self.here(), self.lane(hop).unwrap_or_else(others));
        let (from, to) = match dir {
            Direction::Sent => (here, peer),
            Direction::Received => (peer, here),
        };
        self.line(t, Mark::arrow(from, to, label))
    }

    /// Draws a decision, where a message does not say it already.
    pub(crate) fn verdict(&self, verdict: &Verdict<'_>) -> String {
        let words = [
            &verdict.id.as_ref().map(|id| id.as_json().into()),
            &verdict.why,
            &verdict.outcome,
            &verdict.cause,
        ];
        let words = words.into_iter().flatten().map(|word| harmless(word));
        let text =
            std::iter::once(harmless(&verdict.verdict)).chain(words).collect::<Vec<_>>().join(" ");
        self.line(verdict.t, Mark::at(self.here(), text))
    }

    fn line(&self, t: u64, mark: Mark) -> String {
        let drawn = chart(&self.names(), &[mark]);
        let line = drawn.split_once('\n').map_or("", |(_, line)| line);
        format!("{:>14}  {line}", milliseconds(t))
    }
}

/// Returns the peer at the other end of a connection. Those of a relay are named by their destinations.
fn peer(hop: &str) -> &str {
    match hop {
        "up" => "client",
        "down" => "server",
        hop => hop,
    }
}

/// A part in few words: `request 1 work`, `error 1 -32800`.
pub(crate) fn label(part: &Part<'_>) -> String {
    let id = part.cancels.as_ref().or(part.id.as_ref()).map(|id| harmless(id.as_json()));
    let code = part.code.map(|code| code.to_string());
    let method = part.method.as_deref().filter(|_| part.kind != Kind::Cancel).map(harmless);
    let kind = match part.kind {
        Kind::Request => "request",
        Kind::Notification => "",
        Kind::Cancel => "cancel",
        Kind::Result => "result",
        Kind::Error => "error",
        _ => "unreadable",
    };
    let words = [Some(kind.to_owned()).filter(|it| !it.is_empty()), id, code, method];
    words.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// The lanes of a whole recording: who comes late stands there from the start.
pub(crate) fn lanes(line: &Line<'_>, lanes: &mut Lanes) {
    match line {
        Line::Recording(header) => header.hops.iter().for_each(|hop| lanes.open(hop)),
        Line::Opened(hop) => lanes.open(hop),
        Line::Message(message) => lanes.has_others |= lanes.lane(&message.hop).is_none(),
        _ => {}
    }
}
