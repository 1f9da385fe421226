//! How a server is spoken to.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::str::FromStr;

use serde_json::{Value, json};
use tungstenite::{Message, WebSocket};

use crate::PATIENCE;

/// What messages are told apart by on a server's socket, and what is said there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// Plain JSON-RPC over a WebSocket: `ws://`.
    WebSocket,
    /// LSP's header before each message, over TCP: `lsp://`.
    Lsp,
    /// A message a line, over TCP, and MCP's `tools/call`: `mcp://`.
    Mcp,
}

/// A server that listens. It has the methods `echo`, which answers with its params, and `sleep`, which takes `ms`
/// milliseconds; over MCP these are tools.
#[derive(Clone, Debug)]
pub struct Target {
    /// How it is spoken to.
    pub wire: Wire,
    authority: String,
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
        Ok(Self { wire, authority: rest.trim_end_matches('/').into() })
    }
}

/// The text of a request.
#[must_use]
pub fn request(id: &Value, method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}

/// The header of a client's frame. Its mask is zero, so that what follows is as it is.
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
            Self::Mcp => [text, "\n"].concat().into(),
            _ => [&self.announced(text.len())[..], text.as_bytes()].concat(),
        }
    }

    /// What comes before a message of this length. A line is not announced.
    #[must_use]
    pub fn announced(self, length: usize) -> Vec<u8> {
        match self {
            Self::WebSocket => header(0x81, length),
            Self::Lsp => format!("Content-Length: {length}\r\n\r\n").into(),
            Self::Mcp => Vec::new(),
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

    /// What a client says first, which is answered, and then.
    fn opening(self) -> Option<[String; 2]> {
        let told = |method| json!({ "jsonrpc": "2.0", "method": method, "params": {} }).to_string();
        match self {
            Self::WebSocket => None,
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
    /// A socket, and nothing said on it.
    ///
    /// # Errors
    ///
    /// Nobody listens.
    pub fn stream(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect(&self.authority)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// A WebSocket.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn websocket(&self) -> io::Result<WebSocket<TcpStream>> {
        let url = format!("ws://{}/", self.authority);
        let opened = tungstenite::client(url, self.stream()?);
        Ok(opened.map_err(io::Error::other)?.0)
    }

    /// A client who has said what comes first.
    ///
    /// # Errors
    ///
    /// It is not served.
    pub fn open(&self) -> io::Result<Client> {
        let line = match self.wire {
            Wire::WebSocket => Line::WebSocket(Box::new(self.websocket()?)),
            _ => Line::Tcp(BufReader::new(self.stream()?)),
        };
        let mut client = Client { wire: self.wire, line };
        if let Some([first, then]) = self.wire.opening() {
            client.send(&self.wire.framed(&first))?;
            client.take()?;
            client.send(&self.wire.framed(&then))?;
        }
        Ok(client)
    }
}

/// Who sends what it likes.
#[derive(Debug)]
pub struct Client {
    wire: Wire,
    line: Line,
}

#[derive(Debug)]
enum Line {
    WebSocket(Box<WebSocket<TcpStream>>),
    Tcp(BufReader<TcpStream>),
}

impl Client {
    /// The socket.
    pub fn stream(&mut self) -> &mut TcpStream {
        match &mut self.line {
            Line::WebSocket(socket) => socket.get_mut(),
            Line::Tcp(reader) => reader.get_mut(),
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
            Line::Tcp(reader) => reader,
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
