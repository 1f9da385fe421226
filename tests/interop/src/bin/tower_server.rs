//! A language server on `tower-lsp-server`, with what its users write.

use tower_lsp_server::Server;
use tower_lsp_server::jsonrpc::Result;
use tower_lsp_server::ls_types::{
    DocumentSymbol, DocumentSymbolParams, DocumentSymbolResponse, InitializeParams,
    InitializeResult, OneOf, ServerCapabilities, ServerInfo,
};
use tower_lsp_server::{LanguageServer, LspService};

struct Backend;

impl LanguageServer for Backend {
    async fn initialize(&self, _: InitializeParams) -> Result<InitializeResult> {
        let capabilities = ServerCapabilities {
            document_symbol_provider: Some(OneOf::Left(true)),
            ..ServerCapabilities::default()
        };
        let info = ServerInfo { name: "tower-lsp-server demo".into(), version: None };
        Ok(InitializeResult { capabilities, server_info: Some(info), ..InitializeResult::default() })
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
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let (service, socket) = LspService::new(|_| Backend);
    Server::new(tokio::io::stdin(), tokio::io::stdout(), socket).serve(service).await;
}
