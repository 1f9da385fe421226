//! An LSP server: it looks for words in open documents, slowly, and stops when it is cancelled.
//!
//! `cargo run -p protocol-tokio --example lsp_server`, from an editor that speaks LSP on standard
//! input and output.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use protocol_async::RpcError;
use protocol_async::{Failure, Incoming, Router};
use protocol_core::{Config, Dialect, Shutdown, code};
use serde_json::{Value, json};
use tokio::task::yield_now;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let connection = protocol_tokio::stdio(Config::server(Dialect::LSP_3_17));
    serve(&connection.incoming).await;
    // The client may hold our input open, on which a thread of the runtime hangs.
    connection.peer.flushed().await;
    std::process::exit(0);
}

/// Serves until `exit`, or until the client hangs up.
pub(crate) async fn serve(incoming: &Incoming) {
    let documents = Mutex::new(HashMap::<String, String>::new());
    let text_of = |uri: &Value| {
        let documents = documents.lock().unwrap_or_else(PoisonError::into_inner);
        documents.get(uri.as_str().unwrap_or_default()).cloned().ok_or_else(|| {
            Failure::from(RpcError::new(code::REQUEST_FAILED, "the document is not open"))
        })
    };
    let router = Router::new()
        .request("initialize", async |_: Value, _| {
            let capabilities = json!({ "textDocumentSync": 1, "documentHighlightProvider": true });
            Ok(json!({ "capabilities": capabilities }))
        })
        .request("shutdown", async |_: Value, _| Ok(Value::Null))
        .notification("exit", async |_: Value, cx| cx.peer().shutdown(Shutdown::CancelAll))
        .notification("textDocument/didOpen", async |opened: Value, _| {
            let document = &opened["textDocument"];
            let field = |name: &str| document[name].as_str().unwrap_or_default().to_owned();
            let mut documents = documents.lock().unwrap_or_else(PoisonError::into_inner);
            documents.insert(field("uri"), field("text"));
        })
        .request("textDocument/documentHighlight", async |asked: Value, cx| {
            let text = text_of(&asked["textDocument"]["uri"])?;
            let at = &asked["position"];
            let number = |value: &Value| value.as_u64().and_then(|n| usize::try_from(n).ok());
            let line = number(&at["line"]).and_then(|line| text.lines().nth(line));
            let word = line.zip(number(&at["character"])).and_then(|(line, at)| {
                line.get(at..)?.split(|c: char| !c.is_alphanumeric()).next()
            });
            let Some(word) = word.filter(|word| !word.is_empty()) else { return Ok(json!([])) };
            let mut highlights = Vec::new();
            for (number, line) in text.lines().enumerate() {
                // Between two steps: others have their turn, and a cancelled request ends here.
                yield_now().await;
                cx.cancellation().checkpoint()?;
                highlights.extend(line.match_indices(word).map(|(start, word)| {
                    let position = |character| json!({ "line": number, "character": character });
                    let range = json!({
                        "start": position(start),
                        "end": position(start + word.len()),
                    });
                    json!({ "range": range })
                }));
            }
            Ok(Value::from(highlights))
        });
    router.serve(incoming).await;
}
