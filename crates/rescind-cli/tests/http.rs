//! `rescind serve --listen http://…`: the clients that may call, and the ends of requests and of the server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{self, PATIENCE, Running, Said, rescind};

pub(crate) const LOCAL: &str = "http://127.0.0.1:0/mcp";
pub(crate) const HOUR: u64 = 3_600_000;

/// A server, ended by the test or with it.
pub(crate) struct Serving {
    pub(crate) running: Running,
    authority: String,
}

/// A response whose head is read.
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    body: BufReader<TcpStream>,
}

impl Serving {
    pub(crate) fn start(more: &[&str]) -> Self {
        Self::start_with("mcp-http", more)
    }

    fn start_with(dialect: &str, more: &[&str]) -> Self {
        let arguments = ["serve", "--listen", LOCAL, "--dialect", dialect];
        let mut running = Running::start([&arguments, more].concat(), &[]);
        running.says(&["memory: at most ", " MiB for all; the limits of a session add up to "]);
        Self::of(running)
    }

    /// Runs a command that listens.
    pub(crate) fn run(arguments: &[&str]) -> Self {
        Self::of(Running::start(arguments, &[("RESCIND", support::RESCIND)]))
    }

    fn of(mut running: Running) -> Self {
        let line = running.says(&["listening on http://127.0.0.1:", "/mcp"]);
        let authority = line.trim().trim_start_matches("listening on http://");
        let authority = authority.trim_end_matches("/mcp").to_owned();
        Self { running, authority }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.authority)
    }

    pub(crate) fn post(&self, headers: &str, body: &Value) -> Response {
        self.send("POST", headers, &body.to_string())
    }

    pub(crate) fn send(&self, verb: &str, headers: &str, body: &str) -> Response {
        let mut stream = TcpStream::connect(&self.authority).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let host = if headers.contains("Host: ") { "" } else { "Host: localhost\r\n" };
        write!(
            stream,
            "{verb} /mcp HTTP/1.1\r\n{host}Content-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n{headers}\r\n{body}",
            body.len()
        )
        .unwrap();
        let (mut body, mut head) = (BufReader::new(stream), String::new());
        while !head.ends_with("\r\n\r\n") {
            assert!(body.read_line(&mut head).unwrap() > 0, "{head}");
        }
        Response { status: head.split(' ').nth(1).unwrap().parse().unwrap(), head, body }
    }

    /// Calls a tool in the revision without sessions.
    pub(crate) fn call_tool(&self, name: &str, arguments: &Value, headers: &str) -> Response {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let params = json!({ "name": name, "arguments": arguments, "_meta": meta });
        let mirrors = format!(
            "{headers}Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: {name}\r\n"
        );
        self.post(&mirrors, &request("tools/call", &params))
    }

    /// Ends it with SIGTERM.
    pub(crate) fn end(mut self) -> Said {
        support::signal(self.running.id(), Signal::TERM);
        self.running.end()
    }
}

impl Response {
    /// Reads the first line of data with something in it.
    pub(crate) fn data(&mut self) -> Value {
        self.next_data().expect("the body has not ended")
    }

    /// Reads the next line of data with something in it; `None` at the end, or the last chunk, which is empty.
    pub(crate) fn next_data(&mut self) -> Option<Value> {
        loop {
            let mut line = String::new();
            if self.body.read_line(&mut line).unwrap() == 0 || line == "0\r\n" {
                return None;
            }
            if let Some(data) = line.strip_prefix("data: ").filter(|data| data.starts_with('{')) {
                return Some(serde_json::from_str(data).unwrap());
            }
        }
    }
}

pub(crate) fn request(method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
}

pub(crate) fn recording(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("http-{name}.jsonl"));
    let _ = std::fs::remove_file(&path);
    path
}

