//! Servers that are bytes on a socket, and break what they began.

use std::sync::Arc;
use std::time::Duration;

use protocol_async::CallError;
use protocol_core::Cause;
use protocol_http::connect::ClientOptions;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::host::{Client, how};

/// A server that is a test.
pub(crate) struct Script {
    listener: TcpListener,
    pub(crate) url: String,
}

/// A request that was read, and its connection.
pub(crate) struct Asked {
    pub(crate) stream: BufReader<TcpStream>,
    pub(crate) head: String,
    pub(crate) body: Value,
}

impl Script {
    pub(crate) async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        Self { listener, url }
    }

    pub(crate) async fn asked(&self) -> Asked {
        self.asked_or_left().await.expect("the client stays until its request is written")
    }

    /// Checks that no connection came but those that were asked for. They come in order, so ours is the next.
    pub(crate) async fn is_asked_no_more(&self) {
        let own = TcpStream::connect(self.listener.local_addr().unwrap()).await.unwrap();
        let (_, next) = self.listener.accept().await.unwrap();
        assert_eq!(next, own.local_addr().unwrap());
    }

    /// Reads a request, unless the client goes before it is whole.
    async fn asked_or_left(&self) -> Option<Asked> {
        let (stream, _) = self.listener.accept().await.unwrap();
        let (mut stream, mut head) = (BufReader::new(stream), String::new());
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head).await.ok()? == 0 {
                return None;
            }
        }
        let len = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; len.map_or(0, |len| len.parse().unwrap())];
        stream.read_exact(&mut body).await.ok()?;
        let body = serde_json::from_slice(&body).unwrap_or_default();
        Some(Asked { stream, head, body })
    }

    /// Opens a session with the id `s1`, and takes the client that listens.
    pub(crate) async fn open(&self, client: &Client) -> Asked {
        let (_, listening) = tokio::join!(client.open(), async {
            let initialize = self.asked().await;
            assert!(!initialize.head.contains("mcp-session-id"));
            let result = json!({ "protocolVersion": client.version, "capabilities": {} });
            initialize.json("200 OK\r\nmcp-session-id: s1", &json!(1), &result).await;
            let initialized = self.asked().await;
            assert_eq!(initialized.body["method"], "notifications/initialized");
            initialized.says("202 Accepted\r\ncontent-length: 0\r\n\r\n").await;
            let listening = self.asked().await;
            assert!(listening.head.starts_with("GET /mcp"), "{}", listening.head);
            listening
        });
        listening
    }
}

impl Asked {
    /// Sends a status with what follows it, and closes the connection.
    pub(crate) async fn says(mut self, text: &str) {
        self.stream.write_all(format!("HTTP/1.1 {text}").as_bytes()).await.unwrap();
    }

    pub(crate) async fn json(self, status: &str, id: &Value, result: &Value) {
        let body = json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string();
        let len = body.len();
        let head = format!("{status}\r\ncontent-type: application/json\r\ncontent-length: {len}");
        self.says(&format!("{head}\r\n\r\n{body}")).await;
    }

    /// Sends these events, and closes the connection in the middle of the body.
    pub(crate) async fn events(self, events: &str) {
        let len = events.len();
        let head = "200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked";
        self.says(&format!("{head}\r\n\r\n{len:x}\r\n{events}\r\n")).await;
    }

    /// Waits until the client closes the connection.
    pub(crate) async fn closed(mut self) {
        let mut rest = Vec::new();
        // A reset is an end too.
        let _ = self.stream.read_to_end(&mut rest).await;
    }
}

fn modern(url: &str) -> Client {
    Client::new(url, "2026-07-28", ClientOptions::default())
}

