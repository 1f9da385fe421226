//! The session as its client knows it, and the headers of each message.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::mem;

use protocol_core::{Limits, WireId};
use protocol_json::{Members, member, path, string, text, value};
use serde_json::value::RawValue;

use super::mirrors::Mirrors;
use crate::gate::{SCOPE, SCOPE_BYTES, VERSION};
use crate::post::{NAMES, SAID_VERSION, encoded, is_plain, mirrored, scope};
use crate::rules::Rules;

/// The most requests of the server whose sessions are known at the same time.
const MOST_ASKED: usize = Limits::DEFAULT.requests;

/// The session of a client: the revision that is spoken, and the id that the server gave.
///
/// One of MCP 2026-07-28 has no session. A request `initialize` makes it one of an earlier revision, and changes no rules of
/// ACP.
///
/// ```
/// use protocol_http::{ClientSession, Lane, Rules};
///
/// let mut session = ClientSession::new(&Rules::MCP_2026_07_28);
/// let message = br#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#;
/// assert_eq!(session.post(message).ok_or("it is a message")?.lane, Lane::First);
/// session.opened(Some("4f1a"), br#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18"}}"#);
/// let headers = session.headers();
/// assert!(headers.contains(&("mcp-session-id".into(), "4f1a".into())));
/// assert!(headers.contains(&("mcp-protocol-version".into(), "2025-06-18".into())));
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Debug)]
pub struct ClientSession {
    rules: &'static Rules,
    id: Option<String>,
    is_open: bool,
    /// The place of `notifications/initialized`.
    last: Lane,
    /// The sessions of ACP that requests of the server are about, until our response.
    asked: BTreeMap<WireId, String>,
    mirrors: Mirrors,
}

/// A message that is to be posted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Its headers beside those of HTTP.
    pub headers: Vec<(Cow<'static, str>, String)>,
    /// The id, if it is a request.
    pub request: Option<WireId>,
    /// The session that it is about, where sessions have streams of their own.
    pub scope: Option<String>,
    /// The id of the request that it cancels.
    pub cancels: Option<WireId>,
    /// The place of the message among the others.
    pub lane: Lane,
}

/// The place of a message among the others that are posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// It opens the session, and everything else waits for its response.
    First,
    /// It is a request, and waits for nothing.
    Free,
    /// It has no response of its own, and waits until the server took the one before. Where streams are shared, that is the
    /// one before of its session.
    InOrder,
    /// It ends the opening, once in a session. It waits as those in order do, and everything else waits for it.
    Last,
}

impl Outgoing {
    /// Returns whether its response comes in the same exchange.
    pub fn has_response(&self) -> bool {
        self.request.is_some() && matches!(self.lane, Lane::First | Lane::Free)
    }
}

impl ClientSession {
    /// Creates the session of a client that has sent nothing, and begins with these rules.
    pub const fn new(rules: &'static Rules) -> Self {
        let asked = BTreeMap::new();
        Self { rules, id: None, is_open: false, last: Lane::Last, asked, mirrors: Mirrors::NONE }
    }

