//! A response, between the driver of a session and hyper.

use std::error::Error;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use protocol_async::hub::Charge;
use protocol_core::{Cause, WireId};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::link::{Link, Unsent, break_off, change};
use crate::endpoint::lock;
use crate::post::Posted;
use crate::refusal::Refusal;
use crate::session::StreamId;

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

/// The head of a response, which comes once: the status if it is whole. Otherwise a stream of events begins.
type Head = Result<Option<u16>, Refusal>;

/// The end of a response that the driver of the session writes to. A response whose pipe is dropped is broken off.
#[derive(Debug)]
pub(super) struct Pipe {
    shared: Arc<Mutex<Unsent>>,
    head: Option<oneshot::Sender<Head>>,
    link: Arc<Link>,
}

/// The body of a response.
///
/// hyper drops it when the client has gone, and that is how the loss of a stream is noticed.
#[derive(Debug)]
pub struct Body {
    shared: Arc<Mutex<Unsent>>,
    watch: Option<Watch>,
    /// The task that looks whether the client reads, where the connection is the host's.
    pub(super) looks: JoinSet<()>,
}

/// The place where the loss of a response is reported. The loss of one that was ended means nothing.
#[derive(Debug)]
struct Watch {
    stream: StreamId,
    commands: UnboundedSender<Command>,
    link: Arc<Link>,
}

/// Makes both ends of a response on this connection.
pub(super) fn pipe(
    stream: StreamId,
    commands: UnboundedSender<Command>,
    link: Arc<Link>,
) -> (Pipe, oneshot::Receiver<Head>, Body) {
    let shared = Arc::<Mutex<Unsent>>::default();
    let (head, heard) = oneshot::channel();
    link.watch(shared.clone());
    let watch = Some(Watch { stream, commands, link: link.clone() });
    let body = Body { shared: shared.clone(), watch, looks: JoinSet::new() };
    (Pipe { shared, head: Some(head), link }, heard, body)
}

impl Pipe {
    /// Begins a stream of events.
    pub(super) fn begin(&mut self) {
        self.answer(Ok(None));
    }

    /// Sends a whole response. The head leaves with the body, so that its length is known.
    pub(super) fn respond(mut self, status: u16, body: Vec<u8>) {
        if !body.is_empty() {
            self.write(body);
        }
        change(&self.shared, |it| it.is_ended = true);
        self.answer(Ok(Some(status)));
    }

    /// Refuses the request.
    pub(super) fn refuse(mut self, refusal: Refusal) {
        self.answer(Err(refusal));
    }

    /// Adds bytes, and returns the number of those that hyper did not take.
    pub(super) fn write(&self, bytes: Vec<u8>) -> usize {
        // Its charge may wake others, so no lock is held here.
        let piece = self.link.piece(bytes);
        change(&self.shared, |it| {
            it.push(piece);
            it.waiting()
        })
    }

    /// Ends the body.
    pub(super) fn end(self) {
        change(&self.shared, |it| it.is_ended = true);
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

    fn answer(&mut self, head: Head) {
        // A client that has gone needs no head.
        let _ = self.head.take().map(|heard| heard.send(head));
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
        Self { shared: Arc::new(Mutex::new(whole)), watch: None, looks: JoinSet::new() }
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
        let shared = lock(&self.shared);
        shared.is_ended && !shared.is_broken && shared.pieces.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        let shared = lock(&self.shared);
        let len = shared.is_ended.then_some(shared.bytes as u64);
        len.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// An error of the body of a request.
pub(super) type BoxError = Box<dyn Error + Send + Sync>;
