//! A language server with the types of `lsp-types`: its cancels, its beginning and its end.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::future::pending;
use std::time::Duration;

use protocol_async::{CallError, Failure, RpcError, SentRequest};
use protocol_core::{CallOptions, Config, Dialect, code};
use protocol_router::Router;
use protocol_tokio::Connection;
use rescind_lsp::lsp_types::notification::{DidOpenTextDocument, Exit, PublishDiagnostics};
use rescind_lsp::lsp_types::request::{Completion, HoverRequest, Initialize, Shutdown};
use rescind_lsp::lsp_types::*;
use rescind_lsp::{Notification, Request};
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::io::DuplexStream;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;

fn connect(stream: DuplexStream, config: fn(Dialect) -> Config) -> Connection {
    let (reader, writer) = tokio::io::split(stream);
    protocol_tokio::spawn(reader, writer, config(Dialect::LSP_3_17))
}

/// Starts an editor beside a server whose completions never end. The receiver gets a message when one begins.
fn start() -> (Connection, JoinHandle<i32>, UnboundedReceiver<()>) {
    let (near, far) = tokio::io::duplex(4096);
    let (editor, server) = (connect(near, Config::client), connect(far, Config::server));
    let (begins, begun) = unbounded_channel();
    let router = Router::new()
        .on_notification::<Notification<DidOpenTextDocument>, _>(async |opened, cx| {
            let uri = opened.text_document.uri;
            let none = PublishDiagnosticsParams::new(uri, Vec::new(), None);
            Ok(cx.notify_method::<Notification<PublishDiagnostics>>(none).await?)
        })
        .on_request::<Request<HoverRequest>, _>(async |_, _| Ok(None))
        .on_request::<Request<Completion>, _>(async move |_, cx| {
            begins.send(()).unwrap();
            let never = pending::<Result<_, Failure>>();
            cx.cancellation().run_until_cancelled(never).await
        });
    let served = tokio::spawn(async move {
        rescind_lsp::serve(router, &server.incoming, |params| InitializeResult {
            server_info: params
                .client_info
                .map(|ClientInfo { name, .. }| ServerInfo { name, version: None }),
            ..InitializeResult::default()
        })
        .await
    });
    (editor, served, begun)
}

fn place() -> TextDocumentPositionParams {
    let document = TextDocumentIdentifier::new("file:///a".parse().unwrap());
    TextDocumentPositionParams::new(document, Position::new(0, 0))
}

fn complete(editor: &Connection) -> SentRequest<Option<CompletionResponse>> {
    editor.peer.call_method::<Request<Completion>>(CompletionParams {
        text_document_position: place(),
        work_done_progress_params: WorkDoneProgressParams::default(),
        partial_result_params: PartialResultParams::default(),
        context: None,
    })
}

fn hover(editor: &Connection) -> SentRequest<Option<Hover>> {
    editor.peer.call_method::<Request<HoverRequest>>(HoverParams {
        text_document_position_params: place(),
        work_done_progress_params: WorkDoneProgressParams::default(),
    })
}