    /// Returns the rules that hold now.
    pub const fn rules(&self) -> &'static Rules {
        self.rules
    }

    /// Returns the id that the server gave.
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Returns the place and the headers of a message. `None` if it is no JSON object, or one that a client may not
    /// send in this revision.
    pub fn post(&mut self, message: &[u8]) -> Option<Outgoing> {
        let json = value(core::str::from_utf8(message).ok()?)?;
        let members = Members::of(json.get(), &NAMES)?;
        let method = members.token(0).and_then(string).unwrap_or_default();
        if method.is_empty() && !self.rules.has_sessions {
            return None;
        }
        let id = members.token(1).and_then(WireId::from_json);
        let request = id.clone().filter(|_| !method.is_empty());
        let at = |names: &[&str]| path(json, names).and_then(text);
        let lane = match (&*method, request.is_some(), self.rules.shares_streams) {
            ("initialize", true, _) => Lane::First,
            // On shared streams the response to a POST comes at once. So no cancel overtakes what it cancels.
            (_, _, true) => Lane::InOrder,
            // A session opens once, and has one stream of its own.
            ("notifications/initialized", false, _) => mem::replace(&mut self.last, Lane::InOrder),
            (_, true, _) => Lane::Free,
            _ => Lane::InOrder,
        };
        if lane == Lane::First {
            let asked = at(&["params", "protocolVersion"]);
            let usual = if self.rules.has_sessions { self.rules } else { &Rules::MCP_2025_11_25 };
            *self = Self::new(usual.settled(asked.as_deref()));
        }
        let mut headers = self.headers();
        let scope = match (&request, self.rules.shares_streams) {
            (_, false) => None,
            _ if method.is_empty() => id.and_then(|id| self.asked.remove(&id)),
            _ => members.raw(2).and_then(plain_scope),
        };
        let cancel = &self.rules.dialect.cancel;
        let cancels = cancel.has_method(&method).then(|| cancel.id_in(members.raw(2))).flatten();
        headers.extend(scope.iter().map(|it| (SCOPE.into(), it.clone())));
        if !self.rules.has_sessions {
            // The body counts. A message without the member has that of the revision.
            let said = at(&SAID_VERSION).filter(|it| is_plain(it));
            let version = said.as_deref().unwrap_or(self.rules.version);
            headers.push((VERSION.into(), version.into()));
            headers.push(("mcp-method".into(), method.clone().into_owned()));
            let named = mirrored(&method).and_then(|member| at(&["params", member]));
            headers.extend(named.map(|name| ("mcp-name".into(), encoded(&name))));
            let called = members.raw(2).filter(|_| method == "tools/call");
            let arguments = called.and_then(|params| self.mirrors.headers(params));
            headers.extend(arguments.into_iter().flatten().map(|(name, it)| (name.into(), it)));
        }
        Some(Outgoing { headers, request, scope, cancels, lane })
    }

    /// Returns the headers of a request that is about the session, such as GET.
    pub fn headers(&self) -> Vec<(Cow<'static, str>, String)> {
        let id = self.id.iter().map(|id| (self.rules.session_header.into(), id.clone()));
        let is_named = self.is_open && self.rules.has_version_header;
        let version = is_named.then(|| (VERSION.into(), self.rules.version.into()));
        id.chain(version).collect()
    }

    /// Takes a message that came, and returns the session of ACP that a response names. Its stream is to be opened.
    ///
    /// In MCP 2026-07-28 the message may list tools. Their calls repeat some arguments in headers `Mcp-Param-…` only if it
    /// is given to this.
    pub fn received(&mut self, message: &[u8]) -> Option<String> {
        let json = core::str::from_utf8(message).ok()?;
        if !self.rules.has_sessions {
            self.mirrors.learn(json);
        }
        if !self.rules.shares_streams {
            return None;
        }
        let members = Members::of(json, &NAMES)?;
        let id = members.token(1).filter(|id| id.len() <= Limits::DEFAULT.id_bytes);
        let id = id.and_then(WireId::from_json)?;
        if members.given(0).is_none() {
            return members.raw(3).and_then(plain_scope);
        }
        let scope = members.raw(2).and_then(plain_scope)?;
        if self.asked.len() < MOST_ASKED {
            // The endpoint takes the first request with an id.
            self.asked.entry(id).or_insert(scope);
        }
        None
    }

    /// Takes a message of the stream of `initialize`, and the header with the session's id that came with it. Returns whether
    /// it is a response, so that nothing else has to wait.
    ///
    /// Only a result opens the session. An id that no header may have is none.
    pub fn opened(&mut self, id: Option<&str>, message: &[u8]) -> bool {
        let json = core::str::from_utf8(message).ok().and_then(value);
        let result = json.and_then(|json| member(json, "result")).filter(|it| it.get() != "null");
        let Some(result) = result else {
            return json.is_some_and(|json| member(json, "error").is_some());
        };
        let version = member(result, "protocolVersion").and_then(text);
        self.rules = self.rules.settled(version.as_deref());
        let is_valid = |id: &&str| !id.is_empty() && id.bytes().all(|it| it.is_ascii_graphic());
        self.id = id.filter(is_valid).map(Into::into);
        self.is_open = true;
        true
    }
}

