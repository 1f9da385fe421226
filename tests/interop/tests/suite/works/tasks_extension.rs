//! Tasks of the extension of MCP 2026-07-28 (SEP-2663), with the crate `rmcp` in both roles.

use std::future::Future;
use std::time::Duration;

use protocol_async::{CancellationHandle, Peer};
use protocol_core::{CancelOutcome, Config, Dialect};
use rescind_interop::mcp::{sdk, tasks};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ClientCapabilities,
    ClientConfig, ContentBlock, CreateTaskResult, ErrorData, GetTaskParams, GetTaskResult,
    Implementation, ServerCapabilities, ServerConfig, TaskStatus,
};
use rmcp::service::{ClientServiceExt, RequestContext, RunningService, ServiceExt};
use rmcp::task_manager::{TaskExit, TaskManager, TaskOptions};
use rmcp::{RoleClient, RoleServer, ServerHandler};
use serde_json::{Value, json};
use tokio::io::{DuplexStream, duplex, split};
use tokio::time::{sleep, timeout};

/// Longer than any test waits.
const LONG: u64 = 600_000;

const PIPE: usize = 4096;

/// Their server, whose one tool becomes a task.
#[derive(Clone, Default)]
struct Server(TaskManager);

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().enable_tasks().build())
    }

    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let ms = call.arguments.and_then(|it| it["ms"].as_u64()).unwrap_or_default();
        let task = self.0.spawn(TaskOptions::new(), move |task| {
            Box::pin(async move {
                tokio::select! {
                    () = task.cancelled() => Err(TaskExit::Cancelled),
                    () = sleep(Duration::from_millis(ms)) => {
                        Ok(CallToolResult::success(vec![ContentBlock::text("{}")]))
                    }
                }
            })
        });
        Ok(CreateTaskResult::new(task).into())
    }

    async fn get_task(
        &self,
        asked: GetTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        Ok(GetTaskResult::new(self.0.get_task(&asked.task_id)?))
    }

    async fn cancel_task(
        &self,
        asked: CancelTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.0.cancel_task(&asked.task_id)
    }
}

async fn bounded(checks: impl Future<Output = ()>) {
    timeout(Duration::from_secs(60), checks).await.expect("the checks end");
}

/// Our client, whose host declares the extension.
struct Ours(Peer);

impl Ours {
    /// Calls with the capability, which the host has to put into each request.
    async fn call(&self, method: &str, params: Value) -> (Value, CancellationHandle) {
        let mut params = params;
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "interop", "version": "0" },
            "io.modelcontextprotocol/clientCapabilities":
                { "extensions": { "io.modelcontextprotocol/tasks": {} } },
        });
        let sent = self.0.call::<Value>(method, params);
        let handle = sent.cancellation_handle();
        (sent.await.expect("a result"), handle)
    }

    /// Creates a task. Returns its name, and the handle of its call, which has settled.
    async fn begin(&self, ms: u64) -> (Value, CancellationHandle) {
        let sleep = json!({ "name": "sleep", "arguments": { "ms": ms } });
        let (created, handle) = self.call("tools/call", sleep).await;
        assert_eq!(created["resultType"], "task");
        (json!({ "taskId": created["taskId"] }), handle)
    }

    async fn status(&self, task: &Value) -> Value {
        self.call("tasks/get", task.clone()).await.0["status"].clone()
    }

    async fn ends(&self, task: &Value, status: &str) {
        loop {
            match self.status(task).await {
                working if working == "working" => sleep(Duration::from_millis(10)).await,
                ended => return assert_eq!(ended, status),
            }
        }
    }
}

#[tokio::test]
async fn our_client_rmcp_server() {
    let (near, far) = duplex(PIPE);
    let server = Server::default();
    let tasks = server.0.clone();
    tokio::spawn(async move {
        server.serve(far).await.expect("it opens").waiting().await.expect("it ends by itself")
    });
    let (reader, writer) = split(near);
    let config = Config::client(Dialect::MCP_2026_07_28);
    let client = Ours(protocol_tokio::spawn(reader, writer, config).peer);
    bounded(async {
        let (task, handle) = client.begin(1).await;
        client.ends(&task, "completed").await;
        assert_eq!(handle.stop(), CancelOutcome::AlreadySettled);

        let (other, _) = client.begin(LONG).await;
        let (task, handle) = client.begin(LONG).await;
        assert_eq!(handle.stop(), CancelOutcome::NotStopped, "the host has to send it");
        assert_eq!(client.status(&task).await, "working");
        client.call("tasks/cancel", task.clone()).await;
        assert_eq!(handle.stop(), CancelOutcome::AlreadySent, "an acknowledgement is no end");
        client.ends(&task, "cancelled").await;
        assert_eq!(handle.stop(), CancelOutcome::AlreadySettled);
        assert_eq!(client.status(&other).await, "working");
        assert_eq!(tasks.running_task_count(), 1);
    })
    .await;
}

type Client = RunningService<RoleClient, ClientConfig>;

async fn rmcp_client(stream: DuplexStream) -> Client {
    let capabilities = ClientCapabilities::builder().enable_tasks().build();
    let client = ClientConfig::new(capabilities, Implementation::from_build_env());
    client.serve_with_lifecycle(stream, sdk::discovers()).await.expect("it opens")
}

fn tool(name: &'static str, arguments: Value) -> CallToolRequestParams {
    let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
    CallToolRequestParams::new(name).with_arguments(arguments)
}

async fn begin(client: &Client, ms: u64) -> String {
    let response = client.call_tool_once(tool("sleep", json!({ "ms": ms }))).await;
    let Ok(CallToolResponse::Task(created)) = response else { panic!("{response:?}") };
    created.task.task_id
}

async fn status(client: &Client, task: &str) -> TaskStatus {
    client.get_task(GetTaskParams::new(task)).await.expect("a description").task.status()
}

async fn ends(client: &Client, task: &str, end: TaskStatus) {
    loop {
        match status(client, task).await {
            TaskStatus::Working => sleep(Duration::from_millis(10)).await,
            status => return assert_eq!(status, end),
        }
    }
}

#[tokio::test]
async fn rmcp_client_our_server() {
    let (near, far) = duplex(PIPE);
    let (reader, writer) = split(far);
    let server = protocol_tokio::spawn(reader, writer, Config::server(Dialect::MCP_2026_07_28));
    tokio::spawn(async move { tasks::extended().serve(&server.incoming).await });
    bounded(async {
        let client = rmcp_client(near).await;
        let task = begin(&client, 1).await;
        ends(&client, &task, TaskStatus::Completed).await;

        let (other, task) = (begin(&client, LONG).await, begin(&client, LONG).await);
        client.cancel_task(CancelTaskParams::new(&task)).await.expect("an acknowledgement");
        ends(&client, &task, TaskStatus::Cancelled).await;
        client.call_tool(tool("stopped_once", json!({}))).await.expect("it was stopped");
        assert_eq!(status(&client, &other).await, TaskStatus::Working);
    })
    .await;
}
