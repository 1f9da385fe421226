//! The server that the scenarios of `@modelcontextprotocol/conformance` ask for, in every revision of MCP over HTTP.
//!
//! It prints its address, and serves until it is killed.

use std::sync::LazyLock;
use std::time::Duration;

use http_body_util::{BodyExt, Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rescind::executor::Failure;
use rescind::http::server::{Body, Server, ServerOptions};
use rescind::{Context, Router, RpcError};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::sleep;

type Answer = Response<Either<Body, Full<Bytes>>>;

/// The contents of tools, resources and prompts.
static CONTENTS: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("contents.json")).expect("it is JSON"));

const VERSIONS: [&str; 4] = ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"];
const PAUSE: Duration = Duration::from_millis(50);

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let router = router();
    let server = Server::new(ServerOptions::default(), move |_peer, incoming| {
        let router = router.clone();
        async move { _ = router.serve(&incoming).await }
    });
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/mcp", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        let server = server.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| respond(&server, request));
            // A client that goes is no news.
            _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

/// Responds to one request. The stream of the tool `test_reconnection` ends before its response, so that the client
/// has to come back for it.
async fn respond(server: &Server, request: Request<Incoming>) -> Result<Answer, hyper::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let ends_early = body.windows(17).any(|it| it == b"test_reconnection");
    let response = server.respond(Request::from_parts(head, Full::new(body))).await;
    if !ends_early {
        return Ok(response.map(Either::Left));
    }
    let (head, mut body) = response.into_parts();
    let first = body.frame().await.and_then(|frame| frame.ok()?.into_data().ok());
    let cut = [&*first.unwrap_or_default(), b"retry: 100\n\n"].concat();
    Ok(Response::from_parts(head, Either::Right(Full::new(cut.into()))))
}

fn router() -> Router {
    Router::new()
        .on_trouble(|_| ())
        .request("initialize", async |asked: Value, _| {
            let known = VERSIONS[1..].iter().find(|it| asked["protocolVersion"] == **it);
            Ok(json!({
                "protocolVersion": known.unwrap_or(&VERSIONS[1]),
                "capabilities": {
                    "completions": {}, "logging": {}, "prompts": {}, "resources": { "subscribe": true }, "tools": {},
                },
                "serverInfo": server_info(),
            }))
        })
        .request("server/discover", async |_: Value, _| {
            Ok(complete(json!({
                "supportedVersions": VERSIONS,
                "capabilities": { "completions": {}, "prompts": {}, "resources": {}, "tools": {} },
                "_meta": { "io.modelcontextprotocol/serverInfo": server_info() },
            })))
        })
        .request("ping", async |_: Value, _| Ok(json!({})))
        .request("logging/setLevel", async |_: Value, _| Ok(json!({})))
        .request("resources/subscribe", async |_: Value, _| Ok(json!({})))
        .request("resources/unsubscribe", async |_: Value, _| Ok(json!({})))
        .request("completion/complete", async |_: Value, _| {
            Ok(complete(json!({ "completion": { "values": ["test"], "total": 1, "hasMore": false } })))
        })
        .request("tools/list", async |_: Value, _| Ok(complete(json!({ "tools": tools() }))))
        .request("tools/call", call_tool)
        .request("resources/list", async |_: Value, _| {
            let of = |uri: &&str| json!({ "uri": uri, "name": uri, "description": uri });
            let all: Vec<_> = ["test://static-text", "test://static-binary"].iter().map(of).collect();
            Ok(complete(json!({ "resources": all })))
        })
        .request("resources/templates/list", async |_: Value, _| {
            let template = json!({ "uriTemplate": "test://template/{id}/data", "name": "template" });
            Ok(complete(json!({ "resourceTemplates": [template] })))
        })
        .request("resources/read", async |params: Value, _| {
            let uri = params["uri"].as_str().unwrap_or_default();
            let Some(mut content) = CONTENTS["resources"].get(uri).cloned() else {
                return Err(error(-32602, "Resource not found", json!({ "uri": uri })));
            };
            content["uri"] = uri.into();
            Ok(complete(json!({ "contents": [content] })))
        })
        .request("prompts/list", async |_: Value, _| {
            let names = CONTENTS["prompts"].as_object().into_iter().flatten();
            let all: Vec<_> =
                names.map(|(name, _)| json!({ "name": name, "description": name })).collect();
            Ok(complete(json!({ "prompts": all })))
        })
        .request("prompts/get", async |params: Value, _| {
            let name = params["name"].as_str().unwrap_or_default();
            let unknown = || error(-32602, "Unknown prompt", json!({}));
            let messages = CONTENTS["prompts"].get(name).ok_or_else(unknown)?;
            let mut messages = messages.to_string();
            for argument in ["arg1", "arg2"] {
                let said = params["arguments"][argument].as_str().unwrap_or_default();
                messages = messages.replace(&format!("{{{argument}}}"), said);
            }
            Ok(complete(json!({ "messages": serde_json::from_str::<Value>(&messages)? })))
        })
}

