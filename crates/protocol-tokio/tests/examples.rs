//! The examples do what they say.

#![allow(dead_code, reason = "their main functions")]

#[path = "../examples/acp_agent.rs"]
mod acp_agent;
#[path = "../examples/acp_client.rs"]
mod acp_client;
#[path = "../examples/lsp_server.rs"]
mod lsp_server;
#[path = "../examples/proxy.rs"]
mod proxy;

use protocol_async::{CallError, Incoming, Peer};
use protocol_core::{Config, Dialect};
use serde_json::{Value, json};
use tokio::io::{duplex, split};

fn pair(dialect: Dialect) -> ((Peer, Incoming), (Peer, Incoming)) {
    let (near, far) = duplex(4 << 10);
    let open = |stream, config| {
        let (reader, writer) = split(stream);
        let connection = protocol_tokio::spawn(reader, writer, config);
        (connection.peer, connection.incoming)
    };
    (open(near, Config::client(dialect.clone())), open(far, Config::server(dialect)))
}

#[tokio::test(start_paused = true)]
async fn the_client_stops_the_turn_of_the_agent_through_the_proxy() {
    let (client, proxy_up) = pair(Dialect::ACP_V1);
    let (proxy_down, agent) = pair(Dialect::ACP_V1);
    tokio::spawn(proxy::run(proxy_up, proxy_down));
    tokio::spawn(async move { acp_agent::serve(&agent.1).await });
    let outcome = acp_client::prompt(&client.0, &client.1).await;
    assert_eq!(outcome.expect("a stopped turn has a result")["stopReason"], "cancelled");
    let old = json!({ "sessionId": "s1" });
    let answer: Value = client.0.call("prompt", old).await.expect("the proxy rewrites it");
    assert_eq!(answer["stopReason"], "end_turn");
}

#[tokio::test(start_paused = true)]
async fn the_server_folds_and_stops() {
    let (client, server) = pair(Dialect::LSP_3_17);
    let served = tokio::spawn(async move { lsp_server::serve(&server.1).await });
    let peer = &client.0;
    peer.call::<Value>("initialize", json!({})).await.expect("it is served");
    let notify = |method, params| peer.try_notify(method, params).expect("there is room");
    let text = "one\ntwo\n\n".repeat(500);
    let document = json!({ "uri": "file:///a", "text": text });
    notify("textDocument/didOpen", json!({ "textDocument": document }));
    let ask = json!({ "textDocument": { "uri": "file:///a" } });
    let folded = async || peer.call::<Value>("textDocument/foldingRange", &ask).await;
    let found = folded().await.expect("it is served");
    assert_eq!(found.as_array().map(Vec::len), Some(500));
    assert_eq!(found[1], json!({ "startLine": 3, "endLine": 4 }));
    let sent = peer.call::<Value>("textDocument/foldingRange", &ask);
    peer.flushed().await;
    sent.cancel();
    assert!(matches!(sent.await, Err(CallError::Cancelled { .. })));

    let mut changed = ask.clone();
    changed["contentChanges"] = json!([{ "text": text }, { "text": "é\né" }]);
    notify("textDocument/didChange", changed);
    let only = json!([{ "startLine": 0, "endLine": 1 }]);
    assert_eq!(folded().await.expect("it is served"), only);
    notify("textDocument/didClose", ask.clone());
    assert!(matches!(folded().await, Err(CallError::Error(_))));

    peer.call::<Value>("shutdown", ()).await.expect("it is served");
    assert!(matches!(folded().await, Err(CallError::Error(_))));
    notify("exit", json!(null));
    assert_eq!(served.await.expect("it ends"), 0);
}

#[tokio::test(start_paused = true)]
async fn the_server_that_is_not_shut_down_exits_with_1() {
    let (client, server) = pair(Dialect::LSP_3_17);
    let served = tokio::spawn(async move { lsp_server::serve(&server.1).await });
    client.0.try_notify("exit", ()).expect("there is room");
    assert_eq!(served.await.expect("it ends"), 1);
}
