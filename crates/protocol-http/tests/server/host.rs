//! A server with a few methods, and a witness of them.

use std::sync::Arc;

use protocol_async::{Failure, RpcError};
use protocol_core::Cause;
use protocol_http::server::{Server, ServerOptions};
use protocol_router::Router;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};

use crate::client::{Exchange, Headers, send};

/// A server, and what its handlers report.
pub(crate) struct Host {
    pub(crate) server: Server,
    pub(crate) reports: mpsc::UnboundedReceiver<Report>,
    /// Lets the method `wait` finish.
    pub(crate) gate: Arc<Notify>,
}

/// A report of a handler.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Report {
    Began,
    Finished,
    Cancelled(Cause),
    /// The handler was dropped.
    Dropped,
    /// The handler of a session ended.
    Over,
}

struct Dropped(mpsc::UnboundedSender<Report>);

impl Drop for Dropped {
    fn drop(&mut self) {
        let _ = self.0.send(Report::Dropped);
    }
}

impl Host {
    pub(crate) fn new(options: ServerOptions) -> Self {
        let (told, reports) = mpsc::unbounded_channel();
        let gate = Arc::new(Notify::new());
        let waited = gate.clone();
        let (tell, dropped) = (told.clone(), told.clone());
        let router = Router::new()
            .on_trouble(|_| ())
            .request("initialize", async |params: Value, _| {
                let version = params["protocolVersion"].clone();
                Ok(json!({ "protocolVersion": version, "capabilities": {}, "serverInfo": {} }))
            })
            .request("echo", async |params: Value, _| Ok(params))
            .request("needs", async |_: Value, _| {
                Err::<(), _>(Failure::Error(RpcError::new(-32021, "sampling is missing")))
            })
            .request("wait", move |params: Value, cx| {
                let (tell, gate) = (tell.clone(), waited.clone());
                async move {
                    let _ = tell.send(Report::Began);
                    let done = cx.cancellation().unless_cancelled(gate.notified()).await;
                    // A cancel counts, even if the gate is open too.
                    let done = done.and_then(|()| cx.cancellation().checkpoint());
                    let _ = tell.send(match &done {
                        Ok(()) => Report::Finished,
                        Err(cancelled) => Report::Cancelled(cancelled.cause),
                    });
                    done?;
                    Ok(params.get("respond").cloned().unwrap_or_else(|| "waited".into()))
                }
            })
            .request("count", async |params: Value, cx| {
                for number in 1..=params["to"].as_u64().unwrap_or(0) {
                    let mut progress = json!({ "progress": number });
                    if let Some(text) = params.get("text") {
                        progress["message"] = text.clone();
                    }
                    cx.progress(progress).await?;
                }
                Ok("counted")
            })
            .request("stubborn", move |_: Value, _| {
                let tell = dropped.clone();
                async move {
                    let _ = tell.send(Report::Began);
                    let _dropped = Dropped(tell);
                    std::future::pending::<()>().await;
                    Ok(())
                }
            })
            .request("tell_in_session", async |params: Value, cx| {
                cx.notify("session/update", &params).await?;
                Ok("told")
            })
            .request("ask_in_session", async |params: Value, cx| {
                cx.notify("session/update", &params).await?;
                Ok(cx.call::<Value>("session/request_permission", params).await?)
            })
            .request("ask", async |_: Value, cx| {
                Ok(cx.call::<Value>("roots/list", json!({})).await?)
            });
        let server = Server::new(options, move |_peer, incoming| {
            let (router, told) = (router.clone(), told.clone());
            async move {
                router.serve(&incoming).await;
                let _ = told.send(Report::Over);
            }
        });
        Self { server, reports, gate }
    }

    pub(crate) async fn report(&mut self) -> Report {
        self.reports.recv().await.unwrap()
    }

    /// Opens a session.
    pub(crate) async fn open(&self, version: &'static str) -> Session {
        let params = json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": {} });
        let body = request(0, "initialize", &params);
        let mut opened = send(&self.server, "POST", &[], &body).await;
        let Some(id) = opened.header("mcp-session-id").map(str::to_owned) else {
            let status = opened.status;
            panic!("{status} {}", opened.body().await)
        };
        let response = opened.event().await.unwrap();
        assert!(response.contains(version), "{response}");
        assert_eq!(opened.event().await, None);
        Session { server: self.server.clone(), version, id }
    }

    /// Makes a request of MCP 2026-07-28.
    pub(crate) fn modern(method: &str, params: Value) -> (String, Vec<(&str, &str)>) {
        let mut params = params;
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        let headers = vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
        (request(1, method, &params), headers)
    }
}

/// A session, as a client knows it.
pub(crate) struct Session {
    server: Server,
    version: &'static str,
    pub(crate) id: String,
}

impl Session {
    pub(crate) const fn server(&self) -> &Server {
        &self.server
    }

    pub(crate) async fn post(&self, body: &str) -> Exchange {
        self.send("POST", &[], body).await
    }

    pub(crate) async fn get(&self, last_event_id: Option<&str>) -> Exchange {
        match last_event_id {
            Some(id) => self.send("GET", &[("last-event-id", id)], "").await,
            None => self.send("GET", &[], "").await,
        }
    }

    pub(crate) async fn send(&self, method: &str, more: Headers<'_>, body: &str) -> Exchange {
        let mut headers =
            vec![("mcp-session-id", &*self.id), ("mcp-protocol-version", self.version)];
        headers.extend(more);
        send(&self.server, method, &headers, body).await
    }
}

pub(crate) fn request(id: u32, method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}

pub(crate) fn notification(method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string()
}
