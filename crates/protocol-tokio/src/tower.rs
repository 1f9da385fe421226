//! The middlewares of `tower` around the requests of a [`Router`](protocol_router::Router).
//!
//! A layer of tower becomes a layer of a router by [`layer`]. Its services take [`Request`]s, and their
//! responses are results as they are on the wire.
//!
//! ```
//! use protocol_router::Router;
//! use std::time::Duration;
//! use tower::ServiceBuilder;
//!
//! let middlewares = ServiceBuilder::new()
//!     .concurrency_limit(8)
//!     .timeout(Duration::from_secs(30))
//!     .into_inner();
//! let router = Router::new()
//!     .layer(protocol_tokio::tower::layer(middlewares))
//!     .request("add", async |(a, b): (i64, i64), _| Ok(a + b));
//! ```

use std::error::Error;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{self, Poll};

use protocol_async::{Answer, Failure};
use protocol_router::{Context, Next, Threads};
use serde_json::value::RawValue;
use tower_layer::Layer;
use tower_service::Service;

/// A request on its way through middlewares.
pub struct Request<S = ()> {
    /// The context of the request: its method and params, its marker, the way back to the peer.
    pub cx: Context<S>,
    next: Next<S, Threads>,
}

/// The service inside a middleware: the other layers of the router, and then the handler. It is always
/// ready.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inner;

/// A [`Failure`] as an error, which middlewares ask for. If it comes out of a middleware, it is that failure
/// again. Any other error is [`Failure::internal`], of which the peer learns nothing.
#[derive(Clone, Debug)]
pub struct Failed(pub Failure);

type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Makes a layer of a router, for [`layer`](protocol_router::RouterOf::layer), of a layer of `tower`.
///
/// Each request has a clone of the service, as everywhere with `tower`. The service shares by itself what
/// clones have in common, such as a limit. A request waits until its clone is ready. If it is cancelled
/// meanwhile, it gets that response at once. If a middleware drops its work, as a timeout does, the calls of
/// the handler are cancelled.
pub fn layer<S, L>(
    layer: L,
) -> impl FnOnce(Context<S>, Next<S, Threads>) -> Work<Answer> + Clone + Send + Sync
where
    S: Send + Sync + 'static,
    L: Layer<Inner>,
    L::Service: Service<Request<S>, Response = Box<RawValue>> + Clone + Send + 'static,
    <L::Service as Service<Request<S>>>::Error: Into<Box<dyn Error + Send + Sync>>,
    <L::Service as Service<Request<S>>>::Future: Send,
{
    // Behind a lock, because many services are not `Sync`: it is only cloned there.
    let service = Arc::new(Mutex::new(layer.layer(Inner)));
    move |cx, next| {
        let mut service = service.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Box::pin(async move {
            let ready = poll_fn(|task| service.poll_ready(task));
            cx.cancellation().unless_cancelled(ready).await?.map_err(failure)?;
            service.call(Request { cx, next }).await.map_err(failure)
        })
    }
}

fn failure(error: impl Into<Box<dyn Error + Send + Sync>>) -> Failure {
    match error.into().downcast::<Failed>() {
        Ok(failed) => failed.0,
        Err(error) => Failure::internal(error),
    }
}

impl<S: Send + Sync + 'static> Service<Request<S>> for Inner {
    type Response = Box<RawValue>;
    type Error = Failed;
    type Future = Work<Result<Box<RawValue>, Failed>>;

    fn poll_ready(&mut self, _: &mut task::Context<'_>) -> Poll<Result<(), Failed>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, Request { cx, next }: Request<S>) -> Self::Future {
        Box::pin(async move { next.run(cx).await.map_err(Failed) })
    }
}

impl<S> fmt::Debug for Request<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").field("cx", &self.cx).finish_non_exhaustive()
    }
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Self {
        Self(failure)
    }
}

/// Nothing of params or results.
impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Failure::Error(error) => write!(f, "error {}", error.code),
            Failure::InvalidParams(invalid) => invalid.fmt(f),
            Failure::Internal(internal) => internal.fmt(f),
            _ => f.write_str("cancelled"),
        }
    }
}

impl Error for Failed {}
