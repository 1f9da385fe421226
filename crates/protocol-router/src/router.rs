//! A router, and what both of its forms have.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use protocol_async::{Incoming, Notification, UndoLimits};
use protocol_core::CloseReason;

use crate::form::{Form, Local, Threads};
use crate::routes::{Claim, Routes};
use crate::serving::serve;
use crate::trouble::{Trouble, on_standard_error};

/// A router whose handlers are `Send`; see the [crate](crate).
pub type Router<S = ()> = RouterOf<S, Threads>;

/// A router whose handlers need not be `Send`, for an executor of one thread.
pub type LocalRouter<S = ()> = RouterOf<S, Local>;

/// The type behind [`Router`] and [`LocalRouter`].
///
/// Clones share the state. A route that is added to one is not added to the other.
#[must_use = "a router does nothing unless it serves"]
pub struct RouterOf<S, F: Form> {
    pub(crate) routes: Arc<Routes<S, F>>,
}

impl<F: Form> RouterOf<(), F> {
    /// Creates a router without routes and without a state.
    pub fn new() -> Self {
        Self::with_state(())
    }
}

impl<F: Form> Default for RouterOf<(), F> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S, F: Form> RouterOf<S, F> {
    /// Creates a router without routes, whose handlers share a state.
    ///
    /// They read it as `&S` with [`Context::state`](crate::Context::state). Whatever changes in it is
    /// in a `Mutex`, an atomic, or with a [`LocalRouter`] a `RefCell`.
    pub fn with_state(state: S) -> Self {
        let routes = Routes {
            state: Arc::new(state),
            requests: BTreeMap::new(),
            notifications: BTreeMap::new(),
            layers: Vec::new(),
            observers: Vec::new(),
            fallback: None,
            on_trouble: on_standard_error(),
            at_most: usize::MAX,
            undo_limits: UndoLimits::default(),
        };
        Self { routes: Arc::new(routes) }
    }

    /// Serves at most this many requests at the same time.
    ///
    /// One more is refused with the dialect's overload code, so no request waits for one that may wait
    /// for it. With [`limit`](Self::limit) it waits. The default is no limit but
    /// [`Limits::requests`](protocol_core::Limits::requests).
    pub fn at_most(mut self, requests: usize) -> Self {
        self.routes_mut().at_most = requests;
        self
    }

    /// Sets the bounds of the steps that undo work ([`Context::undo_with`](crate::Context::undo_with)).
    pub fn undo_limits(mut self, limits: UndoLimits) -> Self {
        self.routes_mut().undo_limits = limits;
        self
    }

    /// Reports trouble to this function, in place of standard error. It should be quick.
    pub fn on_trouble(mut self, told: impl Fn(&Trouble<'_>) + Send + Sync + 'static) -> Self {
        self.routes_mut().on_trouble = Arc::new(told);
        self
    }

    /// Shows every notification to this function before its handler, and lets it claim it.
    ///
    /// It is for traces, and for routing of one's own. Of two observers the one added later is asked
    /// first. Raw cancels are among the notifications if
    /// [`Config::show_raw_cancels`](protocol_core::Config::show_raw_cancels) says so. The request's
    /// marker is set by then, claimed or not.
    pub fn observe(
        mut self,
        observer: impl Fn(&Notification) -> Claim + Send + Sync + 'static,
    ) -> Self {
        self.routes_mut().observers.push(Arc::new(observer));
        self
    }

    /// Serves until the connection is closed, every handler is done, and their responses are written,
    /// or can't be any more.
    pub async fn serve(&self, incoming: &Incoming) -> CloseReason {
        serve(&self.routes, incoming).await
    }

    pub(crate) fn routes_mut(&mut self) -> &mut Routes<S, F> {
        Arc::make_mut(&mut self.routes)
    }
}

impl<S, F: Form> Clone for RouterOf<S, F> {
    fn clone(&self) -> Self {
        Self { routes: self.routes.clone() }
    }
}

impl<S, F: Form> fmt::Debug for RouterOf<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router")
            .field("requests", &self.routes.requests.keys())
            .field("notifications", &self.routes.notifications.keys())
            .finish_non_exhaustive()
    }
}
