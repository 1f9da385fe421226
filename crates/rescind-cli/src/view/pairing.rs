//! From lines to requests: which answer, cancel and verdict belongs to which.

use std::collections::{BTreeMap, HashMap};
use std::mem;
use std::rc::Rc;

use protocol_core::{Cancellers, Dialect, ResponseRule, WireId, code};
use protocol_record::line::{Direction, Dropped, Hop, Id, Kind, Line, Message, Part, Verdict};
use serde::Serialize;

use super::row::{Connection, Outcome, Row, other};
use super::trace::Trace;
use super::tree::Tree;
use super::works::{Rows, Works};

/// So many requests are remembered: an answer that is later than that is counted, but no more marked on
/// the request that it answers.
pub(crate) const REMEMBERED: usize = 100_000;

/// So many characters of a method are kept.
const METHOD: usize = 1_000;

/// Pairs the lines of one recording.
#[derive(Debug, Default)]
pub(crate) struct Pairing {
    /// By the order in which they began.
    rows: BTreeMap<u64, Row>,
    /// The latest request of each name.
    named: HashMap<Name, u64>,
    /// The latest connection of each name.
    hops: HashMap<Rc<str>, Connection>,
    connections: u64,
    /// The dialects of the connections, as far as they are presets.
    dialects: HashMap<Rc<str>, &'static Dialect>,
    tree: Tree,
    works: Works,
    begun: u64,
    /// The request of the latest message.
    latest: Option<u64>,
    remembered: usize,
    /// With so many it is looked for those that can be forgotten: not at each, for that takes time.
    full: usize,
    pub(crate) counts: Counts,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Name {
    hop: Connection,
    dir: Direction,
    id: WireId,
}

/// Counts of everything that is no row, named as `--json` writes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Counts {
    pub(crate) messages: u64,
    pub(crate) notifications: u64,
    #[serde(rename = "late_responses")]
    pub(crate) late: u64,
    #[serde(rename = "duplicate_responses")]
    pub(crate) duplicates: u64,
    /// Answers to nothing that was asked.
    #[serde(rename = "unknown_responses")]
    pub(crate) strays: u64,
    /// Other rules that a peer broke.
    #[serde(rename = "other_violations")]
    pub(crate) violations: u64,
    /// Cancels of nothing that is in flight.
    #[serde(rename = "cancels_of_nothing")]
    pub(crate) stray_cancels: u64,
    /// The number of lines that are missing in the recording.
    pub(crate) dropped: u64,
}

impl Pairing {
    pub(crate) fn new(remembered: usize) -> Self {
        Self { remembered, full: full(remembered, remembered), ..Self::default() }
    }

    /// Takes a line. For a message: the number of the request that each of its parts is about.
    pub(crate) fn take(&mut self, line: &Line<'_>) -> Vec<Option<u64>> {
        match line {
            Line::Message(message) => {
                self.counts.messages += 1;
                let hop = self.hop(&message.hop);
                let parts = 0..message.parts.len();
                let requests: Vec<_> = parts.map(|at| self.part(message, at, &hop)).collect();
                self.latest = requests.last().copied().flatten();
                return requests;
            }
            Line::Verdict(verdict) => {
                let hop = self.hop(&verdict.hop);
                self.verdict(verdict, &hop);
            }
            Line::Opened(opened) => self.open(opened),
            // A later part names the connections that are open again.
            Line::Recording(header) if self.hops.is_empty() => {
                header.hops.iter().for_each(|opened| self.open(opened));
            }
            Line::Dropped(Dropped { lines, .. }) => {
                self.counts.dropped = self.counts.dropped.saturating_add(*lines);
            }
            _ => {}
        }
        Vec::new()
    }

    /// The oldest requests, once there are a quarter more than are remembered. Those in flight are kept
    /// until there are twice as many.
    pub(crate) fn forget(&mut self) -> Vec<(u64, Row)> {
        if self.rows.len() < self.full {
            return Vec::new();
        }
        let done = self.rows.iter().filter(|(_, row)| row.outcome != Outcome::Unanswered);
        let over = self.rows.len() - self.remembered;
        let mut numbers: Vec<u64> = done.map(|(number, _)| *number).take(over).collect();
        let left = self.rows.len() - numbers.len();
        numbers.extend(self.rows.keys().take(left.saturating_sub(2 * self.remembered)));
        let forgotten = numbers.into_iter().filter_map(|number| self.remove(number)).collect();
        self.full = full(self.rows.len().max(self.remembered), self.remembered);
        forgotten
    }

    fn remove(&mut self, number: u64) -> Option<(u64, Row)> {
        let row = self.rows.remove(&number)?;
        self.tree.end(&row);
        self.works.forget(&row);
        let name = Name { hop: row.hop.clone(), dir: row.dir, id: row.id.clone() };
        if self.named.get(&name) == Some(&number) {
            self.named.remove(&name);
        }
        Some((number, row))
    }

    /// Those that are remembered.
    #[cfg(feature = "live")]
    pub(crate) const fn rows(&self) -> &BTreeMap<u64, Row> {
        &self.rows
    }

