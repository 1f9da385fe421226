//! MCP over HTTP: our library and the crate `rmcp`, in both roles, and how soon the handler of a server hears of a cancel.
//!
//! Each server has two tools. `sleep` works until it is cancelled. `witness` responds when so many of those have begun or
//! were cancelled. `node/http_server.mjs` and `python/http_server.py` are the same on other SDKs.

use std::collections::BTreeMap;
use std::future::pending;
use std::io;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use protocol_async::{CallError, Peer, SentRequest};
use protocol_core::{CallOptions, Cause, Config};
use protocol_router::{Context, Router};
use rescind::http::Rules;
use rescind::http::connect::{ClientOptions, connect};
use rescind::http::server::{Server, ServerOptions};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    ServerCapabilities, ServerConfig,
};
use rmcp::service::{ClientLifecycleMode, PeerRequestOptions, RequestContext};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{RoleServer, ServerHandler};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

use super::sdk;

/// The number of cancels that a client makes by hand. It makes one more by a time-out.
pub const TIMES: u64 = 50;

/// The time-out of that one, in which a call has to reach its handler on any machine.
const TIME_OUT: Duration = Duration::from_secs(2);

/// Longer than any test waits.
const LONG: u64 = 600_000;

/// The times that a client has measured, each in a fixed order.
#[derive(Debug, Default)]
pub struct Measured {
    /// From each cancel until the witness of it has responded.
    pub cancels: Vec<Duration>,
    /// From a question to the witness until it has responded at once: what the machine takes for a round.
    pub rounds: Vec<Duration>,
}

/// The counts of what the handlers of a server have seen.
#[derive(Clone, Debug, Default)]
struct Seen(Arc<watch::Sender<BTreeMap<String, u64>>>);

impl Seen {
    fn note(&self, what: &str) {
        self.0.send_modify(|seen| *seen.entry(what.into()).or_default() += 1);
    }

    async fn witness(&self, arguments: &Value) {
        let of = arguments["of"].as_str().unwrap_or_default();
        let times = arguments["times"].as_u64().unwrap_or_default();
        let mut seen = self.0.subscribe();
        // The sender is ours.
        let _ = seen.wait_for(|seen| seen.get(of).copied().unwrap_or_default() >= times).await;
    }
}

/// Serves on our library, in one revision.
///
/// # Errors
///
/// If the listener fails.
pub async fn serve_own(listener: TcpListener, rules: &'static Rules) -> io::Result<()> {
    let seen = Seen::default();
    let said = json!([{ "type": "text", "text": "{}" }]);
    let mut router = Router::new()
        .on_trouble(|_| ())
        .request("initialize", async |_: Value, _| {
            Ok(json!({
                "protocolVersion": rules.version,
                "capabilities": { "tools": {} },
                "serverInfo": info(),
            }))
        })
        .request("tools/list", async |_: Value, _| Ok(listed()))
        .request("tools/call", move |params: Value, cx: Context| {
            let (seen, said) = (seen.clone(), said.clone());
            async move {
                if params["name"] == "sleep" {
                    seen.note("begun");
                    let slept = cx.cancellation().unless_cancelled(pending::<()>()).await;
                    seen.note("cancelled");
                    slept?;
                } else {
                    seen.witness(&params["arguments"]).await;
                }
                Ok(json!({ "resultType": "complete", "content": said }))
            }
        });
    if !rules.has_sessions {
        router = router.request("server/discover", async |_: Value, _| {
            Ok(json!({
                "resultType": "complete",
                "ttlMs": 0,
                "cacheScope": "private",
                "supportedVersions": [rules.version],
                "capabilities": { "tools": {} },
                "_meta": { "io.modelcontextprotocol/serverInfo": info() },
            }))
        });
    }
    let mut options = ServerOptions::default();
    options.gate.revisions = vec![rules];
    let server = Server::new(options, move |_peer, incoming| {
        let router = router.clone();
        async move { _ = router.serve(&incoming).await }
    });
    server.serve(listener).await
}

fn listed() -> Value {
    let tool = |name, properties: Value| {
        let schema = json!({ "type": "object", "properties": properties });
        json!({ "name": name, "description": name, "inputSchema": schema })
    };
    let number = json!({ "type": "number" });
    let witness = json!({ "of": { "type": "string" }, "times": number });
    json!({
        "resultType": "complete",
        "ttlMs": 0,
        "cacheScope": "private",
        "tools": [tool("sleep", json!({ "ms": number })), tool("witness", witness)],
    })
}

