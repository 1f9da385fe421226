//! The distributed trace that a request belongs to, as its caller says in `params._meta.traceparent`.

use std::rc::Rc;

use protocol_record::line::Message;
use serde_json::Value;

/// A trace, and the span in it that a request was made in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trace {
    /// As W3C's Trace Context writes it: `00-<trace>-<span>-01`.
    traceparent: Rc<str>,
    /// Whether the span is the request's own parent; else it is that of a request above.
    pub(crate) is_own: bool,
}

impl Trace {
    /// Returns the trace that a request names, or else the trace of the request that it was made for. A request
    /// that a relay passes on names the same trace as the one received, and is made for that.
    pub(super) fn of(message: &Message<'_>, at: usize, above: Option<&Self>) -> Option<Self> {
        let said = message.text.as_deref().filter(|text| text.contains("traceparent"));
        let said = said.and_then(|text| traceparent(text, at));
        match (said, above) {
            (Some(said), Some(above)) if *said == *above.traceparent => {
                Some(Self { is_own: false, ..above.clone() })
            }
            (Some(said), _) => Some(Self { traceparent: said.into(), is_own: true }),
            (None, above) => above.map(|above| Self { is_own: false, ..above.clone() }),
        }
    }

    /// 32 hexadecimal digits.
    pub(crate) fn id(&self) -> &str {
        &self.traceparent[3..35]
    }

    /// 16 hexadecimal digits.
    pub(crate) fn span(&self) -> &str {
        &self.traceparent[36..52]
    }
}

/// That of a message, or of a member of a batch.
fn traceparent(text: &str, at: usize) -> Option<String> {
    let message: Value = serde_json::from_str(text).ok()?;
    let message = message.get(at).unwrap_or(&message);
    let said = message["params"]["_meta"]["traceparent"].as_str()?;
    is_valid(said).then(|| said.to_ascii_lowercase())
}

/// Zeros alone are no id.
fn is_valid(traceparent: &str) -> bool {
    let lengths = [2, 32, 16, 2];
    let parts: Vec<&str> = traceparent.split('-').collect();
    parts.len() == lengths.len()
        && parts.iter().zip(lengths).all(|(part, length)| {
            part.len() == length && part.bytes().all(|it| it.is_ascii_hexdigit())
        })
        && parts[0] != "ff"
        && parts[1..3].iter().all(|part| part.bytes().any(|it| it != b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIVEN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn said(text: &str, above: Option<&Trace>) -> Option<Trace> {
        let line = serde_json::json!({
            "t": 1, "hop": "a", "dir": "sent", "bytes": 9, "parts": [], "text": text,
        });
        Trace::of(&serde_json::from_str(&line.to_string()).unwrap(), 0, above)
    }

    #[test]
    fn a_request_is_in_the_trace_that_it_says_or_in_that_of_what_it_was_made_for() {
        let asking = |it: &str| format!(r#"{{"params":{{"_meta":{{"traceparent":"{it}"}}}}}}"#);
        let own = said(&asking(GIVEN), None).unwrap();
        assert_eq!((own.id(), own.span()), (&GIVEN[3..35], "b7ad6b7169203331"));
        assert!(own.is_own);
        let passed_on = said(&asking(GIVEN), Some(&own)).unwrap();
        assert!(!passed_on.is_own, "it is below what was received");
        assert!(!said("{}", Some(&own)).unwrap().is_own);
        let other = said(&asking(&GIVEN.replace("b7", "c7")), Some(&own)).unwrap();
        assert!(other.is_own);
        let in_batch = said(&format!("[{}]", asking(GIVEN)), None);
        assert_eq!(in_batch.as_ref(), Some(&own));
        let zeros = GIVEN.replace("b7ad6b7169203331", "0000000000000000");
        for bad in ["", "00-a-b-01", &zeros, &GIVEN.replace('a', "ü"), &GIVEN.replace("00-", "ff-")]
        {
            assert_eq!(said(&asking(bad), None), None, "{bad}");
        }
    }
}