#[tokio::test]
async fn a_stream_that_breaks_in_the_middle_loses_its_call_alone() {
    let script = Script::new().await;
    let client = modern(&script.url);
    let (broken, other) = (client.call("a", json!({})), client.call("b", json!({})));
    let (one, two) = (script.asked().await, script.asked().await);
    let (one, two) = if one.body["method"] == "a" { (one, two) } else { (two, one) };
    one.events("data: {\"jsonrpc\":\"2.0\",\"method\":\"m\"}\n\ndata: {\"jsonrpc\":").await;
    assert!(how(broken.await).contains("ended without the response"));
    let id = two.body["id"].clone();
    two.json("200 OK", &id, &json!("b")).await;
    assert_eq!(other.await.unwrap(), "b");
}

#[tokio::test]
async fn a_body_of_json_that_is_no_response_is_a_loss() {
    for (status, said) in [("400 Bad Request", "status 400"), ("200 OK", "without the response")] {
        let script = Script::new().await;
        let client = modern(&script.url);
        let call = client.call("a", json!({}));
        script.asked().await.json(status, &json!("other"), &json!(1)).await;
        assert!(how(call.await).contains(said));
    }
}

#[tokio::test]
async fn the_headers_of_2026_07_28_are_there() {
    let script = Script::new().await;
    let client = modern(&script.url);
    let call = client.call("tools/call", json!({ "name": "a" }));
    let asked = script.asked().await;
    for line in [
        "accept: application/json, text/event-stream",
        "content-type: application/json",
        "mcp-protocol-version: 2026-07-28",
        "mcp-method: tools/call",
        "mcp-name: a",
    ] {
        assert!(asked.head.lines().any(|it| it == line), "{line}: {}", asked.head);
    }
    call.cancel();
    // The head has not come, and the cancel is the closed connection all the same.
    asked.closed().await;
}

#[tokio::test]
async fn a_head_that_comes_early_and_a_response_that_comes_late_are_one_call() {
    let script = Script::new().await;
    let client = modern(&script.url);
    let call = client.call("a", json!({}));
    let mut asked = script.asked().await;
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: here\n\n";
    asked.stream.write_all(head.as_bytes()).await.unwrap();
    let again = client.call("b", json!({}));
    let other = script.asked().await;
    let id = other.body["id"].clone();
    other.json("200 OK", &id, &json!(2)).await;
    assert_eq!(again.await.unwrap(), 2);
    let id = &asked.body["id"];
    let event = format!("data: {{\"jsonrpc\":\"2.0\",\ndata: \"id\":{id},\"result\":1}}\n\n");
    asked.stream.write_all(event.as_bytes()).await.unwrap();
    assert_eq!(call.await.unwrap(), 1);
}

#[tokio::test]
async fn a_stream_with_event_ids_is_resumed_before_2026_07_28() {
    let script = Script::new().await;
    let client = Client::new(&script.url, "2025-11-25", ClientOptions::default());
    let _listening = script.open(&client).await;
    let call = client.call("a", json!({}));
    let asked = script.asked().await;
    let id = asked.body["id"].clone();
    asked.events("id: 7-1\nretry: 1\ndata:\n\n").await;
    let resumed = script.asked().await;
    assert!(resumed.head.starts_with("GET /mcp"), "{}", resumed.head);
    for line in ["last-event-id: 7-1", "mcp-session-id: s1", "mcp-protocol-version: 2025-11-25"] {
        assert!(resumed.head.lines().any(|it| it == line), "{line}: {}", resumed.head);
    }
    let response = json!({ "jsonrpc": "2.0", "id": id, "result": "late" });
    resumed.events(&format!("id: 7-2\ndata: {response}\n\n")).await;
    assert_eq!(call.await.unwrap(), "late");
}

#[tokio::test]
async fn a_session_that_the_server_no_longer_knows_ends_every_call() {
    let script = Script::new().await;
    let client = Client::new(&script.url, "2025-06-18", ClientOptions::default());
    let _listening = script.open(&client).await;
    let (one, two) = (client.call("a", json!({})), client.call("b", json!({})));
    let (asked, _other) = (script.asked().await, script.asked().await);
    asked.says("404 Not Found\r\ncontent-length: 0\r\n\r\n").await;
    for call in [one, two] {
        assert!(how(call.await).contains("has ended the session"));
    }
    let error = client.driver.await.unwrap().unwrap_err();
    assert!(error.to_string().contains("404"), "{error}");
}