    /// Takes all rows that are left, at the end.
    pub(crate) fn rest(&mut self) -> BTreeMap<u64, Row> {
        self.named.clear();
        mem::take(&mut self.rows)
    }

    fn hop(&mut self, name: &str) -> Connection {
        if let Some(hop) = self.hops.get(name) {
            return hop.clone();
        }
        let hop = Connection { number: self.connections, name: name.into() };
        self.connections += 1;
        self.hops.insert(hop.name.clone(), hop.clone());
        hop
    }

    /// A connection is open. What had its name before is another.
    fn open(&mut self, opened: &Hop<'_>) {
        // A server has many connections. Only the requests in flight over this one are looked at.
        if let Some(before) = self.hops.remove(&*opened.hop) {
            let numbers = self.tree.of(&before).into_iter();
            numbers.filter_map(|number| self.rows.get(&number)).for_each(|row| self.tree.end(row));
        }
        let hop = self.hop(&opened.hop);
        self.tree.open(&hop, opened.role);
        match Dialect::PRESETS.iter().find(|preset| preset.name == opened.dialect) {
            Some(dialect) => self.dialects.insert(hop.name, dialect),
            None => self.dialects.remove(&hop.name),
        };
    }

    fn part(&mut self, message: &Message<'_>, at: usize, hop: &Connection) -> Option<u64> {
        let (t, dir, part) = (message.t, message.dir, &message.parts[at]);
        let number = match part.kind {
            Kind::Request => self.request(message, at, hop),
            Kind::Cancel => {
                // Some dialects ask for it by a request.
                let request = self.request(message, at, hop);
                self.cancel(t, hop, dir, part).or(request)
            }
            Kind::Result | Kind::Error => self.answer(t, hop, other(dir), part),
            Kind::Notification => {
                self.counts.notifications += 1;
                None
            }
            _ => None,
        };
        match &part.work {
            Some(work) => {
                let rows = Rows { rows: &mut self.rows, begun: &mut self.begun };
                let (row, is_stray) = self.works.take(rows, message, hop, work, number);
                self.counts.stray_cancels += u64::from(is_stray);
                row.or(number)
            }
            None => number,
        }
    }

    fn request(&mut self, message: &Message<'_>, at: usize, hop: &Connection) -> Option<u64> {
        let (t, dir, part) = (message.t, message.dir, &message.parts[at]);
        let name = Name { hop: hop.clone(), dir, id: wire(part.id.as_ref())? };
        let number = self.begun;
        self.begun += 1;
        let twin = self.named.get(&name).and_then(|number| self.rows.get(number));
        let is_twin = twin.is_some_and(|twin| twin.over().is_none());
        let mut row = Row::begun(number, t, hop.clone(), dir, name.id.clone());
        row.method = part.method.as_deref().unwrap_or_default().chars().take(METHOD).collect();
        if is_twin {
            (row.outcome, row.end) = (Outcome::DuplicateId, Some(t));
        } else {
            self.named.insert(name, number);
            row.parent = self.tree.begin(&row);
        }
        let parent = row.parent.and_then(|parent| self.rows.get(&parent));
        row.root = parent.map_or(number, |parent| parent.root);
        row.trace = Trace::of(message, at, parent.and_then(|parent| parent.trace.as_ref()));
        self.rows.insert(number, row);
        Some(number)
    }

    /// A cancel names a request of its sender's; where the dialect lets a server end requests of its
    /// client's, one of those.
    fn cancel(&mut self, t: u64, hop: &Connection, dir: Direction, part: &Part<'_>) -> Option<u64> {
        let id = wire(part.cancels.as_ref())?;
        let in_flight = [dir, other(dir)].into_iter().find_map(|asked| {
            let number = self.find(hop, asked, &id)?;
            let row = self.rows.get(&number)?;
            let is_meant = asked == dir || self.is_ended_by_server(row);
            // Calls of ours settle before their cancel leaves.
            let is_given_up = asked == Direction::Sent && row.cause.is_some();
            (is_meant && (row.end.is_none() || is_given_up)).then_some(number)
        });
        let Some(number) = in_flight else {
            self.counts.stray_cancels += 1;
            return self.find(hop, dir, &id);
        };
        self.cancelled(t, number);
        Some(number)
    }

    /// A request was cancelled. Silence is the answer that some dialects give to that.
    fn cancelled(&mut self, t: u64, number: u64) {
        let Some(row) = self.rows.get_mut(&number) else { return };
        row.cancelled.get_or_insert(row.end.unwrap_or(t));
        let dialect = self.dialects.get(&row.hop.name);
        let is_silent = dialect.is_some_and(|it| it.response != ResponseRule::Required);
        if is_silent && row.outcome == Outcome::Unanswered {
            row.outcome = Outcome::Cancelled;
            self.tree.end(row);
        }
    }

