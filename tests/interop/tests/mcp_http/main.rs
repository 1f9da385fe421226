//! Released MCP clients and servers over HTTP. Clients make the same checks of `rescind serve --listen http://…` as over
//! stdio, directly and behind `rescind relay --connect`.
//!
//! These check that progress ends and that nested requests are cancelled. No tap is in between, so these tests do not see
//! whether a cancelled request stays without a response.

mod cancels;

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::{Child, ChildStdout, Command, Stdio};

use rescind_interop::mcp::sdk;
use rescind_interop::peers::{CommandLine, line, node, python, rescind};
use rmcp::service::ClientLifecycleMode;
use rmcp::transport::StreamableHttpClientTransport;

/// A server over HTTP, which ends with this.
struct Served {
    child: Child,
    address: String,
}

impl Served {
    fn new(dialect: &str) -> Self {
        let local = "http://127.0.0.1:0/mcp";
        Self::spawn(&line(&[rescind(), "serve", "--dialect", dialect, "--listen", local]))
    }

    /// Starts a server on a port that it is told, and returns what it says from then on.
    fn on_port(
        command: impl FnOnce(&str) -> CommandLine,
    ) -> (Self, impl Iterator<Item = String> + Send + 'static) {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
        let port = free.expect("a port is free").port().to_string();
        let (child, output) = started(&command(&port));
        let mut said = output.lines().map_while(Result::ok);
        assert!(said.any(|line| line.to_lowercase().contains("listening on port")), "it ended");
        (Self { child, address: format!("http://localhost:{port}/mcp") }, said)
    }

    /// Starts a server that says in a line where it listens.
    fn spawn(command: &[String]) -> Self {
        let (child, mut lines) = started(command);
        // Some say what they were asked for first, which is any port.
        let is_address = |word: &&str| word.starts_with("http://") && !word.contains(":0/");
        let (mut address, mut said) = (None, String::new());
        while address.is_none() {
            let begun = said.len();
            let read = lines.read_line(&mut said).expect("it writes UTF-8");
            assert!(read > 0, "it ended before it said where it listens: {said}");
            address = said[begun..].split_whitespace().find(is_address).map(String::from);
        }
        std::thread::spawn(move || lines.read_to_string(&mut String::new()));
        let mut address = address.expect("it was found");
        if !address.ends_with("/mcp") {
            address += "/mcp";
        }
        Self { child, address }
    }
}

/// Starts a program, whose two outputs are one.
fn started(command: &[String]) -> (Child, BufReader<ChildStdout>) {
    let mut child = Command::new("sh")
        .args(["-c", r#"exec "$0" "$@" 2>&1"#])
        .args(command)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the server starts");
    let output = child.stdout.take().expect("it is piped");
    (child, BufReader::new(output))
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

/// In 2026-07-28 a cancel of its handle closes the stream.
#[tokio::test]
async fn rust_cancels_by_notification_and_by_a_closed_stream() {
    for (opening, revision) in
        [(ClientLifecycleMode::Initialize, "2025-06-18"), (sdk::discovers(), "2026-07-28")]
    {
        let served = Served::new(&format!("mcp-{revision}-http"));
        let transport = StreamableHttpClientTransport::from_uri(&*served.address);
        sdk::run(transport, opening, revision).await;
    }
}

/// The client cancels an operation that runs long, and the server learns of the end by DELETE.
#[test]
fn server_everything_over_http_serves_a_client_behind_a_relay() {
    let package = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";
    let (Some(client), Some(server)) = (node("everything_client.mjs"), node(package)) else {
        return;
    };
    let listening = |port: &str| {
        [line(&["env", &format!("PORT={port}")]), server, line(&["streamableHttp"])].concat()
    };
    let (served, mut said) = Served::on_port(listening);
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
