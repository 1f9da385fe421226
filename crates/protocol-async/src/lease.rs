//! What keeps a connection going.

use std::ops::Deref;

use protocol_core::Shutdown;

use crate::inbox::Arrived;
use crate::shared::Shared;
use crate::sync::Arc;

/// Held by every handle; when the last one goes, so does the connection.
#[derive(Debug)]
pub(crate) struct Lease(pub(crate) Arc<Shared>);

impl Deref for Lease {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

/// Nobody can call or serve any more: what is queued goes out, what is in flight finishes, and
/// nothing new is taken.
impl Drop for Lease {
    fn drop(&mut self) {
        self.shutdown(Shutdown::Drain);
    }
}

/// Held by every [`Incoming`](crate::Incoming); when the last one goes, nobody serves what the peer
/// sends.
#[derive(Debug)]
pub(crate) struct Taker(pub(crate) Arc<Shared>);

impl Drop for Taker {
    fn drop(&mut self) {
        self.0.with(|state, after| {
            state.is_served = false;
            while let Some(arrived) = state.inbox.pop() {
                if let Arrived::Request(request, _) = arrived {
                    state.refuse_unserved(request, after);
                }
            }
        });
    }
}