#[tokio::test]
async fn a_server_that_does_not_know_the_way_of_a_get_keeps_its_session() {
    let (told, mut reasons) = mpsc::unbounded_channel();
    let mut options = ClientOptions::default();
    options.trouble = Some(Arc::new(move |_, why| told.send(why.to_owned()).unwrap()));
    let script = Script::new().await;
    let client = Client::new(&script.url, "2025-11-25", options);
    let listening = script.open(&client).await;
    let call = client.call("a", json!({}));
    let asked = script.asked().await;
    listening.says("404 Not Found\r\ncontent-length: 0\r\n\r\n").await;
    let why = reasons.recv().await.expect("the session goes on");
    assert!(why.contains("status 404"), "{why}");
    let id = asked.body["id"].clone();
    asked.json("200 OK", &id, &json!(1)).await;
    assert_eq!(call.await.unwrap(), 1);
}

#[tokio::test]
async fn a_stream_of_the_session_that_was_there_and_is_not_found_again_ends_the_session() {
    let mut options = ClientOptions::default();
    options.stream.retry = Duration::from_millis(1);
    let script = Script::new().await;
    let client = Client::new(&script.url, "2025-11-25", options);
    script.open(&client).await.events(": nothing\n\n").await;
    script.asked().await.says("404 Not Found\r\ncontent-length: 0\r\n\r\n").await;
    let error = client.driver.await.unwrap().unwrap_err();
    assert!(error.to_string().contains("404"), "{error}");
}

#[tokio::test]
async fn a_response_that_was_read_before_the_session_is_gone_settles_its_call() {
    let script = Script::new().await;
    let client = Client::new(&script.url, "2025-06-18", ClientOptions::default());
    let _listening = script.open(&client).await;
    let (one, two) = (client.call("a", json!({})), client.call("b", json!({})));
    let (mut first, second) = (script.asked().await, script.asked().await);
    let (settled, lost) = if first.body["method"] == "a" { (one, two) } else { (two, one) };
    let event = |it: &Value| format!("data: {it}\n\n");
    let update = event(&json!({ "jsonrpc": "2.0", "method": "m" }));
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
    first.stream.write_all(format!("{head}{update}").as_bytes()).await.unwrap();
    assert_eq!(client.notified().await.0, "m");
    // The client finds all of it at once.
    let response = event(&json!({ "jsonrpc": "2.0", "id": first.body["id"], "result": 1 }));
    first.stream.write_all(format!("{update}{response}").as_bytes()).await.unwrap();
    second.says("404 Not Found\r\ncontent-length: 0\r\n\r\n").await;
    assert_eq!(settled.await.unwrap(), 1);
    assert!(how(lost.await).contains("has ended the session"));
}

#[tokio::test]
async fn a_response_that_was_read_before_a_posted_message_finds_no_session_settles_its_call() {
    let script = Script::new().await;
    let client = Client::new(&script.url, "2025-06-18", ClientOptions::default());
    let _listening = script.open(&client).await;
    let call = client.call("a", json!({}));
    let mut first = script.asked().await;
    let event = |it: &Value| format!("data: {it}\n\n");
    let update = event(&json!({ "jsonrpc": "2.0", "method": "m" }));
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
    first.stream.write_all(format!("{head}{update}").as_bytes()).await.unwrap();
    assert_eq!(client.notified().await.0, "m");
    client.peer.try_notify("n", json!({})).unwrap();
    let posted = script.asked().await;
    // The client finds all of it at once.
    let response = event(&json!({ "jsonrpc": "2.0", "id": first.body["id"], "result": 1 }));
    first.stream.write_all(format!("{update}{response}").as_bytes()).await.unwrap();
    posted.says("404 Not Found\r\ncontent-length: 0\r\n\r\n").await;
    assert_eq!(call.await.unwrap(), 1);
    client.driver.await.unwrap().unwrap_err();
}

