//! `tarpc` with JSON on the wire, in an envelope of its own; dropping a call is its cancel.

use std::pin::Pin;
use std::time::{Duration, Instant};

use bench_harness::{Cancelling, Client, Hanging, Linked, Payload, Peer, Pipe, Tokio, measure};
use futures::StreamExt;
use serde::{Deserialize, Serialize};
use tarpc::client::{self, RpcError};
use tarpc::context::{self, Context};
use tarpc::serde_transport::Transport;
use tarpc::server::{BaseChannel, Channel as _, serve};
use tarpc::{ClientMessage, RequestName, Response};
use tokio_serde::formats::Json;

#[derive(Clone, Debug, Deserialize, Serialize)]
enum Call {
    Echo(Payload),
    Hang(Payload),
}

impl RequestName for Call {
    fn name(&self) -> &str {
        match self {
            Self::Echo(_) => "bench/echo",
            Self::Hang(_) => "bench/hang",
        }
    }
}

#[derive(Clone)]
struct Caller(client::Channel<Call, Payload>);

/// Every call has a deadline.
fn context() -> Context {
    let mut context = context::current();
    context.deadline = Instant::now() + Duration::from_secs(3600);
    context
}

type Answer = Pin<Box<dyn Future<Output = Result<Payload, RpcError>> + Send>>;

impl Client for Caller {
    type Sent = Option<Answer>;

    async fn echo(&self, payload: Payload) -> Payload {
        self.0.call(context(), Call::Echo(payload)).await.expect("an echo")
    }

    async fn hang(&self, payload: Payload) -> Self::Sent {
        let channel = self.0.clone();
        let call = async move { channel.call(context(), Call::Hang(payload)).await };
        // It is sent when it is first polled, and that must not be put off by tokio's budget.
        let mut answer: Answer = Box::pin(tokio::task::unconstrained(call));
        assert!(futures::poll!(&mut answer).is_pending());
        Some(answer)
    }

    async fn cancel(&self, sent: &mut Self::Sent) {
        *sent = None;
    }

    async fn is_cancelled(&self, sent: Self::Sent) -> bool {
        sent.is_none()
    }
}

enum Tarpc {}

impl Peer for Tarpc {
    const NAME: &'static str = "tarpc 0.38.0, JSON";
    const CANCELLING: Cancelling = Cancelling::OneWay;
    type Runtime = Tokio;
    type Client = Caller;

    async fn serve(pipe: Pipe, _limit: usize) {
        let transport: Transport<Pipe, ClientMessage<Call>, Response<Payload>, _> =
            Transport::from((pipe, Json::default()));
        let handler = serve(|_, call: Call| async {
            match call {
                Call::Echo(payload) => Ok(payload),
                Call::Hang(payload) => {
                    Hanging::forever().await;
                    Ok(payload)
                }
            }
        });
        let requests = BaseChannel::with_defaults(transport).execute(handler);
        requests
            .for_each(|request| async {
                tokio::spawn(request);
            })
            .await;
    }

    async fn connect(pipe: Pipe, limit: usize) -> Caller {
        let transport: Transport<Pipe, Response<Payload>, ClientMessage<Call>, _> =
            Transport::from((pipe, Json::default()));
        let mut config = client::Config::default();
        config.max_in_flight_requests = limit;
        config.pending_request_buffer = limit;
        Caller(client::new(config, transport).spawn())
    }
}

fn main() {
    measure::<Linked<Tarpc>>(0);
}
