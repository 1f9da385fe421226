//! Handlers by method, on top of [`Incoming`].

use std::fmt;
use std::future::{Future, poll_fn};
use std::marker::PhantomData;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use protocol_core::{CallOptions, CloseReason, Refusal, RequestHandle, code};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::to_raw_value;

use crate::afterwards::contain;
use crate::answer::RpcError;
use crate::cancellation::Cancellation;
use crate::failure::{Failure, InvalidParams};
use crate::incoming::{Arrival, Incoming, Notification};
use crate::peer::Peer;
use crate::sent::SentRequest;

/// Serves what arrives by its method.
///
/// Requests run at the same time, all inside [`serve`](Self::serve)'s future, which is `Send` if
/// the handlers' are. Notifications run one after another in the peer's order, and the next arrival
/// is taken after that: so a request finds done what the notifications before it said.
///
/// Of two routes that fit, the one added later is taken. A request that no route fits is answered
/// -32601; a notification that no route fits is ignored.
///
/// ```
/// use protocol_async::{Failure, Router};
///
/// let router = Router::new()
///     .request("add", async |(a, b): (i64, i64), _| Ok(a + b))
///     .request("wait", async |(): (), cx| {
///         cx.cancellation().cancelled().await;
///         Err::<(), _>(Failure::Cancelled)
///     })
///     .notification("log", async |text: String, _| println!("{text}"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Router<R = NoRoute> {
    routes: R,
    hooks: Hooks,
}

/// What a handler can do beside its answer.
#[derive(Clone, Debug)]
pub struct Context {
    peer: Peer,
    request: Option<RequestHandle>,
    marker: Cancellation,
    hooks: Hooks,
}

/// Who sees what the peer is not told.
#[derive(Clone, Default)]
struct Hooks {
    invalid_params: Option<Arc<InvalidParamsHook>>,
}

type InvalidParamsHook = dyn Fn(&InvalidParams) + Send + Sync;

/// What an observer makes of a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The next route may have it.
    Pass,
    /// It has been dealt with.
    Claimed,
}

impl Router {
    /// One without routes.
    #[must_use]
    pub const fn new() -> Self {
        Self { routes: NoRoute, hooks: Hooks { invalid_params: None } }
    }
}

impl<R: Routes> Router<R> {
    /// Sees the params that did not fit, of requests and of notifications, with the reason that the
    /// peer is not told (B3). For logs; it should be quick.
    #[must_use]
    pub fn on_invalid_params(
        mut self,
        hook: impl Fn(&InvalidParams) + Send + Sync + 'static,
    ) -> Self {
        self.hooks.invalid_params = Some(Arc::new(hook));
        self
    }

    /// Serves requests of a method. Params that don't fit `P` are answered -32602; a panic of the
    /// handler answers this request -32603 and harms nothing else (B33).
    pub fn request<P, T, H, F>(
        self,
        method: &'static str,
        handler: H,
    ) -> Router<OnRequest<P, T, H, R>>
    where
        P: DeserializeOwned,
        T: Serialize,
        H: Fn(P, Context) -> F,
        F: Future<Output = Result<T, Failure>>,
    {
        self.with(|next| OnRequest { method, handler, next, types: PhantomData })
    }

    /// Serves notifications of a method. Those whose params don't fit `P` are ignored.
    pub fn notification<P, H, F>(
        self,
        method: &'static str,
        handler: H,
    ) -> Router<OnNotification<P, H, R>>
    where
        P: DeserializeOwned,
        H: Fn(P, Context) -> F,
        F: Future<Output = ()>,
    {
        self.with(|next| OnNotification { method, handler, next, types: PhantomData })
    }

    /// Sees every notification before the routes that were added earlier, and may claim it: for
    /// traces, and for routing of its own. Raw cancels are among them if
    /// [`Config::show_raw_cancels`](protocol_core::Config::show_raw_cancels) says so; the request's marker is
    /// set by then, claimed or not.
    pub fn observe<H: Fn(&Notification) -> Claim>(self, observer: H) -> Router<Observe<H, R>> {
        self.with(|next| Observe { observer, next })
    }

    /// Takes every arrival that no route added earlier or later fits, in place of the answer
    /// -32601: for proxies ([`Peer::send_proxied`]), and to see violations.
    pub fn otherwise<H, F>(self, handler: H) -> Router<Otherwise<H, R>>
    where
        H: Fn(Arrival, Context) -> F,
        F: Future<Output = ()>,
    {
        self.with(|routes| Otherwise { handler, routes })
    }

    fn with<S>(self, wrap: impl FnOnce(R) -> S) -> Router<S> {
        Router { routes: wrap(self.routes), hooks: self.hooks }
    }

    /// Serves until the connection is closed and every handler is done.
    pub async fn serve(&self, incoming: &Incoming) -> CloseReason {
        let peer = incoming.peer();
        let mut running = FuturesUnordered::new();
        loop {
            let arrival = while_running(&mut running, incoming.receive()).await;
            let arrival = match arrival {
                Ok(arrival) => arrival,
                Err(reason) => {
                    while running.next().await.is_some() {}
                    return reason;
                }
            };
            let in_order = !matches!(arrival, Arrival::Request(..));
            let handling = self.handle(arrival, &peer);
            if in_order {
                while_running(&mut running, handling).await;
            } else {
                running.push(handling);
            }
        }
    }

    /// Handles one arrival: for hosts that spawn each on their own.
    pub async fn handle(&self, arrival: Arrival, peer: &Peer) {
        let (request, marker) = match &arrival {
            Arrival::Request(_, responder) => (Some(responder.handle()), responder.cancellation()),
            _ => (None, Cancellation::new()),
        };
        let context = Context { peer: peer.clone(), request, marker, hooks: self.hooks.clone() };
        // A panic harms nobody else (B33): the hook has reported it, and a responder that it drops
        // has answered.
        let route = AssertUnwindSafe(async { self.routes.route(arrival, context).await });
        if let Ok(Some(arrival)) = route.catch_unwind().await {
            refuse(arrival);
        }
    }
}

