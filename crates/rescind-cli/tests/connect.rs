//! `rescind relay --connect http://…`: a client on standard streams in front of a server of MCP or ACP over HTTP.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::http::{HOUR, LOCAL, Serving, recording, request};
use crate::support::{self, PATIENCE, Program, RESCIND, lines, rescind};

const REVISIONS: [&str; 4] = ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];
pub(crate) const NEWEST: &str = REVISIONS[3];

/// A client on the standard streams of a relay.
pub(crate) struct Client {
    program: Program,
    input: Option<ChildStdin>,
    output: Receiver<String>,
    errors: Receiver<String>,
    version: &'static str,
    seen: String,
}

impl Client {
    pub(crate) fn start(url: &str, version: &'static str, more: &[&str]) -> Self {
        let mut command = Command::new(RESCIND);
        command.args(["relay", "--connect", url]).args(more);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take();
        let (output, errors) =
            (lines(child.stdout.take().unwrap()), lines(child.stderr.take().unwrap()));
        let seen = String::new();
        let mut client = Self { program: child.into(), input, output, errors, version, seen };
        if version != NEWEST {
            let params =
                json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": {} });
            client.send(&request("initialize", &params));
            assert_eq!(client.receive()["result"]["protocolVersion"], version);
            client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        }
        client
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    /// Calls a tool under this id.
    pub(crate) fn call(&mut self, id: u64, name: &str, arguments: &Value) {
        let mut meta = json!({ "progressToken": id });
        if self.version == NEWEST {
            meta["io.modelcontextprotocol/protocolVersion"] = NEWEST.into();
            meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
        }
        let mut call =
            request("tools/call", &json!({ "name": name, "arguments": arguments, "_meta": meta }));
        call["id"] = id.into();
        self.send(&call);
    }

    /// Calls tools that end when they are cancelled, and waits until the server has begun each.
    fn begin(&mut self, ids: Range<u64>) {
        for id in ids.clone() {
            self.call(id, "count", &json!({ "to": HOUR, "every_ms": 100 }));
        }
        let mut waits: BTreeSet<u64> = ids.collect();
        while !waits.is_empty() {
            let told = self.receive();
            waits.remove(&told["params"]["progressToken"].as_u64().unwrap());
        }
    }

    pub(crate) fn cancel(&mut self, id: u64) {
        let params = json!({ "requestId": id });
        self.send(
            &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }),
        );
    }

    pub(crate) fn receive(&self) -> Value {
        serde_json::from_str(&self.output.recv_timeout(PATIENCE).unwrap()).unwrap()
    }

    /// Returns the next response.
    pub(crate) fn response(&self) -> Value {
        loop {
            let message = self.receive();
            if message.get("method").is_none() {
                return message;
            }
        }
    }

    /// Waits for a line of standard error with this in it.
    fn says(&mut self, part: &str) {
        while !self.seen.contains(part) {
            let line = self.errors.recv_timeout(PATIENCE);
            self.seen += &line.unwrap_or_else(|_| panic!("no {part} in:\n{}", self.seen));
        }
    }

    /// Waits for the end of the relay. Returns its exit code, the responses that were left, and standard error.
    fn wait(mut self) -> (Option<i32>, Vec<Value>, String) {
        let code = self.program.wait().code();
        let rest = self.output.iter().map(|line| serde_json::from_str(&line).unwrap());
        let rest = rest.filter(|message: &Value| message.get("method").is_none()).collect();
        self.seen.extend(self.errors.iter());
        (code, rest, self.seen)
    }

    /// Ends its input.
    pub(crate) fn end(mut self) -> (Option<i32>, Vec<Value>, String) {
        self.input = None;
        self.wait()
    }
}

/// Starts a server whose tools take until they are cancelled. Returns it, and the function that ends it and
/// reads its recording.
fn server(name: &str) -> (Serving, impl FnOnce(Serving) -> String + use<>) {
    let path = recording(name);
    let serving = Serving::start(&["--grace", "1h", "--record", path.to_str().unwrap()]);
    let read = move |serving: Serving| {
        assert_eq!(serving.end().code, Some(0));
        std::fs::read_to_string(path).unwrap()
    };
    (serving, read)
}

