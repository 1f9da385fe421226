//! The beginning and the end of a language server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lsp_types::notification::{Exit, Notification as _};
use lsp_types::request::{Initialize, Request as _, Shutdown};
use lsp_types::{InitializeParams, InitializeResult};
use protocol_async::{Incoming, RpcError};
use protocol_core::code;
use protocol_router::{Context, Router};
use serde::de::IgnoredAny;

use crate::methods::Request;

/// Serves a language server until the notification `exit`, or until the editor hangs up.
///
/// It adds three handlers to the router. That of `initialize` returns what `describe` makes of the
/// editor's params, and that of `shutdown` returns null. After `shutdown` each request gets error
/// -32600, but for those that a fallback of the router takes. That of `exit` cancels what is still at
/// work, and ends the connection.
///
/// Returns the exit code for the process, which is 0 after `shutdown` and 1 without it. By then every
/// response is written.
///
/// Requests before `initialize` are served. With `Dialect::session` the core refuses them.
pub async fn serve<S, D>(router: Router<S>, incoming: &Incoming, describe: D) -> i32
where
    S: Send + Sync + 'static,
    D: Fn(InitializeParams) -> InitializeResult + Send + Sync + 'static,
{
    let describe = Arc::new(describe);
    let is_shut_down = Arc::new(AtomicBool::new(false));
    let (shutting_down, seen) = (is_shut_down.clone(), is_shut_down.clone());
    let router = router
        .before(move |_| match seen.load(Ordering::Relaxed) {
            true => Err(RpcError::new(code::INVALID_REQUEST, "the server is shut down").into()),
            false => Ok(()),
        })
        .on_request::<Request<Initialize>, _>(async move |params, _| Ok(describe(params)))
        // Editors write the params of these two in various ways, though there are none.
        .request(Shutdown::METHOD, async move |_: IgnoredAny, _| {
            shutting_down.store(true, Ordering::Relaxed);
            Ok(())
        })
        .notification(Exit::METHOD, async |_: IgnoredAny, cx: Context<S>| {
            cx.peer().shutdown(protocol_core::Shutdown::CancelAll);
            Ok(())
        });
    router.serve(incoming).await;
    i32::from(!is_shut_down.load(Ordering::Relaxed))
}
