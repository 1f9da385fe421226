//! The sessions that are open, and the stage of the server.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use protocol_async::{Account, Incoming, Peer};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{Semaphore, watch};

use super::link::Command;
use super::options::{ServerOptions, Work};
use crate::rules::Rules;
use crate::session::StreamId;

/// The stage of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    #[default]
    Serving,
    /// Nothing new is taken.
    Draining,
    /// Everything in flight is cancelled.
    Cancelling,
    /// Nobody is waited for any more.
    Abandoned,
}

/// The state that all tasks of a server share.
pub(super) struct Shared {
    pub(super) options: ServerOptions,
    /// The memory that the sessions draw on.
    pub(super) account: Account,
    pub(super) handler: Box<dyn Fn(Peer, Incoming) -> Work + Send + Sync>,
    /// The room for sessions, and for requests without one.
    pub(super) places: Arc<Semaphore>,
    /// The sessions that are open, by id.
    pub(super) seats: Mutex<BTreeMap<String, Arc<Seat>>>,
    /// The stage, which every task has a receiver of. The server is drained when all of them are gone.
    pub(super) stage: watch::Sender<Stage>,
}

/// One session, or one request without a session.
#[derive(Debug)]
pub(super) struct Seat {
    /// The id of the session; `None` for a request without one.
    pub(super) id: Option<String>,
    pub(super) commands: UnboundedSender<Command>,
    pub(super) streams: AtomicU64,
    pub(super) state: watch::Receiver<State>,
}

/// The state of a session, as its driver says.
#[derive(Clone, Copy, Debug)]
pub(super) struct State {
    pub(super) rules: &'static Rules,
    /// Whether the account lets the session read.
    pub(super) may_read: bool,
}

impl Seat {
    /// Returns the number of the next response.
    pub(super) fn next_stream(&self) -> StreamId {
        StreamId(self.streams.fetch_add(1, Ordering::Relaxed))
    }

    /// Waits until the account lets the session read. It need not once the session is over.
    pub(super) async fn may_read(&self) {
        let _ = self.state.clone().wait_for(|state| state.may_read).await;
    }

    pub(super) fn rules(&self) -> &'static Rules {
        self.state.borrow().rules
    }
}
