//! `async-lsp`, both ends. A client of it can't learn the ids of its requests, and can't cancel
//! without: so this one counts along.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

use async_lsp::concurrency::ConcurrencyLayer;
use async_lsp::router::Router;
use async_lsp::{Error, ErrorCode, MainLoop, ServerSocket};
use bench_harness::{Cancelling, Client, Hanging, Linked, Payload, Peer, Pipe, Tokio, measure};
use lsp_types::request::Request;
use lsp_types::{CancelParams, NumberOrString, notification};
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};
use tower::ServiceBuilder;

enum Echo {}

impl Request for Echo {
    type Params = Payload;
    type Result = Payload;
    const METHOD: &'static str = "bench/echo";
}

enum Hang {}

impl Request for Hang {
    type Params = Payload;
    type Result = Payload;
    const METHOD: &'static str = "bench/hang";
}

#[derive(Clone)]
struct Caller {
    socket: ServerSocket,
    /// The id of the next request.
    next: Arc<AtomicI32>,
}

type Answer = Pin<Box<dyn Future<Output = Result<Payload, Error>> + Send>>;

impl Client for Caller {
    type Sent = (i32, Answer);

    async fn echo(&self, payload: Payload) -> Payload {
        self.next.fetch_add(1, Relaxed);
        self.socket.request::<Echo>(payload).await.expect("an echo")
    }

    async fn hang(&self, payload: Payload) -> Self::Sent {
        let id = self.next.fetch_add(1, Relaxed);
        let socket = self.socket.clone();
        let mut answer: Answer = Box::pin(async move { socket.request::<Hang>(payload).await });
        // It is sent when it is first polled.
        assert!(futures::poll!(&mut answer).is_pending());
        (id, answer)
    }

    async fn cancel(&self, sent: &mut Self::Sent) {
        let params = CancelParams { id: NumberOrString::Number(sent.0) };
        self.socket.notify::<notification::Cancel>(params).expect("it is connected");
    }

    async fn is_cancelled(&self, (_, answer): Self::Sent) -> bool {
        match answer.await {
            Err(Error::Response(error)) => error.code == ErrorCode::REQUEST_CANCELLED,
            _ => false,
        }
    }
}

enum AsyncLsp {}

impl Peer for AsyncLsp {
    const NAME: &'static str = "async-lsp 0.2.4";
    const CANCELLING: Cancelling = Cancelling::Answered;
    type Runtime = Tokio;
    type Client = Caller;

    async fn serve(pipe: Pipe, limit: usize) {
        let (reader, writer) = tokio::io::split(pipe);
        let limit = NonZeroUsize::new(limit).expect("some room");
        let (server, _client) = MainLoop::new_server(|_| {
            let mut router = Router::new(());
            router
                .request::<Echo, _>(|_, payload| async { Ok(payload) })
                .request::<Hang, _>(|_, payload| async {
                    Hanging::forever().await;
                    Ok(payload)
                })
                .unhandled_notification(|_, _| ControlFlow::Continue(()));
            ServiceBuilder::new().layer(ConcurrencyLayer::new(limit)).service(router)
        });
        let served = server.run_buffered(reader.compat(), writer.compat_write()).await;
        served.expect("the pipe never breaks");
    }

    async fn connect(pipe: Pipe, _limit: usize) -> Caller {
        let (reader, writer) = tokio::io::split(pipe);
        let (client, socket) = MainLoop::new_client(|_| Router::<()>::new(()));
        tokio::spawn(async move {
            let run = client.run_buffered(reader.compat(), writer.compat_write());
            run.await.expect("the pipe never breaks");
        });
        Caller { socket, next: Arc::default() }
    }
}

fn main() {
    measure::<Linked<AsyncLsp>>(0);
}
