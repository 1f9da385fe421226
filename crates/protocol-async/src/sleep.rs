//! Waiting for a time of a connection's clock.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use protocol_core::Timestamp;
use protocol_endpoint::AlarmId;

use crate::lease::Lease;
use crate::sync::Arc;
use crate::wait::is_same;

/// A future that is ready at a time, which the driver of the connection keeps.
///
/// Without a driver it is ready when it is polled after that time.
pub struct Sleep {
    lease: Arc<Lease>,
    due: Timestamp,
    alarm: Option<AlarmId>,
}

impl Sleep {
    pub(crate) const fn new(lease: Arc<Lease>, due: Timestamp) -> Self {
        Self { lease, due, alarm: None }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { lease, due, alarm } = self.get_mut();
        if lease.now() >= *due {
            return Poll::Ready(());
        }
        lease.with_waker(cx.waker(), None, |inner, waiter, effects| {
            let endpoint = &mut inner.endpoint;
            let waiting = alarm.as_ref().and_then(|alarm| endpoint.waiting_for_alarm(alarm));
            if !is_same(waiting, cx.waker()) {
                let waiter = waiter.take()?;
                let before = alarm.replace(endpoint.set_alarm(*due, waiter, effects));
                before.iter().for_each(|before| endpoint.clear_alarm(before, effects));
            }
            Some(Poll::Pending)
        })
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(alarm) = &self.alarm {
            self.lease.with(|inner, effects| inner.endpoint.clear_alarm(alarm, effects));
        }
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep").field("due", &self.due).finish_non_exhaustive()
    }
}