#[tokio::test]
async fn the_stream_of_the_session_is_asked_for_again_and_one_that_is_not_offered_is_not() {
    let script = Script::new().await;
    let client = Client::new(&script.url, "2025-11-25", ClientOptions::default());
    let listening = script.open(&client).await;
    listening.events("id: 0-1\nretry: 1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"m\"}\n\n").await;
    assert_eq!(client.notified().await.0, "m");
    let again = script.asked().await;
    assert!(again.head.contains("last-event-id: 0-1"), "{}", again.head);
    again.says("405 Method Not Allowed\r\ncontent-length: 0\r\n\r\n").await;
    let call = client.call("a", json!({}));
    let asked = script.asked().await;
    let id = asked.body["id"].clone();
    asked.json("200 OK", &id, &json!(1)).await;
    assert_eq!(call.await.unwrap(), 1, "the session goes on without it");
}

#[tokio::test]
async fn nothing_overtakes_the_opening_of_a_session() {
    let script = Script::new().await;
    let client = Client::new(&script.url, "2025-06-18", ClientOptions::default());
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {} });
    let opening = client.peer.call::<Value>("initialize", params);
    client.peer.try_notify("notifications/initialized", json!({})).unwrap();
    let withdrawn = client.call("b", json!({}));
    let call = client.call("a", json!({}));
    let initialize = script.asked().await;
    withdrawn.cancel();
    let result = json!({ "protocolVersion": "2025-06-18", "capabilities": {} });
    initialize.json("200 OK\r\nmcp-session-id: s1", &json!(1), &result).await;
    opening.await.unwrap();
    let initialized = script.asked().await;
    assert_eq!(initialized.body["method"], "notifications/initialized");
    assert!(initialized.head.contains("mcp-session-id: s1"), "{}", initialized.head);
    initialized.says("202 Accepted\r\ncontent-length: 0\r\n\r\n").await;
    let (mut methods, mut last) = (Vec::new(), None);
    while !methods.contains(&"last".to_owned()) {
        let asked = script.asked().await;
        let method = asked.body["method"].as_str().unwrap_or("GET").to_owned();
        let id = asked.body["id"].clone();
        asked.json("200 OK", &id, &json!(1)).await;
        if method == "a" {
            last = Some(client.call("last", json!({})));
        }
        methods.push(method);
    }
    // The hub had let it go, so its cancel is posted.
    methods.sort();
    methods.retain(|method| method != "notifications/cancelled");
    assert_eq!(methods, ["GET", "a", "last"]);
    assert_eq!(last.unwrap().await.unwrap(), 1);
    assert_eq!(call.await.unwrap(), 1);
}

#[tokio::test]
async fn a_lost_stream_of_initialize_is_resumed_in_its_session() {
    let script = Script::new().await;
    let client = Client::new(&script.url, "2025-11-25", ClientOptions::default());
    let serve = async {
        let initialize = script.asked().await;
        let id = initialize.body["id"].clone();
        let head = "200 OK\r\nmcp-session-id: s1\r\ncontent-type: text/event-stream";
        initialize.says(&format!("{head}\r\n\r\nid: 1\nretry: 1\ndata:\n\n")).await;
        let resumed = script.asked().await;
        for line in ["last-event-id: 1", "mcp-session-id: s1"] {
            assert!(resumed.head.lines().any(|it| it == line), "{line}: {}", resumed.head);
        }
        let result = json!({ "protocolVersion": "2025-11-25", "capabilities": {} });
        let response = json!({ "jsonrpc": "2.0", "id": id, "result": result });
        resumed.events(&format!("data: {response}\n\n")).await;
        script.asked().await
    };
    let (_, initialized) = tokio::join!(client.open(), serve);
    assert!(initialized.head.contains("mcp-session-id: s1\r\n"), "{}", initialized.head);
}

