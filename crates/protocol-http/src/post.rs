//! The messages of a body.

use alloc::borrow::Cow;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use protocol_core::WireId;
use protocol_json::{Members, elements, path, text, value};
use serde_json::value::RawValue;

use crate::gate::{EVENTS, RequestHead, SCOPE, VERSION};
use crate::refusal::Refusal;
use crate::rules::Rules;

/// The most messages of one batch.
const BATCH: usize = 128;
/// The members of a message that decide where it goes.
pub(crate) const NAMES: [&str; 5] = ["method", "id", "params", "result", "error"];
const META: &str = "_meta";
/// The place of the revision in a request.
pub(crate) const SAID_VERSION: [&str; 3] =
    ["params", META, "io.modelcontextprotocol/protocolVersion"];

/// A refusal, and the id of the request that it is for.
pub(crate) type Refused = (Refusal, Option<WireId>);

/// A body that a session may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Posted {
    /// The body, as it came.
    pub body: Vec<u8>,
    /// The messages in it, in their order.
    pub messages: Vec<Message>,
    /// Whether its response may be a stream of events.
    pub accepts_events: bool,
}

/// The part of a message that decides where its response goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The id, if it is a request.
    pub request: Option<WireId>,
    /// The method; empty for a response.
    pub method: String,
    /// The token under which progress is to come.
    pub progress: Option<WireId>,
    /// The session that it names, where sessions have streams of their own.
    pub scope: Option<String>,
}

impl Posted {
    /// Reads a body under the rules of a revision.
    ///
    /// # Errors
    ///
    /// Returns the rule that the body breaks, and the id of its request if that can be read.
    pub fn read(body: Vec<u8>, head: &RequestHead<'_>, rules: &Rules) -> Result<Self, Refused> {
        let json =
            core::str::from_utf8(&body).ok().and_then(value).ok_or((Refusal::PARSE, None))?;
        let batch = elements(json.get(), BATCH + 1);
        if let Some(refusal) = rules.batch_refusal.filter(|_| batch.is_some()) {
            return Err((refusal, None));
        }
        let all = batch.unwrap_or_else(|| vec![json]);
        if all.is_empty() || all.len() > BATCH {
            return Err((Refusal::MESSAGE, None));
        }
        let messages = all.into_iter().map(|one| read(one, head, rules));
        let messages = messages.collect::<Result<Vec<_>, _>>()?;
        let (mut ids, mut seen) = (messages.iter().flat_map(|it| &it.request), BTreeSet::new());
        if let Some(twice) = ids.find(|id| !seen.insert(*id)) {
            return Err((Refusal::DUPLICATE_ID, Some(twice.clone())));
        }
        Ok(Self { body, messages, accepts_events: head.accepts(EVENTS) })
    }

    /// Returns whether the body is the request that opens a session.
    pub fn opens_session(&self) -> bool {
        matches!(&self.messages[..], [one] if one.method == "initialize" && one.request.is_some())
    }

    /// Returns the ids of the requests.
    pub fn ids(&self) -> impl Iterator<Item = &WireId> {
        self.messages.iter().filter_map(|message| message.request.as_ref())
    }
}

fn read(json: &RawValue, head: &RequestHead<'_>, rules: &Rules) -> Result<Message, Refused> {
    let broken = || (Refusal::MESSAGE, None);
    let members = Members::of(json.get(), &NAMES).ok_or_else(broken)?;
    // The endpoint repeats no id that stands twice, so its response would find no stream.
    let id = members.once(1).and_then(WireId::from_json);
    let method = members.given(0).map(|it| text(it).ok_or_else(broken)).transpose()?;
    let is_response = members.token(3).is_some() || members.token(4).is_some();
    let request = match (&method, members.token(1), id) {
        (Some(_), None, _) => None,
        (Some(_), Some(_), Some(id)) if id.as_json() != "null" => Some(id),
        (None, Some(_), Some(_)) if is_response && rules.has_sessions => None,
        _ => return Err(broken()),
    };
    let progress = members.raw(2).and_then(|params| path(params, &["_meta", "progressToken"]));
    let progress = progress.and_then(|token| WireId::from_json(token.get()));
    let scope = members.raw(2).filter(|_| rules.shares_streams).and_then(scope);
    let method = method.unwrap_or_default().into_owned();
    let message = Message { request, method, progress, scope };
    match check(&message, json, head, rules) {
        Ok(()) => Ok(message),
        Err(refusal) => Err((refusal, message.request)),
    }
}

/// Returns the session of ACP that these params name.
pub(crate) fn scope(params: &RawValue) -> Option<String> {
    path(params, &["sessionId"]).and_then(text).map(Cow::into_owned)
}

/// Returns the id of a message in a call, and whether it is the request, whatever else is wrong with it.
pub(crate) fn call_of(message: &[u8]) -> Option<(WireId, bool)> {
    let members = Members::of(core::str::from_utf8(message).ok()?, &["method", "id"])?;
    let id = members.token(1).and_then(WireId::from_json)?;
    Some((id, members.given(0).is_some()))
}

