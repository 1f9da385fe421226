//! Handlers by method, on top of [`Incoming`].
//!
//! A handler takes the params, as what it says they are, and a [`Context`], which is everything else:
//! the state of the server, the marker of the request, and the way back to the peer. What it gives is
//! the answer, and `?` works on everything that can fail:
//!
//! ```
//! use protocol_async::{Context, Failure, Router};
//! use serde::Deserialize;
//! use std::{collections::HashMap, sync::Mutex, time::Duration};
//!
//! #[derive(Default)]
//! struct Server {
//!     texts: Mutex<HashMap<String, String>>,
//! }
//!
//! #[derive(Deserialize)]
//! struct Opened {
//!     uri: String,
//!     text: String,
//! }
//!
//! async fn count(uri: String, cx: Context<Server>) -> Result<usize, Failure> {
//!     cx.notify("log", "counting").await?;
//!     let text = cx.state().texts.lock().unwrap().get(&uri).cloned();
//!     Ok(text.map_or(0, |text| text.split_whitespace().count()))
//! }
//!
//! let router = Router::with_state(Server::default())
//!     .after(|served| eprintln!("{served}"))
//!     .notification("opened", async |opened: Opened, cx| {
//!         cx.state().texts.lock().unwrap().insert(opened.uri, opened.text);
//!         Ok(())
//!     })
//!     .request("count", count)
//!     .request("ask", async |question: String, cx| {
//!         let options = protocol_core::CallOptions::default().timeout(Duration::from_secs(60));
//!         Ok(cx.call_with::<bool>("user/confirm", question, options).await?)
//!     });
//! ```
//!
//! - **What a handler captures** is cloned for each request, so `async move` closures capture what is
//!   `Clone`: an `Arc`, a [`Peer`], a sender. What is not belongs into the
//!   [state](Router::with_state).
//! - **[`Router`] or [`LocalRouter`].** The handlers of a `Router` are `Send`, and so is what serves
//!   them; those of a `LocalRouter` need not be. Nothing else differs.
//! - **Requests run at the same time**, all inside [`serve`](RouterOf::serve)'s future. A panic of one
//!   answers it -32603 and harms nothing else (B33).
//! - **Notifications run one after another** in the peer's order, and what came later waits until one
//!   is done, so that a request finds done what the notifications before it said. But a notification
//!   that waits for the peer, for an answer or for room, ends its turn there: the peer may be waiting
//!   for us (F36). So do at most 64 at the same time; one more keeps its turn until there is room.
//! - **Layers** are around all requests: [`around`](RouterOf::around), and on top of it
//!   [`before`](RouterOf::before), [`after`](RouterOf::after) and [`limit`](RouterOf::limit). The one
//!   added first is outermost.
//! - **Nothing vanishes.** What nobody serves, what does not fit, what was missed or violated, and why
//!   a handler failed, is told as [`Trouble`]: on standard error, or to
//!   [`on_trouble`](RouterOf::on_trouble).

mod context;
mod form;
mod handlers;
mod layers;
mod serving;
mod trouble;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use protocol_core::CloseReason;

pub use context::{Context, LocalContext};
pub use form::{Form, Local, Threads};
pub use layers::{Next, Served};
pub use trouble::Trouble;

use crate::failure::{Answer, Failure};
use crate::incoming::{Arrival, Incoming};
use crate::message::Notification;
use crate::method::MethodName;
#[cfg(doc)]
use crate::peer::Peer;
use serving::Serving;

/// Serves what arrives by its method, with handlers that are `Send`; see the [module](self).
pub type Router<S = ()> = RouterOf<S, Threads>;

/// As [`Router`], with handlers that need not be `Send`: for an executor of one thread.
pub type LocalRouter<S = ()> = RouterOf<S, Local>;

/// What [`Router`] and [`LocalRouter`] are. Clones share the state; a route that is added to one is not
/// added to the other.
pub struct RouterOf<S: 'static, F: Form> {
    routes: Arc<Routes<S, F>>,
}

/// What an observer makes of a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Its handler may have it.
    Pass,
    /// It has been dealt with.
    Claimed,
}

