//! One HTTP connection: the memory that it holds, and its end.

use alloc::sync::Arc;
use core::future::poll_fn;

use protocol_async::hub::{Charge, Holder};
use protocol_async::{Account, Grant};
use tokio::sync::{Notify, watch};

/// One HTTP connection, as its requests and responses see it.
///
/// It draws on the account by itself: a body has no session before it is read, and a response may outlast its session.
#[derive(Debug)]
pub(super) struct Link {
    holder: Holder,
    /// The latest grant. Readers wait for it and not for the holder's, which may change twice before anybody looks.
    granted: watch::Sender<Grant>,
    kill: Notify,
}

impl Link {
    pub(super) fn new(account: &Account) -> Arc<Self> {
        let (granted, kill) = (watch::Sender::new(Grant::All), Notify::new());
        Arc::new(Self { holder: Holder::new(account), granted, kill })
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

    /// Returns a charge of the connection that is nothing yet.
    pub(super) fn charge(&self) -> Charge {
        self.holder.charge()
    }

    /// Ends the connection. Nothing else reaches one whose client reads nothing.
    pub(super) fn kill(&self) {
        self.kill.notify_one();
    }
}
