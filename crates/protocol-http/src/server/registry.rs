//! The sessions that are open, and the stage of the server.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;

use super::stream::{Command, lock};
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

/// The sessions that are open, by id, and the stage that all tasks follow.
#[derive(Debug, Default)]
pub(super) struct Registry {
    seats: Mutex<BTreeMap<String, Arc<Seat>>>,
    stage: watch::Sender<Stage>,
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

impl Registry {
    pub(super) fn find(&self, id: &str) -> Option<Arc<Seat>> {
        lock(&self.seats).get(id).cloned()
    }

    pub(super) fn insert(&self, seat: &Arc<Seat>) {
        if let Some(id) = &seat.id {
            lock(&self.seats).insert(id.clone(), seat.clone());
        }
    }

    pub(super) fn remove(&self, seat: &Seat) {
        if let Some(id) = &seat.id {
            lock(&self.seats).remove(id);
        }
    }

    pub(super) fn count(&self) -> usize {
        lock(&self.seats).len()
    }

    /// Returns the stage, for a task. The server is drained when every task has dropped it.
    pub(super) fn stage(&self) -> watch::Receiver<Stage> {
        self.stage.subscribe()
    }

    pub(super) fn is_serving(&self) -> bool {
        *self.stage.borrow() == Stage::Serving
    }

    /// Goes on to a stage, but never back.
    pub(super) fn advance(&self, stage: Stage) {
        self.stage.send_if_modified(|now| {
            let is_later = stage > *now;
            *now = stage.max(*now);
            is_later
        });
    }

    /// Waits until every task is gone.
    pub(super) async fn is_empty(&self) {
        self.stage.closed().await;
    }
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
