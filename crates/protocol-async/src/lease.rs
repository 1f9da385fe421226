//! Leases: what keeps a connection going.

use std::ops::Deref;

use protocol_core::Shutdown;

use crate::shared::Shared;
use crate::sync::Arc;

/// The lease of every handle. The connection shuts down when the last one goes.
#[derive(Debug)]
pub(crate) struct Lease(pub(crate) Arc<Shared>);

impl Deref for Lease {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

/// Nobody can call or serve any more: what is queued goes out, what is in flight finishes, and nothing new
/// is taken.
impl Drop for Lease {
    fn drop(&mut self) {
        self.shutdown(Shutdown::Drain);
    }
}

/// The lease of every [`Incoming`](crate::Incoming). When the last one goes, nobody serves the peer.
#[derive(Debug)]
pub(crate) struct Taker(pub(crate) Arc<Shared>);

impl Drop for Taker {
    fn drop(&mut self) {
        self.0.with(|inner, effects| inner.endpoint.stop_serving(effects));
    }
}
