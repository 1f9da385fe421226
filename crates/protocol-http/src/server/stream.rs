//! The body of a response, between the driver of a session and hyper.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::error::Error;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::io;
use std::sync::{Mutex, MutexGuard};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use protocol_async::hub::Charge;
use protocol_core::{Cause, WireId};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use super::link::Link;
use super::unsent::{Unsent, break_off, lock, piece};
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
pub struct Body {
    shared: Arc<Mutex<Unsent>>,
    watch: Option<Watch>,
}

/// The place where the loss of a response is reported. The loss of one that was ended means nothing.
#[derive(Debug)]
struct Watch {
    stream: StreamId,
    commands: UnboundedSender<Command>,
    link: Arc<Link>,
    _looks: Option<oneshot::Sender<()>>,
}

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
    link.watch(shared.clone());
    let looks = link.patience.map(|(patience, most)| {
        let (gone, is_gone) = oneshot::channel();
        let (link, commands) = (link.clone(), commands.clone());
        tokio::spawn(async move {
            tokio::select! {
                _ = is_gone => {}
                // The session may be over.
                () = link.unread(patience, most) => drop(commands.send(Command::Lost(stream))),
            }
        });
        gone
    });
    let watch = Watch { stream, commands, link: link.clone(), _looks: looks };
    let pipe = Pipe { shared: shared.clone(), answer: Some(answer), held: None, link };
    (pipe, answered, Body { shared, watch: Some(watch) })
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

    /// Returns the number of bytes that hyper did not take, if they are more than `most`, and has the waker woken when it
    /// takes some.
    pub(super) fn unread(&self, most: usize, waker: &Waker) -> Option<usize> {
        let mut shared = lock(&self.shared);
        let is_broken = shared.is_broken;
        let unread = Some(shared.waiting()).filter(|waiting| is_broken || *waiting > most);
        if unread.is_some() {
            shared.writer = Some(waker.clone());
        }
        unread
    }

    /// Returns whether the connection has broken it off.
    pub(super) fn is_broken(&self) -> bool {
        lock(&self.shared).is_broken
    }

    fn answer(&mut self, head: Result<ResponseHead, Refusal>) {
        // A client that has gone needs no head.
        let _ = self.answer.take().map(|answer| answer.send(head));
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        if !lock(&self.shared).is_ended {
            break_off(&self.shared);
        }
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        let Some(watch) = &self.watch else { return };
        watch.link.forget(&self.shared);
        // The session may be over.
        let _ = watch.commands.send(Command::Lost(watch.stream));
    }
}

impl Body {
    /// A body that is there.
    pub(super) fn whole(bytes: impl Into<Bytes>) -> Self {
        let mut whole = Unsent::default();
        whole.push(bytes.into());
        whole.is_ended = true;
        Self { shared: Arc::new(Mutex::new(whole)), watch: None }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let mut shared = lock(&self.shared);
        if shared.is_broken {
            let why = "the server broke the response off";
            return Poll::Ready(Some(Err(io::Error::new(io::ErrorKind::ConnectionAborted, why))));
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
        lock(&self.shared).is_taken()
    }

    fn size_hint(&self) -> SizeHint {
        let shared = lock(&self.shared);
        let len = shared.is_ended.then_some(shared.bytes as u64);
        len.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// Wakes the reader without the lock.
fn wake(mut shared: MutexGuard<'_, Unsent>) {
    let reader = shared.reader.take();
    drop(shared);
    reader.into_iter().for_each(Waker::wake);
}

/// An error of the body of a request.
pub(super) type BoxError = Box<dyn Error + Send + Sync>;