#[tokio::test]
async fn a_revision_before_those_with_a_header_is_settled_and_no_other_is_named() {
    let script = Script::new().await;
    let client = Client::new(&script.url, "2025-11-25", ClientOptions::default());
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {} });
    let opening = client.peer.call::<Value>("initialize", params);
    let initialize = script.asked().await;
    let id = initialize.body["id"].clone();
    let result = json!({ "protocolVersion": "2024-11-05", "capabilities": {} });
    initialize.json("200 OK\r\nmcp-session-id: s1", &id, &result).await;
    assert_eq!(opening.await.unwrap()["protocolVersion"], "2024-11-05");
    client.peer.try_notify("notifications/initialized", json!({})).unwrap();
    let initialized = script.asked().await;
    assert!(!initialized.head.contains("2025-11-25"), "{}", initialized.head);
}

#[tokio::test]
async fn a_message_that_is_on_its_way_does_not_end_the_opening() {
    let script = Script::new().await;
    let client = Client::new(&script.url, "2025-06-18", ClientOptions::default());
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {} });
    let opening = client.peer.call::<Value>("initialize", params);
    let result = json!({ "protocolVersion": "2025-06-18", "capabilities": {} });
    let initialize = script.asked().await;
    initialize.json("200 OK\r\nmcp-session-id: s1", &json!(1), &result).await;
    opening.await.unwrap();
    client.peer.try_notify("m", json!({})).unwrap();
    client.peer.try_notify("notifications/initialized", json!({})).unwrap();
    let _call = client.call("a", json!({}));
    for method in ["m", "notifications/initialized"] {
        let asked = script.asked().await;
        assert_eq!(asked.body["method"], method);
        asked.says("202 Accepted\r\ncontent-length: 0\r\n\r\n").await;
    }
}

#[tokio::test]
async fn a_session_that_is_said_to_be_open_again_has_one_stream_of_its_own() {
    let script = Script::new().await;
    let client = Client::new(&script.url, "2025-11-25", ClientOptions::default());
    let _listening = script.open(&client).await;
    for method in ["notifications/initialized", "m", "n"] {
        client.peer.try_notify(method, json!({})).unwrap();
        let asked = script.asked().await;
        assert_eq!(asked.body["method"], method, "{}", asked.head);
        asked.says("202 Accepted\r\ncontent-length: 0\r\n\r\n").await;
    }
}

#[tokio::test]
async fn an_error_in_place_of_a_session_holds_nothing_up() {
    let script = Script::new().await;
    let client = Client::new(&script.url, "2025-06-18", ClientOptions::default());
    let opening = client.peer.call::<Value>("initialize", json!({}));
    let mut initialize = script.asked().await;
    let error = json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": -32602, "message": "no" } });
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
    let stream = format!("{head}data: {error}\n\n");
    initialize.stream.write_all(stream.as_bytes()).await.unwrap();
    assert!(matches!(opening.await, Err(CallError::Error(_))));
    let _call = client.call("a", json!({}));
    // Its stream is still open.
    assert_eq!(script.asked().await.body["method"], "a");
}

#[tokio::test]
async fn a_response_that_can_not_be_read_loses_its_call() {
    let script = Script::new().await;
    let client = modern(&script.url);
    let call = client.call("a", json!({}));
    let asked = script.asked().await;
    let id = &asked.body["id"];
    let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"id":{id},"result":1}}"#);
    let head = format!("content-type: application/json\r\ncontent-length: {}", body.len());
    asked.says(&format!("200 OK\r\n{head}\r\n\r\n{body}")).await;
    assert!(how(call.await).contains("could not be read"));
}

#[test]
fn an_exchange_that_panics_loses_its_call_and_holds_nothing_up() {
    // It has no sockets, so each exchange panics.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let client = modern("http://127.0.0.1:1/mcp");
        client.peer.try_notify("m", json!({})).unwrap();
        client.peer.try_notify("m", json!({})).unwrap();
        for _ in 0..2 {
            assert!(how(client.call("a", json!({})).await).contains("panicked"));
        }
        client.end().await;
    });
}

