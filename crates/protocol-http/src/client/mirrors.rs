//! The arguments of tools that headers repeat: "Custom Headers from Tool Parameters", MCP 2026-07-28 (SEP-2243).

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use protocol_json::{Members, array, member, path, text};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::post::encoded;

/// The annotation of an argument that a header repeats, which names the header.
const ANNOTATION: &str = "x-mcp-header";

/// The most bytes of a schema that is read for annotations. Its tree takes up to a hundred times as many for a moment.
const SCHEMA_BYTES: usize = 64 << 10;

/// The most names in all paths of one tool. A call looks up each of them in its arguments.
const MOST_NAMES: usize = 64;

/// The most names in all paths of all tools. A tool above it replaces all others.
const KEPT_NAMES: usize = 512;

/// The most bytes of the name of a tool, an argument or a header. A tool with a longer one is not kept.
const NAME_BYTES: usize = 128;

/// The arguments that headers repeat, as the server has listed them, by the tool.
#[derive(Clone, Debug)]
pub(super) struct Mirrors(BTreeMap<Box<str>, Box<[Mirror]>>);

/// An argument that a header repeats.
#[derive(Clone, Debug)]
struct Mirror {
    /// The name of the header, in lower case.
    header: Box<str>,
    /// The names from the arguments down to the value.
    path: Box<[Box<str>]>,
}

impl Mirrors {
    pub(super) const NONE: Self = Self(BTreeMap::new());

    /// Takes a message of the server, which may list tools. A tool that is listed again is taken anew.
    pub(super) fn learn(&mut self, message: &str) {
        if self.0.is_empty() && !message.contains(ANNOTATION) {
            return;
        }
        let Some(members) = Members::of(message, &["method", "result"]) else { return };
        let result = members.raw(1).filter(|_| members.token(0).is_none());
        let tools = result.and_then(|result| member(result, "tools"));
        // Text that is no array lists nothing.
        let _ = tools.and_then(|tools| array(tools.get(), |tool| self.learn_tool(tool)));
    }

    fn learn_tool(&mut self, tool: &RawValue) {
        let Some(name) = member(tool, "name").and_then(text) else { return };
        self.0.remove(&*name);
        let schema = member(tool, "inputSchema").map(RawValue::get);
        let is_read = |it: &&str| it.len() <= SCHEMA_BYTES && it.contains(ANNOTATION);
        let schema = schema.filter(is_read).and_then(|it| serde_json::from_str::<Value>(it).ok());
        let mut found = Vec::new();
        // "Clients MUST reject tool definitions where any x-mcp-header value violates these constraints." The host sees
        // the tool all the same, and the server judges its call.
        let is_valid = schema.and_then(|schema| find(&schema, &mut Vec::new(), &mut found));
        if is_valid.is_none() || found.is_empty() || name.len() > NAME_BYTES {
            return;
        }
        if names(self.0.values().flatten().chain(&found)) > KEPT_NAMES {
            self.0.clear();
        }
        self.0.insert(name.into(), found.into());
    }

    /// Returns the headers of a call of a tool, or `None` if nothing of it is mirrored. An argument that is absent or null
    /// has none.
    pub(super) fn headers(&self, params: &RawValue) -> Option<Vec<(String, String)>> {
        let mirrors = self.0.get(&*member(params, "name").and_then(text)?)?;
        let arguments = member(params, "arguments")?;
        let value = |it: &Mirror| path(arguments, &it.path).and_then(header_value);
        let header = |it: &Mirror| Some((it.header.to_string(), value(it)?));
        Some(mirrors.iter().filter_map(header).collect())
    }
}

/// Finds the annotated properties of a schema at this path, and of the schemas of its properties. `None` if an annotation
/// of one breaks a rule, or if there are too many.
fn find<'s>(schema: &'s Value, at: &mut Vec<&'s str>, found: &mut Vec<Mirror>) -> Option<()> {
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        at.push(name);
        if let Some(annotation) = property.get(ANNOTATION) {
            // "MUST match HTTP field-name token syntax", "MUST only be applied to parameters with primitive types
            // (integer, string, boolean)", "MUST be case-insensitively unique".
            let kind = property.get("type")?.as_str()?;
            let named = annotation.as_str().filter(|it| !it.is_empty() && it.bytes().all(is_token));
            let header = format!("mcp-param-{}", named?.to_ascii_lowercase());
            let is_plain = matches!(kind, "integer" | "string" | "boolean");
            let is_new = found.iter().all(|other| *other.header != *header);
            let is_short = at.iter().chain([&&*header]).all(|name| name.len() <= NAME_BYTES);
            let path = at.iter().map(|&name| name.into()).collect();
            found.push(Mirror { header: header.into(), path });
            if !is_plain || !is_new || !is_short || names(&*found) > MOST_NAMES {
                return None;
            }
        }
        find(property, at, found)?;
        at.pop();
    }
    Some(())
}

/// Returns whether a token of HTTP may have this byte: `tchar`, RFC 9110.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Returns a text, a number or a truth value as the value of a header. Another argument has none.
fn header_value(argument: &RawValue) -> Option<String> {
    match argument.get().as_bytes().first()? {
        b'"' => text(argument).map(|text| encoded(&text)),
        b'n' | b'[' | b'{' => None,
        _ => Some(argument.get().to_string()),
    }
}