fn code_of<T: std::fmt::Debug>(outcome: Result<T, CallError>) -> i64 {
    match outcome.unwrap_err() {
        CallError::Error(error) | CallError::Cancelled { error: Some(error), .. } => error.code,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn initialize_is_answered_with_what_the_server_makes_of_the_editor() {
    let (editor, _served, _) = start();
    let info = ClientInfo { name: "an editor".into(), version: None };
    let params = InitializeParams { client_info: Some(info), ..InitializeParams::default() };
    let opened = editor.peer.call_method::<Request<Initialize>>(params).await.unwrap();
    assert_eq!(opened.server_info.unwrap().name, "an editor");
}

#[tokio::test]
async fn a_notification_reaches_its_handler_and_another_returns() {
    let (editor, _served, _) = start();
    let uri: Uri = "file:///a".parse().unwrap();
    let text_document = TextDocumentItem::new(uri.clone(), "text".into(), 1, String::new());
    let opened = DidOpenTextDocumentParams { text_document };
    editor.peer.notify_method::<Notification<DidOpenTextDocument>>(opened).await.unwrap();
    let (seen, mut told) = unbounded_channel();
    let incoming = editor.incoming.clone();
    tokio::spawn(async move {
        let router = Router::new().on_notification::<Notification<PublishDiagnostics>, _>(
            async move |diagnostics, _| {
                seen.send(diagnostics.uri).unwrap();
                Ok(())
            },
        );
        router.serve(&incoming).await
    });
    assert_eq!(told.recv().await.unwrap(), uri);
}

#[tokio::test]
async fn g2_a_completion_that_is_cancelled_gets_the_error_request_cancelled() {
    let (editor, _served, mut begun) = start();
    let sent = complete(&editor);
    begun.recv().await.unwrap();
    let _ = sent.cancel(); // `$/cancelRequest`
    assert_eq!(code_of(sent.await), code::REQUEST_CANCELLED);
}

#[tokio::test]
async fn after_shutdown_requests_are_refused_and_exit_ends_with_code_0() {
    let (editor, served, mut begun) = start();
    assert_eq!(hover(&editor).await.unwrap(), None);
    let sent = complete(&editor);
    begun.recv().await.unwrap();
    editor.peer.call_method::<Request<Shutdown>>(()).await.unwrap();
    assert_eq!(code_of(hover(&editor).await), code::INVALID_REQUEST);
    editor.peer.notify_method::<Notification<Exit>>(()).await.unwrap();
    assert_eq!(code_of(sent.await), code::REQUEST_CANCELLED, "exit ends a request at work");
    assert_eq!(served.await.unwrap(), 0);
}

#[tokio::test]
async fn exit_without_shutdown_ends_with_code_1() {
    let (editor, served, _) = start();
    editor.peer.notify_method::<Notification<Exit>>(()).await.unwrap();
    assert_eq!(served.await.unwrap(), 1);
}

#[tokio::test]
async fn an_editor_that_hangs_up_without_shutdown_ends_with_code_1() {
    let (editor, served, _) = start();
    drop(editor);
    assert_eq!(served.await.unwrap(), 1);
}

#[tokio::test]
async fn editors_may_write_any_params_for_shutdown_and_exit() {
    for params in [Value::Null, json!({}), json!([])] {
        let (editor, served, _) = start();
        assert_eq!(editor.peer.call::<Value>("shutdown", &params).await.unwrap(), Value::Null);
        editor.peer.notify("exit", params).await.unwrap();
        assert_eq!(served.await.unwrap(), 0);
    }
}

/// Serves until `exit`. The request and the notification `slow` ignore their marker, and so does the work that
/// `spawns` spawns.
fn start_deaf(limit: fn(Router) -> Router) -> (Connection, JoinHandle<i32>) {
    let (near, far) = tokio::io::duplex(1 << 16);
    let (editor, server) = (connect(near, Config::client), connect(far, Config::server));
    let router = Router::new()
        .request("slow", async |_: IgnoredAny, _| pending::<Result<(), _>>().await)
        .notification("slow", async |_: IgnoredAny, _| pending().await)
        .notification("spawns", async |_: IgnoredAny, cx| {
            cx.spawn(pending());
            Ok(())
        });
    let served = tokio::spawn(async move {
        rescind_lsp::serve(limit(router), &server.incoming, |_| InitializeResult::default()).await
    });
    (editor, served)
}

#[tokio::test(start_paused = true)]
async fn exit_does_not_wait_for_work_that_ignores_its_marker() {
    let (editor, served) = start_deaf(|router| router);
    let sent = editor.peer.call::<Value>("slow", ());
    for method in ["slow", "spawns"] {
        editor.peer.notify(method, ()).await.unwrap();
    }
    editor.peer.call_method::<Request<Shutdown>>(()).await.unwrap();
    editor.peer.notify_method::<Notification<Exit>>(()).await.unwrap();
    assert_eq!(code_of(sent.await), code::REQUEST_CANCELLED, "its response is written");
    assert_eq!(soon(served).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_hang_up_does_not_wait_for_work_that_ignores_its_marker() {
    for method in ["slow", "spawns"] {
        let (editor, served) = start_deaf(|router| router);
        editor.peer.notify(method, ()).await.unwrap();
        editor.peer.flushed().await;
        drop(editor);
        assert_eq!(soon(served).await, 1);
    }
}

/// While so many wait, the router takes nothing more.
#[tokio::test(start_paused = true)]
async fn a_hang_up_ends_a_server_whose_notifications_hold_it_up() {
    let (editor, served) = start_deaf(|router| router);
    for _ in 0..70 {
        editor.peer.notify("slow", ()).await.unwrap();
    }
    editor.peer.flushed().await;
    drop(editor);
    assert_eq!(soon(served).await, 1);
}

#[tokio::test(start_paused = true)]
async fn shutdown_waits_for_no_limit_or_layer_and_is_refused_by_none() {
    let limits: [fn(Router) -> Router; 4] = [
        |router| router.limit(1),
        |router| router.at_most(1),
        |router| router.before(|_| Err(RpcError::new(code::REQUEST_FAILED, "refused").into())),
        |router| router.fallback(async |_, _| Ok(())),
    ];
    for limit in limits {
        let (editor, served) = start_deaf(limit);
        let _sent = editor.peer.call::<Value>("slow", ());
        let options = CallOptions::default().timeout(Duration::from_secs(20));
        editor.peer.call_with::<Value>("shutdown", (), options).await.unwrap();
        let refused = editor.peer.call_with::<Value>("nobody has it", (), options).await;
        assert_eq!(code_of(refused), code::INVALID_REQUEST);
        editor.peer.notify("exit", ()).await.unwrap();
        assert_eq!(soon(served).await, 0);
    }
}

async fn soon(served: JoinHandle<i32>) -> i32 {
    tokio::time::timeout(Duration::from_secs(20), served).await.expect("it waits for ever").unwrap()
}
