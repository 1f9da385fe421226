//! A served connection, and its peer by hand.

use std::time::Duration;

use protocol_async::Incoming;
use protocol_core::{Config, Dialect};
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};

/// The peer of a served connection.
pub(crate) struct Far {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
}

/// Makes a connection whose driver is a task, and its peer.
pub(crate) fn against_far() -> (Incoming, Far) {
    let (near, far) = tokio::io::duplex(1 << 20);
    let (reader, writer) = tokio::io::split(near);
    let served = protocol_tokio::spawn(reader, writer, Config::server(Dialect::ACP_V1));
    let (reader, writer) = tokio::io::split(far);
    (served.incoming, Far { lines: BufReader::new(reader).lines(), writer })
}

impl Far {
    pub(crate) async fn send(&mut self, messages: &[String]) {
        let text: String = messages.iter().map(|message| format!("{message}\n")).collect();
        self.writer.write_all(text.as_bytes()).await.unwrap();
    }

    /// Returns the next line, or fails after a while.
    pub(crate) async fn line(&mut self) -> String {
        let line = tokio::time::timeout(Duration::from_secs(20), self.lines.next_line());
        line.await.expect("nothing comes").unwrap().expect("the input has ended")
    }

    pub(crate) async fn expect(&mut self, parts: &[&str]) {
        let line = self.line().await;
        assert!(parts.iter().all(|part| line.contains(part)), "{line} has not all of {parts:?}");
    }

    /// Returns what is left, once nothing more is sent.
    pub(crate) async fn rest(mut self) -> Vec<String> {
        self.writer.shutdown().await.unwrap();
        let mut rest = Vec::new();
        while let Some(line) = self.lines.next_line().await.unwrap() {
            rest.push(line);
        }
        rest
    }
}

pub(crate) fn request(id: usize, method: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":[{id}]}}"#)
}

pub(crate) fn notification(method: &str, n: usize) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":[{n}]}}"#)
}

pub(crate) fn cancel(id: usize) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"$/cancel_request","params":{{"requestId":{id}}}}}"#)
}

pub(crate) fn result(id: usize, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}
