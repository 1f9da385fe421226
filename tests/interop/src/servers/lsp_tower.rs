//! The same with `tower-lsp-server`.

use std::collections::HashMap;
use std::sync::Mutex;

use tower_lsp_server::jsonrpc::Result;
use tower_lsp_server::ls_types::{
    DidOpenTextDocumentParams, Hover, HoverContents, HoverParams, InitializeParams,
    InitializeResult, MarkedString, Uri,
};
use tower_lsp_server::{ClientSocket, LanguageServer, LspService};

/// A language server that keeps its documents, by their URIs.
#[derive(Debug, Default)]
pub struct Backend(Mutex<HashMap<Uri, String>>);

impl LanguageServer for Backend {
    async fn initialize(&self, _: InitializeParams) -> Result<InitializeResult> {
        Ok(InitializeResult::default())
    }

    async fn shutdown(&self) -> Result<()> {
        Ok(())
    }

    async fn did_open(&self, opened: DidOpenTextDocumentParams) {
        let document = opened.text_document;
        self.0.lock().unwrap().insert(document.uri, document.text);
    }

    async fn hover(&self, asked: HoverParams) -> Result<Option<Hover>> {
        let uri = asked.text_document_position_params.text_document.uri;
        let text = self.0.lock().unwrap().get(&uri).cloned();
        let contents = |text| HoverContents::Scalar(MarkedString::String(text));
        Ok(text.map(|text| Hover { contents: contents(text), range: None }))
    }
}

/// The server: `Server::new(stdin, stdout, socket).serve(service).await`.
pub fn server() -> (LspService<Backend>, ClientSocket) {
    LspService::new(|_| Backend::default())
}
