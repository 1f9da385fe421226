//! Tools of an MCP server over HTTP/1.1: called one after another, with 64 in flight, and with 10,000 updates.
//!
//! `users-http REVISION SERVER…` starts the server, which gets the revision as its last argument and prints its address.
//! The client is hyper alone. It checks every response, in its order and its text.

use std::cell::{Cell, RefCell};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::task::LocalSet;
use users_driver::{cpu, figure};

const TOGETHER: usize = 64;
/// The calls of a round.
const CALLS: u64 = 64 * 25;
const UPDATES: u64 = 10_000;
/// The rounds that count, after one that warms up.
const ROUNDS: usize = 3;
const SESSION: &str = "mcp-session-id";

struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(command: &[String], revision: &str) -> Self {
        let mut server = Command::new(&command[0]);
        server.args(&command[1..]).arg(revision).stdout(Stdio::piped());
        let mut child = server.spawn().expect("the server starts");
        let mut address = String::new();
        let output = child.stdout.take().expect("it is piped");
        BufReader::new(output).read_line(&mut address).expect("it prints its address");
        Self { child, address: address.trim_end().into() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().and_then(|()| self.child.wait()).expect("it runs");
    }
}

/// A client with a connection for each call in flight.
struct Client {
    address: String,
    revision: String,
    session: Option<String>,
    idle: RefCell<Vec<SendRequest<Full<Bytes>>>>,
    last: Cell<u64>,
}

impl Client {
    async fn open(address: &str, revision: &str) -> Rc<Self> {
        let (address, revision) = (address.to_owned(), revision.to_owned());
        let mut client =
            Self { address, revision, session: None, idle: RefCell::default(), last: Cell::new(0) };
        if client.revision != "2026-07-28" {
            let info = json!({ "name": "bench", "version": "0" });
            let params = json!({ "protocolVersion": client.revision, "capabilities": {}, "clientInfo": info });
            let opening =
                json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
            (client.session, _) = client.post(&opening).await;
            assert!(client.session.is_some(), "no session was opened");
            client.post(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        }
        Rc::new(client)
    }

    async fn connection(&self) -> SendRequest<Full<Bytes>> {
        if let Some(idle) = self.idle.borrow_mut().pop() {
            return idle;
        }
        let stream = TcpStream::connect(&self.address).await.expect("the server listens");
        stream.set_nodelay(true).expect("it is TCP");
        let (sender, connection) = handshake(TokioIo::new(stream)).await.expect("it speaks HTTP");
        tokio::task::spawn_local(connection);
        sender
    }

    /// Posts a message, and returns the session and the body of the response.
    async fn post(&self, message: &Value) -> (Option<String>, Bytes) {
        let mut request = Request::post("/mcp")
            .header(HOST, &self.address)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .header("mcp-protocol-version", &self.revision);
        if let Some(session) = &self.session {
            request = request.header(SESSION, session);
        } else if let Some(tool) = message["params"]["name"].as_str() {
            request = request.header("mcp-method", "tools/call").header("mcp-name", tool);
        }
        let request = request.body(Full::from(message.to_string())).expect("a request");
        let mut connection = self.connection().await;
        connection.ready().await.expect("the connection stays");
        let response = connection.send_request(request).await.expect("a response");
        let (head, body) = response.into_parts();
        let body = body.collect().await.expect("a whole body").to_bytes();
        assert!(head.status.is_success(), "{}: {}", head.status, String::from_utf8_lossy(&body));
        self.idle.borrow_mut().push(connection);
        let session = head.headers.get(SESSION).map(|id| id.to_str().expect("text").to_owned());
        (session, body)
    }

    /// Calls a tool that reports this progress first, and checks each message of its response.
    async fn call(&self, tool: &str, updates: u64) {
        let id = self.last.get() + 1;
        self.last.set(id);
        let text = format!("hello {id}");
        let mut arguments = json!({ "text": text });
        let mut meta = json!({ "progressToken": id });
        if updates > 0 {
            arguments["to"] = updates.into();
        }
        if self.session.is_none() {
            meta["io.modelcontextprotocol/protocolVersion"] = self.revision.clone().into();
            meta["io.modelcontextprotocol/clientInfo"] = json!({ "name": "bench", "version": "0" });
            meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
        }
        let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
        let asked = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
        let (_, body) = self.post(&asked).await;
        let body = std::str::from_utf8(&body).expect("text");
        // One that is no stream of events is one message.
        let messages = body.lines().filter_map(|line| match line.strip_prefix("data:") {
            Some(data) => Some(data.trim_start()),
            None => line.starts_with('{').then_some(line),
        });
        let messages: Vec<Value> = messages
            .filter(|message| !message.is_empty())
            .map(|message| serde_json::from_str(message).expect("JSON"))
            .collect();
        let (last, before) = messages.split_last().expect("a response");
        let content = &last["result"]["content"][0]["text"];
        assert!(last["id"] == id && *content == text, "not of {id}: {last}");
        assert_eq!(before.len() as u64, updates);
        for (message, number) in before.iter().zip(1..) {
            let progress = &message["params"]["progress"];
            assert_eq!(progress.as_f64(), Some(number as f64), "{message}");
        }
    }
}

/// Calls a tool so often, with so many calls in flight.
async fn calls(client: &Rc<Client>, together: usize, times: u64) {
    let left = Rc::new(Cell::new(times));
    let calling = (0..together).map(|_| {
        let (client, left) = (client.clone(), left.clone());
        tokio::task::spawn_local(async move {
            while left.get() > 0 {
                left.set(left.get() - 1);
                client.call("echo", 0).await;
            }
        })
    });
    for calling in calling.collect::<Vec<_>>() {
        calling.await.expect("every response is right");
    }
}

/// Prints the least CPU time and the most messages a second of some rounds. A disturbance only makes them worse.
async fn measure(server: &Server, name: &str, messages: u64, work: impl AsyncFn()) {
    let (mut least, mut shortest) = (Duration::MAX, Duration::MAX);
    for round in 0..=ROUNDS {
        let (before, begun) = (cpu(server.child.id()), Instant::now());
        work().await;
        if round > 0 {
            least = least.min(cpu(server.child.id()) - before);
            shortest = shortest.min(begun.elapsed());
        }
    }
    figure(&format!("cpu_{name}_us"), least.as_secs_f64() * 1e6 / messages as f64);
    figure(&format!("rate_{name}"), messages as f64 / shortest.as_secs_f64());
}

async fn run(server: Server, revision: &str) {
    let client = Client::open(&server.address, revision).await;
    measure(&server, "1", CALLS, async || calls(&client, 1, CALLS).await).await;
    measure(&server, "64", CALLS, async || calls(&client, TOGETHER, CALLS).await).await;
    measure(&server, "update", UPDATES, async || client.call("count", UPDATES).await).await;
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [revision, command @ ..] = &arguments[..] else {
        panic!("it needs a revision and a server")
    };
    let server = Server::start(command, revision);
    LocalSet::new().run_until(run(server, revision)).await;
}