/// What a router was told.
struct Routes<S: 'static, F: Form> {
    state: Arc<S>,
    requests: HashMap<MethodName, F::Handler<Context<S, F>, Answer>>,
    notifications: HashMap<MethodName, F::Handler<Context<S, F>, Done>>,
    /// The outermost first.
    layers: Vec<Layer<S, F>>,
    observers: Vec<Arc<Observer>>,
    otherwise: Option<Otherwise<S, F>>,
    on_trouble: Arc<OnTrouble>,
    at_most: usize,
}

type Layer<S, F> = <F as Form>::Handler<(Context<S, F>, Next<S, F>), Answer>;
type Observer = dyn Fn(&Notification) -> Claim + Send + Sync;
type Otherwise<S, F> = <F as Form>::Handler<(Arrival, Context<S, F>), Done>;
type OnTrouble = dyn Fn(&Trouble<'_>) + Send + Sync;

/// How work ends that nobody is answered.
type Done = Result<(), Failure>;

impl<F: Form> RouterOf<(), F> {
    /// One without routes.
    #[must_use]
    pub fn new() -> Self {
        Self::with_state(())
    }
}

impl<F: Form> Default for RouterOf<(), F> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: 'static, F: Form> RouterOf<S, F> {
    /// One without routes, whose handlers have this in common: [`Context::state`]. It is shared as
    /// `&S`; what changes in it is in a `Mutex`, an atomic, or with a [`LocalRouter`] a `RefCell`.
    pub fn with_state(state: S) -> Self {
        let routes = Routes {
            state: Arc::new(state),
            requests: HashMap::new(),
            notifications: HashMap::new(),
            layers: Vec::new(),
            observers: Vec::new(),
            otherwise: None,
            on_trouble: trouble::on_standard_error(),
            at_most: usize::MAX,
        };
        Self { routes: Arc::new(routes) }
    }

    /// Serves at most so many requests at the same time. What is more is answered with the dialect's
    /// overload code, so that nobody waits for what may wait for them; [`limit`](Self::limit) has
    /// them wait. The default is no limit but
    /// [`Limits::requests`](protocol_core::Limits::requests).
    #[must_use]
    pub fn at_most(mut self, requests: usize) -> Self {
        self.routes_mut().at_most = requests;
        self
    }

    /// Is told what went wrong, in place of standard error. It should be quick.
    #[must_use]
    pub fn on_trouble(mut self, told: impl Fn(&Trouble<'_>) + Send + Sync + 'static) -> Self {
        self.routes_mut().on_trouble = Arc::new(told);
        self
    }

    /// Sees every notification before its handler, and may claim it: for traces, and for routing of
    /// its own. Of two observers the one added later is asked first. Raw cancels are among them if
    /// [`Config::show_raw_cancels`](protocol_core::Config::show_raw_cancels) says so; the request's marker is
    /// set by then, claimed or not.
    #[must_use]
    pub fn observe(
        mut self,
        observer: impl Fn(&Notification) -> Claim + Send + Sync + 'static,
    ) -> Self {
        self.routes_mut().observers.push(Arc::new(observer));
        self
    }

    /// Serves until the connection is closed, every handler is done, and what they answered is
    /// written, or can't be any more.
    pub async fn serve(&self, incoming: &Incoming) -> CloseReason {
        Serving::new(&self.routes, incoming).run(incoming).await
    }

    fn routes_mut(&mut self) -> &mut Routes<S, F> {
        Arc::make_mut(&mut self.routes)
    }
}

impl<S, F: Form> Clone for RouterOf<S, F> {
    fn clone(&self) -> Self {
        Self { routes: self.routes.clone() }
    }
}

impl<S, F: Form> Clone for Routes<S, F> {
    fn clone(&self) -> Self {
        Self {
            state: self.state.clone(),
            requests: self.requests.clone(),
            notifications: self.notifications.clone(),
            layers: self.layers.clone(),
            observers: self.observers.clone(),
            otherwise: self.otherwise.clone(),
            on_trouble: self.on_trouble.clone(),
            at_most: self.at_most,
        }
    }
}

impl<S, F: Form> fmt::Debug for RouterOf<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Routes { requests, notifications, layers, .. } = &*self.routes;
        f.debug_struct("Router")
            .field("requests", &requests.keys())
            .field("notifications", &notifications.keys())
            .field("layers", &layers.len())
            .finish_non_exhaustive()
    }
}
