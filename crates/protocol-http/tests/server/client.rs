//! A client that is bytes on a stream, so that a test can break it off anywhere.

use std::time::Duration;

use protocol_http::{Decoder, SseEvent, comment};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream, duplex};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use protocol_http::server::Server;

/// A request that was sent on a connection of its own.
pub(crate) struct Exchange {
    stream: BufReader<DuplexStream>,
    connection: JoinHandle<()>,
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    decoder: Decoder,
    unread: Vec<u8>,
    is_over: bool,
}

/// A request that has no head of a response yet.
pub(crate) struct Sent {
    stream: BufReader<DuplexStream>,
    connection: JoinHandle<()>,
}

pub(crate) type Headers<'a> = &'a [(&'a str, &'a str)];

/// Sends a request, and waits for the head of its response.
pub(crate) async fn send(
    server: &Server,
    method: &str,
    headers: Headers<'_>,
    body: &str,
) -> Exchange {
    begin(server, method, headers, body).await.head().await
}

/// Sends a POST with these bytes behind its head, which has no other length than that of `headers`.
pub(crate) async fn begin_raw(server: &Server, headers: Headers<'_>, bytes: &str) -> Sent {
    write(server, "POST", headers, bytes, String::new()).await
}

/// Sends a request.
pub(crate) async fn begin(server: &Server, method: &str, headers: Headers<'_>, body: &str) -> Sent {
    let length = format!("content-length: {}\r\n", body.len());
    write(server, method, headers, body, length).await
}

async fn write(
    server: &Server,
    method: &str,
    headers: Headers<'_>,
    body: &str,
    length: String,
) -> Sent {
    let (near, far) = duplex(64 << 10);
    let server = server.clone();
    let connection = tokio::spawn(async move { server.serve_connection(far).await });
    let mut stream = BufReader::new(near);
    let path = headers.iter().find(|(name, _)| *name == ":path").map_or("/mcp", |(_, it)| it);
    let mut head = format!("{method} {path} HTTP/1.1\r\n{length}");
    let named = |name: &str| headers.iter().any(|(other, _)| *other == name);
    for (name, value) in [
        ("host", "localhost"),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
    ] {
        if !named(name) {
            head += &format!("{name}: {value}\r\n");
        }
    }
    for (name, value) in headers.iter().filter(|(name, _)| !name.starts_with(':')) {
        head += &format!("{name}: {value}\r\n");
    }
    stream.write_all(format!("{head}\r\n{body}").as_bytes()).await.unwrap();
    Sent { stream, connection }
}

impl Sent {
    /// Waits for the head.
    pub(crate) async fn head(mut self) -> Exchange {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).await.unwrap();
            match line.trim_end() {
                "" => break,
                line => lines.push(line.to_owned()),
            }
        }
        let status = lines[0].split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines[1..].iter().filter_map(|line| line.split_once(": "));
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Exchange {
            stream: self.stream,
            connection: self.connection,
            status,
            headers,
            decoder: Decoder::new(4 << 20),
            unread: Vec::new(),
            is_over: false,
        }
    }

    /// Sends more of the body, once the server reads it.
    pub(crate) async fn more(&mut self, bytes: &str) {
        self.stream.write_all(bytes.as_bytes()).await.unwrap();
    }

    /// Reads so many bytes, 8 KiB each time.
    pub(crate) async fn read_slowly(mut self, bytes: usize, pause: Duration) {
        let mut piece = [0; 8 << 10];
        for _ in 0..bytes / piece.len() {
            sleep(pause).await;
            self.stream.read_exact(&mut piece).await.unwrap();
        }
    }

    /// Waits until the server ends the connection, without a byte being read.
    pub(crate) async fn await_end(self) {
        self.connection.await.unwrap();
    }

    /// Closes the connection, and waits until the server has noticed.
    pub(crate) async fn lose(self) {
        drop(self.stream);
        self.connection.await.unwrap();
    }
}

impl Exchange {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| &**value)
    }

    /// Reads the whole body.
    pub(crate) async fn body(mut self) -> String {
        while self.read().await {}
        String::from_utf8(self.unread).unwrap()
    }

    /// Reads the data of the next event that has some. `None` at the end.
    pub(crate) async fn event(&mut self) -> Option<String> {
        loop {
            let mut bytes = &*self.unread;
            let event = self.decoder.receive(&mut bytes).unwrap();
            let used = self.unread.len() - bytes.len();
            self.unread.drain(..used);
            match event {
                Some(SseEvent::Message(data)) if !data.is_empty() => return Some(data),
                Some(_) => {}
                None if !self.read().await => return None,
                None => {}
            }
        }
    }

    /// Reads a comment, which is all that comes.
    pub(crate) async fn comment(&mut self) {
        while self.unread.is_empty() {
            assert!(self.read().await);
        }
        let came: Vec<u8> = self.unread.drain(..comment().len()).collect();
        assert_eq!(came, comment());
    }

    /// Waits until the server ends the connection, without a byte being read.
    pub(crate) async fn await_end(self) {
        self.connection.await.unwrap();
    }

    /// Reads comments and events until there is an id.
    pub(crate) async fn last_event_id(&mut self) -> String {
        while self.decoder.last_event_id().is_empty() {
            assert!(self.read().await);
            let mut bytes = &*self.unread;
            while self.decoder.receive(&mut bytes).unwrap().is_some() {}
            self.unread.clear();
        }
        self.decoder.last_event_id().to_owned()
    }

    /// Reads a piece of the body, and returns whether there is one.
    async fn read(&mut self) -> bool {
        if self.is_over {
            return false;
        }
        if let Some(len) = self.header("content-length").map(|it| it.parse().unwrap()) {
            let mut body = vec![0; len];
            self.stream.read_exact(&mut body).await.unwrap();
            (self.unread, self.is_over) = (body, true);
            return true;
        }
        if self.header("transfer-encoding").is_none() {
            self.is_over = true;
            return false;
        }
        let mut line = String::new();
        self.stream.read_line(&mut line).await.unwrap();
        let len = usize::from_str_radix(line.trim_end(), 16).expect("the body is not broken off");
        let mut piece = vec![0; len + 2];
        self.stream.read_exact(&mut piece).await.unwrap();
        self.unread.extend(&piece[..len]);
        self.is_over = len == 0;
        len > 0
    }

    /// Closes the connection, and waits until the server has noticed.
    pub(crate) async fn lose(self) {
        drop(self.stream);
        self.connection.await.unwrap();
    }
}
