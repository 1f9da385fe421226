//! `protocol-tokio`, both ends on one `current_thread` runtime, served by a loop over what arrives.
//! As `peer-tokio router …` served by a `Router`.

use std::future::pending;

use bench_harness::{Cancelling, Client, Hanging, Linked, Payload, Peer, Pipe, Tokio, measure};
use protocol_async::{Arrival, Budget, CallError, Options, SentRequest};
use protocol_core::{Config, Dialect};
use protocol_router::Router;

fn limited(mut config: Config, limit: usize) -> Options {
    config.limits.calls = limit;
    config.limits.requests = limit;
    let mut options = Options::new(config);
    options.work_requests = limit;
    options.work_bytes = usize::MAX;
    // Counted all the same.
    options.budgets.cancelled_requests = Budget::Limited { per_second: 1 << 30, burst: u32::MAX };
    options
}

#[derive(Clone)]
struct Caller(protocol_async::Peer);

impl Caller {
    async fn connect(pipe: Pipe, limit: usize) -> Self {
        let (reader, writer) = tokio::io::split(pipe);
        Self(
            protocol_tokio::spawn(reader, writer, limited(Config::client(Dialect::ACP_V1), limit))
                .peer,
        )
    }
}

impl Client for Caller {
    type Sent = SentRequest<Payload>;

    async fn echo(&self, payload: Payload) -> Payload {
        self.0.call("bench/echo", payload).await.expect("an echo")
    }

    async fn hang(&self, payload: Payload) -> Self::Sent {
        self.0.call("bench/hang", payload)
    }

    async fn cancel(&self, sent: &mut Self::Sent) {
        sent.cancel();
    }

    async fn is_cancelled(&self, sent: Self::Sent) -> bool {
        matches!(sent.await, Err(CallError::Cancelled { error: Some(_), .. }))
    }
}

enum Loop {}

impl Peer for Loop {
    const NAME: &'static str = "tokio";
    const CANCELLING: Cancelling = Cancelling::Answered;
    type Runtime = Tokio;
    type Client = Caller;

    async fn serve(pipe: Pipe, limit: usize) {
        let (reader, writer) = tokio::io::split(pipe);
        let connection =
            protocol_tokio::spawn(reader, writer, limited(Config::server(Dialect::ACP_V1), limit));
        while let Ok(arrival) = connection.incoming.receive().await {
            let Arrival::Request(request, responder) = arrival else { continue };
            let responder = responder.cast::<Payload>();
            if request.method == "bench/echo" {
                responder.respond_with_result(request.params::<Payload>());
            } else {
                tokio::spawn(async move {
                    let _hanging = Hanging::new();
                    let work = pending::<Payload>();
                    let done = responder.cancellation().unless_cancelled(work).await;
                    responder.respond_with_result(done);
                });
            }
        }
    }

    async fn connect(pipe: Pipe, limit: usize) -> Caller {
        Caller::connect(pipe, limit).await
    }
}

enum Routed {}

impl Peer for Routed {
    const NAME: &'static str = "tokio, Router";
    const CANCELLING: Cancelling = Cancelling::Answered;
    type Runtime = Tokio;
    type Client = Caller;

    async fn serve(pipe: Pipe, limit: usize) {
        let (reader, writer) = tokio::io::split(pipe);
        let connection =
            protocol_tokio::spawn(reader, writer, limited(Config::server(Dialect::ACP_V1), limit));
        let router = Router::new()
            .request("bench/echo", async |payload: Payload, _| Ok(payload))
            .request("bench/hang", async |payload: Payload, cx| {
                cx.cancellation().unless_cancelled(Hanging::forever()).await?;
                Ok(payload)
            });
        router.serve(&connection.incoming).await;
    }

    async fn connect(pipe: Pipe, limit: usize) -> Caller {
        Caller::connect(pipe, limit).await
    }
}

fn main() {
    if std::env::args().nth(1).is_some_and(|variant| variant == "router") {
        measure::<Linked<Routed>>(1);
    } else {
        measure::<Linked<Loop>>(0);
    }
}
