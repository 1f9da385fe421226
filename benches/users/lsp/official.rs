//! The language server with `tower-lsp-server`.

use std::sync::Mutex;
use std::time::Duration;

use tower_lsp_server::jsonrpc::Result;
use tower_lsp_server::ls_types::{
    CompletionItem, CompletionParams, CompletionResponse, DidChangeTextDocumentParams,
    DidOpenTextDocumentParams, InitializeParams, InitializeResult,
};
use tower_lsp_server::{LanguageServer, LspService, Server};

#[derive(Default)]
struct Backend(Mutex<String>);

impl LanguageServer for Backend {
    async fn initialize(&self, _: InitializeParams) -> Result<InitializeResult> {
        Ok(InitializeResult::default())
    }

    async fn shutdown(&self) -> Result<()> {
        Ok(())
    }

    async fn did_open(&self, opened: DidOpenTextDocumentParams) {
        *self.0.lock().unwrap() = opened.text_document.text;
    }

    async fn did_change(&self, changed: DidChangeTextDocumentParams) {
        let mut text = self.0.lock().unwrap();
        changed.content_changes.iter().for_each(|change| text.push_str(&change.text));
    }

    /// Its future is dropped when the request is cancelled.
    async fn completion(&self, asked: CompletionParams) -> Result<Option<CompletionResponse>> {
        if asked.text_document_position.position.character % 2 == 1 {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let length = self.0.lock().unwrap().len();
        let word = |n| CompletionItem {
            label: format!("word{n}after{length}"),
            ..CompletionItem::default()
        };
        Ok(Some(CompletionResponse::Array((0..20).map(word).collect())))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let (service, socket) = LspService::new(|_| Backend::default());
    Server::new(tokio::io::stdin(), tokio::io::stdout(), socket).serve(service).await;
}
