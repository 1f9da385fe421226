//! An LSP server: it looks for words in open documents, slowly, and stops when it is cancelled.
//!
//! `cargo run -p rescind-tokio --example lsp_server`, from an editor that speaks LSP on standard
//! input and output.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use protocol_async::{Incoming, RpcError};
use protocol_core::{Config, Dialect, Shutdown, code};
use protocol_router::Router;
use serde_json::{Value, json};
use tokio::task::yield_now;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let connection = protocol_tokio::stdio(Config::server(Dialect::LSP_3_17));
    serve(&connection.incoming).await;
    // The client may hold our input open, on which a thread of the runtime hangs.
    std::process::exit(0);
}

/// The open documents.
#[derive(Default)]
struct Documents {
    texts: Mutex<HashMap<String, String>>,
}

impl Documents {
    fn open(&self, uri: &Value, text: &Value) {
        let text_of = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        self.texts().insert(text_of(uri), text_of(text));
    }

    fn text(&self, uri: &Value) -> Result<String, RpcError> {
        let text = self.texts().get(uri.as_str().unwrap_or_default()).cloned();
        text.ok_or_else(|| RpcError::new(code::REQUEST_FAILED, "the document is not open"))
    }

    fn texts(&self) -> MutexGuard<'_, HashMap<String, String>> {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Serves until `exit`, or until the client hangs up.
pub(crate) async fn serve(incoming: &Incoming) {
    let router = Router::with_state(Documents::default())
        .request("initialize", async |_: Value, _| {
            let capabilities = json!({ "textDocumentSync": 1, "documentHighlightProvider": true });
            Ok(json!({ "capabilities": capabilities }))
        })
        .request("shutdown", async |_: Value, _| Ok(Value::Null))
        .notification("exit", async |_: Value, cx| {
            cx.peer().shutdown(Shutdown::CancelAll);
            Ok(())
        })
        .notification("textDocument/didOpen", async |opened: Value, cx| {
            let document = &opened["textDocument"];
            cx.state().open(&document["uri"], &document["text"]);
            Ok(())
        })
        .request("textDocument/documentHighlight", async |asked: Value, cx| {
            let text = cx.state().text(&asked["textDocument"]["uri"])?;
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