#[test]
fn each_revision_cancels_by_its_own_means_and_the_session_is_deleted() {
    for version in REVISIONS {
        let (serving, read) = server(&format!("front-{version}"));
        let mut client = Client::start(&serving.url(), version, &[]);
        client.begin(7..8);
        client.cancel(7);
        client.call(8, "echo", &json!({ "a": 1 }));
        let echoed = client.response();
        assert_eq!(echoed["id"], 8, "{version}: the cancelled request has no response");
        assert_eq!(echoed["result"]["content"][0]["text"], r#"{"a":1}"#);
        let (code, rest, said) = client.end();
        assert_eq!((code, rest.len()), (Some(0), 0), "{version}: {said}");
        let recorded = read(serving);
        assert!(recorded.contains(r#""cause":"peer""#), "{version}: {recorded}");
        assert!(recorded.contains(r#""verdict":"closed","why":"peer_gone""#), "{version}");
        assert!(!recorded.contains(r#""why":"shutdown""#), "{version}: {recorded}");
    }
}

#[test]
fn progress_comes_before_the_result_and_a_request_of_the_server_has_its_response() {
    let serving = Serving::start(&[]);
    let mut client = Client::start(&serving.url(), "2025-11-25", &[]);
    client.call(7, "count", &json!({ "to": 50, "every_ms": 0 }));
    for number in 1..=50 {
        let progress = json!({ "progressToken": 7, "progress": number, "total": 50 });
        assert_eq!(client.receive()["params"], progress);
    }
    assert_eq!(client.receive()["id"], 7);
    client.call(8, "nested", &json!({ "ms": 1 }));
    let asked = client.receive();
    assert_eq!(asked["method"], "sleep");
    client.send(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "slept": true } }));
    assert_eq!(client.receive()["result"]["content"][0]["text"], r#"{"slept":true}"#);
    assert_eq!(client.end().0, Some(0));
}

#[test]
fn f68_a_recording_names_an_address_without_its_query() {
    let file = recording("query");
    let url = "http://127.0.0.1:1/mcp?key=secret";
    let said = rescind(["relay", "--connect", url, "--record", file.to_str().unwrap()]);
    assert_eq!(said.code, Some(6), "{said:?}");
    let recorded = std::fs::read_to_string(file).unwrap();
    assert!(recorded.contains(r#""program":"http://127.0.0.1:1/mcp""#), "{recorded}");
}

#[test]
fn sigterm_cancels_and_answers_all_that_is_in_flight() {
    for version in ["2025-11-25", NEWEST] {
        let own = recording(&format!("front-own-{version}"));
        let (serving, read) = server(&format!("front-sigterm-{version}"));
        let record = ["--quiet", "--record", own.to_str().unwrap()];
        let url = serving.url();
        let mut client = Client::start(url.trim_end_matches("/mcp"), version, &record);
        client.begin(100..164);
        support::signal(client.program.id(), Signal::TERM);
        let (code, rest, said) = client.wait();
        assert_eq!(code, Some(0), "{said}");
        let mut ids: Vec<_> = rest.iter().filter_map(|it| it["id"].as_u64()).collect();
        ids.sort_unstable();
        assert_eq!(ids, (100..164).collect::<Vec<_>>(), "{version}: {said}");
        assert!(rest.iter().all(|response| response["error"].is_object()), "{rest:?}");
        let recorded = read(serving);
        let cancelled = recorded.matches(r#""verdict":"cancelled""#).count();
        assert_eq!(cancelled, 64, "{version}: {recorded}");
        assert!(!recorded.contains(r#""why":"shutdown""#), "{version}: {recorded}");
        let own = std::fs::read_to_string(own).unwrap();
        assert!(own.contains(r#"{"end":"#));
        assert!(own.contains(&format!(r#""program":"{url}""#)), "with the path that is asked for");
    }
}

#[test]
fn the_end_of_input_lets_requests_finish_for_a_while_and_then_cancels_them() {
    let (serving, read) = server("front-end");
    let mut client = Client::start(&serving.url(), "2025-11-25", &["--answer-after-end", "1h"]);
    client.call(1, "sleep", &json!({ "ms": 300 }));
    let (code, rest, said) = client.end();
    assert_eq!((code, rest.len()), (Some(0), 1), "{said}");
    assert_eq!(rest[0]["result"]["isError"], false, "{rest:?}");

    let mut client = Client::start(&serving.url(), "2025-11-25", &["--answer-after-end", "300ms"]);
    client.begin(1..2);
    // A line without its end is a request all the same.
    write!(client.input.as_mut().unwrap(), r#"{{"jsonrpc":"2.0","id":2,"method":"ping"}}"#)
        .unwrap();
    let (code, mut rest, said) = client.end();
    rest.sort_by_key(|response| response["id"].as_u64());
    assert_eq!((code, rest.len()), (Some(0), 2), "{said}");
    assert!(rest[0]["error"].is_object(), "{rest:?}");
    let recorded = read(serving);
    assert_eq!(recorded.matches(r#""verdict":"cancelled""#).count(), 1, "{recorded}");
}

#[test]
fn a_request_that_takes_too_long_is_given_up_and_cancelled_upstream() {
    for version in ["2025-11-25", NEWEST] {
        let (serving, read) = server(&format!("front-cap-{version}"));
        let mut client = Client::start(&serving.url(), version, &["--method", "tools/*=cap:1s"]);
        client.begin(1..2);
        assert_eq!(client.response()["error"]["code"], -32803);
        assert_eq!(client.end().0, Some(0));
        let recorded = read(serving);
        assert_eq!(recorded.matches(r#""verdict":"cancelled""#).count(), 1, "{recorded}");
    }
}

#[test]
fn a_server_that_vanishes_leaves_no_request_without_a_response() {
    for version in ["2025-03-26", NEWEST] {
        let serving = Serving::start(&[]);
        let mut client = Client::start(&serving.url(), version, &[]);
        client.begin(7..8);
        support::signal(serving.running.id(), Signal::KILL);
        let lost = client.response();
        assert_eq!((&lost["id"], &lost["error"]["code"]), (&json!(7), &json!(-32603)));
        client.call(9, "echo", &json!({}));
        assert_eq!(client.receive()["error"]["code"], -32603);
        client.says("a request was lost: ");
        assert_eq!(client.end().0, Some(0));
    }
}

#[test]
fn a_server_that_is_not_there_or_wants_a_secret_is_said() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let said = rescind(["relay", "--connect", &format!("http://{free}/mcp")]);
    assert_eq!(said.code, Some(6), "{said:?}");
    assert!(said.stderr.contains("can't connect to http://127.0.0.1:"), "{said:?}");

    let secret = recording("front-secret");
    std::fs::write(&secret, "correct-horse\n").unwrap();
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
    let token = ["--token-file", secret.to_str().unwrap()];
    let serving = Serving::start(&token);
    let mut client = Client::start(&serving.url(), NEWEST, &token);
    client.call(1, "echo", &json!({}));
    assert!(client.receive()["result"].is_object());
    assert_eq!(client.end().0, Some(0));
    let mut client = Client::start(&serving.url(), NEWEST, &[]);
    client.call(1, "echo", &json!({}));
    assert_eq!(client.receive()["error"]["code"], -32603);
    client.says("status 401");
}

/// Starts a server that is a function of each request's head and body. It shows both to the test.
fn scripted(respond: fn(&str, &str) -> String) -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let (tell, seen): (Sender<String>, _) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, tell) = (BufReader::new(stream.unwrap()), tell.clone());
            thread::spawn(move || {
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") {
                    if stream.read_line(&mut head).unwrap_or(0) == 0 {
                        return;
                    }
                }
                head.make_ascii_lowercase();
                let length = head.lines().find_map(|it| it.strip_prefix("content-length: "));
                let mut body = vec![0; length.map_or(0, |it| it.parse().unwrap())];
                stream.read_exact(&mut body).unwrap();
                let body = String::from_utf8(body).unwrap();
                // The test may be over.
                let _ = tell.send(format!("{head}{body}"));
                stream.get_mut().write_all(respond(&head, &body).as_bytes()).unwrap();
            });
        }
    });
    (url, seen)
}

fn json_response(status: u16, headers: &str, body: &Value) -> String {
    let body = body.to_string();
    let length = body.len();
    format!(
        "HTTP/1.1 {status} S\r\nContent-Type: application/json\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
    )
}

const ACCEPTED: &str = "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n";

#[test]
fn a_session_that_the_server_has_ended_ends_the_relay_with_every_request_answered() {
    let (url, _seen) = scripted(|head, body| match body.contains("initialize\"") {
        true => {
            let result = json!({ "protocolVersion": "2025-11-25" });
            let body = json!({ "jsonrpc": "2.0", "id": 1, "result": result });
            json_response(200, "Mcp-Session-Id: s\r\n", &body)
        }
        false if head.starts_with("post") && body.contains("tools/call") => {
            "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".into()
        }
        false => ACCEPTED.into(),
    });
    let mut client = Client::start(&url, "2025-11-25", &[]);
    client.call(7, "echo", &json!({}));
    // Its input goes on, and the relay ends all the same.
    let (code, rest, said) = client.wait();
    assert_eq!((code, rest.len()), (Some(1), 1), "{said}");
    assert_eq!((&rest[0]["id"], &rest[0]["error"]["code"]), (&json!(7), &json!(-32603)));
    assert!(said.contains("has ended the session (status 404)"), "{said}");
}

#[test]
fn a_notification_just_before_the_end_of_input_reaches_the_server() {
    for number in 0..30 {
        let (url, seen) = scripted(|_, _| ACCEPTED.into());
        let mut client = Client::start(&url, NEWEST, &[]);
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/roots/list_changed" }));
        let (code, _, said) = client.end();
        assert_eq!((code, seen.try_iter().count()), (Some(0), 1), "after {number}: {said}");
    }
}

#[test]
fn what_the_client_subscribed_to_names_its_own_request() {
    let (url, _seen) = scripted(|_, _| {
        let named = r#""_meta":{"io.modelcontextprotocol/subscriptionId":1}"#;
        format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n\
             data: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\",\"params\":{{{named}}}}}\n\n\
             data: {{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{{\"resultType\":\"complete\",{named}}}}}\n\n"
        )
    });
    let mut client = Client::start(&url, NEWEST, &[]);
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": NEWEST });
    let mut subscribe = request("subscriptions/listen", &json!({ "_meta": meta }));
    subscribe["id"] = "sub".into();
    client.send(&subscribe);
    for part in ["params", "result"] {
        let told = client.receive();
        assert_eq!(told[part]["_meta"]["io.modelcontextprotocol/subscriptionId"], "sub", "{told}");
    }
    assert_eq!(client.end().0, Some(0));
}

#[test]
fn sigterm_answers_in_the_place_of_a_server_that_does_not() {
    let (url, seen) = scripted(|_, body| match body.contains("initialize\"") {
        // It can't be cancelled.
        true => {
            thread::sleep(PATIENCE);
            String::new()
        }
        false => ACCEPTED.into(),
    });
    let mut client = Client::start(&url, NEWEST, &["--grace", "1h"]);
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {} });
    client.send(&request("initialize", &params));
    assert!(seen.recv_timeout(PATIENCE).unwrap().starts_with("post /mcp "));
    support::signal(client.program.id(), Signal::TERM);
    let (code, rest, said) = client.wait();
    assert_eq!((code, rest.len()), (Some(0), 1), "{said}");
    assert_eq!((&rest[0]["id"], rest[0]["error"].is_object()), (&json!(1), true));
}

#[test]
fn a_relay_connects_over_http_alone() {
    for (arguments, said) in [
        (&["--connect", "ws://127.0.0.1:9"][..], "http://"),
        (&["--connect", "http://127.0.0.1:9", "--dialect", "lsp"], "--dialect mcp-http"),
        (&["--connect", "http://127.0.0.1:9", "--ca", "/none"], "https://"),
        (&["--connect", "http://127.0.0.1:9", "--listen", LOCAL], "--listen"),
        (&["--connect", "http://127.0.0.1:9", "--allow-anyone"], "--allow-anyone"),
        (&["--connect", "http://127.0.0.1:9", "--memory", "1MiB"], "--memory"),
        (&["--listen", LOCAL, "--ca", "/none", "--", "true"], "--ca"),
        (&["--connect", "http://127.0.0.1:9", "--on-stuck", "kill"], "--on-stuck"),
        (&["--connect", "http://127.0.0.1:9", "--", "true"], "--connect"),
        (&[], "COMMAND"),
    ] {
        let refused = rescind([&["relay"], arguments].concat());
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.stderr.contains(said), "{refused:?}");
    }
}
