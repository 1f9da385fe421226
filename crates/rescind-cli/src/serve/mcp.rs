//! The demonstration methods as tools of a Model Context Protocol server.

use protocol_async::RpcError;
use protocol_blocking::{Answer, Failure, Request};
use protocol_core::code;
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use crate::dialect::{NEWEST_WITH_INITIALIZE, Spoken, WITH_INITIALIZE, WITHOUT_INITIALIZE};
use crate::own_name;

/// A tool: its name, its description, and its arguments with their types.
type Tool = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const TOOLS: [Tool; 7] = [
    ("echo", "Answers with its arguments", &[]),
    ("sleep", "Answers after so many milliseconds", &[("ms", "integer")]),
    ("count", "Sends progress for each number", &[("to", "integer"), ("every_ms", "integer")]),
    ("stubborn", "Sleeps, and ignores cancels", &[("ms", "integer")]),
    ("fail", "Fails with that error", &[("code", "integer"), ("message", "string")]),
    ("nested", "Calls the client's sleep", &[("ms", "integer")]),
    ("outcome", "Tells how the call with that progress token ended", &[("token", "string")]),
];

/// The tool whose calls may become tasks.
pub(super) const TASK: &str = "sleep";

#[derive(Deserialize)]
struct ToolCall {
    name: String,
    arguments: Option<Box<RawValue>>,
}

/// Answers what every server of the protocol does.
pub(super) fn answer(spoken: &Spoken, request: &Request) -> Result<Value, Failure> {
    let revision = spoken.family().revision();
    let server = own_name();
    Ok(match request.method.as_str() {
        "initialize" => json!({
            "protocolVersion": negotiated(spoken, request),
            "capabilities": capabilities(revision),
            "serverInfo": server,
        }),
        "server/discover" if spoken.is_negotiated() || revision == WITHOUT_INITIALIZE => json!({
            "supportedVersions": [WITHOUT_INITIALIZE],
            "capabilities": { "tools": {} },
            "ttlMs": 0,
            "cacheScope": "public",
            "_meta": { "io.modelcontextprotocol/serverInfo": server },
        }),
        "ping" => json!({}),
        "tools/list" => {
            let mut tools: Vec<_> = TOOLS.iter().map(described).collect();
            if let Some(tool) =
                tools.iter_mut().find(|it| has_tasks(revision) && it["name"] == TASK)
            {
                tool["execution"] = json!({ "taskSupport": "optional" });
            }
            json!({ "tools": tools, "ttlMs": 0, "cacheScope": "public" })
        }
        _ => return Err(request.unknown_method()),
    })
}

/// Returns whether calls of tools may become tasks.
pub(super) fn has_tasks(revision: &str) -> bool {
    revision == NEWEST_WITH_INITIALIZE
}

/// Returns whether a call is to become a task.
pub(super) fn is_task(revision: &str, request: &Request) -> bool {
    let params: Value = request.params().unwrap_or_default();
    has_tasks(revision) && !params["task"].is_null()
}

fn capabilities(revision: &str) -> Value {
    let mut capabilities = json!({ "tools": {} });
    if has_tasks(revision) {
        capabilities["tasks"] = json!({ "cancel": {}, "requests": { "tools": { "call": {} } } });
    }
    capabilities
}

/// Returns the response to `tasks/result`, which names its task.
pub(super) fn task_answer(request: &Request, answer: Answer) -> Answer {
    let params: Value = request.params().unwrap_or_default();
    let answer = tool_answer(NEWEST_WITH_INITIALIZE, answer)?;
    let mut answer: Value = serde_json::from_str(answer.get())?;
    let task = json!({ "taskId": params["taskId"] });
    answer["_meta"] = json!({ "io.modelcontextprotocol/related-task": task });
    Ok(to_raw_value(&answer)?)
}

/// The revision that both sides speak from now on. A server that was told its revision offers that;
/// another takes what the client asks for, if it is one that has an `initialize`.
fn negotiated(spoken: &Spoken, request: &Request) -> String {
    let asked: Value = request.params().unwrap_or_default();
    let asked = asked.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
    let revision = spoken.family().revision();
    let takes_any = spoken.is_negotiated() || revision == WITHOUT_INITIALIZE;
    match takes_any {
        true if WITH_INITIALIZE.contains(&asked) => asked.to_owned(),
        true => NEWEST_WITH_INITIALIZE.to_owned(),
        false => revision.to_owned(),
    }
}

/// The names of the tools.
pub(super) fn tool_names() -> [&'static str; TOOLS.len()] {
    TOOLS.map(|(name, ..)| name)
}

fn described((name, description, arguments): &Tool) -> Value {
    let kinds = arguments.iter().map(|(name, kind)| ((*name).into(), json!({ "type": kind })));
    let properties: serde_json::Map<_, _> = kinds.collect();
    let required: Vec<_> = arguments.iter().map(|(name, _)| name).collect();
    json!({
        "name": name,
        "description": description,
        "annotations": { "readOnlyHint": true },
        "inputSchema": { "type": "object", "properties": properties, "required": required },
    })
}

/// The method that a `tools/call` asks for, with its arguments as params.
pub(super) fn called(request: &Request) -> Result<Request, Failure> {
    let ToolCall { name, arguments } = request.params()?;
    if !tool_names().contains(&&*name) {
        return Err(RpcError::new(code::INVALID_PARAMS, "there is no such tool").into());
    }
    let mut tool = request.clone();
    tool.method = name.into();
    tool.params = arguments;
    Ok(tool)
}

/// Returns a tool's response to `tools/call`. Its failure is a result too, for the model to see.
pub(super) fn tool_answer(revision: &str, answer: Answer) -> Answer {
    let (text, is_error) = match answer {
        Ok(value) => (value.get().to_owned(), false),
        Err(Failure::Error(error)) => (error.to_string(), true),
        Err(Failure::InvalidParams(invalid)) => (invalid.to_string(), true),
        Err(Failure::Internal(internal)) => (internal.to_string(), true),
        Err(other) => return Err(other),
    };
    let content = json!([{ "type": "text", "text": text }]);
    complete(revision, json!({ "content": content, "isError": is_error }))
}

/// The answer in the shape of the revision: the newest says that it is whole.
pub(super) fn complete(revision: &str, mut answer: Value) -> Answer {
    if let (WITHOUT_INITIALIZE, Some(members)) = (revision, answer.as_object_mut()) {
        members.insert("resultType".into(), "complete".into());
    }
    Ok(to_raw_value(&answer)?)
}
