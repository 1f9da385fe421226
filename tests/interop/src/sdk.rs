//! The crate `agent-client-protocol`, in both roles.

use std::future::pending;
use std::time::Duration;

use agent_client_protocol::role::UntypedRole;
use agent_client_protocol::{
    ByteStreams, ConnectionTo, Error, Responder, SentRequest, UntypedMessage, on_receive_request,
};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

use crate::lifecycle::{Client, Nested};

/// Serves the methods of `rescind serve`, `inline` which awaits its own cancel where it was called
/// (B6), and `panic` (B33), until the client hangs up.
///
/// # Errors
///
/// The error that ended the connection.
pub async fn agent<R, W>(reader: R, writer: W) -> Result<(), Error>
where
    R: AsyncRead + Send + 'static,
    W: AsyncWrite + Send + 'static,
{
    UntypedRole
        .builder()
        .on_receive_request(
            async |request: UntypedMessage, responder: Responder, cx: ConnectionTo<UntypedRole>| {
                if request.method == "inline" {
                    responder.cancellation().cancelled().await;
                    return responder.respond_with_error(Error::request_cancelled());
                }
                serve(request, responder, &cx)
            },
            on_receive_request!(),
        )
        .connect_to(ByteStreams::new(writer.compat_write(), reader.compat()))
        .await
}

fn serve(
    request: UntypedMessage,
    responder: Responder,
    cx: &ConnectionTo<UntypedRole>,
) -> Result<(), Error> {
    let UntypedMessage { method, params } = request;
    match method.as_str() {
        "echo" => responder.respond(params),
        "sleep" => {
            let marker = responder.cancellation();
            cx.spawn(async move {
                let slept = marker.run_until_cancelled(rest(params)).await;
                responder.respond_with_result(slept)
            })
        }
        "stubborn" => cx.spawn(async move { responder.respond_with_result(rest(params).await) }),
        "nested" => {
            let nested = cx.send_request(UntypedMessage { method: "sleep".into(), params });
            nested.forward_response_to(responder)
        }
        "panic" => panic!("on purpose"),
        _ => responder.respond_with_error(Error::method_not_found()),
    }
}

async fn rest(params: Value) -> Result<Value, Error> {
    let ms = params["ms"].as_u64().ok_or_else(Error::invalid_params)?;
    tokio::time::sleep(Duration::from_millis(ms)).await;
    Ok(json!({ "slept_ms": ms }))
}

/// The SDK as a client.
#[derive(Debug)]
pub struct SdkClient {
    connection: ConnectionTo<UntypedRole>,
}

impl SdkClient {
    /// Connects, and runs some checks with the client.
    ///
    /// # Errors
    ///
    /// The error that ended the connection.
    pub async fn connect<R, W>(
        reader: R,
        writer: W,
        checks: impl AsyncFnOnce(Self, UnboundedReceiver<Nested>),
    ) -> Result<(), Error>
    where
        R: AsyncRead + Send + 'static,
        W: AsyncWrite + Send + 'static,
    {
        let (events, nested) = unbounded_channel();
        UntypedRole
            .builder()
            .on_receive_request(
                async move |_: UntypedMessage,
                            responder: Responder,
                            cx: ConnectionTo<UntypedRole>| {
                    until_cancelled(responder, &cx, events.clone())
                },
                on_receive_request!(),
            )
            .connect_with(
                ByteStreams::new(writer.compat_write(), reader.compat()),
                async |connection| {
                    checks(Self { connection }, nested).await;
                    Ok(())
                },
            )
            .await
    }
}

fn until_cancelled(
    responder: Responder,
    cx: &ConnectionTo<UntypedRole>,
    events: UnboundedSender<Nested>,
) -> Result<(), Error> {
    let marker = responder.cancellation();
    cx.spawn(async move {
        // Nobody listens any more once the checks are over.
        let _ = events.send(Nested::Started);
        let stopped = marker.run_until_cancelled(pending()).await;
        let _ = events.send(Nested::Cancelled);
        responder.respond_with_result(stopped)
    })
}

impl Client for SdkClient {
    type Sent = SentRequest<Value>;

    fn call(&self, method: &str, params: Value) -> Self::Sent {
        self.connection.send_request(UntypedMessage { method: method.into(), params })
    }

    fn cancel(&self, sent: &Self::Sent) {
        sent.cancel().expect("the connection is open");
    }

    async fn outcome(&self, sent: Self::Sent) -> Result<Value, i64> {
        sent.block_task().await.map_err(|error| i32::from(error.code).into())
    }
}
