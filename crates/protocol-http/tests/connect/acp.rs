//! ACP: our client and our server, and servers that break off.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use protocol_async::{
    Account, AccountLimits, Arrival, CallError, Grant, Options, Responder, SentRequest, Verdict,
};
use protocol_core::{Cause, Config, Shutdown};
use protocol_http::Rules;
use protocol_http::connect::{ClientOptions, connect};
use protocol_http::server::ServerOptions;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

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
    open_with(url, rules, ClientOptions::default())
}

fn open_with(url: &str, rules: &'static Rules, mut options: ClientOptions) -> Client {
    options.rules = rules;
    let config = Config::client(rules.dialect.clone());
    spawn(url, Options::new(config), options)
}

fn spawn(url: &str, endpoint: Options, options: ClientOptions) -> Client {
    let version = options.rules.version;
    let (peer, incoming, driver) = connect(url.parse().unwrap(), endpoint, options);
    let driver: JoinHandle<_> = tokio::spawn(driver);
    Client { peer, incoming, driver, version }
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
        "x".repeat(4_085)
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

/// Opens a connection, whose stream begins.
async fn opened(script: &Script, options: ClientOptions) -> (Client, Asked) {
    let client = open_with(&script.url, &Rules::ACP_V1, options);
    let connection = initialized(script, &client).await;
    (client, connection)
}

async fn initialized(script: &Script, client: &Client) -> Asked {
    let opening = client.call("initialize", json!({ "protocolVersion": 1 }));
    let head = "200 OK\r\nacp-connection-id: c1";
    script.asked().await.json(head, &json!(1), &json!({ "protocolVersion": 1 })).await;
    assert!(opening.await.is_ok());
    begin(listening(script, None).await).await
}

/// Reads the request for the stream of a session, or of the connection.
async fn listening(script: &Script, session: Option<&str>) -> Asked {
    let asked = script.asked().await;
    assert!(asked.head.starts_with("GET "), "{}", asked.head);
    let named = asked.head.lines().find_map(|line| line.strip_prefix("acp-session-id: "));
    assert_eq!(named, session);
    asked
}

/// Reads a message, and takes it.
async fn taken(script: &Script) -> Value {
    let posted = script.asked().await;
    let body = posted.body.clone();
    posted.says(TAKEN).await;
    body
}

/// Calls a method about a session, and lets its stream begin before the server takes the call.
async fn prompt(
    script: &Script,
    client: &Client,
    session: &str,
) -> (SentRequest<Value>, Value, Asked) {
    let call = client.call("session/prompt", json!({ "sessionId": session }));
    let stream = begin(listening(script, Some(session)).await).await;
    (call, taken(script).await["id"].clone(), stream)
}

#[tokio::test]
async fn a_call_whose_stream_is_refused_is_lost_and_never_posted() {
    let json = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"not here"}}"#;
    let len = json.len();
    let json = format!("content-type: application/json\r\ncontent-length: {len}\r\n\r\n{json}");
    for (refusal, said) in [
        ("405 No\r\ncontent-length: 0\r\n\r\n".to_owned(), "status 405"),
        (format!("404 No\r\n{json}"), "status 404: not here"),
        (format!("503 No\r\nretry-after: 0\r\n{json}"), "status 503: not here"),
    ] {
        let script = Script::new().await;
        let (client, _connection) = opened(&script, ClientOptions::default()).await;
        let lost = client.call("session/prompt", json!({ "sessionId": "s" }));
        listening(&script, Some("s")).await.says(&refusal).await;
        let how = how(lost.await);
        let _next = client.call("session/list", json!({}));
        assert_eq!(taken(&script).await["method"], "session/list");
        assert!(how.contains(said), "{how}");
    }
}

#[tokio::test]
async fn a_stream_whose_head_never_comes_holds_up_its_own_session_alone_and_not_for_ever() {
    let script = Script::new().await;
    let options = ClientOptions::default();
    let post_time = options.post_time;
    let (client, _connection) = opened(&script, options).await;
    let (_prompt, _, _stream) = prompt(&script, &client, "one").await;
    let stop = |session: &str| {
        client.peer.try_notify("session/cancel", json!({ "sessionId": session })).unwrap();
    };
    for body in
        ["", "HTTP/1.1 404 No\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{"]
    {
        let lost = client.call("session/prompt", json!({ "sessionId": "two" }));
        let mut silent = listening(&script, Some("two")).await;
        silent.stream.write_all(body.as_bytes()).await.unwrap();
        stop("two");
        stop("one");
        let list = client.call("session/list", json!({}));
        let [stopped, listed] = [taken(&script).await, taken(&script).await];
        assert_eq!(stopped["params"]["sessionId"], "one", "{stopped}");
        assert_eq!(listed["method"], "session/list", "{listed}");
        drop(list);
        assert_eq!(taken(&script).await["method"], "$/cancel_request");
        tokio::time::pause();
        tokio::time::advance(post_time).await;
        tokio::time::resume();
        assert_eq!(taken(&script).await["params"]["sessionId"], "two");
        assert!(how(lost.await).contains("options.post_time"));
    }
}

