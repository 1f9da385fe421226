//! A handler under test, its peer, and their judge, as the world keeps them.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use protocol_async::Peer;
use protocol_core::Timestamp;

use super::far::Far;
use super::judge::{Judge, Rows};

/// One handler, its peer, and who judges it.
pub(super) struct Served {
    pub(super) far: Rc<RefCell<Far>>,
    pub(super) judge: RefCell<Judge>,
    /// The handler's side, until it is over; `None` also where it is not ours.
    pub(super) near: RefCell<Option<Peer>>,
    /// The task that reads what the peer says.
    pub(super) reader: Cell<usize>,
    /// The connection has it too, as long as anything of it lives.
    pub(super) token: Arc<()>,
}

impl Served {
    /// Looks at what is in flight.
    pub(super) fn look(&self, now: Timestamp) {
        let rows = self.near.borrow().as_ref().map(Rows::of);
        let mut judge = self.judge.borrow_mut();
        if let Some(rows) = rows.or_else(|| judge.wire()) {
            judge.look(rows, now);
        }
    }
}
