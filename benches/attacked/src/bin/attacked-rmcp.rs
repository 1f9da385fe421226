//! rmcp over TCP, a service for each connection, with its defaults: the two methods are tools.

use attacked::{Sleep, listen};
use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult, ErrorData};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler, ServiceExt};
use serde_json::Value;

struct Tools;

impl ServerHandler for Tools {
    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(call.arguments.unwrap_or_default());
        if call.name == "echo" {
            return Ok(CallToolResult::structured(arguments).into());
        }
        let asked: Sleep = serde_json::from_value(arguments)
            .map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;
        asked.sleep().await;
        Ok(CallToolResult::success(Vec::new()).into())
    }
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    listen("mcp", async |stream| {
        // One that goes, or does not begin as MCP does, is served no more.
        if let Ok(served) = Tools.serve(stream).await {
            let _ = served.waiting().await;
        }
    })
    .await
}
