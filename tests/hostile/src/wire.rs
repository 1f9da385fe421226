//! The protocols and addresses of the servers that are attacked.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{ChildStdin, ChildStdout};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tokio_rustls::rustls::ClientConfig;
use tungstenite::{Message, WebSocket};

use crate::PATIENCE;
use crate::stream::Stream;

/// Bytes of the shortest record that rustls sends, with its header.
const TINIEST: usize = 32;

/// The framing of messages on a server, and the protocol that it speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// Plain JSON-RPC over a WebSocket: `ws://`.
    WebSocket,
    /// LSP's header before each message, over TCP: `lsp://`.
    Lsp,
    /// A message a line, over TCP, and MCP's `tools/call`: `mcp://`.
    Mcp,
    /// Plain JSON-RPC, a message a line.
    Lines,
}

/// A server that listens, or reads its standard input. It has the methods `echo`, which answers with its params, and `sleep`, which takes `ms`
/// milliseconds; over MCP these are tools.
#[derive(Clone, Debug)]
pub struct Target {
    /// The framing and the protocol.
    pub wire: Wire,
    place: Place,
    /// Whether the server's output is read while the server is flooded. An attacker does not read it; its honest twin
    /// does.
    is_read: bool,
}

#[derive(Clone, Debug)]
enum Place {
    Tcp(String),
    Tls(String, Arc<ClientConfig>),
    /// Of one process, whose only client takes them.
    Pipes(Arc<Mutex<Option<(ChildStdin, ChildStdout)>>>),
}

/// Of an address such as `ws://127.0.0.1:8080`.
impl FromStr for Target {
    type Err = String;

    fn from_str(address: &str) -> Result<Self, String> {
        let (scheme, rest) = address.split_once("://").unwrap_or_default();
        let wire = match scheme {
            "ws" => Wire::WebSocket,
            "lsp" => Wire::Lsp,
            "mcp" => Wire::Mcp,
            _ => return Err(format!("{address} is no ws://, lsp:// or mcp:// address")),
        };
        Ok(Self::new(wire, Place::Tcp(rest.trim_end_matches('/').into())))
    }
}

/// The text of a request.
#[must_use]
pub fn request(id: &Value, method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}

/// Returns the header of a client's frame. Its mask is zero, so that the payload stays as it is.
#[must_use]
pub fn header(first: u8, length: usize) -> Vec<u8> {
    let length = (length as u64).to_be_bytes();
    match length {
        [0, 0, 0, 0, 0, 0, 0, short @ ..=125] => vec![first, 0x80 | short, 0, 0, 0, 0],
        _ => [&[first, 0x80 | 127][..], &length, &[0; 4]].concat(),
    }
}

impl Wire {
    /// A message as it is sent.
    #[must_use]
    pub fn framed(self, text: &str) -> Vec<u8> {
        match self {
            Self::Mcp | Self::Lines => [text, "\n"].concat().into(),
            _ => [&self.announced(text.len())[..], text.as_bytes()].concat(),
        }
    }

    /// Returns the bytes before a message of this length. A line has none.
    #[must_use]
    pub fn announced(self, length: usize) -> Vec<u8> {
        match self {
            Self::WebSocket => header(0x81, length),
            Self::Lsp => format!("Content-Length: {length}\r\n\r\n").into(),
            Self::Mcp | Self::Lines => Vec::new(),
        }
    }

    /// A request for one of the two methods, as it is sent.
    #[must_use]
    pub fn call(self, id: &Value, method: &str, params: &Value) -> Vec<u8> {
        self.framed(&match self {
            Self::Mcp => request(id, "tools/call", &json!({ "name": method, "arguments": params })),
            _ => request(id, method, params),
        })
    }

    /// A notification that means nothing, as it is sent.
    #[must_use]
    pub fn notification(self) -> Vec<u8> {
        let method = if self == Self::Mcp { "notifications/n" } else { "n" };
        self.framed(&json!({ "jsonrpc": "2.0", "method": method }).to_string())
    }

    /// Returns a client's first request, and the notification that follows its response.
    fn opening(self) -> Option<[String; 2]> {
        let told = |method| json!({ "jsonrpc": "2.0", "method": method, "params": {} }).to_string();
        match self {
            Self::WebSocket | Self::Lines => None,
            Self::Lsp => Some([
                request(&json!(0), "initialize", &json!({ "capabilities": {} })),
                told("initialized"),
            ]),
            Self::Mcp => {
                let client = json!({ "name": "attack", "version": "0" });
                let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
                Some([
                    request(&json!(0), "initialize", &params),
                    json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string(),
                ])
            }
        }
    }
}

impl Target {
    const fn new(wire: Wire, place: Place) -> Self {
        Self { wire, place, is_read: false }
    }

