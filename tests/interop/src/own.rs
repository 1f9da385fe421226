//! Our own library, on tokio, in both roles.

use std::future::pending;
use std::process::Command;
use std::time::Duration;

use protocol_async::{CallError, Failure, Incoming, Peer, SentRequest};
use protocol_core::{CallOptions, Config, Dialect};
use protocol_router::{Context, Router};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::lifecycle::{CANCELLED, Client, Nested};

const AGENT: Config = Config::server(Dialect::ACP_V1);
const CLIENT: Config = Config::client(Dialect::ACP_V1);

/// Serves the methods of `rescind serve`, `inline` which awaits its own cancel where it was called
/// (B6), and `panic` (B33), until the client hangs up.
///
/// # Panics
///
/// Outside a tokio runtime.
pub async fn agent<R, W>(reader: R, writer: W)
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let connection = protocol_tokio::spawn(reader, writer, AGENT);
    let router = Router::new()
        .request("echo", async |params: Value, _: Context| Ok(params))
        .request("sleep", async |params: Value, cx: Context| {
            cx.cancellation().unless_cancelled(rest(&params)).await?;
            Ok(json!({ "slept_ms": params["ms"] }))
        })
        .request("stubborn", async |params: Value, _: Context| {
            rest(&params).await;
            Ok(json!({ "slept_ms": params["ms"] }))
        })
        .request("inline", async |_: Value, cx: Context| {
            cx.cancellation().cancelled().await;
            Err::<Value, _>(Failure::Cancelled)
        })
        .request("panic", async |_: Value, _: Context| -> Result<Value, Failure> {
            panic!("on purpose")
        })
        .request("nested", async |params: Value, cx: Context| {
            Ok(cx.call::<Value>("sleep", params).await?)
        });
    router.serve(&connection.incoming).await;
}

async fn rest(params: &Value) {
    tokio::time::sleep(Duration::from_millis(params["ms"].as_u64().unwrap_or(0))).await;
}

/// A client of ours.
#[derive(Debug)]
pub struct OwnClient {
    peer: Peer,
}

impl OwnClient {
    /// One in front of a spawned agent.
    ///
    /// # Panics
    ///
    /// If the command can't be spawned.
    #[must_use]
    pub fn spawn(command: &[String]) -> (Self, UnboundedReceiver<Nested>) {
        let mut spawned = Command::new(&command[0]);
        spawned.args(&command[1..]);
        let child = protocol_tokio::child(spawned, CLIENT);
        let child = child.expect("the agent starts");
        Self::on(child.peer, child.incoming)
    }

    /// One on byte streams.
    pub fn connect<R, W>(reader: R, writer: W) -> (Self, UnboundedReceiver<Nested>)
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let connection = protocol_tokio::spawn(reader, writer, CLIENT);
        Self::on(connection.peer, connection.incoming)
    }

    fn on(peer: Peer, incoming: Incoming) -> (Self, UnboundedReceiver<Nested>) {
        let (events, nested) = unbounded_channel();
        tokio::spawn(async move {
            let router = Router::new()
                .request("sleep", move |_: Value, cx: Context| until_cancelled(cx, events.clone()));
            router.serve(&incoming).await
        });
        (Self { peer }, nested)
    }
}

/// The handle of a call of ours.
pub type Sent = SentRequest<Value>;

async fn until_cancelled(cx: Context, events: UnboundedSender<Nested>) -> Result<Value, Failure> {
    // Nobody listens any more once the checks are over.
    let _ = events.send(Nested::Started);
    let stopped = cx.cancellation().unless_cancelled(pending::<Value>()).await;
    let _ = events.send(Nested::Cancelled);
    Ok(stopped?)
}

impl Client for OwnClient {
    type Sent = Sent;

    fn call(&self, method: &str, params: Value) -> Sent {
        self.peer.call_with(method, params, CallOptions::default())
    }

    fn cancel(&self, sent: &Sent) {
        sent.cancel();
    }

    async fn outcome(&self, sent: Sent) -> Result<Value, i64> {
        sent.await.map_err(|error| match error {
            CallError::Cancelled { .. } => CANCELLED,
            CallError::Error(error) => error.code,
            other => panic!("{other}"),
        })
    }
}