/// Serves on `rmcp`, in every revision that it speaks.
///
/// # Errors
///
/// If the listener fails.
pub async fn serve_sdk(listener: TcpListener) -> io::Result<()> {
    let tools = SdkTools(Seen::default());
    let service = StreamableHttpService::new(
        move || Ok(tools.clone()),
        Arc::new(LocalSessionManager::default()),
        StreamableHttpServerConfig::default(),
    );
    let service = TowerToHyperService::new(service);
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let service = service.clone();
        tokio::spawn(async move {
            // A client that goes is no news.
            _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

#[derive(Clone)]
struct SdkTools(Seen);

impl ServerHandler for SdkTools {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if call.name == "sleep" {
            self.0.note("begun");
            context.ct.cancelled().await;
            self.0.note("cancelled");
        } else {
            self.0.witness(&Value::Object(call.arguments.unwrap_or_default())).await;
        }
        Ok(CallToolResult::success(vec![ContentBlock::text("{}")]).into())
    }
}

/// A client on our library.
#[derive(Debug)]
pub struct OwnClient {
    peer: Peer,
    rules: &'static Rules,
}

impl OwnClient {
    /// Opens one over HTTP.
    ///
    /// # Panics
    ///
    /// If that fails.
    pub async fn connect(address: &str, rules: &'static Rules) -> Self {
        let config = Config::client(rules.dialect.clone());
        let target = address.parse().expect("it is an address");
        let (peer, incoming, driver) = connect(target, config, ClientOptions::default());
        tokio::spawn(driver);
        tokio::spawn(async move { Router::new().serve(&incoming).await });
        Self::open(peer, rules).await
    }

    /// Opens one on the standard streams of a command.
    ///
    /// # Panics
    ///
    /// If that fails.
    pub async fn spawn(command: &[String], rules: &'static Rules) -> Self {
        let mut spawned = Command::new(&command[0]);
        spawned.args(&command[1..]);
        let dialect = match rules.has_sessions {
            true => protocol_core::Dialect::MCP_2025_11_25,
            false => protocol_core::Dialect::MCP_2026_07_28,
        };
        let child = protocol_tokio::child(spawned, Config::client(dialect)).expect("it starts");
        tokio::spawn(async move { Router::new().serve(&child.incoming).await });
        Self::open(child.peer, rules).await
    }

    async fn open(peer: Peer, rules: &'static Rules) -> Self {
        if rules.has_sessions {
            let version = rules.version;
            let opening =
                json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": info() });
            peer.call::<Value>("initialize", opening).await.expect("it can be opened");
            peer.try_notify("notifications/initialized", json!({})).expect("it can be told so");
        }
        Self { peer, rules }
    }

    fn call(&self, name: &str, arguments: Value, options: CallOptions) -> SentRequest<Value> {
        let mut params = json!({ "name": name, "arguments": arguments });
        if !self.rules.has_sessions {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": self.rules.version,
                "io.modelcontextprotocol/clientInfo": info(),
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        self.peer.call_with("tools/call", params, options)
    }

    fn witness(&self, of: &str, times: u64) -> SentRequest<Value> {
        self.call("witness", json!({ "of": of, "times": times }), CallOptions::default())
    }

    /// Cancels calls of `sleep` by their handle, and one by a time-out.
    ///
    /// # Panics
    ///
    /// If a call does not settle as it should.
    pub async fn cancels(&self, handled: u64) -> Measured {
        let (sleep, mut measured) = (json!({ "ms": LONG }), Measured::default());
        for times in handled + 1..=handled + TIMES {
            let heard = self.witness("cancelled", times);
            let sent = self.call("sleep", sleep.clone(), CallOptions::default());
            self.witness("begun", times).await.expect("it began");
            let asked = Instant::now();
            self.witness("begun", times).await.expect("it began");
            let begun = Instant::now();
            measured.rounds.push(begun - asked);
            sent.cancel();
            heard.await.expect("the handler heard it");
            measured.cancels.push(begun.elapsed());
            let outcome = sent.await;
            let Err(CallError::Cancelled { cause: Cause::Caller, .. }) = outcome else {
                panic!("{outcome:?}")
            };
        }
        let limited = CallOptions::default().timeout(TIME_OUT);
        let outcome = self.call("sleep", sleep, limited).await;
        assert!(matches!(outcome, Err(CallError::TimedOut { .. })), "{outcome:?}");
        self.witness("cancelled", handled + TIMES + 1).await.expect("the handler heard it");
        measured
    }
}

/// The same on `rmcp`.
///
/// # Panics
///
/// If a call does not settle as it should.
pub async fn sdk_cancels(address: &str, opening: ClientLifecycleMode) -> Measured {
    let (events, _nested) = mpsc::unbounded_channel();
    let transport = StreamableHttpClientTransport::from_uri(address);
    let client = sdk::open(transport, opening, events).await;
    let any = PeerRequestOptions::no_options;
    let witness = async |of: &str, times: u64| {
        sdk::tool(&client, "witness", json!({ "of": of, "times": times }), any()).await
    };
    let (sleep, mut measured) = (json!({ "ms": LONG }), Measured::default());
    for times in 1..=TIMES {
        let heard = witness("cancelled", times).await;
        let sent = sdk::tool(&client, "sleep", sleep.clone(), any()).await;
        sdk::result(witness("begun", times).await).await;
        let asked = Instant::now();
        sdk::result(witness("begun", times).await).await;
        let begun = Instant::now();
        measured.rounds.push(begun - asked);
        sent.cancel(None).await.expect("it can be told so");
        sdk::result(heard).await;
        measured.cancels.push(begun.elapsed());
    }
    let limited = PeerRequestOptions::with_timeout(TIME_OUT);
    let outcome = sdk::tool(&client, "sleep", sleep, limited).await.await_response().await;
    assert!(outcome.is_err(), "{outcome:?}");
    sdk::result(witness("cancelled", TIMES + 1).await).await;
    measured
}

fn info() -> Value {
    json!({ "name": "interop", "version": "0" })
}
