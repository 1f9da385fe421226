//! The far end of a connection, played by hand: it writes lines and reads lines.

use std::future::poll_fn;
use std::pin::Pin;

use futures_io::{AsyncRead, AsyncWrite};

use crate::pipe::{PipeReader, PipeWriter};

pub(crate) struct Far {
    reader: Option<PipeReader>,
    writer: Option<PipeWriter>,
    unread: Vec<u8>,
}

impl Far {
    pub(crate) fn new(reader: PipeReader, writer: PipeWriter) -> Self {
        Self { reader: Some(reader), writer: Some(writer), unread: Vec::new() }
    }

    /// Returns the number of writes on the connection's side so far.
    pub(crate) fn writes(&self) -> usize {
        self.reader.as_ref().expect("it reads").writes()
    }

    /// Writes messages, in one write if the pipe has room.
    pub(crate) async fn send(&mut self, messages: &[&str]) {
        let bytes: String = messages.iter().flat_map(|message| [*message, "\n"]).collect();
        let mut rest = bytes.as_bytes();
        while !rest.is_empty() {
            let writer = self.writer.as_mut().expect("it is open");
            let written = poll_fn(|cx| Pin::new(&mut *writer).poll_write(cx, rest)).await.unwrap();
            rest = &rest[written..];
        }
    }

    /// Says that nothing more comes.
    pub(crate) fn close(&mut self) {
        self.writer = None;
    }

    /// Makes the connection's reads fail, once all that this end wrote is read.
    pub(crate) fn fail(&mut self, failure: std::io::ErrorKind) {
        self.writer.take().expect("it is open").fail(failure);
    }

    /// Stops reading. Its output can still be read.
    pub(crate) fn stop_reading(&mut self) {
        self.reader = None;
    }

    /// Reads the bytes that are there, at least one; `false` at the end.
    pub(crate) async fn read(&mut self) -> bool {
        let mut bytes = [0; 4 << 10];
        let reader = self.reader.as_mut().expect("it reads");
        let read = poll_fn(|cx| Pin::new(&mut *reader).poll_read(cx, &mut bytes)).await;
        let read = read.unwrap();
        self.unread.extend(&bytes[..read]);
        read > 0
    }

    /// Reads the next message; `None` at the end.
    pub(crate) async fn line(&mut self) -> Option<String> {
        let mut seen = 0;
        loop {
            if let Some(end) = self.unread[seen..].iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=seen + end).collect();
                return Some(String::from_utf8(line).unwrap().trim_end().to_owned());
            }
            seen = self.unread.len();
            if !self.read().await {
                assert!(self.unread.is_empty(), "half a message");
                return None;
            }
        }
    }

    /// Reads the next message, which is this one.
    pub(crate) async fn expect(&mut self, message: &str) {
        assert_eq!(self.line().await.as_deref(), Some(message));
    }
}