async fn call_tool(params: Value, cx: Context) -> Result<Value, Failure> {
    let name = params["name"].as_str().unwrap_or_default();
    if let Some(result) = CONTENTS["tools"].get(name) {
        return Ok(complete(result.clone()));
    }
    if let Some(properties) = CONTENTS["asks"].get(name) {
        let schema = json!({ "type": "object", "properties": properties });
        let question = json!({ "message": "Please respond", "requestedSchema": schema });
        let response: Value = cx.call("elicitation/create", question).await?;
        return Ok(text(&response.to_string()));
    }
    match name {
        "test_tool_with_logging" => {
            for data in
                ["Tool execution started", "Tool processing data", "Tool execution completed"]
            {
                cx.notify("notifications/message", json!({ "level": "info", "data": data }))
                    .await?;
                cx.cancellation().unless_cancelled(sleep(PAUSE)).await?;
            }
        }
        "test_tool_with_progress" => {
            for progress in [0, 50, 100] {
                cx.progress(json!({ "progress": progress, "total": 100 })).await?;
                cx.cancellation().unless_cancelled(sleep(PAUSE)).await?;
            }
        }
        "test_sampling" => {
            let content = json!({ "type": "text", "text": params["arguments"]["prompt"] });
            let messages = json!([{ "role": "user", "content": content }]);
            let asked = json!({ "messages": messages, "maxTokens": 100 });
            let response: Value = cx.call("sampling/createMessage", asked).await?;
            return Ok(text(&response["content"]["text"].to_string()));
        }
        "test_reconnection" => cx.cancellation().unless_cancelled(sleep(2 * PAUSE)).await?,
        "test_missing_capability" => {
            let data = json!({ "requiredCapabilities": { "sampling": {} } });
            return Err(error(-32021, "Missing required client capability", data));
        }
        _ if TOOLS.contains(&name) => {}
        _ => return Err(error(-32602, "Unknown tool", json!({}))),
    }
    Ok(text("done"))
}

/// The tools that do something, or nothing.
const TOOLS: [&str; 8] = [
    "test_tool_with_logging",
    "test_tool_with_progress",
    "test_sampling",
    "test_reconnection",
    "test_missing_capability",
    "test_streaming_elicitation",
    "test_logging_tool",
    "json_schema_2020_12_tool",
];

fn tools() -> Vec<Value> {
    let names = |of: &str| CONTENTS[of].as_object().into_iter().flatten().map(|(name, _)| &**name);
    let all = names("tools").chain(names("asks")).chain(TOOLS);
    all.map(|name| {
        let schema = match name {
            "json_schema_2020_12_tool" => CONTENTS["schema"].clone(),
            _ => json!({ "type": "object" }),
        };
        json!({ "name": name, "description": name, "inputSchema": schema })
    })
    .collect()
}

fn server_info() -> Value {
    json!({ "name": "conformance", "version": "0.0.0" })
}

fn text(text: &str) -> Value {
    complete(json!({ "content": [{ "type": "text", "text": text }] }))
}

/// Adds the members that MCP 2026-07-28 requires, and that other revisions ignore.
fn complete(mut result: Value) -> Value {
    result["resultType"] = "complete".into();
    result["ttlMs"] = 0.into();
    result["cacheScope"] = "public".into();
    result
}

fn error(code: i64, message: &str, data: Value) -> Failure {
    let mut error = RpcError::new(code, message);
    error.data = to_raw_value(&data).ok();
    Failure::Error(error)
}
