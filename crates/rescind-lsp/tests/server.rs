//! A language server with the types of `lsp-types`: its cancels, its beginning and its end.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::future::pending;

use protocol_async::{CallError, Failure, SentRequest};
use protocol_core::{Config, Dialect, code};
use protocol_router::Router;
use protocol_tokio::Connection;
use rescind_lsp::lsp_types::notification::{DidOpenTextDocument, Exit, PublishDiagnostics};
use rescind_lsp::lsp_types::request::{Completion, HoverRequest, Initialize, Shutdown};
use rescind_lsp::lsp_types::*;
use rescind_lsp::{Notification, Request};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;

/// Starts an editor beside a server whose completions never end. The receiver gets a message when one begins.
fn start() -> (Connection, JoinHandle<i32>, UnboundedReceiver<()>) {
    let (near, far) = tokio::io::duplex(4096);
    let spawn = |stream, config| {
        let (reader, writer) = tokio::io::split(stream);
        protocol_tokio::spawn(reader, writer, config)
    };
    let editor = spawn(near, Config::client(Dialect::LSP_3_17));
    let server = spawn(far, Config::server(Dialect::LSP_3_17));
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