    /// A process that reads lines, and writes them.
    #[must_use]
    pub fn pipes(stdin: ChildStdin, stdout: ChildStdout) -> Self {
        Self::new(Wire::Lines, Place::Pipes(Arc::new(Mutex::new(Some((stdin, stdout))))))
    }

    /// A server on a WebSocket over TLS, on this port of this machine.
    #[must_use]
    pub fn secure(port: &str, trust: Arc<ClientConfig>) -> Self {
        Self::new(Wire::WebSocket, Place::Tls(format!("localhost:{port}"), trust))
    }

    /// The same, with each record of TLS as short as can be.
    #[must_use]
    pub fn in_tiny_records(&self) -> Self {
        let mut target = self.clone();
        if let Place::Tls(_, trust) = &mut target.place {
            Arc::make_mut(trust).max_fragment_size = Some(TINIEST);
        }
        target
    }

    /// Returns the same target with a client that reads the server's output.
    #[must_use]
    pub fn read(self) -> Self {
        Self { is_read: true, ..self }
    }

    /// A socket, and nothing said on it, no TLS either.
    ///
    /// # Errors
    ///
    /// Nobody listens.
    pub fn socket(&self) -> io::Result<TcpStream> {
        let (Place::Tcp(authority) | Place::Tls(authority, _)) = &self.place else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let stream = TcpStream::connect(authority)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// Opens the stream of a client. Nothing is sent on it yet.
    ///
    /// # Errors
    ///
    /// Nobody listens, or the only client has come already.
    pub fn stream(&self) -> io::Result<Stream> {
        match &self.place {
            Place::Tcp(_) => self.socket().map(Stream::Tcp),
            Place::Tls(_, trust) => Stream::tls(self.socket()?, trust.clone()),
            Place::Pipes(pipes) => {
                let taken = pipes.lock().unwrap_or_else(PoisonError::into_inner).take();
                let (stdin, stdout) = taken.ok_or(io::ErrorKind::AlreadyExists)?;
                Stream::pipes(stdin, stdout)
            }
        }
    }

    /// A WebSocket.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn websocket(&self) -> io::Result<WebSocket<Stream>> {
        let opened = tungstenite::client("ws://localhost/", self.stream()?);
        Ok(opened.map_err(io::Error::other)?.0)
    }

    /// Opens a client that has sent the first messages of the protocol.
    ///
    /// # Errors
    ///
    /// It is not served.
    pub fn open(&self) -> io::Result<Client> {
        let line = match self.wire {
            Wire::WebSocket => Line::WebSocket(Box::new(self.websocket()?)),
            _ => Line::Plain(BufReader::new(self.stream()?)),
        };
        let mut client = Client { wire: self.wire, line };
        if self.is_read {
            client.stream().read_beside()?;
        }
        if let Some([first, then]) = self.wire.opening() {
            client.send(&self.wire.framed(&first))?;
            client.take()?;
            client.send(&self.wire.framed(&then))?;
        }
        Ok(client)
    }
}

/// A client that sends what it likes.
#[derive(Debug)]
pub struct Client {
    wire: Wire,
    line: Line,
}

#[derive(Debug)]
enum Line {
    WebSocket(Box<WebSocket<Stream>>),
    Plain(BufReader<Stream>),
}

impl Client {
    /// Returns the stream that it sends on.
    pub fn stream(&mut self) -> &mut Stream {
        match &mut self.line {
            Line::WebSocket(socket) => socket.get_mut(),
            Line::Plain(reader) => reader.get_mut(),
        }
    }

    /// Sends bytes.
    ///
    /// # Errors
    ///
    /// They are not taken.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream().write_all(bytes)
    }

    /// Asks for an echo, and waits for its answer, which has the same id.
    ///
    /// # Errors
    ///
    /// None comes, or another.
    pub fn ask(&mut self) -> io::Result<()> {
        self.send(&self.wire.call(&json!(7), "echo", &json!({ "text": "a" })))?;
        loop {
            let answer: Value = serde_json::from_str(&self.take()?)?;
            if answer["id"] == 7 {
                let is_result = answer.get("result").is_some();
                return if is_result { Ok(()) } else { Err(io::Error::other(answer.to_string())) };
            }
        }
    }

    /// The next message.
    fn take(&mut self) -> io::Result<String> {
        let reader = match &mut self.line {
            Line::WebSocket(socket) => loop {
                match socket.read().map_err(io::Error::other)? {
                    Message::Text(text) => return Ok(text.to_string()),
                    Message::Close(_) => return Err(io::ErrorKind::ConnectionReset.into()),
                    _ => {}
                }
            },
            Line::Plain(reader) => reader,
        };
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let Some(length) = line.strip_prefix("Content-Length: ") else { return Ok(line) };
        let length = length.trim().parse().map_err(io::Error::other)?;
        while reader.read_line(&mut String::new())? > 2 {}
        let mut text = vec![0; length];
        reader.read_exact(&mut text)?;
        String::from_utf8(text).map_err(io::Error::other)
    }
}
