//! One HTTP connection: the memory that it holds, its responses between the driver of a session and hyper, and its end.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::mem;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::Version;
use http_body::{Frame, SizeHint};
use protocol_async::hub::{Charge, Holder};
use protocol_async::{Account, Grant};
use tokio::sync::{oneshot, watch};
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;

use crate::endpoint::{Held, debug, lock};
use crate::refusal::Refusal;

/// The most bytes that hyper takes at a time, for it keeps what it took however slowly the client reads.
pub(super) const FRAME: usize = 64 << 10;
/// The bytes that a piece counts beside its own.
const PIECE: usize = size_of::<Held<Vec<u8>, Charge>>() + 3 * size_of::<Bytes>();

/// The references to a link that no stream has: those of the connection's task and of its transport.
const OWN: usize = 2;

/// One HTTP connection, as its requests and responses see it.
///
/// It draws on the account by itself: a body has no session before it is read, and a response may outlast its session.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) holder: Holder,
    /// Whether the account lets the connection read. Readers wait for it and not for the holder's grant, which may change
    /// twice before anybody looks.
    pub(super) may_read: watch::Sender<bool>,
    /// The bytes that the transport took, where the connection is ours.
    written: AtomicU64,
    /// Whether requests are HTTP/1. It is noted only where the connection is ours.
    is_http1: AtomicBool,
    /// The number of requests so far, where the connection is ours.
    requests: AtomicU64,
    /// The responses that somebody has a use for.
    responses: Mutex<Vec<Weak<Mutex<Unsent>>>>,
}

impl Link {
    pub(super) fn new(account: &Account) -> Arc<Self> {
        Arc::new(Self {
            holder: Holder::new(account),
            may_read: watch::Sender::new(true),
            written: AtomicU64::new(0),
            is_http1: AtomicBool::new(false),
            requests: AtomicU64::new(0),
            responses: Mutex::default(),
        })
    }

    /// Waits until the account revokes the grant of the connection, which has to end then, and returns the refusal of its
    /// request.
    ///
    /// Meanwhile it wakes those who wait to read, so one task has to run it.
    pub(super) async fn revoked(&self) -> Refusal {
        let mut grant = Grant::All;
        while grant != Grant::Revoked {
            grant = poll_fn(|cx| self.holder.poll_grant(grant, cx.waker())).await;
            self.may_read.send_replace(grant < Grant::NoReading);
        }
        Refusal::BUSY
    }

    /// Notes a request. Its version is that of all requests of a connection.
    pub(super) fn asked(&self, version: Version) {
        self.is_http1.store(version < Version::HTTP_2, Relaxed);
        self.requests.fetch_add(1, Relaxed);
    }

    /// Returns whether it is a connection of ours, and there was a request.
    pub(super) fn was_asked(&self) -> bool {
        self.requests.load(Relaxed) > 0
    }

    /// Waits until a connection has had no request for this time, or no stream for this time and at most twice that.
    ///
    /// hyper has a timer for the heads of HTTP/1 alone, and none before it knows the version.
    pub(super) async fn unused(self: &Arc<Self>, time: Duration) {
        let mut before = Some(0);
        loop {
            sleep(time).await;
            let is_unused = Arc::strong_count(self) == OWN && !self.is_http1.load(Relaxed);
            let now = is_unused.then(|| self.requests.load(Relaxed));
            if is_unused && now == before {
                return;
            }
            before = now;
        }
    }

    /// Notes that the transport took bytes.
    pub(super) fn wrote(&self, bytes: usize) {
        self.written.fetch_add(bytes as u64, Relaxed);
    }

    /// Waits until a client has read nothing of any response for `patience`, or twice that at most. Whole responses count,
    /// and those of which more than `most` bytes wait. They are lost. If it reads others, the connection goes on. That of a
    /// host has whole responses for as long as the host wants.
    ///
    /// hyper takes large pieces, so a slow client is seen by what the transport takes. The transport of HTTP/2 takes
    /// pings and other responses too, and that of a host is unknown, so there it is what hyper takes.
    pub(super) async fn unread(&self, patience: Duration, most: usize) {
        loop {
            sleep(patience).await;
            let responses: Vec<_> =
                lock(&self.responses).iter().filter_map(Weak::upgrade).collect();
            let unread: Vec<_> = responses.iter().filter(|it| self.is_unread(it, most)).collect();
            unread.iter().for_each(|it| break_off(it));
            if unread.len() == responses.len() && !unread.is_empty() {
                return;
            }
        }
    }

    /// Returns whether the client has read nothing of a response since this was asked last, and had to.
    fn is_unread(&self, response: &Mutex<Unsent>, most: usize) -> bool {
        let mut it = lock(response);
        let read = if self.is_http1.load(Relaxed) { self.written.load(Relaxed) } else { it.taken };
        // Nothing more can be sent before the client has read something.
        let waits =
            if it.is_ended { self.was_asked() } else { it.is_broken || it.waiting() > most };
        let read = waits.then_some(read);
        mem::replace(&mut it.looked, read) == read && read.is_some()
    }

