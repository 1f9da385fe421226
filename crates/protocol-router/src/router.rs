//! A router, and what both of its forms have.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use protocol_async::hooks::catch_panic;
use protocol_async::{Arrival, Incoming, Notification, UndoLimits};
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
            gates: Vec::new(),
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
        self,
        observer: impl Fn(&Notification) -> Claim + Send + Sync + 'static,
    ) -> Self {
        self.gate(move |arrival| {
            let Arrival::Notification(notification) = &arrival else { return Some(arrival) };
            // One that panics has claimed it (B33).
            let mut claim = Claim::Claimed;
            catch_panic(|| claim = observer(notification));
            (claim == Claim::Pass).then_some(arrival)
        })
    }

    /// Lets this function take arrivals away before limits, layers and handlers see them.
    ///
    /// It must not panic. It is for `rescind-lsp`: no limit may hold `shutdown` or `exit` back.
    #[doc(hidden)]
    pub fn gate(mut self, by: impl Fn(Arrival) -> Option<Arrival> + Send + Sync + 'static) -> Self {
        self.routes_mut().gates.push(Arc::new(by));
        self
    }

    /// Serves until the connection is closed, all handlers and the work beside them are done, and their
    /// responses are written, or can't be any more.
    ///
    /// The end of the connection sets the [marker](crate::Context::cancellation) of notifications and of
    /// work beside the handlers. That of a request is set as the dialect's
    /// [`closed_stream`](protocol_core::Dialect::closed_stream) says. Work that ignores its marker is
    /// waited for; if this future is dropped, so is the work.
    ///
    /// While more than 64 notifications wait, nothing is taken until the connection ends or one is done.
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
