//! The head of a request, as far as it decides something, and its judgement: which requests may come in at all.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use crate::refusal::Refusal;
use crate::rules::Rules;

/// The judge of heads.
///
/// A web page may send requests to any address, that of a server on the same machine too. `Origin` and `Host` keep such
/// pages out. Loopback names and addresses are admitted, and others by name.
#[derive(Clone, Debug)]
pub struct Gate {
    /// The origins that are admitted beside loopback ones, such as `https://example.com`; `*` admits all.
    pub origins: Vec<String>,
    /// The hosts that are admitted beside loopback ones, without a port; `*` admits all.
    pub hosts: Vec<String>,
    /// The revisions that are offered; all presets but MCP 2024-11-05.
    pub revisions: Vec<&'static Rules>,
}

impl Default for Gate {
    fn default() -> Self {
        // It knows no such transport. A server of that revision can settle it all the same.
        let is_offered = |it: &&Rules| it.version != Rules::MCP_2024_11_05.version;
        let revisions = Rules::PRESETS.iter().filter(is_offered).collect();
        Self { origins: Vec::new(), hosts: Vec::new(), revisions }
    }
}

impl Gate {
    /// Returns the rules for a head, whose method has to be `POST`, `GET` or `DELETE`.
    ///
    /// In a session these are its settled rules, `assumed`. Otherwise they are those that the version header names. Without
    /// that header, they are the oldest revision of MCP that is offered, or else the oldest of ACP.
    ///
    /// # Errors
    ///
    /// Returns the [`Refusal`] of the first rule that is broken. Pages come first, so that a stranger learns nothing else.
    pub fn judge(
        &self,
        head: &RequestHead<'_>,
        assumed: Option<&'static Rules>,
    ) -> Result<&'static Rules, Refusal> {
        self.admit(head)?;
        if !self.methods().split(", ").any(|method| method == head.method) {
            return Err(Refusal::METHOD);
        }
        // A server may settle a revision that is not offered, and its client then has to name that one.
        let offered = self.revisions.iter().copied().chain(assumed);
        let find = |version: &str| offered.clone().find(|it| it.version == version);
        let named = |version| find(version).ok_or(Refusal::VERSION);
        let rules = match (head.get(VERSION).map(named).transpose()?, assumed) {
            (Some(named), Some(_)) if !named.has_sessions => return Err(Refusal::MISMATCH),
            // "The protocol version sent by the client SHOULD be the one negotiated", so another one is no reason to refuse.
            (_, Some(settled)) => settled,
            (Some(named), None) => named,
            // "The server SHOULD assume protocol version 2025-03-26", which is the one with batches.
            (None, None) => {
                let oldest = offered.min_by_key(|it| (it.shares_streams, it.version));
                oldest.filter(|it| it.has_sessions).ok_or(Refusal::MISMATCH)?
            }
        };
        match head.method {
            "GET" | "DELETE" if !rules.has_sessions => Err(Refusal::METHOD),
            "GET" if !head.accepts(EVENTS) => Err(Refusal::ACCEPT),
            "POST" if !is_type(head.get("content-type"), JSON) => Err(Refusal::CONTENT_TYPE),
            "POST" if !head.accepts(JSON) && !head.accepts(EVENTS) => Err(Refusal::ACCEPT),
            _ => Ok(rules),
        }
    }

    /// Judges the page and the host of a head.
    pub(crate) fn admit(&self, head: &RequestHead<'_>) -> Result<(), Refusal> {
        head.check()?;
        if !head.get("host").is_some_and(|host| self.admits_host(host)) {
            return Err(Refusal::HOST);
        }
        let is_admitted = head.get("origin").is_none_or(|origin| self.admits_origin(origin));
        if is_admitted { Ok(()) } else { Err(Refusal::ORIGIN) }
    }

    /// Returns the methods that some revision takes.
    pub(crate) fn methods(&self) -> &'static str {
        let has_sessions = self.revisions.iter().any(|rules| rules.has_sessions);
        if has_sessions { "POST, GET, DELETE" } else { "POST" }
    }

    fn admits_host(&self, authority: &str) -> bool {
        let Some(host) = host_of(authority) else { return false };
        let is_named = |named: &String| named == "*" || named.eq_ignore_ascii_case(host);
        is_loopback(host) || self.hosts.iter().any(is_named)
    }

    /// The origin `null` is none of ours: a page of any site can have that, in a sandboxed frame.
    fn admits_origin(&self, origin: &str) -> bool {
        let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        authority.and_then(host_of).is_some_and(is_loopback)
            || self.origins.iter().any(|named| named == "*" || named == origin)
    }
}

