//! The language server with this project, and the types of the official one.

use std::sync::Mutex;
use std::time::Duration;

use protocol_core::{Config, Dialect};
use protocol_router::Router;
use tower_lsp_server::ls_types::{
    CompletionItem, CompletionParams, DidChangeTextDocumentParams, DidOpenTextDocumentParams,
    InitializeParams, InitializeResult,
};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let stdio = protocol_tokio::stdio(Config::server(Dialect::LSP_3_17));
    let router = Router::with_state(Mutex::new(String::new()))
        .request("initialize", async |_: InitializeParams, _| Ok(InitializeResult::default()))
        .notification("initialized", async |_: serde_json::Value, _| Ok(()))
        .notification("textDocument/didOpen", async |opened: DidOpenTextDocumentParams, cx| {
            *cx.state().lock().unwrap() = opened.text_document.text;
            Ok(())
        })
        .notification("textDocument/didChange", async |changed: DidChangeTextDocumentParams, cx| {
            let mut text = cx.state().lock().unwrap();
            changed.content_changes.iter().for_each(|change| text.push_str(&change.text));
            Ok(())
        })
        .request("textDocument/completion", async |asked: CompletionParams, cx| {
            let search = async {
                if asked.text_document_position.position.character % 2 == 1 {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                let length = cx.state().lock().unwrap().len();
                let word = |n| CompletionItem {
                    label: format!("word{n}after{length}"),
                    ..CompletionItem::default()
                };
                Ok((0..20).map(word).collect::<Vec<_>>())
            };
            cx.cancellation().run_until_cancelled(search).await
        });
    router.serve(&stdio.incoming).await;
}