/// Runs the futures of a set until `until` is done.
async fn while_running<F: Future<Output = ()>, U: Future>(
    running: &mut FuturesUnordered<F>,
    until: U,
) -> U::Output {
    let mut until = pin!(until);
    poll_fn(|cx| {
        while let Poll::Ready(Some(())) = running.poll_next_unpin(cx) {}
        until.as_mut().poll(cx)
    })
    .await
}

/// Nobody wanted it.
fn refuse(arrival: Arrival) {
    if let Arrival::Request(request, responder) = arrival {
        responder.respond_with_failure(request.unknown_method());
    }
}

impl Hooks {
    fn tell(&self, invalid: &InvalidParams) {
        if let Some(hook) = &self.invalid_params {
            contain(|| hook(invalid));
        }
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let invalid_params = self.invalid_params.is_some();
        f.debug_struct("Hooks").field("invalid_params", &invalid_params).finish()
    }
}

impl Context {
    /// The peer that sent it.
    #[must_use]
    pub const fn peer(&self) -> &Peer {
        &self.peer
    }

    /// The request's marker; never set for a notification.
    #[must_use]
    pub const fn cancellation(&self) -> &Cancellation {
        &self.marker
    }

    /// Calls the peer on behalf of this request: if that is cancelled, so is the call (G6).
    pub fn call<T>(&self, method: &str, params: impl Serialize) -> SentRequest<T> {
        self.peer.call_with(method, params, CallOptions::default().parent(self.request))
    }

    /// Notifies the peer.
    ///
    /// # Errors
    ///
    /// As [`Peer::notify`].
    pub fn notify(&self, method: &str, params: impl Serialize) -> Result<(), Refusal> {
        self.peer.notify(method, params)
    }
}

/// A chain of routes; [`Router`]'s methods make it.
pub trait Routes {
    /// Deals with an arrival, or gives it back.
    fn route(&self, arrival: Arrival, context: Context) -> impl Future<Output = Option<Arrival>>;
}

/// The end of a chain.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRoute;

impl Routes for NoRoute {
    async fn route(&self, arrival: Arrival, _: Context) -> Option<Arrival> {
        Some(arrival)
    }
}

/// See [`Router::request`].
#[derive(Clone, Debug)]
pub struct OnRequest<P, T, H, R> {
    method: &'static str,
    handler: H,
    next: R,
    types: PhantomData<fn(P) -> T>,
}

impl<P, T, H, F, R> Routes for OnRequest<P, T, H, R>
where
    P: DeserializeOwned,
    T: Serialize,
    H: Fn(P, Context) -> F,
    F: Future<Output = Result<T, Failure>>,
    R: Routes,
{
    async fn route(&self, arrival: Arrival, context: Context) -> Option<Arrival> {
        let (request, responder) = match arrival {
            Arrival::Request(request, responder) if request.method == self.method => {
                (request, responder)
            }
            other => return self.next.route(other, context).await,
        };
        let hooks = context.hooks.clone();
        // Reading params and writing results are the host's own code too.
        let work = async {
            let result = (self.handler)(request.params()?, context).await?;
            Ok(to_raw_value(&result)?)
        };
        let done = AssertUnwindSafe(work).catch_unwind().await;
        if let Ok(Err(Failure::InvalidParams(invalid))) = &done {
            hooks.tell(invalid);
        }
        responder.answer(done.unwrap_or_else(|_| {
            // The text of the panic is for our own log, which the hook has written.
            let message = format!("the handler of {} panicked", self.method);
            Err(RpcError::new(code::INTERNAL_ERROR, message).into())
        }));
        None
    }
}

/// See [`Router::notification`].
#[derive(Clone, Debug)]
pub struct OnNotification<P, H, R> {
    method: &'static str,
    handler: H,
    next: R,
    types: PhantomData<fn(P)>,
}

impl<P, H, F, R> Routes for OnNotification<P, H, R>
where
    P: DeserializeOwned,
    H: Fn(P, Context) -> F,
    F: Future<Output = ()>,
    R: Routes,
{
    async fn route(&self, arrival: Arrival, context: Context) -> Option<Arrival> {
        match arrival {
            Arrival::Notification(notification) if notification.method == self.method => {
                match notification.params() {
                    Ok(params) => (self.handler)(params, context).await,
                    Err(invalid) => context.hooks.tell(&invalid),
                }
                None
            }
            other => self.next.route(other, context).await,
        }
    }
}

/// See [`Router::observe`].
#[derive(Clone, Debug)]
pub struct Observe<H, R> {
    observer: H,
    next: R,
}

impl<H: Fn(&Notification) -> Claim, R: Routes> Routes for Observe<H, R> {
    async fn route(&self, arrival: Arrival, context: Context) -> Option<Arrival> {
        if let Arrival::Notification(notification) = &arrival {
            if (self.observer)(notification) == Claim::Claimed {
                return None;
            }
        }
        self.next.route(arrival, context).await
    }
}

/// See [`Router::otherwise`].
#[derive(Clone, Debug)]
pub struct Otherwise<H, R> {
    handler: H,
    routes: R,
}

impl<H, F, R> Routes for Otherwise<H, R>
where
    H: Fn(Arrival, Context) -> F,
    F: Future<Output = ()>,
    R: Routes,
{
    async fn route(&self, arrival: Arrival, context: Context) -> Option<Arrival> {
        let arrival = self.routes.route(arrival, context.clone()).await?;
        (self.handler)(arrival, context).await;
        None
    }
}
