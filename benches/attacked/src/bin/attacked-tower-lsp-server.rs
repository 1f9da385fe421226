//! tower-lsp-server over TCP, a service for each connection, with its defaults.

use attacked::{Sleep, listen};
use serde_json::Value;
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
    async fn echo(&self, params: Value) -> Result<Value> {
        Ok(params)
    }

    async fn sleep(&self, asked: Sleep) -> Result<()> {
        asked.sleep().await;
        Ok(())
    }
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    listen("lsp", async |stream| {
        let (reader, writer) = tokio::io::split(stream);
        let (service, socket) = LspService::build(|_| Backend)
            .custom_method("echo", Backend::echo)
            .custom_method("sleep", Backend::sleep)
            .finish();
        Server::new(reader, writer, socket).serve(service).await;
    })
    .await
}