#[tokio::test]
async fn a_message_that_the_server_does_not_take_is_reported() {
    let (told, mut untaken) = mpsc::unbounded_channel();
    let mut options = ClientOptions::default();
    options.trouble = Some(Arc::new(move |message, why| {
        let Some(message) = message else { return };
        let message: Value = serde_json::from_slice(message).unwrap();
        told.send((message["method"].clone(), why.to_owned())).unwrap();
    }));
    let script = Script::new().await;
    let client = Client::new(&script.url, "2025-06-18", options);
    let _listening = script.open(&client).await;
    for method in ["taken", "refused", "torn", "gone", "waiting"] {
        client.peer.try_notify(method, json!({})).unwrap();
    }
    for status in ["202 Accepted", "400 Bad Request"] {
        script.asked().await.says(&format!("{status}\r\ncontent-length: 0\r\n\r\n")).await;
    }
    drop(script.asked().await);
    script.asked().await.says("404 Not Found\r\ncontent-length: 0\r\n\r\n").await;
    client.driver.await.unwrap().unwrap_err();
    let mut methods = Vec::new();
    for said in ["status 400", "", "status 404", "the session was over"] {
        let (method, why) = untaken.recv().await.unwrap();
        assert!(why.contains(said) && !why.is_empty(), "{method}: {why}");
        methods.push(method);
    }
    assert_eq!(methods, ["refused", "torn", "gone", "waiting"]);
    assert_eq!(untaken.recv().await, None);
}

#[tokio::test]
async fn g08_a_message_for_a_busy_server_is_posted_again_as_long_as_it_has_time() {
    let (told, mut untaken) = mpsc::unbounded_channel();
    let mut options = ClientOptions::default();
    options.post_time = Duration::from_secs(2);
    options.trouble = Some(Arc::new(move |message, why| {
        if message.is_some() {
            told.send(why.to_owned()).unwrap();
        }
    }));
    let script = Script::new().await;
    let client = Client::new(&script.url, "2025-06-18", options);
    let _listening = script.open(&client).await;
    let busy = |more: &str| format!("503 Busy\r\n{more}content-length: 0\r\n\r\n");
    for method in ["taken", "without a time", "in an hour", "for ever"] {
        client.peer.try_notify(method, json!({})).unwrap();
    }
    script.asked().await.says(&busy("retry-after: 0\r\n")).await;
    let again = script.asked().await;
    assert_eq!(again.body["method"], "taken");
    again.says("202 Accepted\r\ncontent-length: 0\r\n\r\n").await;
    for more in ["", "retry-after: 3600\r\n"] {
        script.asked().await.says(&busy(more)).await;
        assert!(untaken.recv().await.unwrap().contains("status 503"));
    }
    let why = loop {
        tokio::select! {
            why = untaken.recv() => break why.unwrap(),
            // Its time may be over in the middle of a request, and before the response.
            Some(mut asked) = script.asked_or_left() => {
                let response = format!("HTTP/1.1 {}", busy("retry-after: 0\r\n"));
                let _ = asked.stream.write_all(response.as_bytes()).await;
            }
        }
    };
    assert!(why.contains("options.post_time"), "{why}");
}

#[tokio::test]
async fn an_event_and_a_body_over_their_limit_lose_the_call() {
    let mut options = ClientOptions::default();
    options.stream.message_bytes = 100;
    let script = Script::new().await;
    let client = Client::new(&script.url, "2026-07-28", options);
    for is_json in [true, false] {
        let call = client.call("a", json!({}));
        let asked = script.asked().await;
        let (id, long) = (asked.body["id"].clone(), "x".repeat(100));
        match is_json {
            true => asked.json("200 OK", &id, &json!(long)).await,
            false => {
                let response = json!({ "jsonrpc": "2.0", "id": id, "result": long });
                asked.events(&format!("data: {response}\n\n")).await;
            }
        }
        assert!(how(call.await).contains("is too long"));
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_loses_the_call() {
    let script = Script::new().await;
    let client = modern(&script.url);
    drop(script);
    let error = client.call("a", json!({})).await.unwrap_err();
    let CallError::ConnectionLost { cause: Cause::PeerGone, how: Some(how) } = error else {
        panic!("{error:?}")
    };
    assert!(how.contains("could not be asked"), "{how}");
}
