//! `rmcp`: `tools/call` is its request with a payload. MCP wants no answer to a cancelled request:
//! its cancel is measured until the caller's handle and the handler know of it.

use bench_harness::{Cancelling, Client, Hanging, Linked, Payload, Peer, Pipe, Tokio, measure};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResponse, CallToolResult, ClientRequest,
    ContentBlock, ErrorData, ServerResult,
};
use rmcp::service::{PeerRequestOptions, RequestContext, RequestHandle};
use rmcp::{RoleClient, RoleServer, ServerHandler, ServiceError, ServiceExt};
use serde_json::Value;
use tokio::sync::oneshot;

struct Server;

impl ServerHandler for Server {
    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if call.name != "echo" {
            // Its handlers are not stopped: they have to look themselves.
            tokio::select! {
                () = context.ct.cancelled() => {}
                () = Hanging::forever() => {}
            }
            return Ok(CallToolResult::success(Vec::new()).into());
        }
        let arguments = Value::Object(call.arguments.expect("a payload"));
        let payload: Payload = serde_json::from_value(arguments).expect("a payload");
        let mut result = CallToolResult::success(Vec::new());
        if payload.nodes.is_empty() {
            result.content.push(ContentBlock::text(payload.text));
        } else {
            result.structured_content = Some(serde_json::to_value(payload).expect("a payload"));
        }
        Ok(result.into())
    }
}

fn call(tool: &'static str, payload: &Payload) -> CallToolRequestParams {
    match serde_json::to_value(payload) {
        Ok(Value::Object(arguments)) => CallToolRequestParams::new(tool).with_arguments(arguments),
        other => panic!("a payload is an object: {other:?}"),
    }
}

#[derive(Clone)]
struct Caller(rmcp::service::Peer<RoleClient>);

/// A request that was sent, or the channel on which its outcome arrives.
enum Sent {
    InFlight(Box<RequestHandle<RoleClient>>),
    Cancelled(oneshot::Receiver<Result<ServerResult, ServiceError>>),
}

impl Client for Caller {
    type Sent = Sent;

    async fn echo(&self, payload: Payload) -> Payload {
        let response = self.0.call_tool_once(call("echo", &payload)).await.expect("an echo");
        let CallToolResponse::Complete(mut result) = response else { panic!("an echo") };
        match (result.content.pop(), result.structured_content) {
            (Some(ContentBlock::Text(text)), None) => {
                Payload { text: text.text, nodes: Vec::new() }
            }
            (None, Some(value)) => serde_json::from_value(value).expect("a payload"),
            _ => panic!("an echo"),
        }
    }

    async fn hang(&self, payload: Payload) -> Sent {
        let request = CallToolRequest::new(call("hang", &payload));
        let request = ClientRequest::CallToolRequest(request);
        let options = PeerRequestOptions::no_options();
        let sent = self.0.send_cancellable_request(request, options).await;
        Sent::InFlight(Box::new(sent.expect("it is connected")))
    }

    async fn cancel(&self, sent: &mut Sent) {
        let nothing = Sent::Cancelled(oneshot::channel().1);
        let Sent::InFlight(mut handle) = std::mem::replace(sent, nothing) else {
            panic!("it is cancelled once");
        };
        *sent = Sent::Cancelled(std::mem::replace(&mut handle.rx, oneshot::channel().1));
        handle.cancel(None).await.expect("it is connected");
    }

    async fn cancel_all(&self, sent: &mut [Sent]) {
        // Asking waits for the write.
        futures::future::join_all(sent.iter_mut().map(|sent| self.cancel(sent))).await;
    }

    async fn is_cancelled(&self, sent: Sent) -> bool {
        let Sent::Cancelled(outcome) = sent else { return false };
        matches!(outcome.await, Ok(Err(ServiceError::Cancelled { .. })))
    }
}

enum Rmcp {}

impl Peer for Rmcp {
    const NAME: &'static str = "rmcp 3.9.0, tools/call";
    const CANCELLING: Cancelling = Cancelling::OneWay;
    type Runtime = Tokio;
    type Client = Caller;

    async fn serve(pipe: Pipe, _limit: usize) {
        let server = Server.serve(pipe).await.expect("it initializes");
        server.waiting().await.expect("the pipe never breaks");
    }

    async fn connect(pipe: Pipe, _limit: usize) -> Caller {
        let client = ().serve(pipe).await.expect("it initializes");
        let caller = Caller(client.peer().clone());
        // Dropping it closes the connection.
        std::mem::forget(client);
        caller
    }
}

fn main() {
    measure::<Linked<Rmcp>>(0);
}