/// Returns the session of ACP that a message is about, if a header can name it.
fn plain_scope(params: &RawValue) -> Option<String> {
    scope(params).filter(|it| it.len() <= SCOPE_BYTES && is_plain(it))
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;
    use crate::gate::RequestHead;
    use crate::post::Posted;

    fn taken_by_server(message: &str, session: &mut ClientSession) -> bool {
        let out = session.post(message.as_bytes()).unwrap();
        let headers = out.headers.iter().map(|(name, value)| (&**name, value.as_bytes()));
        let head = RequestHead::new("POST", headers);
        head.check().is_ok() && Posted::read(message.into(), &head, session.rules()).is_ok()
    }

    #[test]
    fn the_headers_of_2026_07_28_repeat_the_body_as_our_server_reads_it() {
        let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",
            "io.modelcontextprotocol/clientCapabilities":{}}"#;
        let mut session = ClientSession::new(&Rules::MCP_2026_07_28);
        for name in ["a", "a b", " a", "世界", "x\\n", "=?base64?YQ==?=", "ab", "abc", "abcd", ""]
        {
            for (method, member) in
                [("tools/call", "name"), ("prompts/get", "name"), ("resources/read", "uri")]
            {
                let message = format!(
                    r#"{{"id":1,"method":"{method}","params":{{"{member}":"{name}",{meta}}}}}"#
                );
                assert!(taken_by_server(&message, &mut session), "{message}");
            }
        }
        let list = format!(r#"{{"id":1,"method":"tools/list","params":{{{meta}}}}}"#);
        assert!(taken_by_server(&list, &mut session));
    }

    #[test]
    fn the_version_of_a_session_is_sent_once_it_is_settled() {
        let mut session = ClientSession::new(&Rules::MCP_2026_07_28);
        let open = br#"{"id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;
        assert_eq!(session.post(open).unwrap().headers, []);
        session.opened(Some("s"), br#"{"id":1,"error":{"code":1,"message":""}}"#);
        assert_eq!((session.id(), session.headers()), (None, Vec::new()));
        session.opened(Some("s"), br#"{"id":1,"result":{"protocolVersion":"2025-06-18"}}"#);
        let id = ("mcp-session-id".into(), "s".into());
        let version = ("mcp-protocol-version".into(), "2025-06-18".into());
        assert_eq!(session.headers(), [id.clone(), version]);
        session.opened(Some("s"), br#"{"id":1,"result":{"protocolVersion":"2025-03-26"}}"#);
        assert_eq!(session.headers(), [id], "it has no such header");
        session.opened(Some("s\n"), br#"{"id":1,"result":{"protocolVersion":"2025-06-18"}}"#);
        assert_eq!(session.id(), None);
    }

    #[test]
    fn arguments_that_the_server_has_annotated_have_headers_in_2026_07_28_alone() {
        let tools = r#"{"id":1,"result":{"tools":[{"name":"t","inputSchema":{"properties":
            {"region":{"type":"string","x-mcp-header":"Region"}}}}]}}"#;
        let call =
            r#"{"id":2,"method":"tools/call","params":{"name":"t","arguments":{"region":"eu"}}}"#;
        for (rules, method, has_header) in [
            (&Rules::MCP_2026_07_28, "tools/call", true),
            (&Rules::MCP_2026_07_28, "prompts/get", false),
            (&Rules::MCP_2025_11_25, "tools/call", false),
        ] {
            let mut session = ClientSession::new(rules);
            assert_eq!(session.received(tools.as_bytes()), None);
            let out = session.post(call.replace("tools/call", method).as_bytes()).unwrap();
            let header = ("mcp-param-region".into(), "eu".into());
            assert_eq!(out.headers.contains(&header), has_header, "{method}");
        }
    }

    #[test]
    fn only_what_opens_a_session_holds_others_up() {
        let mut session = ClientSession::new(&Rules::MCP_2026_07_28);
        let mut lane = |message: &str| session.post(message.as_bytes()).map(|out| out.lane);
        assert_eq!(lane(r#"{"id":1,"result":{}}"#), None, "a client of 2026-07-28 may not respond");
        assert_eq!(lane(r#"{"id":1,"method":"initialize"}"#), Some(Lane::First));
        assert_eq!(lane(r#"{"method":"notifications/initialized"}"#), Some(Lane::Last));
        assert_eq!(lane(r#"{"id":1,"method":"tools/call"}"#), Some(Lane::Free));
        assert_eq!(lane(r#"{"method":"notifications/cancelled"}"#), Some(Lane::InOrder));
        assert_eq!(lane(r#"{"id":1,"result":{}}"#), Some(Lane::InOrder));
        assert_eq!(lane("7"), None);
    }

    #[test]
    fn the_opening_of_a_session_ends_once() {
        let mut session = ClientSession::new(&Rules::MCP_2025_11_25);
        let mut lane = |message: &str| session.post(message.as_bytes()).map(|out| out.lane);
        for _ in 0..2 {
            assert_eq!(lane(r#"{"id":1,"method":"initialize"}"#), Some(Lane::First));
            for expected in [Lane::Last, Lane::InOrder] {
                let initialized = lane(r#"{"method":"notifications/initialized"}"#);
                assert_eq!(initialized, Some(expected));
            }
        }
    }

    #[test]
    fn a_response_names_the_session_of_the_first_request_with_its_id_if_a_header_can() {
        let mut session = ClientSession::new(&Rules::ACP_V1);
        let long = "x".repeat(SCOPE_BYTES + 1);
        let endless = "9".repeat(Limits::DEFAULT.id_bytes + 1);
        let asked = [("1", "one"), ("1", "two"), ("2", "\u{e9}"), ("3", &long), (&endless, "one")];
        for (id, name) in asked {
            let asked = format!(r#"{{"id":{id},"method":"m","params":{{"sessionId":"{name}"}}}}"#);
            assert_eq!(session.received(asked.as_bytes()), None);
        }
        assert_eq!(session.asked.len(), 1);
        for (id, scope) in [(1, Some("one")), (1, None), (2, None), (3, None)] {
            let out = session.post(format!(r#"{{"id":{id},"result":1}}"#).as_bytes()).unwrap();
            assert_eq!(out.scope.as_deref(), scope);
        }
    }
}
