//! Finding a tool of a Model Context Protocol server that takes its time, by the schema of its arguments.

use serde_json::{Map, Value, json};

use crate::family::Request;
use crate::session::Session;

/// The value for an argument of such a name, in small letters and without underscores. The first that fits is
/// taken.
const ARGUMENTS: &[(&[&str], &str)] = &[
    (&["everyms", "intervalms"], "$TENTH_MS"),
    (&["ms", "millis", "delayms", "durationms", "sleepms", "waitms"], "$MS"),
    (&["duration", "seconds", "secs", "delay", "sleep", "wait"], "$S"),
    (&["steps", "count", "to", "iterations"], "STEPS"),
];
/// Steps that a tool is asked to take.
const STEPS: u64 = 10;

/// The most pages of a list of tools that are asked for.
const PAGES: usize = 16;

/// Returns the result of `tools/list` with the tools of all pages.
pub(crate) fn listed(session: &mut Session) -> Value {
    let mut params = json!({});
    let mut tools = Vec::new();
    for _ in 0..PAGES {
        let (id, _) = session.ask("tools", &Request::new("tools/list", params.clone()));
        let page = session.result_of(&id).cloned().unwrap_or_default();
        tools.extend(page["tools"].as_array().cloned().unwrap_or_default());
        let next = json!({ "cursor": page["nextCursor"] });
        if page["nextCursor"].as_str().is_none_or(str::is_empty) || next == params {
            break;
        }
        params = next;
    }
    json!({ "tools": tools })
}

/// Calls of the tools whose arguments say how long they take; only of those that are declared read-only,
/// unless all may be called.
pub(crate) fn slow_ones(listed: &Value, all: bool) -> Vec<Request> {
    let tools = listed["tools"].as_array().into_iter().flatten();
    let allowed = tools.filter(|tool| all || tool["annotations"]["readOnlyHint"] == true);
    let mut found: Vec<(usize, Request)> = allowed.filter_map(call).collect();
    // The more of its arguments we know, the more likely it reports steps.
    found.sort_by_key(|(known, _)| std::cmp::Reverse(*known));
    found.into_iter().map(|(_, request)| request).collect()
}

/// A call with arguments that we understand, if one of them is a time; with how many there are.
fn call(tool: &Value) -> Option<(usize, Request)> {
    let schema = &tool["inputSchema"];
    let required = schema["required"].as_array();
    let mut arguments = Map::new();
    let mut takes_time = false;
    for (name, kind) in schema["properties"].as_object()? {
        let is_number = matches!(kind["type"].as_str(), Some("number" | "integer"));
        match value_for(name).filter(|_| is_number) {
            Some("STEPS") => drop(arguments.insert(name.clone(), json!(STEPS))),
            Some(value) => {
                takes_time = true;
                arguments.insert(name.clone(), json!(value));
            }
            None if required.is_some_and(|all| all.iter().any(|it| it == name)) => return None,
            None => {}
        }
    }
    let known = arguments.len();
    let params = json!({ "name": tool["name"], "arguments": arguments });
    takes_time.then(|| (known, Request::new("tools/call", params)))
}

fn value_for(argument: &str) -> Option<&'static str> {
    let name = argument.to_lowercase().replace('_', "");
    let fits = |word: &&str| name == *word || (word.len() > 3 && name.contains(*word));
    ARGUMENTS.iter().find(|(words, _)| words.iter().any(&fits)).map(|(_, value)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, properties: &[&str], read_only: bool) -> Value {
        let properties: Map<String, Value> =
            properties.iter().map(|name| ((*name).into(), json!({ "type": "number" }))).collect();
        json!({ "name": name, "annotations": { "readOnlyHint": read_only },
            "inputSchema": { "properties": properties, "required": properties.keys().collect::<Vec<_>>() } })
    }

    #[test]
    fn tools_are_found_by_the_names_of_their_arguments() {
        let listed = json!({ "tools": [
            tool("add", &["a", "b"], true),
            tool("sleep", &["ms"], true),
            tool("long", &["duration", "steps"], true),
            tool("write", &["seconds"], false),
        ] });
        let names = |all| -> Vec<Value> {
            slow_ones(&listed, all)
                .into_iter()
                .map(|request| request.params["name"].clone())
                .collect()
        };
        assert_eq!(names(false), ["long", "sleep"]);
        assert_eq!(names(true), ["long", "sleep", "write"]);
    }

    #[test]
    fn a_unit_in_the_name_is_the_unit_that_is_meant() {
        for name in ["delay_ms", "sleepMs", "wait_ms", "duration_ms"] {
            let listed = json!({ "tools": [tool("wait", &[name], true)] });
            let request = &slow_ones(&listed, false)[0];
            assert_eq!(request.lasting(500)["arguments"][name], 500, "{name}");
        }
    }

    #[test]
    fn they_are_told_how_long_to_take() {
        let listed = json!({ "tools": [tool("count", &["to", "every_ms"], true)] });
        let request = &slow_ones(&listed, false)[0];
        assert_eq!(request.lasting(500)["arguments"], json!({ "to": 10, "every_ms": 50 }));
        let listed = json!({ "tools": [tool("long", &["duration", "steps"], true)] });
        assert_eq!(
            slow_ones(&listed, false)[0].lasting(1500)["arguments"],
            json!({ "duration": 2, "steps": 10 })
        );
    }
}
