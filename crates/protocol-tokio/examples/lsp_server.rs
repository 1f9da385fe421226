//! An LSP server: it folds the paragraphs of open documents, slowly, and stops when it is cancelled.
//!
//! `cargo run -p rescind-tokio --example lsp_server`, from an editor that speaks LSP on standard
//! input and output. `rescind::lsp::serve` has the beginning and the end of such a server.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol_async::{Failure, Incoming, RpcError};
use protocol_core::{Config, Dialect, Shutdown, code};
use protocol_router::{Context, Router};
use serde_json::{Value, json};
use tokio::task::yield_now;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let connection = protocol_tokio::stdio(Config::server(Dialect::LSP_3_17));
    let code = serve(&connection.incoming).await;
    // The client may hold our input open, on which a thread of the runtime hangs.
    std::process::exit(code);
}

#[derive(Default)]
struct Server {
    /// The open documents.
    texts: Mutex<HashMap<Value, String>>,
    is_shut_down: AtomicBool,
}

impl Server {
    fn texts(&self) -> MutexGuard<'_, HashMap<Value, String>> {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, document: &Value, text: &Value) {
        let text = text.as_str().unwrap_or_default().to_owned();
        self.texts().insert(document["uri"].clone(), text);
    }

    fn check(&self) -> Result<(), RpcError> {
        match self.is_shut_down.load(Ordering::Relaxed) {
            true => Err(RpcError::new(code::INVALID_REQUEST, "the server is shut down")),
            false => Ok(()),
        }
    }
}

/// Serves until `exit`, or until the client hangs up. Returns the exit code, which is 0 after `shutdown`.
pub(crate) async fn serve(incoming: &Incoming) -> i32 {
    let server = Arc::new(Server::default());
    let router = Router::with_state(server.clone())
        .before(|cx: &Context<Arc<Server>>| Ok(cx.state().check()?))
        .request("initialize", async |_: Value, _| {
            let capabilities = json!({ "textDocumentSync": 1, "foldingRangeProvider": true });
            Ok(json!({ "capabilities": capabilities }))
        })
        .request("shutdown", async |_: Option<Value>, cx| {
            cx.state().is_shut_down.store(true, Ordering::Relaxed);
            Ok(Value::Null)
        })
        .notification("exit", async |_: Option<Value>, cx| {
            cx.peer().shutdown(Shutdown::CancelAll);
            Ok(())
        })
        .notification("textDocument/didOpen", async |opened: Value, cx| {
            let document = &opened["textDocument"];
            cx.state().keep(document, &document["text"]);
            Ok(())
        })
        .notification("textDocument/didChange", async |changed: Value, cx| {
            // Each change is a whole text, because `textDocumentSync` is 1.
            let last = changed["contentChanges"].as_array().and_then(|changes| changes.last());
            if let Some(last) = last {
                cx.state().keep(&changed["textDocument"], &last["text"]);
            }
            Ok(())
        })
        .notification("textDocument/didClose", async |closed: Value, cx| {
            cx.state().texts().remove(&closed["textDocument"]["uri"]);
            Ok(())
        })
        .request("textDocument/foldingRange", fold);
    router.serve(incoming).await;
    i32::from(server.check().is_ok())
}

async fn fold(asked: Value, cx: Context<Arc<Server>>) -> Result<Vec<Value>, Failure> {
    let text = cx.state().texts().get(&asked["textDocument"]["uri"]).cloned();
    let closed = || RpcError::new(code::REQUEST_FAILED, "the document is not open");
    let (mut ranges, mut start) = (Vec::new(), 0);
    for (number, line) in text.ok_or_else(closed)?.lines().chain([""]).enumerate() {
        // Between two steps: others have their turn, and a cancelled request ends here.
        yield_now().await;
        cx.cancellation().checkpoint()?;
        if line.is_empty() {
            if number > start + 1 {
                ranges.push(json!({ "startLine": start, "endLine": number - 1 }));
            }
            start = number + 1;
        }
    }
    Ok(ranges)
}
