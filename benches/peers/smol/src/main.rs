//! `protocol-smol`, both ends on one `LocalExecutor`, served by a loop over what arrives. The pipe
//! is tokio's, which needs no runtime: so both adapters have the same one.

use std::future::{Future, pending};

use bench_harness::{Cancelling, Client, Hanging, Linked, Payload, Peer, Pipe, Runtime, measure};
use protocol_async::{Arrival, Budget, CallError, Incoming, Options, SentRequest};
use protocol_core::{Config, Dialect};
use smol::LocalExecutor;
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

thread_local! {
    static EXECUTOR: LocalExecutor<'static> = const { LocalExecutor::new() };
}

enum Smol {}

impl Runtime for Smol {
    fn block_on<F: Future>(future: F) -> F::Output {
        EXECUTOR.with(|executor| smol::block_on(executor.run(future)))
    }

    fn spawn<F>(future: F) -> impl Future<Output = F::Output> + Send
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        EXECUTOR.with(|executor| executor.spawn(future))
    }
}

fn open(pipe: Pipe, limit: usize, mut config: Config) -> (protocol_async::Peer, Incoming) {
    config.limits.calls = limit;
    config.limits.requests = limit;
    let mut options = Options::new(config);
    options.work_requests = limit;
    options.work_bytes = usize::MAX;
    // Counted all the same.
    options.budgets.cancelled_requests = Budget::Limited { per_second: 1 << 30, burst: u32::MAX };
    let (reader, writer) = tokio::io::split(pipe);
    let (reader, writer) = (reader.compat(), writer.compat_write());
    let (peer, incoming, driver) = protocol_smol::connect(reader, writer, options);
    EXECUTOR.with(|executor| executor.spawn(driver).detach());
    (peer, incoming)
}

#[derive(Clone)]
struct Caller(protocol_async::Peer);

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
    const NAME: &'static str = "smol";
    const CANCELLING: Cancelling = Cancelling::Answered;
    type Runtime = Smol;
    type Client = Caller;

    async fn serve(pipe: Pipe, limit: usize) {
        // The value that it returns stays here: the peer keeps the connection open.
        let (_peer, incoming) = open(pipe, limit, Config::server(Dialect::ACP_V1));
        while let Ok(arrival) = incoming.receive().await {
            let Arrival::Request(request, responder) = arrival else { continue };
            let responder = responder.cast::<Payload>();
            if request.method == "bench/echo" {
                responder.respond_with_result(request.params::<Payload>());
                continue;
            }
            let work = async move {
                let _hanging = Hanging::new();
                let work = pending::<Payload>();
                let done = responder.cancellation().unless_cancelled(work).await;
                responder.respond_with_result(done);
            };
            EXECUTOR.with(|executor| executor.spawn(work).detach());
        }
    }

    async fn connect(pipe: Pipe, limit: usize) -> Caller {
        Caller(open(pipe, limit, Config::client(Dialect::ACP_V1)).0)
    }
}

fn main() {
    measure::<Linked<Loop>>(0);
}
