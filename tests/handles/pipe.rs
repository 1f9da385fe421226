//! A pipe in memory, of any capacity, that counts the writes.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use futures_io::{AsyncRead, AsyncWrite};

/// As much as anyone writes.
pub(crate) const ENDLESS: usize = usize::MAX;

#[derive(Default)]
struct State {
    bytes: VecDeque<u8>,
    capacity: usize,
    writes: usize,
    is_closed: bool,
    is_unread: bool,
    /// The error of a read, once everything that was written is read.
    failure: Option<io::ErrorKind>,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

pub(crate) struct PipeReader(Arc<Mutex<State>>);

pub(crate) struct PipeWriter(Arc<Mutex<State>>);

pub(crate) fn pipe(capacity: usize) -> (PipeReader, PipeWriter) {
    let state = Arc::new(Mutex::new(State { capacity, ..State::default() }));
    (PipeReader(state.clone()), PipeWriter(state))
}

impl PipeReader {
    /// Returns the number of writes so far.
    pub(crate) fn writes(&self) -> usize {
        self.0.lock().unwrap().writes
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl AsyncRead for PipeReader {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        room: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut state = self.0.lock().unwrap();
        if let Some(failure) = state.failure.filter(|_| state.bytes.is_empty()) {
            return Poll::Ready(Err(failure.into()));
        }
        if state.bytes.is_empty() && !state.is_closed {
            state.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let read = io::Read::read(&mut state.bytes, room);
        let writer = state.writer.take();
        drop(state);
        wake(writer);
        Poll::Ready(read)
    }
}

impl Drop for PipeReader {
    fn drop(&mut self) {
        let mut state = self.0.lock().unwrap();
        state.is_unread = true;
        let writer = state.writer.take();
        drop(state);
        wake(writer);
    }
}

impl AsyncWrite for PipeWriter {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut state = self.0.lock().unwrap();
        if state.is_unread {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let room = state.capacity - state.bytes.len();
        if room == 0 {
            state.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let taken = room.min(bytes.len());
        state.bytes.extend(&bytes[..taken]);
        state.writes += 1;
        let reader = state.reader.take();
        drop(state);
        wake(reader);
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.0.lock().unwrap();
        state.is_closed = true;
        let reader = state.reader.take();
        drop(state);
        wake(reader);
        Poll::Ready(Ok(()))
    }
}

impl PipeWriter {
    /// Makes reads fail, once everything that was written is read.
    pub(crate) fn fail(self, failure: io::ErrorKind) {
        self.0.lock().unwrap().failure = Some(failure);
    }
}

impl Drop for PipeWriter {
    fn drop(&mut self) {
        let mut state = self.0.lock().unwrap();
        state.is_closed = true;
        let reader = state.reader.take();
        drop(state);
        wake(reader);
    }
}
