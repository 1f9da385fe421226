//! Work in a recording: which row it is, what is within it, and how it ended.

use std::collections::{BTreeMap, HashMap, HashSet};

use protocol_core::WireId;
use protocol_record::line::{Kind, Message, News, Work};

use super::row::{Connection, Outcome, Row, WorkName, other};

/// The cause of a request or of work that was stopped by the name of the work.
const STOPPED: &str = "stopped";

/// The work in progress.
#[derive(Debug, Default)]
pub(super) struct Works {
    /// The row of the latest work with this name.
    latest: HashMap<WorkName, u64>,
    /// The requests whose results may name work that began.
    asked: HashSet<u64>,
}

/// The rows of a recording, and how many have begun.
pub(super) struct Rows<'a> {
    pub(super) rows: &'a mut BTreeMap<u64, Row>,
    pub(super) begun: &'a mut u64,
}

impl Works {
    pub(super) fn forget(&mut self, row: &Row) {
        self.asked.remove(&row.number);
        let latest = row.work.as_ref().filter(|name| self.latest.get(name) == Some(&row.number));
        latest.map(|name| self.latest.remove(name));
    }

    /// Takes the news of work in a message about the request with this number. Returns the row of the work, and whether
    /// the message stops nothing.
    pub(super) fn take(
        &mut self,
        mut rows: Rows<'_>,
        message: &Message<'_>,
        hop: &Connection,
        work: &Work<'_>,
        number: Option<u64>,
    ) -> (Option<u64>, bool) {
        let name = work.name.as_deref().map(|name| WorkName {
            hop: hop.clone(),
            kind: work.kind.clone().into_owned(),
            name: name.to_owned(),
        });
        let running = name.as_ref().and_then(|name| self.latest.get(name).copied());
        let row = match (work.news, name, number) {
            (News::Stop, ..) => return (running, !rows.stop(message.t, running)),
            (News::Request, Some(name), Some(number)) => {
                if let Some(row) = rows.rows.get_mut(&number) {
                    row.work = Some(name.clone());
                }
                self.latest.insert(name, number);
                Some(number)
            }
            (News::Began, Some(name), number) if self.is_begin(message, number) => {
                let row = rows.begin(message, &name, number);
                self.latest.extend(row.map(|row| (name, row)));
                row
            }
            (News::Nested, _, Some(number)) => {
                rows.put_within(number, running);
                Some(number)
            }
            (News::Ended | News::Stopped, _, number) => {
                let row = running.or(number);
                rows.end(message.t, row, work.news == News::Stopped);
                row
            }
            (News::Asked, _, Some(number)) => {
                self.asked.insert(number);
                Some(number)
            }
            _ => None,
        };
        (row, false)
    }

    /// Returns whether a message that looks like the begin of work is one. Results look alike.
    fn is_begin(&self, message: &Message<'_>, number: Option<u64>) -> bool {
        let is_result = message.parts.iter().any(|part| part.kind == Kind::Result);
        !is_result || number.is_some_and(|number| self.asked.contains(&number))
    }
}

impl Rows<'_> {
    /// Begins work that goes on without a request of its own.
    fn begin(
        &mut self,
        message: &Message<'_>,
        name: &WorkName,
        within: Option<u64>,
    ) -> Option<u64> {
        let number = *self.begun;
        let parent = within.and_then(|number| self.rows.get(&number));
        // The sender of a notification runs the work, the sender of a request does not.
        let dir = parent.map_or(other(message.dir), |parent| parent.dir);
        let id = WireId::from_json(&format!("\"{}\"", name.name))?;
        let row = Row {
            parent: within,
            root: parent.map_or(number, |parent| parent.root),
            trace: parent.and_then(|parent| parent.trace.clone()),
            method: name.kind.clone(),
            work: Some(name.clone()),
            ..Row::begun(number, message.t, name.hop.clone(), dir, id)
        };
        *self.begun += 1;
        self.rows.insert(number, row);
        Some(number)
    }

    /// Puts a request below the work that it was made for.
    fn put_within(&mut self, number: u64, work: Option<u64>) {
        let parent = work.and_then(|work| Some((work, self.rows.get(&work)?.root)));
        if let (Some((parent, root)), Some(row)) = (parent, self.rows.get_mut(&number)) {
            (row.parent, row.root) = (Some(parent), root);
        }
    }

    /// Stops work. Returns whether it was running.
    fn stop(&mut self, t: u64, running: Option<u64>) -> bool {
        let row = running.and_then(|number| self.rows.get_mut(&number));
        let Some(row) = row.filter(|row| row.end.is_none()) else { return false };
        row.cancelled.get_or_insert(t);
        row.cause.get_or_insert_with(|| STOPPED.into());
        true
    }

    /// Ends work. A request that is the work has ended by its response already, which may say that it was stopped.
    fn end(&mut self, t: u64, number: Option<u64>, is_stopped: bool) {
        let row = number.and_then(|number| self.rows.get_mut(&number));
        let Some(row) = row.filter(|row| row.work.is_some()) else { return };
        row.end.get_or_insert(t);
        if is_stopped {
            row.outcome = Outcome::Cancelled;
        } else if row.outcome == Outcome::Unanswered {
            row.outcome = Outcome::Result;
        }
    }
}
