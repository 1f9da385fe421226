//! The beginning and the end of a language server.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use lsp_types::notification::{Exit, Notification as _};
use lsp_types::request::{Initialize, Request as _, Shutdown};
use lsp_types::{InitializeParams, InitializeResult};
use protocol_async::{Arrival, Incoming, RpcError};
use protocol_core::code;
use protocol_router::Router;

use crate::methods::Request;

/// The time that work has after the end.
const GRACE: Duration = Duration::from_secs(1);
/// No editor runs so long.
const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The messages that end a server, once they have come.
#[derive(Default)]
struct End {
    is_shut_down: AtomicBool,
    has_exited: AtomicBool,
}

/// Serves a language server until the notification `exit`, or until the editor hangs up.
///
/// It adds a handler to the router: that of `initialize` returns what `describe` makes of the editor's
/// params. It deals with `shutdown` and `exit` before any limit, layer or handler. The response to
/// `shutdown` is null, and each later request gets error -32600.
///
/// `exit` and a hang-up cancel what is still at work, and end the connection. Work that goes on, whether
/// it cleans up or ignores its marker, is dropped after a second.
///
/// Returns the exit code for the process, which is 0 after `shutdown` and 1 without it. By then every
/// response is written, or can't be any more.
///
/// Requests before `initialize` are served. With `Dialect::session` the core refuses them. While more
/// than 64 notifications wait, `shutdown` and `exit` wait behind them ([Order](protocol_router#order)).
pub async fn serve<S, D>(router: Router<S>, incoming: &Incoming, describe: D) -> i32
where
    S: Send + Sync + 'static,
    D: Fn(InitializeParams) -> InitializeResult + Send + Sync + 'static,
{
    let (describe, end) = (Arc::new(describe), Arc::new(End::default()));
    let seen = end.clone();
    let router = router
        .on_request::<Request<Initialize>, _>(async move |params, _| Ok(describe(params)))
        .gate(move |arrival| seen.take(arrival));
    serve_to_its_end(&router, incoming, &end).await;
    incoming.peer().flushed().await;
    i32::from(!end.is_shut_down.load(Ordering::Relaxed))
}

impl End {
    /// Takes an arrival that ends the server, or comes after `shutdown`.
    ///
    /// Editors write the params of `shutdown` and `exit` in various ways, though there are none.
    fn take(&self, arrival: Arrival) -> Option<Arrival> {
        match arrival {
            Arrival::Request(_, responder) if self.is_shut_down.load(Ordering::Relaxed) => {
                let error = RpcError::new(code::INVALID_REQUEST, "the server is shut down");
                responder.respond_with_failure(error);
            }
            Arrival::Request(request, responder) if request.method == Shutdown::METHOD => {
                self.is_shut_down.store(true, Ordering::Relaxed);
                responder.cast().respond(());
            }
            Arrival::Notification(told) if told.method == Exit::METHOD => {
                self.has_exited.store(true, Ordering::Relaxed);
            }
            arrival => return Some(arrival),
        }
        None
    }
}

/// Serves until all is done, or for the grace after the end. Then what is still at work is dropped.
async fn serve_to_its_end<S>(router: &Router<S>, incoming: &Incoming, end: &End) {
    let peer = incoming.peer();
    let (mut serving, mut closed) = (pin!(router.serve(incoming)), peer.closed());
    // An alarm keeps the driver after a hang-up, and the driver keeps the time.
    let mut keeps_driver = peer.sleep_until(peer.now() + YEAR);
    let mut grace = None;
    poll_fn(|task| {
        let _ = Pin::new(&mut keeps_driver).poll(task);
        if serving.as_mut().poll(task).is_ready() {
            return Poll::Ready(());
        }
        let has_exited = end.has_exited.load(Ordering::Relaxed);
        if grace.is_none() && (has_exited || Pin::new(&mut closed).poll(task).is_ready()) {
            grace = Some(peer.sleep_until(peer.now() + GRACE));
            peer.shutdown(protocol_core::Shutdown::CancelAll);
        }
        grace.as_mut().map_or(Poll::Pending, |grace| Pin::new(grace).poll(task))
    })
    .await;
}
