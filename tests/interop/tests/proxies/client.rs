//! A client that is bytes on a socket, so that a test can end it in any way.

use std::net::SocketAddr;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The version of HTTP that a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    Http1,
    /// HTTP/2 without TLS, by prior knowledge.
    Http2,
}

/// The body that a client accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accepts {
    Events,
    Json,
}

/// The way in which a client ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It closes its connection, with a FIN.
    Close,
    /// It resets its connection, with an RST.
    Reset,
    /// It ends the writing side of its connection, and reads on.
    HalfClose,
    /// It resets the stream of HTTP/2, and keeps its connection.
    ResetStream,
}

/// A client with one request.
pub(crate) struct Client {
    stream: TcpStream,
    version: Version,
    /// The bytes of frames that are not whole yet.
    frames: Vec<u8>,
    /// The bytes of the body, with those of its framing in HTTP/1.1.
    body: Vec<u8>,
}

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const CANCEL: [u8; 4] = [0, 0, 0, 8];

impl Client {
    /// Sends a request with this name.
    pub(crate) async fn new(
        address: SocketAddr,
        version: Version,
        accepts: Accepts,
        name: &str,
    ) -> Self {
        let mut stream = TcpStream::connect(address).await.expect("the proxy listens");
        let revision = "2026-07-28";
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": revision,
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let params = json!({ "name": name, "_meta": meta });
        let request = json!({ "jsonrpc": "2.0", "id": name, "method": "wait", "params": params });
        let (body, host) = (request.to_string(), address.to_string());
        let length = body.len().to_string();
        let accept = match accepts {
            Accepts::Events => "application/json, text/event-stream",
            Accepts::Json => "application/json",
        };
        let headers = [
            ("accept", accept),
            ("content-type", "application/json"),
            ("content-length", &length),
            ("mcp-protocol-version", revision),
            ("mcp-method", "wait"),
        ];
        let bytes = match version {
            Version::Http1 => {
                let lines = headers.map(|(name, value)| format!("{name}: {value}\r\n")).concat();
                format!("POST /mcp HTTP/1.1\r\nhost: {host}\r\n{lines}\r\n{body}").into_bytes()
            }
            Version::Http2 => {
                let first = [
                    (":method", "POST"),
                    (":scheme", "http"),
                    (":path", "/mcp"),
                    (":authority", &host),
                ];
                let block: Vec<u8> = first.iter().chain(&headers).flat_map(literal).collect();
                [
                    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
                    frame(SETTINGS, 0, 0, &[]),
                    frame(HEADERS, END_HEADERS, 1, &block),
                    frame(0, END_STREAM, 1, body.as_bytes()),
                ]
                .concat()
            }
        };
        stream.write_all(&bytes).await.expect("the proxy reads");
        Self { stream, version, frames: Vec::new(), body: Vec::new() }
    }

    /// Reads until the body holds this text. Returns whether it does.
    pub(crate) async fn read_until(&mut self, text: &str) -> bool {
        let is_there = |body: &[u8]| body.windows(text.len()).any(|part| part == text.as_bytes());
        while !is_there(&self.body) {
            let mut bytes = [0; 4096];
            match self.stream.read(&mut bytes).await {
                Ok(0) | Err(_) => return false,
                Ok(read) => self.take(&bytes[..read]).await,
            }
        }
        true
    }

    /// Reads one more comment. Returns whether one came.
    pub(crate) async fn comment(&mut self) -> bool {
        self.body.clear();
        self.read_until(":\n\n").await
    }

    async fn take(&mut self, bytes: &[u8]) {
        if self.version == Version::Http1 {
            self.body.extend_from_slice(bytes);
            return;
        }
        self.frames.extend_from_slice(bytes);
        while let Some((head, rest)) = self.frames.split_first_chunk::<9>() {
            let length =
                usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
            let Some(payload) = rest.get(..length) else { break };
            let (kind, flags) = (head[3], head[4]);
            match kind {
                0 => self.body.extend_from_slice(payload),
                GOAWAY | RST_STREAM => self.body.extend_from_slice(b"(broken off)"),
                SETTINGS if flags & ACK == 0 => {
                    // Once this client has ended its writing side, nobody waits for that.
                    let _ = self.stream.write_all(&frame(SETTINGS, ACK, 0, &[])).await;
                }
                _ => {}
            }
            self.frames.drain(..9 + length);
        }
    }

    /// Ends the client, and returns it if its connection is still there.
    pub(crate) async fn end(mut self, end: End) -> Option<Self> {
        // A socket that has unread bytes would be reset by its close.
        let mut bytes = [0; 4096];
        while let Ok(1..) = self.stream.try_read(&mut bytes) {}
        match end {
            End::Close => None,
            End::Reset => {
                self.stream.set_zero_linger().expect("the socket is open");
                None
            }
            End::HalfClose => {
                self.stream.shutdown().await.expect("the connection is there");
                Some(self)
            }
            End::ResetStream => {
                let reset = frame(RST_STREAM, 0, 1, &CANCEL);
                self.stream.write_all(&reset).await.expect("the connection is there");
                Some(self)
            }
        }
    }
}

/// Writes a header as HPACK's literal without indexing. Both parts are short.
fn literal((name, value): &(&str, &str)) -> Vec<u8> {
    let short = |text: &str| {
        let length = u8::try_from(text.len()).expect("it is short");
        assert!(length < 127, "a longer one has another form");
        [&[length], text.as_bytes()].concat()
    };
    [vec![0], short(name), short(value)].concat()
}

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("it is short").to_be_bytes();
    [&length[1..], &[kind, flags, 0, 0, 0, stream], payload].concat()
}
