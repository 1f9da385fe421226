//! Our server on a port of its own, and a client of it.

use std::sync::Arc;

use protocol_async::{Arrival, CallError, Incoming, Peer};
use protocol_core::{Cause, Config, Dialect};
use protocol_http::Rules;
use protocol_http::connect::{ClientOptions, connect};
use protocol_http::server::{Server, ServerOptions};
use protocol_router::Router;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

/// A server, and what its handlers report.
pub(crate) struct Host {
    pub(crate) server: Server,
    pub(crate) url: String,
    pub(crate) reports: mpsc::UnboundedReceiver<Report>,
    /// Lets the method `wait` finish.
    pub(crate) gate: Arc<Notify>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Report {
    Began,
    Cancelled(Cause),
    Notified(String),
}

/// A client whose driver runs.
pub(crate) struct Client {
    pub(crate) peer: Peer,
    pub(crate) incoming: Incoming,
    pub(crate) driver: JoinHandle<std::io::Result<()>>,
    pub(crate) version: &'static str,
}

impl Host {
    pub(crate) async fn start(options: ServerOptions) -> Self {
        let (told, reports) = mpsc::unbounded_channel();
        let gate = Arc::new(Notify::new());
        let (waited, tell) = (gate.clone(), told.clone());
        let router = Router::new()
            .on_trouble(|_| ())
            .request("initialize", async |params: Value, _| {
                let version = params["protocolVersion"].clone();
                Ok(json!({ "protocolVersion": version, "capabilities": {}, "serverInfo": {} }))
            })
            .request("tools/call", async |params: Value, _| Ok(params["name"].clone()))
            .request("wait", move |_: Value, cx| {
                let (tell, gate) = (tell.clone(), waited.clone());
                async move {
                    let _ = tell.send(Report::Began);
                    let done = cx.cancellation().unless_cancelled(gate.notified()).await;
                    if let Err(cancelled) = &done {
                        let _ = tell.send(Report::Cancelled(cancelled.cause));
                    }
                    done?;
                    Ok("waited")
                }
            })
            .request("count", async |params: Value, cx| {
                for number in 1..=params["to"].as_u64().unwrap_or(0) {
                    cx.progress(json!({ "progress": number })).await?;
                }
                Ok("counted")
            })
            .request("ask_in_session", async |params: Value, cx| {
                cx.notify("session/update", &params).await?;
                let asked = cx.call::<Value>("session/request_permission", params);
                Ok(cx.cancellation().unless_cancelled(asked).await??)
            })
            .request("ask", async |_: Value, cx| {
                Ok(cx.call::<Value>("roots/list", json!({})).await?)
            })
            .request("notify", async |_: Value, cx| {
                cx.notify("notifications/message", json!({})).await?;
                Ok("notified")
            })
            .notification("notifications/initialized", move |_: Value, _| {
                let _ = told.send(Report::Notified("notifications/initialized".into()));
                async { Ok(()) }
            });
        let server = Server::new(options, move |_peer, incoming| {
            let router = router.clone();
            async move { _ = router.serve(&incoming).await }
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let serving = server.clone();
        tokio::spawn(async move { serving.serve(listener).await });
        Self { server, url, reports, gate }
    }

    pub(crate) async fn report(&mut self) -> Report {
        self.reports.recv().await.unwrap()
    }

    /// Makes a client that has opened in this revision.
    pub(crate) async fn client(&mut self, version: &'static str) -> Client {
        let client = Client::new(&self.url, version, ClientOptions::default());
        if client.open().await {
            assert_eq!(self.report().await, Report::Notified("notifications/initialized".into()));
        }
        client
    }
}

impl Client {
    pub(crate) fn new(url: &str, version: &'static str, options: ClientOptions) -> Self {
        // The connection settles its revision by itself, except for the one that has no `initialize`.
        let dialect = match version {
            "2026-07-28" => Dialect::MCP_2026_07_28_HTTP,
            _ => Dialect::MCP_HTTP,
        };
        let (peer, incoming, driver) =
            connect(url.parse().unwrap(), Config::client(dialect), options);
        Self { peer, incoming, driver: tokio::spawn(driver), version }
    }

    /// Opens the session, and returns whether the revision has one.
    pub(crate) async fn open(&self) -> bool {
        let has_sessions = Rules::named(self.version).unwrap().has_sessions;
        if has_sessions {
            let params =
                json!({ "protocolVersion": self.version, "capabilities": {}, "clientInfo": {} });
            let opened: Value = self.peer.call("initialize", params).await.unwrap();
            assert_eq!(opened["protocolVersion"], self.version);
            self.peer.try_notify("notifications/initialized", json!({})).unwrap();
        }
        has_sessions
    }

    /// Calls a method, whose params have what the revision wants.
    pub(crate) fn call(
        &self,
        method: &str,
        mut params: Value,
    ) -> protocol_async::SentRequest<Value> {
        if self.version == "2026-07-28" {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = self.version.into();
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        }
        self.peer.call(method, params)
    }

    /// Returns the method of the next notification.
    pub(crate) async fn notified(&self) -> (String, Value) {
        loop {
            if let Arrival::Notification(notification) = self.incoming.receive().await.unwrap() {
                let params = notification.params.as_deref().map_or("null", |it| it.get());
                return (notification.method.to_string(), serde_json::from_str(params).unwrap());
            }
        }
    }

    /// Hangs up, and waits until the server knows.
    pub(crate) async fn end(self) {
        self.peer.shutdown(protocol_core::Shutdown::CancelAll);
        self.driver.await.unwrap().unwrap();
    }
}

/// Returns how a call was lost, in words.
pub(crate) fn how(outcome: Result<Value, CallError>) -> String {
    match outcome {
        Err(CallError::ConnectionLost { cause: Cause::PeerGone, how: Some(how) }) => how.into(),
        other => panic!("{other:?}"),
    }
}
