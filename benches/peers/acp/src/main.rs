//! `agent-client-protocol`: echo answered in line, hang spawned, as its documentation says.

use agent_client_protocol::role::UntypedRole;
use agent_client_protocol::{
    ByteStreams, ConnectionTo, JsonRpcRequest, JsonRpcResponse, Responder, SentRequest,
    on_receive_request,
};
use bench_harness::{Cancelling, Client, Hanging, Linked, Payload, Peer, Pipe, Tokio, measure};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

#[derive(Clone, Debug, Deserialize, JsonRpcRequest, Serialize)]
#[request(method = "bench/echo", response = Echoed)]
#[serde(transparent)]
struct Echo(Payload);

#[derive(Clone, Debug, Deserialize, JsonRpcRequest, Serialize)]
#[request(method = "bench/hang", response = Echoed)]
#[serde(transparent)]
struct Hang(Payload);

#[derive(Clone, Debug, Deserialize, JsonRpcResponse, Serialize)]
#[serde(transparent)]
struct Echoed(Payload);

#[derive(Clone)]
struct Caller(ConnectionTo<UntypedRole>);

impl Client for Caller {
    type Sent = SentRequest<Echoed>;

    async fn echo(&self, payload: Payload) -> Payload {
        self.0.send_request(Echo(payload)).block_task().await.expect("an echo").0
    }

    async fn hang(&self, payload: Payload) -> Self::Sent {
        self.0.send_request(Hang(payload))
    }

    async fn cancel(&self, sent: &mut Self::Sent) {
        sent.cancellation_handle().cancel().expect("it is connected");
    }

    async fn is_cancelled(&self, sent: Self::Sent) -> bool {
        sent.block_task().await.is_err_and(|error| i32::from(error.code) == -32800)
    }
}

enum Acp {}

impl Peer for Acp {
    const NAME: &'static str = "agent-client-protocol 5.0.0";
    const CANCELLING: Cancelling = Cancelling::Answered;
    type Runtime = Tokio;
    type Client = Caller;

    async fn serve(pipe: Pipe, _limit: usize) {
        let (reader, writer) = tokio::io::split(pipe);
        let served = UntypedRole
            .builder()
            .on_receive_request(
                async |Echo(payload): Echo,
                       responder: Responder<Echoed>,
                       _: ConnectionTo<UntypedRole>| {
                    responder.respond(Echoed(payload))
                },
                on_receive_request!(),
            )
            .on_receive_request(
                async |Hang(payload): Hang,
                       responder: Responder<Echoed>,
                       connection: ConnectionTo<UntypedRole>| {
                    let cancellation = responder.cancellation();
                    connection.spawn(async move {
                        let work = async {
                            Hanging::forever().await;
                            Ok(Echoed(payload))
                        };
                        let done = cancellation.run_until_cancelled(work).await;
                        responder.respond_with_result(done)
                    })
                },
                on_receive_request!(),
            )
            .connect_to(ByteStreams::new(writer.compat_write(), reader.compat()))
            .await;
        served.expect("the pipe never breaks");
    }

    async fn connect(pipe: Pipe, _limit: usize) -> Caller {
        let (connected, connection) = oneshot::channel();
        tokio::spawn(async move {
            let (reader, writer) = tokio::io::split(pipe);
            let streams = ByteStreams::new(writer.compat_write(), reader.compat());
            let connected = UntypedRole.builder().connect_with(streams, async move |connection| {
                connected.send(Caller(connection)).ok().expect("it is awaited");
                std::future::pending::<()>().await;
                Ok(())
            });
            connected.await.expect("the pipe never breaks");
        });
        connection.await.expect("it connects")
    }
}

fn main() {
    measure::<Linked<Acp>>(0);
}
