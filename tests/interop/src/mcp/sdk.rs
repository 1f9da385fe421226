//! The crate `rmcp` in both roles.

use std::error::Error;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResponse, CallToolResult, ClientRequest,
    ContentBlock, CustomRequest, CustomResult, ErrorData, ProgressNotificationParam,
    ProtocolVersion, ServerCapabilities, ServerConfig, ServerResult,
};
use rmcp::service::{
    ClientLifecycleMode, ClientServiceExt, PeerRequestOptions, RequestContext, RequestHandle,
    RunningService, ServiceError, ServiceExt,
};
use rmcp::transport::IntoTransport;
use rmcp::{ClientHandler, RoleClient, RoleServer, ServerHandler};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;

use crate::lifecycle::Nested;

/// Longer than any test waits.
const LONG: u64 = 600_000;

/// The least number of cancels of live requests that [`run`] sends.
pub const CANCELS: usize = 4 + 33;

/// Serves `echo`, `sleep`, `count` and `cancelled_once`, until the client hangs up.
///
/// # Panics
///
/// If the connection can't be opened.
pub async fn serve<R, W>(reader: R, writer: W)
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let serving = Tools::default().serve((reader, writer)).await.expect("it opens");
    serving.waiting().await.expect("it ends by itself");
}

#[derive(Clone, Default)]
struct Tools {
    cancelled: Arc<Notify>,
}

impl Tools {
    /// Whether it rested for that long, and was not cancelled.
    async fn rest(&self, ms: &Value, context: &RequestContext<RoleServer>) -> bool {
        let rest = tokio::time::sleep(Duration::from_millis(ms.as_u64().unwrap_or(0)));
        let rested = tokio::select! {
            () = rest => true,
            () = context.ct.cancelled() => false,
        };
        if !rested {
            self.cancelled.notify_one();
        }
        rested
    }
}

impl ServerHandler for Tools {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(call.arguments.unwrap_or_default());
        let said = match &*call.name {
            "echo" => arguments,
            "sleep" => {
                self.rest(&arguments["ms"], &context).await;
                json!({ "slept_ms": arguments["ms"] })
            }
            "count" => {
                let token = context.meta.get_progress_token();
                for number in 1..=arguments["to"].as_u64().unwrap_or(0) {
                    if !self.rest(&arguments["every_ms"], &context).await {
                        break;
                    }
                    if let Some(token) = token.clone() {
                        #[expect(clippy::cast_precision_loss, reason = "it counts to a few")]
                        let progress = ProgressNotificationParam::new(token, number as f64);
                        let _ = context.peer.notify_progress(progress).await;
                    }
                }
                arguments
            }
            "cancelled_once" => {
                self.cancelled.notified().await;
                json!({})
            }
            _ => return Err(ErrorData::invalid_params("there is no such tool", None)),
        };
        Ok(CallToolResult::success(vec![ContentBlock::text(said.to_string())]).into())
    }
}

/// A client, whose `sleep` works until it is cancelled.
#[derive(Clone)]
pub(super) struct Sleeper {
    events: UnboundedSender<Nested>,
}

impl ClientHandler for Sleeper {
    async fn on_custom_request(
        &self,
        _: CustomRequest,
        context: RequestContext<RoleClient>,
    ) -> Result<CustomResult, ErrorData> {
        // Nobody listens any more once the checks are over.
        let _ = self.events.send(Nested::Started);
        context.ct.cancelled().await;
        let _ = self.events.send(Nested::Cancelled);
        Err(ErrorData::internal_error("cancelled", None))
    }
}

pub(super) type Client = RunningService<RoleClient, Sleeper>;

/// Opens a server that has the tools of `rescind serve`, and cancels. `revision` is what they have to
/// agree on.
///
/// # Panics
///
/// If a check does not hold within a minute.
pub async fn run<T, E, A>(transport: T, opening: ClientLifecycleMode, revision: &str)
where
    T: IntoTransport<RoleClient, E, A>,
    E: Error + Send + Sync + 'static,
{
    let (events, mut nested) = unbounded_channel();
    let checks = async {
        let client = open(transport, opening, events).await;
        let agreed = client.peer_info().expect("it said").protocol_version.to_string();
        assert_eq!(agreed, revision);
        echo(&client).await;
        cancel_by_handle(&client).await;
        giving_up(&client).await;
        timeout_cancels(&client).await;
        ignored_cancel(&client).await;
        // From then on a server asks nothing of its client.
        if revision < "2026" {
            nested_request_is_cancelled_back(&client, &mut nested).await;
        }
        every_third_of_many(&client).await;
        echo(&client).await;
        client.cancel().await.expect("it closes");
    };
    timeout(Duration::from_secs(60), checks).await.expect("the checks end");
}

