//! ACP: our client and our server, and servers that break off.

use protocol_async::{Arrival, CallError, Responder, SentRequest};
use protocol_core::{Cause, Config};
use protocol_http::Rules;
use protocol_http::connect::{ClientOptions, connect};
use protocol_http::server::ServerOptions;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::task::JoinHandle;

use crate::broken::{Asked, Script};
use crate::host::{Client, Host, Report, how};

async fn start(rules: &'static Rules) -> (Host, Client) {
    let mut options = ServerOptions::default();
    options.gate.revisions = vec![rules];
    let host = Host::start(options).await;
    let client = open(&host.url, rules);
    let version: u32 = rules.version.parse().unwrap();
    let opened: Value =
        client.peer.call("initialize", json!({ "protocolVersion": version })).await.unwrap();
    assert_eq!(opened["protocolVersion"], version);
    (host, client)
}

fn open(url: &str, rules: &'static Rules) -> Client {
    let mut options = ClientOptions::default();
    options.rules = rules;
    let config = Config::client(rules.dialect.clone());
    let (peer, incoming, driver) = connect(url.parse().unwrap(), config, options);
    let driver: JoinHandle<_> = tokio::spawn(driver);
    Client { peer, incoming, driver, version: rules.version }
}

/// Calls a method that waits, in a session.
fn wait(client: &Client, session: &str) -> SentRequest<Value> {
    client.call("wait", json!({ "sessionId": session }))
}

async fn asked(client: &Client) -> (String, Responder<Value>) {
    loop {
        if let Arrival::Request(request, responder) = client.incoming.receive().await.unwrap() {
            return (request.method.to_string(), responder.cast());
        }
    }
}

#[tokio::test]
async fn calls_updates_and_requests_of_the_agent_go_over_http_in_each_version() {
    for rules in Rules::ACP {
        let (host, client) = start(rules).await;
        let name = client.call("tools/call", json!({ "name": "a", "sessionId": "two" }));
        assert_eq!(name.await.unwrap(), "a");
        assert_eq!(client.call("tools/call", json!({ "name": "b" })).await.unwrap(), "b");
        let error = client.call("nothing", json!({})).await.unwrap_err();
        assert!(matches!(&error, CallError::Error(error) if error.code == -32601), "{error:?}");
        let call = client.call("ask_in_session", json!({ "sessionId": "two" }));
        assert_eq!(client.notified().await.0, "session/update");
        let (method, responder) = asked(&client).await;
        assert_eq!(method, "session/request_permission");
        responder.respond(json!("yes"));
        assert_eq!(call.await.unwrap(), "yes");
        assert_eq!(host.server.sessions(), 1);
        client.end().await;
        assert_eq!(host.server.sessions(), 0, "DELETE has ended it");
    }
}

#[tokio::test]
async fn a_cancel_stops_the_handler_and_never_overtakes_its_request() {
    let (mut host, client) = start(&Rules::ACP_V1).await;
    for _ in 0..20 {
        let call = wait(&client, "two");
        client.peer.flushed().await;
        call.cancel();
        let error = call.await.unwrap_err();
        assert!(matches!(error, CallError::Cancelled { cause: Cause::Caller, .. }), "{error:?}");
        assert_eq!(host.report().await, Report::Began);
        assert_eq!(host.report().await, Report::Cancelled(Cause::Peer));
    }
}

#[tokio::test]
async fn a_cancel_of_the_agent_reaches_the_request_that_it_means() {
    let (_host, client) = start(&Rules::ACP_V1).await;
    let call = client.call("ask_in_session", json!({ "sessionId": "two" }));
    let (_, responder) = asked(&client).await;
    // Its handler is cancelled, and so is what it has asked for.
    call.cancel();
    assert_eq!(responder.cancellation().cancelled().await, Cause::Peer);
    drop(responder);
    assert!(matches!(call.await, Err(CallError::Cancelled { .. })));
}

#[tokio::test]
async fn a_call_about_a_session_that_no_header_can_name_is_lost_and_others_go_on() {
    let (_host, client) = start(&Rules::ACP_V1).await;
    let lost = client.call("tools/call", json!({ "name": "a", "sessionId": "世" })).await;
    assert!(how(lost).contains("status 400"));
    assert_eq!(client.call("tools/call", json!({ "name": "b" })).await.unwrap(), "b");
}

const TAKEN: &str = "202 Accepted\r\ncontent-length: 0\r\n\r\n";

/// Sends the head of a stream of events.
async fn begin(mut asked: Asked) -> Asked {
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    asked.stream.write_all(head.as_bytes()).await.unwrap();
    asked
}

#[tokio::test]
async fn a_stream_is_open_before_a_message_about_it_leaves_and_cookies_come_back() {
    let script = Script::new().await;
    let client = open(&script.url, &Rules::ACP_V1);
    let opening = client.call("initialize", json!({ "protocolVersion": 1 }));
    let head = "200 OK\r\nacp-connection-id: c1\r\nset-cookie: at=one; Path=/";
    script.asked().await.json(head, &json!(1), &json!({ "protocolVersion": 1 })).await;
    assert!(opening.await.is_ok());
    let prompt = client.call("session/prompt", json!({ "sessionId": "s" }));

    let mut streams = Vec::new();
    for session in [None, Some("acp-session-id: s\r\n")] {
        let listening = script.asked().await;
        assert!(listening.head.starts_with("GET "), "{}", listening.head);
        assert!(listening.head.contains("acp-connection-id: c1\r\n"), "{}", listening.head);
        assert!(listening.head.contains("cookie: at=one\r\n"), "{}", listening.head);
        assert!(session.is_none_or(|it| listening.head.contains(it)), "{}", listening.head);
        streams.push(begin(listening).await);
    }
    let posted = script.asked().await;
    assert_eq!(posted.body["method"], "session/prompt");
    assert!(posted.head.contains("acp-session-id: s\r\n"), "{}", posted.head);
    // It deletes its cookie, sets another, and one that is too long beside that.
    let cookies = format!(
        "set-cookie: at=one; max-age=0\r\nset-cookie: to=2\r\nset-cookie: long={}",
        "x".repeat(4_090)
    );
    posted.says(&TAKEN.replacen("content", &format!("{cookies}\r\ncontent"), 1)).await;
    let asks = r#"{"jsonrpc":"2.0","id":7,"method":"session/request_permission","params":{"sessionId":"s"}}"#;
    let event = format!("{:x}\r\ndata: {asks}\n\n\r\n", asks.len() + 8);
    streams[1].stream.write_all(event.as_bytes()).await.unwrap();
    asked(&client).await.1.respond(json!("yes"));
    let responded = script.asked().await;
    assert_eq!((&responded.body["id"], &responded.body["result"]), (&json!(7), &json!("yes")));
    assert!(responded.head.contains("acp-session-id: s\r\n"), "{}", responded.head);
    assert!(responded.head.contains("cookie: to=2\r\n"), "{}", responded.head);
    responded.says(TAKEN).await;

    // A server that knows the connection no longer ends it, and every call of it.
    let lost = client.call("session/list", json!({}));
    script.asked().await.says("404 Not Found\r\ncontent-length: 0\r\n\r\n").await;
    assert!(matches!(lost.await, Err(CallError::ConnectionLost { .. })));
    assert!(matches!(prompt.await, Err(CallError::ConnectionLost { .. })));
    assert!(client.driver.await.unwrap().is_err());
}
