//! The MCP server with `rmcp`.

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomNotification,
    ErrorData,
};
use rmcp::service::RequestContext;
use rmcp::transport::io::stdio_pipes;
use rmcp::{RoleServer, ServerHandler, ServiceExt};
use serde_json::json;

struct Tools;

impl ServerHandler for Tools {
    async fn call_tool(
        &self,
        asked: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let text = asked.arguments.as_ref().and_then(|arguments| arguments["text"].as_str());
        let text = text.unwrap_or_default();
        if asked.name == "wait" {
            context.ct.cancelled().await;
            let stopped = CustomNotification::new("stopped", Some(json!({ "text": text })));
            context.peer.send_notification(stopped.into()).await.expect("the client listens");
        }
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let server = Tools.serve(stdio_pipes()).await.expect("it initializes");
    server.waiting().await.expect("the client hangs up");
    // tokio reads standard input on a thread that nothing can interrupt.
    std::process::exit(0);
}