#[test]
fn a_tool_answers_over_http_with_and_without_a_session() {
    let server = Serving::start(&[]);
    let mut response = server.call_tool("echo", &json!({ "a": 1 }), "");
    assert_eq!(response.status, 200);
    let result = response.data()["result"].clone();
    assert_eq!(
        (&result["content"][0]["text"], &result["resultType"]),
        (&json!(r#"{"a":1}"#), &json!("complete"))
    );

    let initialize =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {} });
    let mut opened = server.post("", &request("initialize", &initialize));
    assert_eq!(opened.data()["result"]["protocolVersion"], "2025-11-25");
    let id = opened.head.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap();
    let headers = format!("Mcp-Session-Id: {id}\r\nMcp-Protocol-Version: 2025-11-25\r\n");
    let params = json!({ "name": "count", "arguments": { "to": 2, "every_ms": 1 }, "_meta": { "progressToken": 7 } });
    let mut response = server.post(&headers, &request("tools/call", &params));
    for number in [1, 2] {
        assert_eq!(
            response.data()["params"],
            json!({ "progressToken": 7, "progress": number, "total": 2 })
        );
    }
    assert_eq!(response.data()["result"]["isError"], false);
    assert_eq!(server.end().code, Some(0));
}

#[test]
fn an_unknown_method_has_status_404() {
    let server = Serving::start(&[]);
    let meta = json!({ "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    } });
    let headers = "Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: nothing\r\n";
    for _ in 0..20 {
        assert_eq!(server.post(headers, &request("nothing", &meta)).status, 404);
    }
}

#[test]
fn a_closed_stream_cancels_the_tool_and_the_recording_says_so() {
    let path = recording("closed");
    let server = Serving::start(&["--grace", "1h", "--record", path.to_str().unwrap()]);
    let response = server.call_tool("sleep", &json!({ "ms": HOUR }), "");
    assert_eq!(response.status, 200);
    drop(response);
    // It waits for an hour for a tool that goes on.
    let said = server.end();
    assert_eq!(said.code, Some(0), "{said:?}");
    let mut recorded = String::new();
    std::fs::File::open(&path).unwrap().read_to_string(&mut recorded).unwrap();
    assert!(recorded.contains(r#""cause":"peer""#), "{recorded}");
}

#[test]
fn sigterm_lets_a_tool_finish_and_cancels_what_takes_longer() {
    let server = Serving::start(&["--grace", "1h"]);
    let mut response = server.call_tool("sleep", &json!({ "ms": 1_000 }), "");
    let said = server.end();
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(response.data()["result"]["isError"], false);

    let server = Serving::start(&["--grace", "100ms"]);
    let mut response = server.call_tool("sleep", &json!({ "ms": HOUR }), "");
    let said = server.end();
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(response.data()["error"].is_object());
}

#[test]
fn a_token_is_asked_for_and_other_machines_need_one() {
    let secret = recording("secret");
    std::fs::write(&secret, "correct-horse\n").unwrap();
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
    let server = Serving::start(&["--token-file", secret.to_str().unwrap()]);
    assert_eq!(server.call_tool("echo", &json!({}), "").status, 401);
    let shown = "Authorization: Bearer correct-horse\r\n";
    assert_eq!(server.call_tool("echo", &json!({}), shown).status, 200);

    let anywhere = ["serve", "--listen", "http://0.0.0.0:0/mcp", "--dialect", "mcp-http"];
    let said = rescind(anywhere);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains("--token-file") && said.stderr.contains("--allow-anyone"));
}

/// A proxy may pass on the host that its clients asked for. A page that has its own name lead here can't show the secret.
#[test]
fn a_token_admits_every_host_and_without_one_only_this_machine_is_admitted() {
    let secret = recording("proxied");
    std::fs::write(&secret, "correct-horse\n").unwrap();
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
    let server = Serving::start(&["--token-file", secret.to_str().unwrap()]);
    let shown = "Host: example.com\r\nAuthorization: Bearer correct-horse\r\n";
    assert_eq!(server.call_tool("echo", &json!({}), shown).status, 200);
    assert_eq!(server.call_tool("echo", &json!({}), "Host: example.com\r\n").status, 401);
    let server = Serving::start(&[]);
    assert_eq!(server.call_tool("echo", &json!({}), "Host: example.com\r\n").status, 403);
}

#[test]
fn an_http_address_is_for_mcp_over_http_without_tls() {
    for (arguments, said) in [
        (&["serve", "--listen", LOCAL, "--dialect", "lsp"][..], "--dialect mcp-http"),
        (&["serve", "--listen", LOCAL, "--dialect", "mcp"], "--dialect mcp-http"),
        (&["serve", "--listen", "https://127.0.0.1:0/mcp", "--dialect", "mcp-http"], "proxy"),
        (&["serve", "--listen", "http://127.0.0.1:0/mcp?a=b"], "query"),
    ] {
        let refused = rescind(arguments);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.stderr.contains(said), "{refused:?}");
    }
}

/// Calls a tool there, and returns the output of the program.
fn call(server: &Serving, dialect: &str, more: &[&str], tool: &str, arguments: &Value) -> Said {
    let url = server.url();
    let params = json!({ "name": tool, "arguments": arguments }).to_string();
    let first = ["call", "--connect", &url, "--dialect", dialect];
    rescind([&first, more, &["tools/call", &params]].concat())
}

#[test]
fn call_calls_and_cancels_in_each_revision() {
    for dialect in [
        "mcp-http",
        "mcp-2025-03-26-http",
        "mcp-2025-06-18-http",
        "mcp-2025-11-25-http",
        "mcp-2026-07-28-http",
    ] {
        let path = recording(&format!("called-{dialect}"));
        let server = Serving::start(&["--grace", "1h", "--record", path.to_str().unwrap()]);
        let said = call(&server, dialect, &[], "echo", &json!({ "a": 1 }));
        assert_eq!(said.code, Some(0), "{dialect}: {said:?}");
        assert!(said.stdout.contains(r#"{\"a\":1}"#), "{dialect}: {said:?}");
        let sleep = json!({ "ms": HOUR });
        let said = call(&server, dialect, &["--cancel-after", "100ms"], "sleep", &sleep);
        assert_eq!(said.code, Some(3), "{dialect}: {said:?}");
        // It waits for an hour for a tool that goes on.
        assert_eq!(server.end().code, Some(0));
        let recorded = std::fs::read_to_string(&path).unwrap();
        assert!(recorded.contains(r#""cause":"peer""#), "{dialect}: {recorded}");
    }
}

#[test]
fn acp_is_called_and_relayed_in_each_version() {
    for dialect in ["acp", "acp-v2"] {
        let server = Serving::start_with(dialect, &[]);
        let (spoken, serve) = (["--dialect", dialect], [support::RESCIND, "serve"]);
        let relay = ["relay", "--listen", LOCAL];
        let relay = Serving::run(&[&relay[..], &spoken, &["--"], &serve, &spoken].concat());
        for server in [&server, &relay] {
            let url = server.url();
            let to = ["call", "--connect", &url, "--dialect", dialect];
            let said = rescind([&to[..], &["echo", r#"{"sessionId":"s"}"#]].concat());
            assert_eq!(
                (said.code, &*said.stdout),
                (Some(0), "{\"sessionId\":\"s\"}\n"),
                "{said:?}"
            );
            // A notification says that the server has the request.
            let count = json!({ "to": HOUR, "every_ms": 50, "sessionId": "s" }).to_string();
            let count = ["--cancel-after-notifications", "1", "count", &count];
            let said = rescind([&to[..], &count].concat());
            // A count that is cancelled responds with what it has.
            assert!(said.stdout.contains(r#""of":3600000"#), "{dialect}: {said:?}");
            assert!(said.stderr.contains("cancelled count"), "{dialect}: {said:?}");
        }
        let url = server.url();
        let behind = [&["--", support::RESCIND, "relay", "--connect", &url][..], &spoken].concat();
        let said = rescind([&["call"], &spoken[..], &["echo", "[1]"], &behind].concat());
        assert_eq!((said.code, &*said.stdout), (Some(0), "[1]\n"), "{said:?}");
        assert_eq!(relay.end().code, Some(0));
        assert_eq!(server.end().code, Some(0));
    }
}

#[test]
fn an_http_address_without_a_dialect_is_one_of_mcp() {
    let served = Serving::run(&["serve", "--listen", LOCAL]);
    let said = call(&served, "mcp-http", &[], "echo", &json!({ "a": 1 }));
    assert!(said.code == Some(0) && said.stdout.contains(r#"{\"a\":1}"#), "{said:?}");
    let behind = ["--", support::RESCIND, "serve", "--dialect", "mcp"];
    let relayed = Serving::run(&[&["relay", "--listen", LOCAL], &behind[..]].concat());
    for server in [&served, &relayed] {
        let url = server.url();
        let arguments = r#"{"name":"echo","arguments":{"a":1}}"#;
        let said = rescind(["call", "--connect", &url, "tools/call", arguments]);
        assert!(said.code == Some(0) && said.stdout.contains(r#"{\"a\":1}"#), "{said:?}");
    }
}

#[test]
fn an_http_address_without_a_path_has_that_of_its_protocol() {
    for (dialect, path) in [("mcp-http", "/mcp"), ("acp", "/acp")] {
        let listen = ["serve", "--listen", "http://127.0.0.1:0", "--dialect", dialect];
        let mut running = Running::start(listen, &[]);
        let line = running.says(&["listening on http://127.0.0.1:", path]);
        let url = line.trim().trim_start_matches("listening on ").trim_end_matches(path);
        for (url, code) in
            [(url.to_owned(), 0), (format!("{url}{path}"), 0), (format!("{url}/"), 5)]
        {
            let tool = r#"{"name":"echo","arguments":{}}"#;
            let [method, params] =
                if dialect == "acp" { ["echo", "[]"] } else { ["tools/call", tool] };
            let said = rescind(["call", "--connect", &url, "--dialect", dialect, method, params]);
            assert_eq!(said.code, Some(code), "{url}: {said:?}");
        }
    }
}

#[test]
fn call_finds_the_revision_that_the_server_speaks() {
    let server = Serving::start_with("mcp-2025-06-18-http", &[]);
    let said = call(&server, "mcp-http", &[], "echo", &json!({}));
    assert_eq!(said.code, Some(0), "{said:?}");
}

#[test]
fn call_shows_the_secret_and_says_what_an_http_address_is_for() {
    let secret = recording("shown");
    std::fs::write(&secret, "correct-horse\n").unwrap();
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
    let token = ["--token-file", secret.to_str().unwrap()];
    let server = Serving::start(&token);
    let newest = "mcp-2026-07-28-http";
    assert_eq!(call(&server, newest, &token, "echo", &json!({})).code, Some(0));
    let refused = call(&server, newest, &[], "echo", &json!({}));
    assert_eq!(refused.code, Some(5), "{refused:?}");
    assert!(refused.stderr.contains("401"), "{refused:?}");

    for (more, said) in [
        (&["--connect", "http://127.0.0.1:9/mcp", "--dialect", "lsp"][..], "--dialect mcp-http"),
        (
            &["--connect", "http://127.0.0.1:9/mcp", "--dialect", "mcp-http", "--ca", "/none"],
            "https://",
        ),
    ] {
        let refused = rescind([&["call"], more, &["ping"]].concat());
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.stderr.contains(said), "{refused:?}");
    }
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nobody = format!("http://{free}/mcp");
    let said = rescind(["call", "--connect", &nobody, "--dialect", "mcp-http", "ping"]);
    assert_eq!(said.code, Some(6), "{said:?}");
}
