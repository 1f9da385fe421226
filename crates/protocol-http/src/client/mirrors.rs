//! The arguments of tools that headers repeat: "Custom Headers from Tool Parameters", MCP 2026-07-28 (SEP-2243).

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use protocol_json::{array, member, path, text, value};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::post::encoded;

/// The annotation of an argument that a header repeats, which names the header.
const ANNOTATION: &str = "x-mcp-header";

/// The most bytes of all names together. A tool beyond them has no such headers.
const NAME_BYTES: usize = 64 << 10;

/// The arguments that headers repeat, as the server has listed them.
#[derive(Clone, Debug, Default)]
pub(super) struct Mirrors {
    by_tool: BTreeMap<String, Vec<Mirror>>,
    /// The bytes of all names in `by_tool`.
    name_bytes: usize,
}

/// An argument that a header repeats.
#[derive(Clone, Debug)]
struct Mirror {
    /// The name of the header, in lower case.
    header: String,
    /// The names from the arguments down to the value.
    path: Vec<String>,
}

impl Mirrors {
    /// Takes a message of the server, which may list tools. A tool that is listed again is taken anew.
    pub(super) fn learn(&mut self, message: &str) {
        if self.by_tool.is_empty() && !message.contains(ANNOTATION) {
            return;
        }
        let tools = value(message).and_then(|json| path(json, &["result", "tools"]));
        // Text that is no array lists nothing.
        let _ = tools.and_then(|tools| array(tools.get(), |tool| self.learn_tool(tool)));
    }

    fn learn_tool(&mut self, tool: &RawValue) {
        let Some(name) = member(tool, "name").and_then(text) else { return };
        if let Some(before) = self.by_tool.remove(&*name) {
            self.name_bytes -= name_bytes(&name, &before);
        }
        let schema = member(tool, "inputSchema").map(RawValue::get);
        let schema = schema.filter(|schema| schema.contains(ANNOTATION));
        let schema = schema.and_then(|schema| serde_json::from_str::<Value>(schema).ok());
        let mut found = Vec::new();
        // "Clients MUST reject tool definitions where any x-mcp-header value violates these constraints." The host sees
        // the tool all the same, and the server judges its call.
        if schema.and_then(|schema| find(&schema, &[], &mut found)).is_none() || found.is_empty() {
            return;
        }
        let bytes = name_bytes(&name, &found);
        if self.name_bytes + bytes <= NAME_BYTES {
            self.name_bytes += bytes;
            self.by_tool.insert(name.into_owned(), found);
        }
    }

    /// Returns the headers of a call of a tool. An argument that is absent or null has none.
    pub(super) fn headers(&self, params: &RawValue) -> Vec<(String, String)> {
        let tool = member(params, "name").and_then(text);
        let mirrors = tool.and_then(|tool| self.by_tool.get(&*tool)).into_iter().flatten();
        let header = |mirror: &Mirror| {
            let argument = path(member(params, "arguments")?, &mirror.path)?;
            Some((mirror.header.clone(), header_value(argument)?))
        };
        mirrors.filter_map(header).collect()
    }
}

/// Finds the annotated properties of a schema and of the schemas within. `None` if an annotation breaks a rule.
fn find(schema: &Value, path: &[String], found: &mut Vec<Mirror>) -> Option<()> {
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        let path = [path, &[name.clone()]].concat();
        if let Some(annotation) = property.get(ANNOTATION) {
            // "MUST match HTTP field-name token syntax", "MUST only be applied to parameters with primitive types
            // (integer, string, boolean)", "MUST be case-insensitively unique".
            let is_plain =
                matches!(property.get("type")?.as_str()?, "integer" | "string" | "boolean");
            let named =
                annotation.as_str().filter(|it| !it.is_empty() && it.bytes().all(is_token))?;
            let header = format!("mcp-param-{}", named.to_ascii_lowercase());
            if !is_plain || found.iter().any(|other| other.header == header) {
                return None;
            }
            found.push(Mirror { header, path: path.clone() });
        }
        find(property, &path, found)?;
    }
    Some(())
}

/// Returns whether a token of HTTP may have this byte: `tchar`, RFC 9110.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Returns an argument as the value of a header, unless it is no text, number or truth value.
fn header_value(argument: &RawValue) -> Option<String> {
    match argument.get().as_bytes().first()? {
        b'"' => text(argument).map(|text| encoded(&text)),
        b'n' | b'[' | b'{' => None,
        _ => Some(argument.get().to_string()),
    }
}

fn name_bytes(tool: &str, mirrors: &[Mirror]) -> usize {
    let of = |it: &Mirror| it.header.len() + it.path.iter().map(String::len).sum::<usize>();
    tool.len() + mirrors.iter().map(of).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(tool: &str, properties: &str) -> String {
        let schema = format!(r#"{{"type":"object","properties":{{{properties}}}}}"#);
        format!(
            r#"{{"id":1,"result":{{"tools":[{{"name":"{tool}","inputSchema":{schema}}},{{"name":"b","inputSchema":{{}}}}]}}}}"#
        )
    }

    fn headers(mirrors: &Mirrors, tool: &str, arguments: &str) -> Vec<(String, String)> {
        let params = format!(r#"{{"name":"{tool}","arguments":{arguments}}}"#);
        mirrors.headers(value(&params).unwrap())
    }

    const REGION: &str = r#""region":{"type":"string","x-mcp-header":"Region"}"#;

    #[test]
    fn annotated_arguments_have_headers_and_no_others() {
        let mut mirrors = Mirrors::default();
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
        let mut mirrors = Mirrors::default();
        mirrors.learn(&list("a", REGION));
        mirrors.learn(&list("a", &REGION.replace("Region", "Zone")));
        let sent = headers(&mirrors, "a", r#"{"region":"eu"}"#);
        assert_eq!(sent, [("mcp-param-zone".into(), "eu".into())]);
        mirrors.learn(&list("a", r#""region":{"type":"string"}"#));
        assert_eq!((mirrors.by_tool.len(), mirrors.name_bytes), (0, 0));
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
            let mut mirrors = Mirrors::default();
            mirrors.learn(&list("a", &properties));
            assert!(mirrors.by_tool.is_empty(), "{properties}");
        }
    }

    #[test]
    fn the_names_that_are_kept_have_a_limit() {
        let mut mirrors = Mirrors::default();
        let per_tool = "a".len() + "mcp-param-region".len() + "region".len();
        for tool in 0..NAME_BYTES {
            mirrors.learn(&list(&format!("{tool:05}"), REGION));
        }
        assert_eq!(mirrors.by_tool.len(), NAME_BYTES / (per_tool + 4));
        assert!(mirrors.name_bytes <= NAME_BYTES);
    }
}
