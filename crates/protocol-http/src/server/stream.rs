//! The body of a response, between the driver of a session and hyper.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::error::Error;
use core::fmt;
use core::mem;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::sync::{Mutex, MutexGuard};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use protocol_async::hub::Charge;
use protocol_core::{Cause, WireId};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use super::link::Link;
use super::unsent::{Unsent, lock, piece};
use crate::post::Posted;
use crate::refusal::Refusal;
use crate::session::{ResponseHead, StreamId};

/// An input of the driver of a session.
#[derive(Debug)]
pub(super) enum Command {
    /// A body was posted.
    Post { stream: StreamId, pipe: Pipe, posted: Posted, accepts_events: bool, charge: Charge },
    /// The client listens, or resumes a stream.
    Get { stream: StreamId, pipe: Pipe, scope: Option<String>, last_event_id: Option<String> },
    /// The client ends the session, and waits until that is done.
    Delete(oneshot::Sender<()>),
    /// hyper has no use for a response any more.
    Lost(StreamId),
    /// The endpoint cancelled a request.
    Cancelled(WireId, Cause),
    /// The handler has had its first turn.
    Begun,
}

/// The end of a response that the driver of the session writes to. A response whose pipe is dropped is broken off.
#[derive(Debug)]
pub(super) struct Pipe {
    shared: Arc<Mutex<Unsent>>,
    answer: Option<oneshot::Sender<Result<ResponseHead, Refusal>>>,
    /// A head that leaves with the whole body, so that its length is known.
    held: Option<ResponseHead>,
    link: Arc<Link>,
}

/// The body of a response.
///
/// hyper drops it when the client has gone, and that is how the loss of a stream is noticed.
#[derive(Debug)]
pub struct Body(Content);

#[derive(Debug)]
enum Content {
    Whole(Bytes),
    Stream(Arc<Mutex<Unsent>>, #[allow(dead_code, reason = "it reports that it is dropped")] Watch),
}

/// Reports the loss of a response when it is dropped. Of one that was ended this means nothing.
#[derive(Debug)]
struct Watch {
    stream: StreamId,
    commands: UnboundedSender<Command>,
    shared: Arc<Mutex<Unsent>>,
    link: Arc<Link>,
}

/// The server broke a response off: the client reads nothing, or the server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokenOff;

/// A receiver of the head, which comes once.
pub(super) type Answer = oneshot::Receiver<Result<ResponseHead, Refusal>>;

/// Makes both ends of a response on this connection.
pub(super) fn pipe(
    stream: StreamId,
    commands: UnboundedSender<Command>,
    link: Arc<Link>,
) -> (Pipe, Answer, Body) {
    let shared = Arc::<Mutex<Unsent>>::default();
    let (answer, answered) = oneshot::channel();
    let watch = Watch { stream, commands, shared: shared.clone(), link: link.clone() };
    let pipe = Pipe { shared: shared.clone(), answer: Some(answer), held: None, link };
    (pipe, answered, Body(Content::Stream(shared, watch)))
}

impl Pipe {
    /// Sends the head. One with a body of its own waits for that.
    pub(super) fn respond(&mut self, head: ResponseHead) {
        match head {
            ResponseHead::Events => self.answer(Ok(head)),
            ResponseHead::Json(_) | ResponseHead::Accepted => self.held = Some(head),
        }
    }

    /// Refuses the request.
    pub(super) fn refuse(mut self, refusal: Refusal) {
        self.answer(Err(refusal));
    }

    /// Adds bytes, and returns the number of those that hyper did not take.
    pub(super) fn write(&self, bytes: Vec<u8>) -> usize {
        let piece = piece(bytes, self.link.charge());
        let mut shared = lock(&self.shared);
        shared.push(piece);
        let waiting = shared.waiting();
        wake(shared);
        waiting
    }

    /// Ends the body.
    pub(super) fn end(mut self) {
        let mut shared = lock(&self.shared);
        shared.is_ended = true;
        wake(shared);
        if let Some(head) = self.held.take() {
            self.answer(Ok(head));
        }
    }

    /// Returns whether hyper takes the bytes, and has the waker woken when it does.
    pub(super) fn has_room(&self, most: usize, waker: &Waker) -> bool {
        let mut shared = lock(&self.shared);
        let has_room = shared.waiting() <= most;
        if !has_room {
            shared.writer = Some(waker.clone());
        }
        has_room
    }

    /// Returns a number that changes whenever the client reads something.
    pub(super) fn read(&self) -> u64 {
        self.link.read(&self.shared)
    }

    /// Breaks the response off, and ends its connection.
    pub(super) fn kill(self) {
        self.link.kill();
    }

    fn answer(&mut self, head: Result<ResponseHead, Refusal>) {
        // A client that has gone needs no head.
        let _ = self.answer.take().map(|answer| answer.send(head));
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        // From now on the connection watches that the client takes the rest.
        self.link.watch(&self.shared);
        let mut shared = lock(&self.shared);
        shared.is_broken = !shared.is_ended;
        let is_dropped = shared.is_dropped;
        wake(shared);
        if is_dropped {
            self.link.forget(&self.shared);
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        lock(&self.shared).is_dropped = true;
        self.link.forget(&self.shared);
        // The session may be over.
        let _ = self.commands.send(Command::Lost(self.stream));
    }
}

impl Body {
    /// A body that is there.
    pub(super) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self(Content::Whole(bytes.into()))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        let shared = match &mut self.0 {
            Content::Whole(bytes) => {
                let bytes = mem::take(bytes);
                return Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))));
            }
            Content::Stream(shared, _) => shared,
        };
        let mut shared = lock(shared);
        if shared.is_broken {
            return Poll::Ready(Some(Err(BrokenOff)));
        }
        if let Some(piece) = shared.pop() {
            let writer = shared.writer.take();
            drop(shared);
            writer.into_iter().for_each(Waker::wake);
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        if shared.is_ended {
            return Poll::Ready(None);
        }
        shared.reader = Some(cx.waker().clone());
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Content::Whole(bytes) => bytes.is_empty(),
            Content::Stream(shared, _) => lock(shared).is_taken(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        let len = match &self.0 {
            Content::Whole(bytes) => Some(bytes.len()),
            Content::Stream(shared, _) => {
                let shared = lock(shared);
                shared.is_ended.then_some(shared.bytes)
            }
        };
        len.map_or_else(SizeHint::default, |len| SizeHint::with_exact(len as u64))
    }
}

/// Wakes the reader without the lock.
fn wake(mut shared: MutexGuard<'_, Unsent>) {
    let reader = shared.reader.take();
    drop(shared);
    reader.into_iter().for_each(Waker::wake);
}

impl fmt::Display for BrokenOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the server broke the response off")
    }
}

impl Error for BrokenOff {}

/// An error of the body of a request.
pub(super) type BoxError = Box<dyn Error + Send + Sync>;