    fn is_ended_by_server(&self, row: &Row) -> bool {
        match self.dialects.get(&row.hop.name).map(|dialect| &dialect.cancellers) {
            Some(Cancellers::Client { server_may_end }) => {
                server_may_end.iter().any(|method| *method == row.method)
            }
            _ => false,
        }
    }

    fn answer(&mut self, t: u64, hop: &Connection, dir: Direction, part: &Part<'_>) -> Option<u64> {
        let number = self.find(hop, dir, &wire(part.id.as_ref())?)?;
        let row = self.rows.get_mut(&number)?;
        // The verdict says whether it is late or a duplicate.
        if row.end.is_none() {
            row.end = Some(t);
            row.code = part.code;
            let is_cancel = part.code == Some(code::REQUEST_CANCELLED);
            row.outcome = match part.kind {
                Kind::Result => Outcome::Result,
                _ if is_cancel && row.cancelled.is_some() => Outcome::Cancelled,
                _ => Outcome::Error,
            };
            self.tree.end(row);
        }
        Some(number)
    }

    fn verdict(&mut self, verdict: &Verdict<'_>, hop: &Connection) {
        let number = self.meant(verdict, hop);
        let mut row = number.and_then(|number| self.rows.get_mut(&number));
        if &verdict.verdict == "violation" {
            self.counts.violation(verdict, row.as_deref_mut());
        }
        let Some(row) = row else { return };
        let cause = || verdict.cause.as_deref().map(Into::into);
        match &*verdict.verdict {
            "violation" => {
                // It says more than the form of the message, and a relay says nothing else.
                let is_malformed = verdict.why.as_deref() == Some("malformed_response");
                if is_malformed && row.outcome != Outcome::Cancelled {
                    row.outcome = Outcome::Malformed;
                    row.end.get_or_insert(verdict.t);
                    self.tree.end(row);
                }
            }
            "settled" => {
                let end = *row.end.get_or_insert(verdict.t);
                self.tree.end(row);
                row.cause = cause().or(row.cause.take());
                let outcome = verdict.outcome.as_deref().and_then(Outcome::named);
                // Its cancel leaves later, or is no message.
                if outcome == Some(Outcome::Cancelled) {
                    row.cancelled.get_or_insert(end);
                }
                // The result of stopped work says that it was stopped.
                let is_stopped = row.work.is_some() && row.outcome == Outcome::Cancelled;
                row.outcome = outcome.filter(|_| !is_stopped).unwrap_or(row.outcome);
            }
            // The messages say so too.
            "stopped" => {}
            // The relay answers it now, with an error.
            "guard" => (row.cause, row.refused) = (cause(), Some("guard".into())),
            "cancelled" => {
                row.cause = cause();
                let number = row.number;
                self.cancelled(verdict.t, number);
            }
            other => {
                let why = verdict.why.as_deref().map(|why| format!("{other}: {why}"));
                row.refused = Some(why.unwrap_or_else(|| other.into()));
            }
        }
    }

    /// Finds the request that a verdict is about.
    fn meant(&self, verdict: &Verdict<'_>, hop: &Connection) -> Option<u64> {
        let id = wire(verdict.id.as_ref())?;
        match &*verdict.verdict {
            // Calls of ours settle, and are answered wrongly.
            "settled" | "violation" => self.find(hop, Direction::Sent, &id),
            // It was done to the message before it, which may be a request or an answer.
            "fault" => self.latest.filter(|number| {
                self.rows.get(number).is_some_and(|row| row.hop == *hop && row.id == id)
            }),
            // The rest is about what a peer asked for.
            _ => self.find(hop, Direction::Received, &id),
        }
    }

    fn find(&self, hop: &Connection, dir: Direction, id: &WireId) -> Option<u64> {
        self.named.get(&Name { hop: hop.clone(), dir, id: id.clone() }).copied()
    }
}

impl Counts {
    /// The peer broke a rule, with an answer to this request if it is known.
    fn violation(&mut self, verdict: &Verdict<'_>, row: Option<&mut Row>) {
        match verdict.why.as_deref() {
            Some("late_response") => {
                self.late += 1;
                row.into_iter().for_each(|row| late(row, verdict.t));
            }
            Some("duplicate_response") => {
                self.duplicates += 1;
                row.into_iter().for_each(|row| row.duplicates += 1);
            }
            Some("unknown_response") => self.strays += 1,
            _ => self.violations += 1,
        }
    }
}

const fn full(rows: usize, remembered: usize) -> usize {
    rows + remembered / 4 + 1
}

/// A late answer. Where nobody said how the request was settled before, as in a relay, the answer was
/// taken for its end until now.
fn late(row: &mut Row, t: u64) {
    row.late = Some(t);
    if row.cause.is_none() {
        let is_cancelled = row.cancelled.is_some();
        row.outcome = if is_cancelled { Outcome::Cancelled } else { Outcome::TimedOut };
        (row.end, row.code) = (None, None);
    }
}

fn wire(id: Option<&Id<'_>>) -> Option<WireId> {
    WireId::from_json(id?.as_json())
}

#[cfg(test)]
mod tests;
