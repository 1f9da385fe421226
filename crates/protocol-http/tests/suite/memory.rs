//! A session and a request hold no more heap than their formulas say (G8). A counting allocator is the witness.

use std::future::pending;
use std::sync::Arc;

use heap::Heap;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body as _, Bytes};
use hyper::{Request, Response};
use protocol_async::Options;
use protocol_core::{Config, Dialect};
use protocol_http::server::{Body, Server, ServerOptions};
use protocol_router::Router;
use serde_json::{Value, json};
use tokio::task::yield_now;

const EXCHANGES: usize = 64;

fn endpoint(dialect: Dialect) -> Options {
    let mut config = Config::server(dialect);
    let limits = &mut config.limits;
    (limits.message_bytes, limits.header_bytes) = (32 << 10, 0);
    (limits.unsent_bytes, limits.unsent_messages) = (64 << 10, 512);
    (limits.calls, limits.requests, limits.batch_members) = (16, EXCHANGES, 16);
    (limits.abandoned_ids, limits.early_cancels, limits.works) = (16, 16, 16);
    let mut options = Options::new(config);
    (options.inbox_bytes, options.work_bytes) = (64 << 10, 64 << 10);
    (options.response_bytes, options.result_bytes) = (64 << 10, 0);
    options.pipe_bytes = 4 << 10;
    options
}

fn options() -> ServerOptions {
    let mut options = ServerOptions::default();
    options.endpoint = Arc::new(endpoint);
    (options.session.exchanges, options.session.store_bytes) = (EXCHANGES, 256 << 10);
    (options.body_bytes, options.response_bytes) = (32 << 10, 16 << 10);
    options
}

fn server() -> Server {
    let router = Router::new()
        .request("initialize", async |params: Value, _| {
            Ok(json!({ "protocolVersion": params["protocolVersion"], "capabilities": {} }))
        })
        .request("count", async |params: Value, cx| {
            for number in 1..=params["to"].as_u64().unwrap_or(0) {
                cx.progress(json!({ "progress": number })).await?;
            }
            Ok("x".repeat(params["length"].as_u64().unwrap_or(0) as usize))
        })
        .request("wait", async |_: Value, cx| {
            cx.cancellation().unless_cancelled(pending::<()>()).await?;
            Ok(())
        });
    Server::new(options(), move |_peer, incoming| {
        let router = router.clone();
        async move { _ = router.serve(&incoming).await }
    })
}

/// A client that takes what it asks for in the same thread.
struct Client {
    server: Server,
    id: String,
}

impl Client {
    async fn open() -> Self {
        let server = server();
        let params = json!({ "protocolVersion": "2025-11-25", "clientInfo": {} });
        let mut client = Self { server, id: String::new() };
        let opened = client.post(&json!("0"), "initialize", &params).await;
        client.id = opened.headers()["mcp-session-id"].to_str().unwrap().into();
        opened.into_body().collect().await.unwrap();
        client
    }

    async fn post(&self, id: &Value, method: &str, params: &Value) -> Response<Body> {
        let body = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.ask(Request::post("/mcp"), &body.to_string()).await
    }

    async fn ask(&self, mut request: hyper::http::request::Builder, body: &str) -> Response<Body> {
        for (name, value) in [
            ("host", "localhost"),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
        ] {
            request = request.header(name, value);
        }
        if !self.id.is_empty() {
            request = request.header("mcp-session-id", &self.id);
        }
        let body = Full::new(Bytes::from(body.to_owned()));
        self.server.respond(request.body(body).unwrap()).await
    }
}

#[tokio::test]
async fn g08_a_session_and_its_requests_stay_under_their_formulas() {
    let (options, endpoint) = (options(), endpoint(Dialect::MCP_HTTP));
    let session = options.memory(&endpoint).total();
    let request = options.request_memory(&endpoint);
    let heap = Heap::of_thread();
    let client = Client::open().await;
    let open = heap.held();

    // Small events, which have the largest places for their size, and the copies of a client that comes back.
    let count = json!({ "to": 2_000, "_meta": { "progressToken": 1 } });
    client.post(&json!("1"), "count", &count).await.into_body().collect().await.unwrap();
    let kept = heap.held() - open;
    assert!(kept > options.session.store_bytes / 2, "{kept} bytes are kept");
    let resumed = Request::get("/mcp").header("last-event-id", "2-0");
    let resumed = client.ask(resumed, "").await;
    assert!(heap.peak() <= session + 2 * request, "{} of {session}", heap.peak());
    assert!(heap.peak() > session / 8, "{} of {session}: it is put to the test", heap.peak());
    drop(resumed);

    // Requests with long ids and tokens, as many as may be, and a response that nobody reads.
    let mut responses = Vec::new();
    for number in 0..EXCHANGES - 1 {
        let id = format!("{number:0>200}");
        let params = json!({ "_meta": { "progressToken": id } });
        responses.push(client.post(&json!(id), "wait", &params).await);
    }
    let before = heap.held();
    let unread = json!({ "to": 10, "length": 30 << 10, "_meta": { "progressToken": 1 } });
    let unread = client.post(&json!("2"), "count", &unread).await;
    while unread.body().size_hint().exact().is_none() {
        yield_now().await;
    }
    let (one, all) = (heap.held() - before, heap.peak());
    assert!(one <= request, "{one} of {request}");
    assert!(one > 30 << 10, "{one}: it waits");
    let most = session + (EXCHANGES + 1) * request;
    assert!(all <= most, "{all} of {most}");
}
