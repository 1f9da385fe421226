//! The head of a request, as far as it decides something.

use crate::refusal::Refusal;

/// The method and the headers of a request that decide something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestHead<'a> {
    /// The method, such as `POST`.
    pub method: &'a str,
    headers: [Option<&'a str>; NAMES.len()],
    is_broken: bool,
}

const NAMES: [&str; 11] = [
    "host",
    "origin",
    "accept",
    "content-type",
    VERSION,
    "mcp-session-id",
    LAST_EVENT_ID,
    "mcp-method",
    "mcp-name",
    "acp-connection-id",
    SCOPE,
];
/// The header with the revision that the client speaks.
pub(crate) const VERSION: &str = "mcp-protocol-version";
/// The header with the event after which a stream goes on.
pub(crate) const LAST_EVENT_ID: &str = "last-event-id";
/// The header with a session of ACP, which is one of several on a connection.
pub(crate) const SCOPE: &str = "acp-session-id";
/// The longest name of such a session that has a stream of its own.
pub(crate) const SCOPE_BYTES: usize = 256;

impl<'a> RequestHead<'a> {
    /// Reads a head. The names of headers are compared without regard to case.
    pub fn new(method: &'a str, headers: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Self {
        let mut head = Self { method, ..Self::default() };
        for (name, value) in headers {
            let at = NAMES.iter().position(|known| known.eq_ignore_ascii_case(name));
            let Some(at) = at else { continue };
            let value = core::str::from_utf8(value).ok().filter(|value| is_visible(value));
            // A list of types may stand in several headers, and the first one of these is enough.
            let is_twice = head.headers[at].is_some() && NAMES[at] != "accept";
            head.is_broken |= is_twice || value.is_none();
            head.headers[at] = head.headers[at].or(value.map(str::trim_ascii));
        }
        head
    }

    /// Returns whether every header stands once and is visible ASCII.
    ///
    /// # Errors
    ///
    /// Returns [`Refusal::HEADER`] otherwise.
    pub const fn check(&self) -> Result<(), Refusal> {
        if self.is_broken { Err(Refusal::HEADER) } else { Ok(()) }
    }

    /// Returns the value of one of the headers that decide something, by its name in lower case.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'a str> {
        NAMES.iter().position(|known| *known == name).and_then(|at| self.headers[at])
    }

    /// Returns whether the client accepts this type. A client without the header accepts every type.
    #[must_use]
    pub fn accepts(&self, wanted: &str) -> bool {
        let Some(accept) = self.get("accept") else { return true };
        let family = wanted.split('/').next().unwrap_or_default();
        accept.split(',').any(|range| {
            let mut parts = range.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default();
            let is_refused =
                parts.any(|part| matches!(part, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"));
            let is_family = kind.strip_suffix("/*").is_some_and(|it| it == "*" || it == family);
            !is_refused && (is_family || kind.eq_ignore_ascii_case(wanted))
        })
    }
}

/// Returns whether `Content-Type` names this type, whatever its parameters are.
pub(crate) fn is_type(kind: Option<&str>, wanted: &str) -> bool {
    let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default();
    kind.trim().eq_ignore_ascii_case(wanted)
}

fn is_visible(value: &str) -> bool {
    value.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_accept_header_admits_ranges_and_honours_a_quality_of_zero() {
        let accepts = |value: &'static str| {
            let head = RequestHead::new("POST", [("ACCEPT", value.as_bytes())]);
            (head.accepts("application/json"), head.accepts("text/event-stream"))
        };
        assert_eq!(accepts("application/json, text/event-stream"), (true, true));
        assert_eq!(accepts("application/json"), (true, false));
        assert_eq!(accepts("text/*;q=0.5"), (false, true));
        assert_eq!(accepts("*/*, text/event-stream;q=0"), (true, true));
        assert_eq!(accepts("text/event-stream;q=0"), (false, false));
        assert_eq!(accepts("text/html"), (false, false));
        assert!(RequestHead::new("POST", []).accepts("application/json"));
    }

    #[test]
    fn a_header_that_stands_twice_is_refused() {
        let twice = [("Mcp-Session-Id", &b"a"[..]), ("mcp-session-id", b"b")];
        assert_eq!(RequestHead::new("POST", twice).check(), Err(Refusal::HEADER));
        assert_eq!(
            RequestHead::new("POST", [("origin", &b"\xFF"[..])]).check(),
            Err(Refusal::HEADER)
        );
        assert_eq!(RequestHead::new("POST", [("x", &b"\xFF"[..])]).check(), Ok(()));
    }
}