    /// Makes both ends of a response, which is watched until nobody has a use for it.
    pub(super) fn pipe(
        self: Arc<Self>,
        lost: impl FnOnce() + Send + Sync + 'static,
    ) -> (Pipe, oneshot::Receiver<Head>, Body) {
        let shared = Arc::<Mutex<Unsent>>::default();
        let mut responses = lock(&self.responses);
        responses.retain(|it| it.strong_count() > 0);
        responses.push(Arc::downgrade(&shared));
        drop(responses);
        let (head, heard) = oneshot::channel();
        // The connection is in use until then.
        let used = self.clone();
        let lost = move || drop((lost(), used));
        let body = Body { shared: shared.clone(), lost: Some(Box::new(lost)), looks: None };
        (Pipe { shared, head: Some(head), link: self }, heard, body)
    }
}

/// Waits until an account lets a connection or a session read.
pub(super) async fn allowed(may_read: &watch::Sender<bool>) {
    // An error can't come: the sender is here.
    let _ = may_read.subscribe().wait_for(|it| *it).await;
}

/// A response as both of its ends see it: the part that hyper did not take.
#[derive(Debug, Default)]
struct Unsent {
    pieces: VecDeque<Bytes>,
    /// The sum of the lengths of all pieces.
    bytes: usize,
    /// The number of bytes that hyper took.
    taken: u64,
    is_ended: bool,
    is_broken: bool,
    /// The bytes that the client had read when the connection last looked, if the response waited for it.
    looked: Option<u64>,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Unsent {
    fn push(&mut self, piece: Bytes) {
        self.bytes += piece.len();
        self.pieces.extend((!piece.is_empty()).then_some(piece));
    }

    /// Takes a piece out, or a part of one that is long.
    fn pop(&mut self) -> Option<Bytes> {
        let mut piece = self.pieces.pop_front()?;
        if piece.len() > FRAME {
            self.pieces.push_front(piece.split_off(FRAME));
        }
        self.bytes -= piece.len();
        self.taken += piece.len() as u64;
        Some(piece)
    }

    /// Returns the bytes of the pieces, with those of their places.
    fn waiting(&self) -> usize {
        self.bytes + self.pieces.len() * PIECE
    }
}

/// Changes a response, and wakes both ends without the lock.
fn change<R>(response: &Mutex<Unsent>, change: impl FnOnce(&mut Unsent) -> R) -> R {
    let mut it = lock(response);
    let changed = change(&mut it);
    let ends = [it.reader.take(), it.writer.take()];
    drop(it);
    ends.into_iter().flatten().for_each(Waker::wake);
    changed
}

/// Breaks a response off. What is unsent is dropped without the lock.
fn break_off(response: &Mutex<Unsent>) {
    let _unsent = change(response, |it| {
        (it.is_broken, it.bytes) = (true, 0);
        mem::take(&mut it.pieces)
    });
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
pub struct Body {
    shared: Arc<Mutex<Unsent>>,
    /// Reports that it is lost. The loss of one that was ended means nothing.
    lost: Option<Box<dyn FnOnce() + Send + Sync>>,
    /// The task that looks whether the client reads, where the connection is the host's.
    pub(super) looks: Option<AbortOnDropHandle<()>>,
}

impl Pipe {
    /// Sends the head, unless it has left.
    pub(super) fn begin(&mut self, head: Head) {
        // A client that has gone needs no head.
        let _ = self.head.take().map(|heard| heard.send(head));
    }

    /// Adds bytes, and returns the number of those that hyper did not take.
    pub(super) fn write(&self, bytes: Vec<u8>) -> usize {
        let mut charge = self.link.holder.charge();
        // A charge may wake others, so no lock is held here. It ends when hyper drops the bytes.
        charge.set(bytes.capacity() + PIECE);
        let piece = Bytes::from_owner(Held(bytes, charge));
        change(&self.shared, |it| {
            it.push(piece);
            it.waiting()
        })
    }

    /// Ends the body. If the response is whole, its head with this status leaves only now, so that its length is known.
    pub(super) fn end(mut self, status: Option<u16>) {
        change(&self.shared, |unsent| unsent.is_ended = true);
        if status.is_some() {
            self.begin(Ok(status));
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
        if let Some(lost) = self.lost.take() {
            lost();
        }
    }
}

debug!(Body, shared);

impl Body {
    /// A body that is there.
    pub(super) fn whole(bytes: impl Into<Bytes>) -> Self {
        let mut whole = Unsent::default();
        whole.push(bytes.into());
        whole.is_ended = true;
        Self { shared: Arc::new(Mutex::new(whole)), lost: None, looks: None }
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