#[tokio::test]
async fn a_post_that_hangs_holds_up_its_own_session_alone_and_the_cancel_of_its_call() {
    let script = Script::new().await;
    let (client, _connection) = opened(&script, ClientOptions::default()).await;
    let call = client.call("session/prompt", json!({ "sessionId": "one" }));
    let _stream = begin(listening(&script, Some("one")).await).await;
    let hangs = script.asked().await;
    assert_eq!(hangs.body["method"], "session/prompt");
    call.cancel();
    client.peer.try_notify("session/cancel", json!({ "sessionId": "one" })).unwrap();
    let _list = client.call("session/list", json!({}));
    assert_eq!(taken(&script).await["method"], "session/list");
    let (_call, _, _stream) = prompt(&script, &client, "two").await;
    hangs.says(TAKEN).await;
    assert_eq!(taken(&script).await["method"], "$/cancel_request");
    assert_eq!(taken(&script).await["method"], "session/cancel");
}

#[tokio::test]
async fn a_cancel_waits_for_no_other_session_than_that_of_its_call() {
    let script = Script::new().await;
    let (client, _connection) = opened(&script, ClientOptions::default()).await;
    let (call, id, _stream) = prompt(&script, &client, "one").await;
    let _list = client.call("session/list", json!({}));
    let hangs = script.asked().await;
    assert_eq!(hangs.body["method"], "session/list");
    call.cancel();
    let cancel = timeout(SECOND * 10, taken(&script)).await.expect("it waits for the connection");
    assert_eq!(cancel["params"]["requestId"], id, "{cancel}");
}

#[tokio::test]
async fn a_call_that_a_busy_server_does_not_take_is_lost_and_holds_no_cancel_up() {
    let script = Script::new().await;
    let (client, _connection) = opened(&script, ClientOptions::default()).await;
    let lost = client.call("session/list", json!({}));
    let posted = script.asked().await;
    client.peer.try_notify("session/cancel", json!({})).unwrap();
    posted.says("503 Busy\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n").await;
    assert_eq!(taken(&script).await["method"], "session/cancel");
    assert!(how(lost.await).contains("status 503"));
}

#[tokio::test]
async fn a_stream_that_no_call_waits_for_is_closed_for_one_more() {
    let script = Script::new().await;
    let mut options = ClientOptions::default();
    options.streams = 2;
    let (client, _connection) = opened(&script, options).await;
    let (call, id, mut stream) = prompt(&script, &client, "one").await;
    let lost = client.call("session/prompt", json!({ "sessionId": "two" }));
    assert!(how(lost.await).contains("options.streams"));
    let response = json!({ "jsonrpc": "2.0", "id": id, "result": 1 });
    stream.stream.write_all(chunk(&response).as_bytes()).await.unwrap();
    assert_eq!(call.await.unwrap(), 1);
    let (_call, _, _stream) = prompt(&script, &client, "two").await;
    stream.closed().await;
}

/// A client with an account that is too small, and the grants that it has.
struct Paused {
    client: Client,
    grants: mpsc::UnboundedReceiver<Grant>,
    /// Only a connection that has more than its share is limited, so there are two.
    _other: Client,
}

impl Paused {
    fn new(script: &Script, mut options: ClientOptions) -> Self {
        options.rules = &Rules::ACP_V1;
        let account = Account::new(AccountLimits::of(1 << 20));
        let (told, grants) = mpsc::unbounded_channel();
        let connected = |observer| {
            let mut endpoint = Options::new(Config::client(Rules::ACP_V1.dialect.clone()));
            (endpoint.account, endpoint.observer) = (Some(account.clone()), observer);
            spawn(&script.url, endpoint, options.clone())
        };
        let _other = connected(None);
        let client = connected(Some(Box::new(move |verdict: &Verdict| {
            if let Verdict::Granted { grant } = verdict {
                told.send(*grant).unwrap();
            }
        })));
        Self { client, grants, _other }
    }

    /// Sends so much on a stream that the client reads no more.
    async fn fill(&mut self, stream: &mut Asked) {
        let long = json!({ "jsonrpc": "2.0", "method": "m", "params": ["x".repeat(64 << 10)] });
        stream.stream.write_all(chunk(&long).repeat(13).as_bytes()).await.unwrap();
        while self.grants.recv().await.unwrap() != Grant::NoReading {}
    }
}

/// Returns a message as an event, in a chunk of its own.
fn chunk(message: &Value) -> String {
    let event = format!("data: {message}\n\n");
    format!("{:x}\r\n{event}\r\n", event.len())
}

