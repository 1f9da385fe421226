//! One HTTP connection: the memory that it holds, the parts of responses that wait in it, and its end.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;
use http::Version;
use protocol_async::hub::{Charge, Holder};
use protocol_async::{Account, Grant};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::endpoint::{Held, lock};

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
    holder: Holder,
    /// The latest grant. Readers wait for it and not for the holder's, which may change twice before anybody looks.
    granted: watch::Sender<Grant>,
    /// The bytes that the transport took, where the connection is ours.
    written: AtomicU64,
    /// The version of HTTP, once there was a request.
    version: OnceLock<Version>,
    /// The number of requests so far.
    requests: AtomicU64,
    /// The responses that hyper has a use for.
    responses: Mutex<Vec<Arc<Mutex<Unsent>>>>,
}

impl Link {
    pub(super) fn new(account: &Account) -> Arc<Self> {
        Arc::new(Self {
            holder: Holder::new(account),
            granted: watch::Sender::new(Grant::All),
            written: AtomicU64::new(0),
            version: OnceLock::new(),
            requests: AtomicU64::new(0),
            responses: Mutex::default(),
        })
    }

    /// Waits until the account revokes the grant of the connection, which has to end then.
    ///
    /// Meanwhile it wakes those who wait to read, so one task has to run it.
    pub(super) async fn revoked(&self) {
        let mut grant = Grant::All;
        while grant != Grant::Revoked {
            grant = poll_fn(|cx| self.holder.poll_grant(grant, cx.waker())).await;
            self.granted.send_replace(grant);
        }
    }

    /// Waits until the account lets the connection read.
    pub(super) async fn may_read(&self) {
        let may_read = |grant: &Grant| *grant < Grant::NoReading;
        // The sender is ours.
        let _ = self.granted.subscribe().wait_for(may_read).await;
    }

    /// Notes a request. Its version is that of all requests of a connection.
    pub(super) fn asked(&self, version: Version) {
        let _ = self.version.set(version);
        self.requests.fetch_add(1, Relaxed);
    }

    /// Returns whether it is a connection of ours, and its requests are of HTTP/1.
    fn is_http1(&self) -> bool {
        self.version.get().is_some_and(|version| *version < Version::HTTP_2)
    }

    /// Returns whether it is a connection of ours, and there was a request.
    pub(super) fn was_asked(&self) -> bool {
        self.version.get().is_some()
    }

    /// Waits until a connection has had no request for this time, or no stream for this time and at most twice that.
    ///
    /// hyper has a timer for the heads of HTTP/1 alone, and none before it knows the version.
    pub(super) async fn unused(self: &Arc<Self>, time: Duration) {
        let mut before = Some(0);
        loop {
            sleep(time).await;
            let is_unused = Arc::strong_count(self) == OWN && !self.is_http1();
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
            let responses = lock(&self.responses).clone();
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
        let read = if self.is_http1() { self.written.load(Relaxed) } else { it.taken };
        // Nothing more can be sent before the client has read something.
        let waits =
            if it.is_ended { self.was_asked() } else { it.is_broken || it.waiting() > most };
        let read = waits.then_some(read);
        mem::replace(&mut it.looked, read) == read && read.is_some()
    }

    /// Watches a response until hyper has no use for it.
    pub(super) fn watch(&self, response: Arc<Mutex<Unsent>>) {
        lock(&self.responses).push(response);
    }

    /// Watches a response no longer.
    pub(super) fn forget(&self, response: &Arc<Mutex<Unsent>>) {
        lock(&self.responses).retain(|it| !Arc::ptr_eq(it, response));
    }

    /// Returns bytes that are charged until hyper has written and dropped them.
    pub(super) fn piece(&self, bytes: Vec<u8>) -> Bytes {
        let mut charge = self.charge();
        charge.set(bytes.capacity() + PIECE);
        Bytes::from_owner(Held(bytes, charge))
    }

    /// Returns a charge of the connection that is nothing yet.
    pub(super) fn charge(&self) -> Charge {
        self.holder.charge()
    }
}

/// A response as both of its ends see it: the part that hyper did not take.
#[derive(Debug, Default)]
pub(super) struct Unsent {
    pub(super) pieces: VecDeque<Bytes>,
    /// The sum of the lengths of all pieces.
    pub(super) bytes: usize,
    /// The number of bytes that hyper took.
    taken: u64,
    pub(super) is_ended: bool,
    pub(super) is_broken: bool,
    /// The bytes that the client had read when the connection last looked, if the response waited for it.
    looked: Option<u64>,
    pub(super) reader: Option<Waker>,
    pub(super) writer: Option<Waker>,
}

impl Unsent {
    pub(super) fn push(&mut self, piece: Bytes) {
        self.bytes += piece.len();
        self.pieces.extend((!piece.is_empty()).then_some(piece));
    }

    /// Takes a piece out, or a part of one that is long.
    pub(super) fn pop(&mut self) -> Option<Bytes> {
        let mut piece = self.pieces.pop_front()?;
        if piece.len() > FRAME {
            self.pieces.push_front(piece.split_off(FRAME));
        }
        self.bytes -= piece.len();
        self.taken += piece.len() as u64;
        Some(piece)
    }

    /// Returns the bytes of the pieces, with those of their places.
    pub(super) fn waiting(&self) -> usize {
        self.bytes + self.pieces.len() * PIECE
    }
}

/// Changes a response, and wakes both ends without the lock.
pub(super) fn change<R>(response: &Mutex<Unsent>, change: impl FnOnce(&mut Unsent) -> R) -> R {
    let mut it = lock(response);
    let changed = change(&mut it);
    let ends = [it.reader.take(), it.writer.take()];
    drop(it);
    ends.into_iter().flatten().for_each(Waker::wake);
    changed
}

/// Breaks a response off. What is unsent is dropped without the lock.
pub(super) fn break_off(response: &Mutex<Unsent>) {
    let _unsent = change(response, |it| {
        (it.is_broken, it.bytes) = (true, 0);
        mem::take(&mut it.pieces)
    });
}
