//! The servers of `src/servers` do the same, whichever library they are made with.

use agent_client_protocol::ByteStreams;
use protocol_async::{CallError, Peer};
use protocol_core::{Config, Dialect};
use protocol_router::{Context, Router};
use rescind_interop::servers::{acp_ours, acp_sdk, lsp_ours, lsp_tower};
use serde_json::{Value, json};
use tokio::io::{DuplexStream, duplex, split};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};
use tower_lsp_server::Server;

fn pair() -> (DuplexStream, DuplexStream) {
    duplex(64 << 10)
}

fn spawn(stream: DuplexStream, config: Config) -> protocol_tokio::Connection {
    let (reader, writer) = split(stream);
    protocol_tokio::spawn(reader, writer, config)
}

async fn hover(stream: DuplexStream) {
    let client = spawn(stream, Config::client(Dialect::LSP_3_17)).peer;
    let _: Value = client.call("initialize", json!({ "capabilities": {} })).await.unwrap();
    let document =
        json!({ "uri": "file:///a", "languageId": "text", "version": 1, "text": "words" });
    client.notify("textDocument/didOpen", json!({ "textDocument": document })).await.unwrap();
    for (uri, expected) in
        [("file:///a", json!({ "contents": "words" })), ("file:///b", Value::Null)]
    {
        let position = json!({ "line": 0, "character": 0 });
        let asked = json!({ "textDocument": { "uri": uri }, "position": position });
        assert_eq!(client.call::<Value>("textDocument/hover", asked).await.unwrap(), expected);
    }
}

#[tokio::test]
async fn the_language_servers_do_the_same() {
    let (near, far) = pair();
    tokio::spawn(async move {
        lsp_ours::server().serve(&spawn(far, Config::server(Dialect::LSP_3_17)).incoming).await
    });
    hover(near).await;

    let (near, far) = pair();
    tokio::spawn(async move {
        let ((reader, writer), (service, socket)) = (split(far), lsp_tower::server());
        Server::new(reader, writer, socket).serve(service).await;
    });
    hover(near).await;
}

/// A client that says what it is told, and grants a permission or leaves it open.
fn client(stream: DuplexStream, grants: bool) -> (Peer, UnboundedReceiver<String>) {
    let client = spawn(stream, Config::client(Dialect::ACP_V1));
    let (told, events) = unbounded_channel();
    let asked = told.clone();
    tokio::spawn(async move {
        let router = Router::new()
            .notification("session/update", async move |update: Value, _| {
                let text = update["update"]["content"]["text"].as_str().unwrap().to_owned();
                let _ = told.send(text);
                Ok(())
            })
            .request("session/request_permission", async move |_: Value, cx: Context| {
                let _ = asked.send("asked".into());
                if !grants {
                    cx.cancellation().cancelled().await;
                    let _ = asked.send("let go".into());
                    cx.cancellation().checkpoint()?;
                }
                Ok(json!({ "outcome": { "outcome": "selected", "optionId": "yes" } }))
            });
        router.serve(&client.incoming).await
    });
    (client.peer, events)
}

async fn open(peer: &Peer) {
    let version = json!({ "protocolVersion": 1, "clientCapabilities": {} });
    peer.call::<Value>("initialize", version).await.unwrap();
    let session: Value =
        peer.call("session/new", json!({ "cwd": "/", "mcpServers": [] })).await.unwrap();
    assert_eq!(session["sessionId"], "s1");
}

async fn prompt_twice(agent: impl Fn(DuplexStream), cascades: bool) {
    let prompt =
        json!({ "sessionId": "s1", "prompt": [{ "type": "text", "text": "Do something." }] });
    let (near, far) = pair();
    agent(far);
    let (peer, mut events) = client(near, true);
    open(&peer).await;
    let answer: Value = peer.call("session/prompt", &prompt).await.unwrap();
    assert_eq!(answer["stopReason"], "end_turn");
    for expected in ["May", "I?", "asked"] {
        assert_eq!(events.recv().await.unwrap(), expected);
    }

    let (near, far) = pair();
    agent(far);
    let (peer, mut events) = client(near, false);
    open(&peer).await;
    let sent = peer.call::<Value>("session/prompt", &prompt);
    while events.recv().await.unwrap() != "asked" {}
    sent.cancel();
    assert!(matches!(sent.await, Err(CallError::Cancelled { error: Some(_), .. })));
    if cascades {
        assert_eq!(events.recv().await.unwrap(), "let go");
    }
}

#[tokio::test]
async fn the_agents_do_the_same() {
    let ours = |stream| {
        tokio::spawn(async move {
            acp_ours::agent().serve(&spawn(stream, Config::server(Dialect::ACP_V1)).incoming).await
        });
    };
    prompt_twice(ours, true).await;
    let sdk = |stream| {
        let (reader, writer) = split(stream);
        tokio::spawn(acp_sdk::agent(ByteStreams::new(writer.compat_write(), reader.compat())));
    };
    prompt_twice(sdk, true).await;
}