#[tokio::test]
async fn a_client_that_has_no_room_to_read_still_opens_streams() {
    let script = Script::new().await;
    let mut paused = Paused::new(&script, ClientOptions::default());
    let mut connection = initialized(&script, &paused.client).await;
    paused.fill(&mut connection).await;
    let client = &paused.client;
    let (_prompt, _, _stream) = prompt(&script, client, "one").await;
    let _lost = client.call("session/prompt", json!({ "sessionId": "two" }));
    let refused = listening(&script, Some("two")).await;
    let _next = client.call("session/list", json!({}));
    refused.says("405 No\r\ncontent-length: 0\r\n\r\n").await;
    assert_eq!(taken(&script).await["method"], "session/list");
}

#[tokio::test]
async fn a_session_of_a_connection_that_is_gone_has_no_stream() {
    let script = Script::new().await;
    let (told, mut untaken) = mpsc::unbounded_channel();
    let mut options = ClientOptions::default();
    options.trouble = Some(Arc::new(move |message, why| {
        told.send((message.is_some(), why.to_owned())).unwrap();
    }));
    let mut paused = Paused::new(&script, options);
    let client = &paused.client;
    let mut connection = initialized(&script, client).await;
    let (lost, _, mut stream) = prompt(&script, client, "one").await;
    let created = client.call("session/new", json!({}));
    let id = taken(&script).await["id"].clone();
    paused.fill(&mut stream).await;
    let client = paused.client;
    let result = json!({ "jsonrpc": "2.0", "id": id, "result": { "sessionId": "two" } });
    connection.stream.write_all(chunk(&result).as_bytes()).await.unwrap();
    client.peer.try_notify("m", json!({})).unwrap();
    script.asked().await.says("404 Not Found\r\ncontent-length: 0\r\n\r\n").await;
    assert!(untaken.recv().await.unwrap().1.contains("status 404"));
    client.peer.try_notify("n", json!({})).unwrap();
    assert!(untaken.recv().await.unwrap().0, "nothing more is posted");
    while client.incoming.receive().await.is_ok() {}
    assert_eq!(created.await.unwrap()["sessionId"], "two");
    assert!(how(lost.await).contains("has ended the session"));
    client.driver.await.unwrap().unwrap_err();
    script.is_asked_no_more().await;
}

/// A time in which what is wrong would happen.
const WHILE: Duration = Duration::from_millis(100);
const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn streams_end_behind_the_last_cancel_so_that_they_are_not_its_cause() {
    let script = Script::new().await;
    let (client, connection) = opened(&script, ClientOptions::default()).await;
    let (call, _, stream) = prompt(&script, &client, "one").await;
    call.cancel();
    let cancel = script.asked().await;
    assert_eq!(cancel.body["method"], "$/cancel_request");
    client.peer.shutdown(Shutdown::Abandon);
    let mut closed = pin!(async { tokio::join!(connection.closed(), stream.closed()) });
    assert!(timeout(WHILE, &mut closed).await.is_err(), "they are open while it is posted");
    cancel.says(TAKEN).await;
    let delete = script.asked().await;
    assert!(delete.head.starts_with("DELETE "), "{}", delete.head);
    delete.says(TAKEN).await;
    closed.await;
}

#[tokio::test]
async fn g08_a_message_that_waits_for_its_stream_counts_as_one_that_waits() {
    let script = Script::new().await;
    let mut options = ClientOptions::default();
    options.waiting = 1;
    let (client, _connection) = opened(&script, options).await;
    let _prompt = client.call("session/prompt", json!({ "sessionId": "one" }));
    let silent = listening(&script, Some("one")).await;
    let _list = client.call("session/list", json!({}));
    assert!(timeout(WHILE, script.asked()).await.is_err(), "there is no room for another");
    let _stream = begin(silent).await;
    assert_eq!(taken(&script).await["method"], "session/prompt");
    assert_eq!(taken(&script).await["method"], "session/list");
}

#[tokio::test]
async fn an_older_message_waits_for_the_stream_of_its_session_too() {
    let script = Script::new().await;
    let mut options = ClientOptions::default();
    options.stream.resumes = 0;
    let (client, _connection) = opened(&script, options).await;
    let (lost, _, stream) = prompt(&script, &client, "one").await;
    for method in ["m", "older"] {
        client.peer.try_notify(method, json!({ "sessionId": "one" })).unwrap();
    }
    let hangs = script.asked().await;
    drop(stream);
    how(lost.await);
    let _prompt = client.call("session/prompt", json!({ "sessionId": "one" }));
    let silent = listening(&script, Some("one")).await;
    hangs.says(TAKEN).await;
    assert!(timeout(WHILE, script.asked()).await.is_err(), "its stream has not begun");
    let _stream = begin(silent).await;
    assert_eq!(taken(&script).await["method"], "older");
    assert_eq!(taken(&script).await["method"], "session/prompt");
}
