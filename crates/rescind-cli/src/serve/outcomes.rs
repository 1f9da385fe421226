//! The ends of the last calls, for a client that can't see them: its stream was closed.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use protocol_blocking::{Answer, Failure, Request};
use serde_json::Value;

use crate::lock::lock;

/// The number of calls that are remembered.
const MOST: usize = 1_024;
/// The bytes of a progress token, at most, by which a call is remembered.
const TOKEN_BYTES: usize = 256;

/// The progress tokens of the last calls, each with how the call ended.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcomes(Arc<Mutex<VecDeque<(String, &'static str)>>>);

impl Outcomes {
    /// Remembers how the work of a request ended, if it has a progress token.
    pub(super) fn keep(&self, request: &Request, answer: &Answer) {
        let params: Value = request.params().unwrap_or_default();
        let Some(token) = params["_meta"]["progressToken"].as_str() else { return };
        if token.len() > TOKEN_BYTES {
            return;
        }
        let end = match answer {
            Err(Failure::Cancelled) => "cancelled",
            Ok(_) | Err(_) => "finished",
        };
        let mut kept = lock(&self.0);
        if kept.len() == MOST {
            kept.pop_front();
        }
        kept.push_back((token.into(), end));
    }

    /// Returns how the call with a token ended, or that nobody knows yet.
    pub(super) fn of(&self, token: &str) -> &'static str {
        let kept = lock(&self.0);
        let found = kept.iter().rev().find(|(other, _)| other == token);
        found.map_or("unknown", |(_, end)| *end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use serde_json::value::to_raw_value;

    fn keep(outcomes: &Outcomes, token: &str, answer: Answer) {
        let params = json!({ "_meta": { "progressToken": token } });
        let params = Some(to_raw_value(&params).unwrap());
        outcomes.keep(&Request { method: "sleep".into(), params, options: None }, &answer);
    }

    #[test]
    fn the_last_calls_are_remembered_by_tokens_that_are_short() {
        let (outcomes, done) = (Outcomes::default(), || Ok(to_raw_value(&1).unwrap()));
        keep(&outcomes, "first", Err(Failure::Cancelled));
        assert_eq!(outcomes.of("first"), "cancelled");
        let longest = "x".repeat(TOKEN_BYTES);
        keep(&outcomes, &longest, done());
        keep(&outcomes, &format!("{longest}x"), done());
        assert_eq!(outcomes.of(&longest), "finished");
        assert_eq!(outcomes.of(&format!("{longest}x")), "unknown");
        // With these, so many are kept as can be.
        (2..MOST).for_each(|number| keep(&outcomes, &number.to_string(), done()));
        assert_eq!(outcomes.of("first"), "cancelled");
        keep(&outcomes, "one more", done());
        assert_eq!(outcomes.of("first"), "unknown");
    }
}