/// Returns the number of names in these paths.
fn names<'m>(mirrors: impl IntoIterator<Item = &'m Mirror>) -> usize {
    mirrors.into_iter().map(|it| it.path.len()).sum()
}

#[cfg(test)]
mod tests {
    use protocol_json::value;

    use super::*;

    fn list(tool: &str, properties: &str) -> String {
        let schema = format!(r#"{{"type":"object","properties":{{{properties}}}}}"#);
        format!(
            r#"{{"id":1,"result":{{"tools":[{{"name":"{tool}","inputSchema":{schema}}},{{"name":"b","inputSchema":{{}}}}]}}}}"#
        )
    }

    fn headers(mirrors: &Mirrors, tool: &str, arguments: &str) -> Vec<(String, String)> {
        let params = format!(r#"{{"name":"{tool}","arguments":{arguments}}}"#);
        mirrors.headers(value(&params).unwrap()).unwrap_or_default()
    }

    const REGION: &str = r#""region":{"type":"string","x-mcp-header":"Region"}"#;

    #[test]
    fn annotated_arguments_have_headers_and_no_others() {
        let mut mirrors = Mirrors::NONE;
        let limit = r#""options":{"type":"object","properties":{"limit":{"type":"integer","x-mcp-header":"Limit"}}}"#;
        let dry = r#""dry":{"type":"boolean","x-mcp-header":"Dry"},"query":{"type":"string"}"#;
        mirrors.learn(&list("a", &[REGION, limit, dry].join(",")));
        let arguments = r#"{"region":"世界","options":{"limit":42},"dry":true,"query":"q"}"#;
        let mut sent = headers(&mirrors, "a", arguments);
        sent.sort();
        let expected = [
            ("mcp-param-dry", "true"),
            ("mcp-param-limit", "42"),
            ("mcp-param-region", "=?base64?5LiW55WM?="),
        ];
        assert_eq!(sent, expected.map(|(name, value)| (name.into(), value.into())));
        for arguments in [r#"{"region":null}"#, "{}", r#"{"region":{}}"#, r#"{"options":[1]}"#] {
            assert_eq!(headers(&mirrors, "a", arguments), [], "{arguments}");
        }
        assert_eq!(headers(&mirrors, "b", r#"{"region":"eu"}"#), []);
    }

    #[test]
    fn a_tool_that_is_listed_anew_is_taken_anew() {
        let mut mirrors = Mirrors::NONE;
        mirrors.learn(&list("a", REGION));
        mirrors.learn(&list("a", &REGION.replace("Region", "Zone")));
        let sent = headers(&mirrors, "a", r#"{"region":"eu"}"#);
        assert_eq!(sent, [("mcp-param-zone".into(), "eu".into())]);
        mirrors.learn(&list("a", r#""region":{"type":"string"}"#));
        assert!(mirrors.0.is_empty());
    }

    #[test]
    fn a_definition_that_breaks_a_rule_has_no_headers() {
        for properties in [
            REGION.replace("Region", ""),
            REGION.replace("Region", "a b"),
            REGION.replace(r#""Region""#, "7"),
            REGION.replace("string", "number"),
            format!(
                "{REGION},{}",
                REGION.replacen("region", "other", 1).replace("Region", "REGION")
            ),
        ] {
            let mut mirrors = Mirrors::NONE;
            mirrors.learn(&list("a", &properties));
            assert!(mirrors.0.is_empty(), "{properties}");
        }
    }

    #[test]
    fn what_is_kept_has_limits_and_begins_anew_beyond_them() {
        let mut mirrors = Mirrors::NONE;
        for tool in 0..2_000 {
            mirrors.learn(&list(&format!("{tool:05}"), REGION));
            assert!(mirrors.0.len() <= KEPT_NAMES);
            let sent = headers(&mirrors, &format!("{tool:05}"), r#"{"region":"eu"}"#);
            assert_eq!(sent.len(), 1, "the latest is kept");
        }
        let property = |n| format!(r#""p{n}":{{"type":"string","x-mcp-header":"H{n}"}}"#);
        for (most, is_kept) in [(MOST_NAMES, true), (MOST_NAMES + 1, false)] {
            let mut mirrors = Mirrors::NONE;
            mirrors.learn(&list("a", &(0..most).map(property).collect::<Vec<_>>().join(",")));
            assert_eq!(mirrors.0.len(), usize::from(is_kept), "{most}");
        }
        for (tool, properties) in [
            ("a", format!(r#""{}":0,{REGION}"#, "x".repeat(SCHEMA_BYTES))),
            (&*"a".repeat(NAME_BYTES + 1), REGION.into()),
            ("a", REGION.replace("region", &"x".repeat(NAME_BYTES + 1))),
            ("a", REGION.replace("Region", &"x".repeat(NAME_BYTES))),
        ] {
            let mut mirrors = Mirrors::NONE;
            mirrors.learn(&list(tool, &properties));
            assert!(mirrors.0.is_empty());
        }
    }

    #[test]
    fn a_message_that_is_no_response_lists_nothing() {
        let mut mirrors = Mirrors::NONE;
        mirrors.learn(&list("a", REGION).replace(r#""id":1"#, r#""id":1,"method":"m""#));
        assert!(mirrors.0.is_empty());
    }
}
