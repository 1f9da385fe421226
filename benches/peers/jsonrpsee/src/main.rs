//! `jsonrpsee`: its client over a transport of lines; its `RpcModule` in a task for each line, and
//! the answers through a channel to one writer, as in its own server. It can't cancel.

use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bench_harness::{Cancelling, Hanging, Linked, Payload, Peer, Pipe, Tokio, measure};
use jsonrpsee::RpcModule;
use jsonrpsee::core::client::{
    Client, ClientBuilder, ClientT, Error, ReceivedMessage, TransportReceiverT, TransportSenderT,
};
use jsonrpsee::core::traits::ToRpcParams;
use serde_json::value::{RawValue, to_raw_value};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, ReadHalf, WriteHalf};
use tokio::sync::mpsc;

struct Sender(WriteHalf<Pipe>);

impl TransportSenderT for Sender {
    type Error = std::io::Error;

    async fn send(&mut self, mut message: String) -> Result<(), Self::Error> {
        message.push('\n');
        self.0.write_all(message.as_bytes()).await
    }
}

struct Receiver(BufReader<ReadHalf<Pipe>>);

impl TransportReceiverT for Receiver {
    type Error = std::io::Error;

    async fn receive(&mut self) -> Result<ReceivedMessage, Self::Error> {
        let mut line = String::new();
        if self.0.read_line(&mut line).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        line.pop();
        Ok(ReceivedMessage::Text(line))
    }
}

struct Params(Payload);

impl ToRpcParams for Params {
    fn to_rpc_params(self) -> Result<Option<Box<RawValue>>, serde_json::Error> {
        to_raw_value(&self.0).map(Some)
    }
}

#[derive(Clone)]
struct Caller(Arc<Client>);

impl bench_harness::Client for Caller {
    type Sent = Pin<Box<dyn Future<Output = Result<Payload, Error>> + Send>>;

    async fn echo(&self, payload: Payload) -> Payload {
        self.0.request("bench/echo", Params(payload)).await.expect("an echo")
    }

    async fn hang(&self, payload: Payload) -> Self::Sent {
        let client = self.0.clone();
        let call = async move { client.request("bench/hang", Params(payload)).await };
        let mut answer: Self::Sent = Box::pin(tokio::task::unconstrained(call));
        assert!(futures::poll!(&mut answer).is_pending());
        answer
    }

    async fn cancel(&self, _: &mut Self::Sent) {
        unreachable!("it can't");
    }

    async fn is_cancelled(&self, _: Self::Sent) -> bool {
        unreachable!("it can't")
    }
}

enum Jsonrpsee {}

impl Peer for Jsonrpsee {
    const NAME: &'static str = "jsonrpsee 0.26.1";
    const CANCELLING: Cancelling = Cancelling::Impossible;
    type Runtime = Tokio;
    type Client = Caller;

    async fn serve(pipe: Pipe, limit: usize) {
        let mut module = RpcModule::new(());
        let echo = module.register_async_method("bench/echo", |params, _, _| async move {
            params.parse::<Payload>()
        });
        echo.expect("a name of its own");
        let hang = module.register_async_method("bench/hang", |params, _, _| async move {
            Hanging::forever().await;
            params.parse::<Payload>()
        });
        hang.expect("a name of its own");

        let (reader, mut writer) = tokio::io::split(pipe);
        let (answers, mut answered) = mpsc::channel::<Box<RawValue>>(limit);
        tokio::spawn(async move {
            while let Some(answer) = answered.recv().await {
                let mut line = String::from(Box::<str>::from(answer));
                line.push('\n');
                writer.write_all(line.as_bytes()).await.expect("the pipe never breaks");
            }
        });
        let mut reader = BufReader::new(reader);
        let mut line = String::new();
        while reader.read_line(&mut line).await.expect("the pipe never breaks") > 0 {
            let (module, answers) = (module.clone(), answers.clone());
            let request = mem::take(&mut line);
            tokio::spawn(async move {
                let (answer, _) = module.raw_json_request(&request, 1).await.expect("a request");
                answers.send(answer).await.expect("the writer lives");
            });
        }
    }

    async fn connect(pipe: Pipe, limit: usize) -> Caller {
        let (reader, writer) = tokio::io::split(pipe);
        let client = ClientBuilder::default()
            .request_timeout(Duration::from_secs(3600))
            .max_concurrent_requests(limit)
            .build_with_tokio(Sender(writer), Receiver(BufReader::new(reader)));
        Caller(Arc::new(client))
    }
}

fn main() {
    measure::<Linked<Jsonrpsee>>(0);
}