/// Returns the host of an authority, if that is a host and perhaps a port.
fn host_of(authority: &str) -> Option<&str> {
    let end = match authority.starts_with('[') {
        true => authority.find(']')? + 1,
        false => authority.find(':').unwrap_or(authority.len()),
    };
    let (host, port) = authority.split_at(end);
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    let is_port = port.is_empty()
        || port.strip_prefix(':').is_some_and(|it| it.bytes().all(|byte| byte.is_ascii_digit()));
    (!host.is_empty() && host.bytes().all(is_host) && is_port).then_some(host)
}

fn is_loopback(host: &str) -> bool {
    let host = host.to_ascii_lowercase();
    let address = host.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(&host);
    address.parse().is_ok_and(|address: IpAddr| address.is_loopback())
        || host == "localhost"
        || host.ends_with(".localhost")
}

/// The method and the headers of a request that decide something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestHead<'a> {
    /// The method, such as `POST`.
    pub method: &'a str,
    headers: Vec<(&'static str, &'a str)>,
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
/// The types of the two kinds of body.
pub(crate) const JSON: &str = "application/json";
pub(crate) const EVENTS: &str = "text/event-stream";
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
        let is_visible = |it: &&str| it.bytes().all(|it| matches!(it, b' '..=b'~' | b'\t'));
        for (name, value) in headers {
            let name = NAMES.iter().find(|known| known.eq_ignore_ascii_case(name));
            let Some(name) = name else { continue };
            let value = core::str::from_utf8(value).ok().filter(is_visible);
            // A list of types may stand in several headers.
            let is_twice = *name != "accept" && head.get(name).is_some();
            head.is_broken |= is_twice || value.is_none();
            head.headers.extend(value.map(|value| (*name, value.trim_ascii())));
        }
        head
    }

    /// Returns whether every header is visible ASCII, and each but `Accept` stands once.
    ///
    /// # Errors
    ///
    /// Returns [`Refusal::HEADER`] otherwise.
    pub const fn check(&self) -> Result<(), Refusal> {
        if self.is_broken { Err(Refusal::HEADER) } else { Ok(()) }
    }

    /// Returns the value of one of the headers that decide something, by its name in lower case.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.headers.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    /// Returns whether the client accepts this type. A client without the header accepts every type.
    pub fn accepts(&self, wanted: &str) -> bool {
        let family = wanted.split('/').next().unwrap_or_default();
        let lists = self.headers.iter().filter(|(name, _)| *name == "accept");
        let mut ranges = lists.flat_map(|(_, list)| list.split(','));
        self.get("accept").is_none()
            || ranges.any(|range| {
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

#[cfg(test)]
mod tests {
    use super::*;

    const POST: [(&str, &[u8]); 2] =
        [("host", b"localhost:80"), ("content-type", b"application/json")];

    fn judge(method: &str, more: &[(&'static str, &'static str)]) -> Result<&'static str, Refusal> {
        let more = more.iter().map(|(name, value)| (*name, value.as_bytes()));
        let headers = POST.into_iter().chain(more);
        let judged = Gate::default().judge(&RequestHead::new(method, headers), None);
        judged.map(|rules| rules.version)
    }

    #[test]
    fn pages_of_other_sites_and_other_hosts_are_refused() {
        for origin in
            ["http://evil.example", "null", "http://localhost@evil.example", "file://localhost"]
        {
            assert_eq!(judge("POST", &[("origin", origin)]), Err(Refusal::ORIGIN), "{origin}");
        }
        for origin in
            ["http://localhost:3000", "https://app.localhost", "http://[::1]:1", "http://127.0.0.9"]
        {
            assert!(judge("POST", &[("origin", origin)]).is_ok(), "{origin}");
        }
        let gate = Gate::default();
        for host in [
            "evil.example",
            "localhost.evil.example",
            "",
            "[::2]",
            "127.0.0.1.evil.example:80",
            "a/localhost",
        ] {
            let head = RequestHead::new("POST", [("host", host.as_bytes())]);
            assert_eq!(gate.judge(&head, None), Err(Refusal::HOST), "{host}");
        }
        assert_eq!(gate.judge(&RequestHead::new("POST", []), None), Err(Refusal::HOST));
        let named = Gate { hosts: alloc::vec!["example.com".into()], ..Gate::default() };
        assert!(named.admits_host("example.com:8443") && !named.admits_host("example.org"));
    }

    #[test]
    fn each_broken_rule_of_a_head_has_its_status() {
        let status =
            |judged: Result<_, Refusal>| judged.map_or_else(Refusal::status, |_: &str| 200);
        assert_eq!(status(judge("PUT", &[])), 405);
        assert_eq!(status(judge("GET", &[("accept", "application/json")])), 406);
        assert_eq!(status(judge("POST", &[("accept", "text/html")])), 406);
        assert_eq!(status(judge("POST", &[("mcp-protocol-version", "1999-01-01")])), 400);
        assert_eq!(status(judge("GET", &[("mcp-protocol-version", "2026-07-28")])), 405);
        assert_eq!(status(judge("DELETE", &[("mcp-protocol-version", "2026-07-28")])), 405);
        let text = [("host", &b"localhost"[..]), ("content-type", b"text/plain")];
        let judged = Gate::default().judge(&RequestHead::new("POST", text), None);
        assert_eq!(judged.map_err(Refusal::status), Err(415));
    }

    #[test]
    fn the_version_is_that_of_the_header_or_of_the_session_or_the_oldest() {
        assert_eq!(judge("POST", &[]), Ok("2025-03-26"));
        assert_eq!(judge("POST", &[("mcp-protocol-version", "2026-07-28")]), Ok("2026-07-28"));
        let gate = Gate::default();
        let session = Rules::named("2025-06-18");
        let with = |version: &'static str| {
            [POST[0], POST[1], ("mcp-protocol-version", version.as_bytes())]
        };
        let judged = |version| gate.judge(&RequestHead::new("POST", with(version)), session);
        assert!(judged("2025-06-18").is_ok());
        let settled = judged("2025-11-25").map(|rules| rules.version);
        assert_eq!(settled, Ok("2025-06-18"));
        assert_eq!(judged("2026-07-28"), Err(Refusal::MISMATCH));
        let assumed = gate.judge(&RequestHead::new("POST", POST), session);
        assert_eq!(assumed.map(|rules| rules.version), Ok("2025-06-18"));
        let modern = Gate { revisions: alloc::vec![&Rules::MCP_2026_07_28], ..Gate::default() };
        assert_eq!(modern.judge(&RequestHead::new("POST", POST), None), Err(Refusal::MISMATCH));
        let mcp = Gate::default().revisions;
        let both = Rules::ACP.iter().chain(mcp.iter().copied());
        let both = Gate { revisions: both.collect(), ..Gate::default() };
        let assumed = both.judge(&RequestHead::new("POST", POST), None);
        assert_eq!(assumed.map(|rules| rules.version), Ok("2025-03-26"));
    }

    #[test]
    fn accept_headers_admit_ranges_on_all_lines_and_honour_a_quality_of_zero() {
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
        let lines = ["application/json", "text/event-stream"].map(|it| ("accept", it.as_bytes()));
        let both = RequestHead::new("GET", lines);
        assert_eq!(both.check(), Ok(()));
        assert!(both.accepts("application/json") && both.accepts("text/event-stream"));
        assert!(!both.accepts("text/html"));
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
