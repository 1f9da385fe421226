//! Released MCP clients against `rescind serve --listen http://…`, directly and behind `rescind relay --connect`: the same
//! checks as over stdio.
//!
//! The clients check that progress ends and that nested requests are cancelled. No tap is in between, so these tests do
//! not see whether a cancelled request stays without a response.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use rescind_interop::peers::{CommandLine, node, python, rescind};

/// `rescind serve` over HTTP, which ends with this.
struct Served {
    child: Child,
    address: String,
}

impl Served {
    fn new(dialect: &str) -> Self {
        let mut child = Command::new(rescind())
            .args(["serve", "--dialect", dialect, "--listen", "http://127.0.0.1:0/mcp"])
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("rescind starts");
        let stderr = child.stderr.take().expect("it is piped");
        let mut lines = BufReader::new(stderr);
        let mut address = None;
        while address.is_none() {
            let mut line = String::new();
            let read = lines.read_line(&mut line).expect("it writes UTF-8");
            assert!(read > 0, "it ended before it said where it listens");
            address =
                line.split_whitespace().find(|word| word.starts_with("http://")).map(Into::into);
        }
        std::thread::spawn(move || lines.read_to_string(&mut String::new()));
        Self { child, address: address.expect("it was found") }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended, which its client has noticed then.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a client that is a script, to its last check.
fn check(client: Option<CommandLine>, arguments: &[&str], without: &str) {
    let Some(client) = client else { return };
    let output = Command::new(&client[0])
        .args(&client[1..])
        .args(arguments)
        .env("WITHOUT", without)
        .output()
        .expect("the client runs");
    let (checks, problems) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "held:\n{checks}\n{problems}");
    assert_eq!(checks.lines().last(), Some("still_alive"), "{checks}\n{problems}");
}

fn typescript(major: &str, revision: &str, dialect: &str, without: &str) {
    let served = Served::new(dialect);
    check(node("mcp_client.mjs"), &[major, revision, &served.address], without);
}

/// The same on standard streams, of a relay.
fn typescript_behind_relay(major: &str, revision: &str, without: &str) {
    let served = Served::new("mcp-http");
    let arguments = [major, revision, rescind(), "relay", "--connect", &served.address];
    check(node("mcp_client.mjs"), &arguments, without);
}

fn on_python(mode: &str, revision: &str, dialect: &str) {
    let served = Served::new(dialect);
    check(python("mcp_client.py"), &[mode, revision, &served.address], "");
}

#[test]
fn typescript_1_cancels_by_notification() {
    typescript("1", "2025-11-25", "mcp-http", "");
}

#[test]
fn typescript_1_speaks_an_older_revision() {
    typescript("1", "2025-06-18", "mcp-2025-06-18-http", "");
}

/// In this revision the client closes the stream of a request to cancel it, and a server asks nothing of its client.
#[test]
fn typescript_2_cancels_by_a_closed_stream() {
    typescript("2", "2026-07-28", "mcp-http", "cancel_cascades_back");
}

#[test]
fn typescript_1_behind_a_relay_cancels_by_notification() {
    typescript_behind_relay("1", "2025-11-25", "");
}

#[test]
fn typescript_2_behind_a_relay_cancels_by_a_closed_stream() {
    typescript_behind_relay("2", "2026-07-28", "cancel_cascades_back");
}

/// The client cancels an operation that runs long, and the server learns of the end by DELETE.
#[test]
fn server_everything_over_http_serves_a_client_behind_a_relay() {
    let package = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";
    let (Some(client), Some(server)) = (node("everything_client.mjs"), node(package)) else {
        return;
    };
    let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
    let port = free.expect("a port is free").port().to_string();
    let mut child = Command::new("sh")
        .args(["-c", r#"exec "$0" "$@" 2>&1"#])
        .args(&server)
        .arg("streamableHttp")
        .env("PORT", &port)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the server starts");
    let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let served = Served { child, address: format!("http://localhost:{port}/mcp") };
    let mut said = lines.map_while(Result::ok);
    assert!(said.any(|line| line.contains("listening on port")), "it ended");
    let output = Command::new(&client[0])
        .args(&client[1..])
        .args([rescind(), "relay", "--connect", &served.address])
        .output()
        .expect("the client runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.any(|line| line.contains("session termination request")), "there is no DELETE");
}

#[test]
fn python_cancels_by_a_closed_stream() {
    on_python("auto", "2026-07-28", "mcp-http");
}

#[test]
fn python_cancels_by_notification() {
    on_python("legacy", "2025-11-25", "mcp-http");
}

/// Its `server/discover` is refused.
#[test]
fn python_falls_back() {
    on_python("auto", "2025-06-18", "mcp-2025-06-18-http");
}
