//! The witness: a request whose result tells how the work of another ended.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Play;
use crate::check::{Id, Name, WorkEnd};
use crate::family::{Family, put};
use crate::stop::{Stop, lacks, missed};

/// The time after which a witness that knows no end yet is asked again.
const AGAIN: Duration = Duration::from_millis(50);

impl Play<'_> {
    /// Returns the token of a request's progress. A witness may remember the tokens of other runs, so chance is a part.
    pub(super) fn progress_token(&self, own: &str) -> String {
        let own = own.trim_matches('"');
        match self.facts.witness {
            Some(_) if self.facts.family() != Family::Dap => {
                format!("progress-{own}-{:x}", fastrand::u64(..))
            }
            _ => format!("progress-{own}"),
        }
    }

    /// Asks the witness about a request that is known to have ended so. Without the cancels, nothing is known.
    pub(super) fn trust_witness(&mut self, name: Name, end: WorkEnd) -> Result<(), Stop> {
        self.ask_witness(name)?;
        match self.witnessed.get(&name) {
            None => Ok(()),
            Some((told, _)) if *told == end || self.is_control => Ok(()),
            Some(_) if self.is_late(self.begun.lateness()) => Err(Stop::too_late()),
            Some((told, _)) => lacks(format!(
                "the witness is wrong: it reports that the work {told}, and it {end}"
            )),
        }
    }

    /// Asks the witness until it tells how the work of a request ended, or that has had its time.
    pub(super) fn ask_witness(&mut self, name: Name) -> Result<(), Stop> {
        let made = self.made(name)?.clone();
        let Some(witness) = &self.facts.witness else { return Ok(()) };
        let params = put(&witness.params, &[("$TOKEN", json!(made.token))]);
        let deadline = Instant::now() + self.session.patience + Duration::from_millis(self.slow_ms);
        let mut went_on = false;
        loop {
            let asks = self.make(Id::Fresh).id;
            let message = self.session.wire.request(&asks, &witness.method, &params, "");
            self.session.send(&[message], false);
            self.wait_for_response(&asks, &format!("a response of the witness to {asks}"))?;
            let Some(result) = self.session.result_of(&asks) else {
                return lacks("the witness responds with an error");
            };
            if let Some(end) = told(result) {
                self.witnessed.insert(name, (end, went_on));
                return Ok(());
            }
            went_on = true;
            if Instant::now() > deadline {
                return missed(format!("the witness does not tell how the work of {made} ended"));
            }
            self.session.wait_for(AGAIN, &mut |_| false);
        }
    }
}

/// Returns what the result of a witness says. One with both words, or neither, says nothing.
fn told(result: &Value) -> Option<WorkEnd> {
    match (has_line(result, "finished"), has_line(result, "cancelled")) {
        (true, false) => Some(WorkEnd::Finished),
        (false, true) => Some(WorkEnd::Cancelled),
        _ => None,
    }
}

/// Returns whether this word is a whole line of a text in a value. The text of a tool may be JSON itself.
fn has_line(value: &Value, word: &str) -> bool {
    match value {
        Value::String(text) => match serde_json::from_str(text) {
            Ok(inner) => has_line(&inner, word),
            Err(_) => text.lines().any(|line| line.trim() == word),
        },
        Value::Array(items) => items.iter().any(|item| has_line(item, word)),
        Value::Object(members) => members.values().any(|member| has_line(member, word)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told_by(text: &str) -> Option<WorkEnd> {
        told(&json!({ "content": [{ "type": "text", "text": text }] }))
    }

    #[test]
    fn a_witness_that_says_both_or_neither_says_nothing() {
        assert_eq!(told_by("finished"), Some(WorkEnd::Finished));
        assert_eq!(told(&json!({ "ended": "cancelled" })), Some(WorkEnd::Cancelled));
        assert_eq!(told_by(r#"{"ended":"cancelled"}"#), Some(WorkEnd::Cancelled));
        assert_eq!(told_by("finished\ncancelled"), None);
        assert_eq!(told_by("running"), None);
    }

    #[test]
    fn a_witness_says_an_end_by_a_whole_line() {
        assert_eq!(told_by("its work:\r\n finished\r\n"), Some(WorkEnd::Finished));
        assert_eq!(told_by("unfinished"), None);
        assert_eq!(told_by("not cancelled yet"), None);
        assert_eq!(
            told(&json!({ "cancelled": false, "ended": "finished" })),
            Some(WorkEnd::Finished)
        );
    }
}
