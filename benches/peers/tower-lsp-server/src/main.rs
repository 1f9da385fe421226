//! `tower-lsp-server`: it has a serving side only, so the calling side is the hand-made one.

use bench_harness::handmade::{Client, Framing};
use bench_harness::{Cancelling, Hanging, Linked, Payload, Peer, Pipe, Tokio, measure};
use serde_json::json;
use tower_lsp_server::jsonrpc::Result;
use tower_lsp_server::ls_types::{InitializeParams, InitializeResult};
use tower_lsp_server::{LanguageServer, LspService, Server};

struct Backend;

impl LanguageServer for Backend {
    async fn initialize(&self, _: InitializeParams) -> Result<InitializeResult> {
        Ok(InitializeResult::default())
    }

    async fn shutdown(&self) -> Result<()> {
        Ok(())
    }
}

impl Backend {
    async fn echo(&self, payload: Payload) -> Result<Payload> {
        Ok(payload)
    }

    async fn hang(&self, payload: Payload) -> Result<Payload> {
        Hanging::forever().await;
        Ok(payload)
    }
}

enum TowerLspServer {}

impl Peer for TowerLspServer {
    const NAME: &'static str = "tower-lsp-server 0.23.0 (server only)";
    const CANCELLING: Cancelling = Cancelling::Answered;
    type Runtime = Tokio;
    type Client = Client;

    async fn serve(pipe: Pipe, limit: usize) {
        let (reader, writer) = tokio::io::split(pipe);
        let (service, socket) = LspService::build(|_| Backend)
            .custom_method("bench/echo", Backend::echo)
            .custom_method("bench/hang", Backend::hang)
            .finish();
        Server::new(reader, writer, socket).concurrency_level(limit).serve(service).await;
    }

    async fn connect(pipe: Pipe, _limit: usize) -> Client {
        let client = Client::connect::<Tokio>(pipe, Framing::ContentLength);
        let id = client.send("initialize", &json!({"capabilities": {}}));
        client.answer(id).await.expect("it initializes");
        client.notify("initialized", &json!({}));
        client
    }
}

fn main() {
    measure::<Linked<TowerLspServer>>(0);
}
