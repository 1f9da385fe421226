//! The MCP server with this project, and the types of the official SDK.

use protocol_async::Failure;
use protocol_core::{Config, Dialect};
use protocol_router::{Context, Router};
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ContentBlock, InitializeRequestParams, InitializeResult,
};
use serde_json::{Value, json};

async fn call(asked: CallToolRequestParams, cx: Context) -> Result<CallToolResult, Failure> {
    let text = asked.arguments.as_ref().and_then(|arguments| arguments["text"].as_str());
    let text = text.unwrap_or_default();
    if asked.name == "wait" {
        cx.cancellation().cancelled().await;
        cx.notify("stopped", json!({ "text": text })).await?;
    }
    Ok(CallToolResult::success(vec![ContentBlock::text(text)]))
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let stdio = protocol_tokio::stdio(Config::server(Dialect::MCP_2025_06_18));
    let router = Router::new()
        .request("initialize", async |asked: InitializeRequestParams, _| {
            let mut result = InitializeResult::default();
            result.protocol_version = asked.protocol_version;
            Ok(result)
        })
        .notification("notifications/initialized", async |_: Value, _| Ok(()))
        .request("tools/call", call);
    router.serve(&stdio.incoming).await;
}
