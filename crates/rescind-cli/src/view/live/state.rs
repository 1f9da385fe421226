//! The state of the view: the recording as far as it is read, and what of it is shown.

use std::cmp;
use std::time::SystemTime;

use protocol_record::Line;

use super::texts::{TEXTS, Texts};
use crate::view::chart::{self, Lanes};
use crate::view::filter::Filter;
use crate::view::pairing::Pairing;
use crate::view::row::{Outcome, Row};
use crate::view::summary::Summary;
use crate::view::walk::time;

/// The page that is seen in place of the table, or over it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Page {
    #[default]
    Table,
    /// The messages of the request that is selected, from this line on.
    Messages(usize),
    Keys,
}

/// A filter that is being typed, and what was wrong with it when it was last tried.
#[derive(Clone, Debug, Default)]
pub(super) struct Typed {
    pub(super) text: String,
    pub(super) problem: Option<String>,
}

/// The whole of what is shown.
#[derive(Debug, Default)]
pub(super) struct Live {
    most: usize,
    pub(super) pairing: Pairing,
    pub(super) texts: Texts,
    pub(super) lanes: Lanes,
    /// The requests that are forgotten.
    pub(super) forgotten: Summary,
    /// All of them, when they were last counted.
    pub(super) totals: Summary,
    /// The numbers of those that the filter admits.
    pub(super) shown: Vec<u64>,
    pub(super) is_changed: bool,
    /// The recorded program; `start` is when the recording began.
    pub(super) program: String,
    start: String,
    /// The time, in microseconds of the recording; it stands still once that has ended.
    pub(super) now: u64,
    pub(super) has_ended: bool,
    pub(super) filter: Option<Filter>,
    /// The same, as it was typed.
    pub(super) filter_text: String,
    pub(super) typed: Option<Typed>,
    pub(super) page: Page,
    pub(super) selected: Option<u64>,
    /// The newest request is selected, whatever comes.
    pub(super) is_following: bool,
    /// Nothing more is read.
    pub(super) is_paused: bool,
    pub(super) is_over: bool,
}

impl Live {
    /// Nothing yet; it is to remember so many requests.
    pub(super) fn new(most: usize, filter: Option<Filter>, filter_text: String) -> Self {
        Self {
            most,
            pairing: Pairing::new(most),
            texts: Texts::new(TEXTS),
            is_changed: true,
            filter,
            filter_text,
            is_following: true,
            ..Self::default()
        }
    }

    /// Returns the selected request, as long as it is remembered.
    pub(super) fn selected(&self) -> Option<&Row> {
        self.pairing.rows().get(&self.selected?)
    }

    /// Takes a line that was written.
    pub(super) fn line(&mut self, line: &Line<'_>) {
        match line {
            Line::Recording(header) if self.start != header.start => {
                self.begin(header.start.clone().into_owned(), header.program.as_deref());
            }
            Line::End(_) => self.has_ended = true,
            _ => {}
        }
        self.now = self.now.max(time(line));
        chart::lanes(line, &mut self.lanes);
        let requests = self.pairing.take(line);
        if let Line::Message(message) = line {
            self.texts.keep(message, &requests);
        }
        for (number, row) in self.pairing.forget() {
            self.forgotten.add(&row);
            self.texts.forget(number);
        }
        self.is_changed = true;
    }

    /// Another recording has taken the place of the last: what was chosen stays as it is.
    fn begin(&mut self, start: String, program: Option<&str>) {
        let empty = Self::new(self.most, self.filter.take(), std::mem::take(&mut self.filter_text));
        let before = std::mem::replace(self, empty);
        self.typed = before.typed;
        (self.is_following, self.is_paused, self.is_over) =
            (before.is_following, before.is_paused, before.is_over);
        self.program = program.unwrap_or("rescind").into();
        self.start = start;
    }

    /// Takes the time, up to which bars of open requests are drawn.
    pub(super) fn tick(&mut self, time: SystemTime) {
        if self.is_paused || self.has_ended {
            return;
        }
        let since = humantime::parse_rfc3339(&self.start).ok();
        let since = since.and_then(|start| time.duration_since(start).ok());
        let now = since.map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(u64::MAX));
        self.now = self.now.max(now);
    }

    /// Counts, and chooses what is shown.
    pub(super) fn refresh(&mut self) {
        if !self.is_changed {
            return;
        }
        self.is_changed = false;
        self.totals = self.forgotten.clone();
        self.totals.counts = self.pairing.counts;
        self.shown.clear();
        for (number, row) in self.pairing.rows() {
            self.totals.add(row);
            if self.filter.as_ref().is_none_or(|filter| filter.admits(row)) {
                self.shown.push(*number);
            }
        }
        if self.is_following || self.selected.is_none() {
            self.selected = self.shown.last().copied();
        }
    }

    /// Returns the index in `shown` where the selected request is, or would be.
    pub(super) fn place(&self) -> usize {
        let selected = self.selected.unwrap_or(0);
        let place = self.shown.partition_point(|number| *number < selected);
        cmp::min(place, self.shown.len().saturating_sub(1))
    }
}

/// Returns the name of a problem with a request as it stands.
pub(super) fn warning(live: &Live, row: &Row) -> Option<&'static str> {
    /// So long, in microseconds, nobody waits without wondering.
    const STUCK: u64 = 10_000_000;
    /// So long after its cancel a request should be over.
    const IGNORED: u64 = 1_000_000;

    let is_in_flight = row.outcome == Outcome::Unanswered;
    let until = row.over().unwrap_or(live.now);
    let since = |t: u64| until.saturating_sub(t);
    let parent = row.parent.and_then(|parent| live.pairing.rows().get(&parent));
    let is_parent_over = parent.is_some_and(|parent| parent.outcome != Outcome::Unanswered);
    [
        ("late", row.late.is_some()),
        ("ignored cancel", row.cancelled.is_some_and(|cancelled| since(cancelled) > IGNORED)),
        ("orphan", is_in_flight && is_parent_over),
        ("stuck", is_in_flight && since(row.start) > STUCK),
    ]
    .into_iter()
    .find_map(|(name, holds)| holds.then_some(name))
}
