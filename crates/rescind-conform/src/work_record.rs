//! Work that a check has begun or stopped: its reports, its stops and its ends.

use serde_json::Value;

use crate::session::Session;
use crate::wire::{Asked, Outcome};

/// Work that a check has begun or stopped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Run {
    /// The name on the wire. It is null until the server has given one.
    pub(crate) name: Value,
    /// The request whose response ends it, where no report does.
    pub(crate) id: String,
    /// The place of its beginning in the record.
    pub(crate) begun_at: usize,
    /// Its stops so far.
    pub(crate) stops: Vec<Stopping>,
    /// The questions for its status so far, by their ids.
    pub(crate) asked: Vec<String>,
}

/// A stop that was sent.
#[derive(Clone, Debug)]
pub(crate) struct Stopping {
    /// Its id, where it is a request.
    pub(crate) id: String,
    /// Its place in the record.
    pub(crate) at: usize,
    /// Whether it named the work.
    pub(crate) is_named: bool,
}

impl Run {
    /// Returns the reports since its beginning.
    pub(crate) fn reports(&self, session: &Session) -> Vec<(usize, Value)> {
        let states = session.wire.family.states();
        let is_begun = |report: &Value| states.is_none_or(|(at, runs, _)| says(report, at, runs));
        let reports = session.reports_of(&self.name).filter(|(at, _)| *at > self.begun_at);
        reports.skip_while(|(_, report)| !is_begun(report)).collect()
    }

    /// Returns whether a request of the other side's names it, as those of a turn name their session.
    pub(crate) fn is_asked_by(&self, asked: &Asked) -> bool {
        !self.name.is_null() && asked.params["sessionId"] == self.name
    }

    /// Returns whether it is seen to have begun: by a report, or by something that is asked for it.
    pub(crate) fn is_seen(&self, session: &Session) -> bool {
        let mut asked = session.asked_of_us(self.begun_at);
        asked.any(|asked| self.is_asked_by(asked)) || !self.reports(session).is_empty()
    }

    /// Returns its ends so far: responses, or reports in which a mark is looked for as in a result.
    pub(crate) fn ends(&self, session: &Session) -> Vec<(usize, Outcome)> {
        let Some((path, _, ended)) = session.wire.family.states() else {
            let responses = session.answers_to(&self.id);
            return responses.map(|(at, outcome)| (at, outcome.clone())).collect();
        };
        let reports = self.reports(session).into_iter();
        reports
            .filter(|(_, report)| says(report, path, ended))
            .map(|(at, report)| (at, Outcome::Result(report["params"]["update"].clone())))
            .collect()
    }

    /// Returns the place of its end in the record, if it has ended.
    pub(crate) fn ended_at(&self, session: &Session) -> Option<usize> {
        self.ends(session).first().map(|(at, _)| *at)
    }

    /// Returns whether it has ended, and its stops that are requests were answered.
    pub(crate) fn is_over(&self, session: &Session) -> bool {
        let is_answered = |stop: &Stopping| stop.id.is_empty() || session.is_answered(&stop.id);
        !self.ends(session).is_empty() && self.stops.iter().all(is_answered)
    }
}

fn says(report: &Value, path: &str, word: &str) -> bool {
    report.pointer(path).is_some_and(|state| state == word)
}
