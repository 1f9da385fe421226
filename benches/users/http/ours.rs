//! The MCP server over HTTP with this project, and the types of the official SDK.

use protocol_async::Failure;
use protocol_http::server::{Server, ServerOptions};
use protocol_router::{Context, Router};
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ContentBlock, InitializeRequestParams, InitializeResult,
};
use serde_json::{Value, json};
use tokio::net::TcpListener;

async fn call(asked: CallToolRequestParams, cx: Context) -> Result<CallToolResult, Failure> {
    let arguments = asked.arguments.unwrap_or_default();
    for number in 1..=arguments.get("to").and_then(Value::as_u64).unwrap_or_default() {
        cx.progress(json!({ "progress": number })).await?;
    }
    let text = arguments.get("text").and_then(Value::as_str).unwrap_or_default();
    Ok(CallToolResult::success(vec![ContentBlock::text(text)]))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let router = Router::new()
        .request("initialize", async |asked: InitializeRequestParams, _| {
            let mut result = InitializeResult::default();
            result.protocol_version = asked.protocol_version;
            Ok(result)
        })
        .notification("notifications/initialized", async |_: Value, _| Ok(()))
        .request("tools/call", call);
    let server = Server::new(ServerOptions::default(), move |_peer, incoming| {
        let router = router.clone();
        async move { _ = router.serve(&incoming).await }
    });
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    server.serve(listener).await
}
