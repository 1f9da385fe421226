//! What keeps a connection going.

use crate::afterwards::Afterwards;
use crate::inbox::Arrived;
use crate::shared::Shared;
use crate::sync::Arc;
use protocol_core::Shutdown;

/// Held by every handle; when the last one goes, so does the connection.
#[derive(Debug)]
pub(crate) struct Lease {
    shared: Arc<Shared>,
}

impl Lease {
    pub(crate) const fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    pub(crate) const fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

/// Nobody can call or serve any more: what is queued goes out, what is in flight finishes, and
/// nothing new is taken.
impl Drop for Lease {
    fn drop(&mut self) {
        self.shared.shutdown(Shutdown::Drain);
    }
}

/// Held by every [`Incoming`](crate::Incoming); when the last one goes, nobody serves what the peer
/// sends.
#[derive(Debug)]
pub(crate) struct Taker {
    shared: Arc<Shared>,
}

impl Taker {
    pub(crate) const fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }
}

impl Drop for Taker {
    fn drop(&mut self) {
        let mut after = Afterwards::default();
        let mut state = self.shared.lock();
        state.is_served = false;
        while let Some(arrived) = state.inbox.pop() {
            if let Arrived::Request(request, _) = arrived {
                state.refuse_unserved(request, &mut after);
            }
        }
        self.shared.settle(state, &mut after);
    }
}