/// Compares a message with what its revision asks of it, and the headers with what they repeat of the body.
fn check(
    message: &Message,
    json: &RawValue,
    head: &RequestHead<'_>,
    rules: &Rules,
) -> Result<(), Refusal> {
    // "Session-scoped request missing Acp-Session-Id? → 400 Bad Request".
    if message.scope.is_some() && message.scope.as_deref() != head.get(SCOPE) {
        return Err(Refusal::MISMATCH);
    }
    if message.request.is_none() {
        // "header requirements for notification POSTs are not defined by this revision."
        return Ok(());
    }
    if rules.removed.contains(&&*message.method) {
        return Err(Refusal::REMOVED_METHOD);
    }
    if rules.required_meta.iter().any(|name| path(json, &["params", META, name]).is_none()) {
        return Err(Refusal::META);
    }
    if rules.has_sessions {
        return Ok(());
    }
    let at = |names: &[&str]| path(json, names).and_then(text);
    let version = at(&SAID_VERSION).ok_or(Refusal::MISMATCH)?;
    let name = mirrored(&message.method).and_then(|member| at(&["params", member]));
    let shown = head.get("mcp-name").and_then(decoded);
    let is_repeated = head.get(VERSION) == Some(&*version)
        && head.get("mcp-method") == Some(&*message.method)
        && name.is_none_or(|name| shown.as_deref() == Some(name.as_bytes()));
    if is_repeated { Ok(()) } else { Err(Refusal::MISMATCH) }
}

/// Returns the member of the params that `Mcp-Name` repeats.
pub(crate) fn mirrored(method: &str) -> Option<&'static str> {
    match method {
        "tools/call" | "prompts/get" => Some("name"),
        "resources/read" => Some("uri"),
        _ => None,
    }
}

/// Returns whether a header can have this value as it is.
pub(crate) fn is_plain(value: &str) -> bool {
    value == value.trim_ascii() && value.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// Encodes the value of a header that could not have it as it is.
pub(crate) fn encoded(value: &str) -> String {
    if is_plain(value) && !(value.starts_with("=?base64?") && value.ends_with("?=")) {
        return value.into();
    }
    format!("=?base64?{}?=", STANDARD.encode(value))
}

/// Decodes a header that may be `=?base64?…?=`.
fn decoded(header: &str) -> Option<Vec<u8>> {
    match header.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) {
        Some(coded) => STANDARD.decode(coded).ok(),
        None => Some(header.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(
        body: &str,
        rules: &Rules,
        headers: &[(&'static str, &'static str)],
    ) -> Option<Refusal> {
        let headers = headers.iter().map(|(name, value)| (*name, value.as_bytes()));
        let head = RequestHead::new("POST", headers);
        Posted::read(body.into(), &head, rules).err().map(|(refusal, _)| refusal)
    }

    #[test]
    fn a_body_is_one_message_where_the_revision_says_so() {
        let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","method":"b"}]"#;
        assert_eq!(refused(batch, &Rules::MCP_2025_03_26, &[]), None);
        assert_eq!(refused(batch, &Rules::MCP_2025_06_18, &[]), Some(Refusal::BATCH));
        let twice = r#"[{"id":1,"method":"a"},{"id":1,"method":"b"}]"#;
        assert_eq!(refused(twice, &Rules::MCP_2025_03_26, &[]), Some(Refusal::DUPLICATE_ID));
        for (body, refusal) in [
            ("{", Refusal::PARSE),
            ("[]", Refusal::MESSAGE),
            ("7", Refusal::MESSAGE),
            (r#"{"id":null,"method":"a"}"#, Refusal::MESSAGE),
            (r#"{"id":1}"#, Refusal::MESSAGE),
        ] {
            assert_eq!(refused(body, &Rules::MCP_2025_03_26, &[]), Some(refusal), "{body}");
        }
        let response = r#"{"id":1,"result":{}}"#;
        assert_eq!(refused(response, &Rules::MCP_2025_11_25, &[]), None);
        assert_eq!(refused(response, &Rules::MCP_2026_07_28, &[]), Some(Refusal::MESSAGE));
    }

    #[test]
    fn headers_that_differ_from_the_body_are_refused() {
        let body = r#"{"id":1,"method":"tools/call","params":{"name":"Hello, 世界",
            "_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",
            "io.modelcontextprotocol/clientCapabilities":{}}}}"#;
        let version = ("mcp-protocol-version", "2026-07-28");
        let method = ("mcp-method", "tools/call");
        let name = ("mcp-name", "=?base64?SGVsbG8sIOS4lueVjA==?=");
        let refused = |headers: &[_]| refused(body, &Rules::MCP_2026_07_28, headers);
        assert_eq!(refused(&[version, method, name]), None);
        let mismatch = Some(Refusal::MISMATCH);
        assert_eq!(refused(&[method, name]), mismatch);
        assert_eq!(refused(&[version, name]), mismatch);
        assert_eq!(refused(&[version, method]), mismatch);
        assert_eq!(refused(&[version, method, ("mcp-name", "Hello")]), mismatch);
        assert_eq!(refused(&[version, ("mcp-method", "Tools/call"), name]), mismatch);
        assert_eq!(refused(&[("mcp-protocol-version", "2025-11-25"), method, name]), mismatch);
    }

    #[test]
    fn base64_is_decoded_strictly() {
        assert_eq!(decoded("plain").as_deref(), Some(&b"plain"[..]));
        assert_eq!(decoded("=?base64?bGluZTEKbGluZTI=?=").as_deref(), Some(&b"line1\nline2"[..]));
        for bad in ["=?base64?bGl?=", "=?base64?bG!=?=", "=?base64?bB==?=", "=?base64?====?="] {
            assert_eq!(decoded(bad), None, "{bad}");
        }
    }
}
