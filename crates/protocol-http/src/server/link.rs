//! One HTTP connection: the memory that it holds, and its end.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::poll_fn;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use std::sync::{Mutex, OnceLock};

use http::Version;
use protocol_async::hub::{Charge, Holder};
use protocol_async::{Account, Grant};
use tokio::sync::{Notify, watch};
use tokio::time::sleep;

use super::unsent::{Unsent, lock};

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
    kill: Notify,
    /// The bytes that the transport took, where the connection is ours.
    written: AtomicU64,
    /// The version of HTTP, once there was a request.
    version: OnceLock<Version>,
    /// The number of requests so far.
    requests: AtomicU64,
    /// The responses that are finished and that hyper still has a use for. Those of others their session watches.
    finished: Mutex<Vec<Finished>>,
}

#[derive(Debug)]
struct Finished {
    response: Arc<Mutex<Unsent>>,
    /// The number of [`Link::read`] when the connection last looked. `None` before.
    read: Option<u64>,
}

impl Link {
    pub(super) fn new(account: &Account) -> Arc<Self> {
        Arc::new(Self {
            holder: Holder::new(account),
            granted: watch::Sender::new(Grant::All),
            kill: Notify::new(),
            written: AtomicU64::new(0),
            version: OnceLock::new(),
            requests: AtomicU64::new(0),
            finished: Mutex::default(),
        })
    }

    /// Waits until the connection has to end: it is killed, or the account revokes its grant.
    ///
    /// Meanwhile it wakes those who wait to read, so one task has to run it.
    pub(super) async fn ended(&self) {
        let follow = async {
            let mut grant = Grant::All;
            while grant != Grant::Revoked {
                grant = poll_fn(|cx| self.holder.poll_grant(grant, cx.waker())).await;
                self.granted.send_replace(grant);
            }
        };
        tokio::select! {
            () = self.kill.notified() => {}
            () = follow => {}
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

    /// Returns whether there was a request.
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
            let is_http1 = self.version.get().is_some_and(|version| *version < Version::HTTP_2);
            let is_unused = Arc::strong_count(self) == OWN && !is_http1;
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

    /// Returns a number that changes whenever the client reads something of this response.
    ///
    /// hyper takes large pieces, so a slow client is seen by what the transport takes. The transport of HTTP/2 takes
    /// pings and other responses too, so there it tells nothing.
    pub(super) fn read(&self, response: &Mutex<Unsent>) -> u64 {
        let is_http2 = self.version.get() == Some(&Version::HTTP_2);
        let written = if is_http2 { 0 } else { self.written.load(Relaxed) };
        lock(response).taken + written
    }

    /// Waits until a client reads nothing of a finished response, for `patience` at least and twice that at most.
    pub(super) async fn unread(&self, patience: Duration) {
        let mut is_unread = false;
        while !is_unread {
            sleep(patience).await;
            for it in lock(&self.finished).iter_mut() {
                let read = Some(self.read(&it.response));
                is_unread |= read == it.read;
                it.read = read;
            }
        }
    }

    /// Watches a finished response until hyper has no use for it.
    pub(super) fn watch(&self, response: &Arc<Mutex<Unsent>>) {
        lock(&self.finished).push(Finished { response: response.clone(), read: None });
    }

    /// Watches a response no longer.
    pub(super) fn forget(&self, response: &Arc<Mutex<Unsent>>) {
        lock(&self.finished).retain(|it| !Arc::ptr_eq(&it.response, response));
    }

    /// Returns a charge of the connection that is nothing yet.
    pub(super) fn charge(&self) -> Charge {
        self.holder.charge()
    }

    /// Ends the connection. Nothing else reaches one whose client reads nothing.
    pub(super) fn kill(&self) {
        self.kill.notify_one();
    }
}
