//! `rescind conform server --connect http://…`: servers that honour the end of a response stream, or take it wrongly.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use protocol_http::OnLoss;
use protocol_http::server::{Server, ServerOptions};
use protocol_router::Router;
use serde_json::{Value, json};

use crate::http::Serving;
use crate::support::{self, Said};

const SESSIONS: [&str; 2] = ["--dialect", "mcp-2025-11-25-http"];
const NEWEST: [&str; 2] = ["--dialect", "mcp-2026-07-28-http"];
const WITNESS: [&str; 3] =
    ["--witness", "tools/call", r#"{"name":"outcome","arguments":{"token":"$TOKEN"}}"#];
const STUBBORN: [&str; 3] =
    ["--slow", "tools/call", r#"{"name":"stubborn","arguments":{"ms":"$MS"}}"#];
const REVERSE: [&str; 3] =
    ["--reverse", "tools/call", r#"{"name":"nested","arguments":{"ms":"$MS"}}"#];
const ONLY: [&str; 2] = ["--only", "http"];

fn conform(url: &str, arguments: &[&[&str]]) -> Said {
    let common = ["conform", "server", "--connect", url, "--slow-time", "500ms", "--jobs", "4"];
    support::conform([&common[..], &arguments.concat()].concat())
}

#[track_caller]
fn says(said: &Said, status: i32, line: &str) {
    assert!(said.stdout.contains(line), "{line}: {said:?}");
    assert_eq!(said.code, Some(status), "{said:?}");
}

#[test]
fn our_server_passes_every_must_over_http_in_a_session() {
    let server = Serving::start(&[]);
    let said = conform(&server.url(), &[&SESSIONS, &WITNESS, &REVERSE]);
    says(&said, 0, "pass          SHOULD      http/lost ");
    says(&said, 0, "pass          SHOULD      http/cancel ");
    // What does not apply has no line.
    let applies = |id| said.stdout.contains(id);
    assert!(applies("cancel/late") && !applies("output/clean") && !applies("http/closed"));
}

#[test]
fn our_server_passes_every_must_over_http_where_a_closed_stream_is_the_cancel() {
    let server = Serving::start(&[]);
    let said = conform(&server.url(), &[&WITNESS]);
    says(&said, 0, "pass          SHOULD      http/closed ");
    says(&said, 0, "mcp-2026-07-28-http");
}

#[test]
fn a_closed_stream_proves_nothing_without_a_witness() {
    let server = Serving::start(&[]);
    let said = conform(&server.url(), &[&NEWEST, &ONLY]);
    says(&said, 8, "not exercised SHOULD      http/closed ");
    says(&said, 8, "no request is known that tells how the work of another ended (--witness)");
}

#[test]
fn work_that_a_closed_stream_does_not_cancel_is_found() {
    let server = Serving::start(&[]);
    let said = conform(&server.url(), &[&NEWEST, &WITNESS, &STUBBORN, &ONLY]);
    says(&said, 1, "fail          SHOULD      http/closed ");
    says(&said, 1, "went on to its end");
}

#[test]
fn work_that_a_lost_stream_cancels_is_found() {
    let patience = ["--patience", "3s"];
    let said = conform(&cancels_what_is_lost(), &[&SESSIONS, &WITNESS, &ONLY, &patience]);
    says(&said, 1, "pass          SHOULD      http/cancel ");
    says(&said, 1, "fail          SHOULD      http/lost ");
    says(&said, 1, "was cancelled");
}

/// Starts a server of MCP 2025-11-25 that takes a lost stream for a cancel. Returns its address.
fn cancels_what_is_lost() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let mut options = ServerOptions::default();
    options.session.on_loss = Some(OnLoss::CancelNow);
    let outcomes = Arc::<Mutex<HashMap<String, &'static str>>>::default();
    let router = Router::new()
        .request("initialize", async |_: Value, _| {
            let info = json!({ "name": "hasty", "version": "0" });
            Ok(json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": info }))
        })
        .request("ping", async |_: Value, _| Ok(json!({})))
        .request("tools/list", async |_: Value, _| {
            let schema = json!({ "type": "object", "properties": { "ms": { "type": "integer" } } });
            let hints = json!({ "readOnlyHint": true });
            Ok(json!({ "tools": [{ "name": "sleep", "inputSchema": schema, "annotations": hints }] }))
        })
        .request("tools/call", move |asked: Value, cx| {
            let outcomes = outcomes.clone();
            async move {
                let arguments = &asked["arguments"];
                if let Some(token) = arguments["token"].as_str() {
                    return Ok(json!({ "outcome": outcomes.lock().unwrap().get(token) }));
                }
                let time = Duration::from_millis(arguments["ms"].as_u64().unwrap());
                let slept = cx.cancellation().unless_cancelled(tokio::time::sleep(time)).await;
                let outcome = if slept.is_ok() { "finished" } else { "cancelled" };
                let token = asked["_meta"]["progressToken"].as_str().unwrap_or_default();
                outcomes.lock().unwrap().insert(token.to_owned(), outcome);
                slept?;
                Ok(json!({}))
            }
        });
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let server = Server::new(options, move |_peer, incoming| {
                let router = router.clone();
                async move { _ = router.serve(&incoming).await }
            });
            server.serve(listener).await
        })
    });
    url
}