/// The opening that probes with `server/discover`. Over HTTP it gives up at a server that names earlier revisions.
#[must_use]
pub fn discovers() -> ClientLifecycleMode {
    ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: None,
    }
}

pub(super) async fn open<T, E, A>(
    transport: T,
    opening: ClientLifecycleMode,
    events: UnboundedSender<Nested>,
) -> Client
where
    T: IntoTransport<RoleClient, E, A>,
    E: Error + Send + Sync + 'static,
{
    Sleeper { events }.serve_with_lifecycle(transport, opening).await.expect("it opens")
}

fn params(name: &'static str, arguments: Value) -> CallToolRequestParams {
    let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
    CallToolRequestParams::new(name).with_arguments(arguments)
}

pub(super) async fn tool(
    client: &Client,
    name: &'static str,
    arguments: Value,
    options: PeerRequestOptions,
) -> RequestHandle<RoleClient> {
    let request = CallToolRequest::new(params(name, arguments));
    let request = ClientRequest::CallToolRequest(request);
    client.send_cancellable_request(request, options).await.expect("it can be sent")
}

pub(super) async fn result(handle: RequestHandle<RoleClient>) -> Value {
    let result = handle.await_response().await;
    let Ok(ServerResult::CallToolResult(result)) = result else { panic!("{result:?}") };
    let said = result.content[0].as_text().expect("text");
    serde_json::from_str(&said.text).expect("JSON in it")
}

async fn echo(client: &Client) {
    let arguments = json!({ "text": "hé" });
    let sent = tool(client, "echo", arguments.clone(), PeerRequestOptions::no_options()).await;
    assert_eq!(result(sent).await, arguments);
}

async fn sleep(client: &Client, ms: u64) -> RequestHandle<RoleClient> {
    tool(client, "sleep", json!({ "ms": ms }), PeerRequestOptions::no_options()).await
}

async fn cancel_by_handle(client: &Client) {
    let sent = sleep(client, LONG).await;
    echo(client).await;
    sent.cancel(Some("enough".into())).await.expect("it can be told so");
    echo(client).await;
}

/// Dropping the future of a call cancels it; dropping a handle tells nobody.
async fn giving_up(client: &Client) {
    let call = client.call_tool(params("sleep", json!({ "ms": LONG })));
    {
        let mut call = pin!(call);
        tokio::select! {
            _ = &mut call => panic!("a result"),
            () = echo(client) => {}
        }
    }
    echo(client).await;
}

async fn timeout_cancels(client: &Client) {
    let limits = PeerRequestOptions::with_timeout(Duration::from_millis(50));
    let outcome = tool(client, "sleep", json!({ "ms": LONG }), limits).await.await_response().await;
    assert!(matches!(outcome, Err(ServiceError::Timeout { .. })), "{outcome:?}");
}

async fn ignored_cancel(client: &Client) {
    let arguments = json!({ "ms": 200 });
    let sent = tool(client, "stubborn", arguments, PeerRequestOptions::no_options()).await;
    sent.cancel(None).await.expect("it can be told so");
    // Long enough for its answer, which a tap would see.
    result(sleep(client, 300).await).await;
}

async fn nested_request_is_cancelled_back(client: &Client, nested: &mut UnboundedReceiver<Nested>) {
    let arguments = json!({ "ms": LONG });
    let sent = tool(client, "nested", arguments, PeerRequestOptions::no_options()).await;
    assert_eq!(nested.recv().await, Some(Nested::Started));
    sent.cancel(None).await.expect("it can be told so");
    assert_eq!(nested.recv().await, Some(Nested::Cancelled));
}

async fn every_third_of_many(client: &Client) {
    let mut kept = Vec::new();
    for index in 0..99 {
        if index % 3 == 0 {
            sleep(client, LONG).await.cancel(None).await.expect("it can be told so");
        } else {
            kept.push(sleep(client, 1).await);
        }
    }
    for sent in kept {
        assert_eq!(result(sent).await, json!({ "slept_ms": 1 }));
    }
}
