//! The account of every request of the peer's, and of the responses to it on the wire (F122).

use std::collections::BTreeMap;

use protocol_core::{Cause, Dialect, ResponseRule, Violation};
use protocol_endpoint::Verdict;
use protocol_testkit::unframed;

use crate::json::{Members, each_message, responded_id};

use super::words::fresh;

#[derive(Default)]
pub(super) struct Account {
    /// The requests that the peer asked under an id of their own, in their order.
    asked: Vec<Asked>,
    /// Everything else that the peer said.
    said: Vec<u8>,
    /// The number of responses to each other id.
    others: BTreeMap<String, usize>,
    /// The number of notifications that the peer said.
    pub(super) notes: usize,
    /// The number of violations that are arrivals: a late response is none.
    pub(super) violations: usize,
    /// The number of requests that got their one response.
    pub(super) responded: usize,
}

struct Asked {
    /// The token of its id.
    id: String,
    responses: usize,
    /// Whether silence is right: the dialect wants it, the server ended it, or no response can fit.
    may_be_silent: bool,
}

impl Account {
    /// Returns the id of the next request.
    pub(super) fn next_id(&self, dialect: &Dialect) -> String {
        fresh(self.asked.len(), dialect)
    }

    /// Notes that the peer asked its next request.
    pub(super) fn ask(&mut self, dialect: &Dialect, may_be_silent: bool) {
        self.asked.push(Asked { id: self.next_id(dialect), responses: 0, may_be_silent });
    }

    /// Returns the id of one of the latest requests, counted from the last one.
    pub(super) fn recent_id(&self, back: usize) -> Option<String> {
        Some(self.asked.iter().rev().nth(back)?.id.clone())
    }

    /// Notes other bytes of the peer's.
    pub(super) fn say(&mut self, bytes: &[u8]) {
        self.said.extend_from_slice(bytes);
        self.said.push(b'\n');
    }

    /// Allows silence for a request.
    pub(super) fn allow_silence(&mut self, id: &str) {
        if let Some(asked) = self.find(id) {
            asked.may_be_silent = true;
        }
    }

    /// Allows silence for all requests so far.
    pub(super) fn allow_all_silence(&mut self) {
        self.asked.iter_mut().for_each(|asked| asked.may_be_silent = true);
    }

    fn find(&mut self, id: &str) -> Option<&mut Asked> {
        let number = id.trim_matches('"').strip_prefix('1').filter(|number| number.len() == 5)?;
        self.asked.get_mut(number.parse::<usize>().ok()?).filter(|asked| asked.id == id)
    }

    /// Notes a decision of the core.
    pub(super) fn note(&mut self, verdict: &Verdict, dialect: &Dialect) {
        let is_silent = dialect.response != ResponseRule::Required;
        match verdict {
            Verdict::Cancelled { id: Some(id), cause: Cause::Peer } if is_silent => {
                self.allow_silence(id.as_json());
            }
            Verdict::Violation { violation, id } => {
                self.violations += usize::from(*violation != Violation::LateResponse);
                if let (Violation::ResponseDropped, Some(id)) = (violation, id) {
                    self.allow_silence(id.as_json());
                }
            }
            // The end of the peer's input is a cancel there.
            Verdict::Closed { .. } if dialect.closed_stream == Some(Cause::Peer) => {
                self.allow_all_silence();
            }
            _ => {}
        }
    }

    /// Notes a framed message to the peer.
    pub(super) fn hear(&mut self, framed: &[u8], dialect: &Dialect) {
        let message = unframed(framed, dialect.framing);
        for message in each_message(message) {
            let members = Members::of(message).expect("a message is an object");
            let Some(id) = responded_id(&members, dialect.envelope) else { continue };
            if let Some(asked) = self.find(id) {
                asked.responses += 1;
                assert_eq!(asked.responses, 1, "F122: {id} got two responses");
                self.responded += 1;
            } else if id != "null" {
                let responses = self.others.entry(id.to_owned()).or_default();
                *responses += 1;
                let times = occurrences(&self.said, id.as_bytes());
                assert!(*responses <= times, "F122: nobody asked {id} so often");
            }
        }
    }

    /// Judges the account once nothing is in flight and everything is written.
    pub(super) fn judge(&self) {
        for Asked { id, responses, may_be_silent } in &self.asked {
            assert!(*responses == 1 || *may_be_silent, "F122: {id} got no response");
        }
    }
}

fn occurrences(text: &[u8], part: &[u8]) -> usize {
    text.windows(part.len()).filter(|window| *window == part).count()
}
