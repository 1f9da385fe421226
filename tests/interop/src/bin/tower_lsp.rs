//! A language server on `tower-lsp`, as its users write one. `tower_server` is the same on its successor.

use tower_lsp::jsonrpc::Result;
use tower_lsp::lsp_types::{
    DocumentSymbol, DocumentSymbolParams, DocumentSymbolResponse, ExecuteCommandParams,
    InitializeParams, InitializeResult, OneOf, ServerCapabilities, ServerInfo,
};
use tower_lsp::{Client, LanguageServer, LspService, Server};

struct Backend(Client);

#[tower_lsp::async_trait]
impl LanguageServer for Backend {
    async fn initialize(&self, _: InitializeParams) -> Result<InitializeResult> {
        let capabilities = ServerCapabilities {
            document_symbol_provider: Some(OneOf::Left(true)),
            ..ServerCapabilities::default()
        };
        let info = ServerInfo { name: "tower-lsp demo".into(), version: None };
        Ok(InitializeResult { capabilities, server_info: Some(info) })
    }

    async fn shutdown(&self) -> Result<()> {
        Ok(())
    }

    /// Takes its time, as analysing a document does.
    async fn document_symbol(
        &self,
        _: DocumentSymbolParams,
    ) -> Result<Option<DocumentSymbolResponse>> {
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        Ok(Some(DocumentSymbolResponse::Nested(Vec::<DocumentSymbol>::new())))
    }

    /// Asks its client for the folders that it works on, whatever the command.
    async fn execute_command(&self, _: ExecuteCommandParams) -> Result<Option<serde_json::Value>> {
        self.0.workspace_folders().await?;
        Ok(None)
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let (service, socket) = LspService::new(Backend);
    Server::new(tokio::io::stdin(), tokio::io::stdout(), socket).serve(service).await;
}
