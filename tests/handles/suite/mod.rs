//! The tests that every runtime passes, each named for what it holds: what an adapter, its streams and its timer can get
//! wrong. The others are in `whole.rs`.

mod driving;
mod endings;
mod forwarded;
mod shutdown;

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use protocol_async::{Arrival, Incoming, Options, Peer, Request, Responder};
use protocol_core::{Config, Dialect};

pub(crate) use super::{DRIVER, Router, Shared, TICK, open, run, sleep, spawn};
pub(crate) use crate::Driver;
use crate::far::Far;
use crate::pipe::{ENDLESS, PipeReader, PipeWriter, pipe};

pub(crate) fn acp() -> Config {
    Config::client(Dialect::ACP_V1)
}

/// A connection whose far end is played by hand. Our output waits in a pipe of so many bytes.
pub(crate) fn against_far(options: impl Into<Options>, capacity: usize) -> (Peer, Incoming, Far) {
    let (far_reader, writer) = pipe(capacity);
    let (reader, far_writer) = pipe(ENDLESS);
    let (peer, incoming) = connect(reader, writer, options);
    (peer, incoming, Far::new(far_reader, far_writer))
}

pub(crate) fn connect(
    reader: PipeReader,
    writer: PipeWriter,
    options: impl Into<Options>,
) -> (Peer, Incoming) {
    let (peer, incoming, driver) = open(reader, writer, options.into());
    spawn(async move {
        driver.await.unwrap();
    });
    (peer, incoming)
}

/// The next arrival, which is a request.
pub(crate) async fn request(incoming: &Incoming) -> (Request, Responder) {
    match incoming.receive().await {
        Ok(Arrival::Request(request, responder)) => (request, responder),
        other => panic!("no request: {other:?}"),
    }
}

/// The next arrival, which is a notification of this method.
pub(crate) async fn notification(incoming: &Incoming, method: &str) {
    match incoming.receive().await {
        Ok(Arrival::Notification(notification)) => assert_eq!(notification.method, method),
        other => panic!("no notification: {other:?}"),
    }
}

/// Polls a future once.
pub(crate) async fn is_pending(future: &mut (impl Future + Unpin)) -> bool {
    poll_fn(|cx| Poll::Ready(Pin::new(&mut *future).poll(cx).is_pending())).await
}

pub(crate) fn request_line(id: u64, method: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#)
}

pub(crate) fn notification_line(method: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#)
}

pub(crate) fn cancel_line(id: u64) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"$/cancel_request","params":{{"requestId":{id}}}}}"#)
}

pub(crate) fn result_line(id: u64, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

pub(crate) fn error_line(id: u64, code: i64, message: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"{message}"}}}}"#)
}

pub(crate) fn cancelled_line(id: u64) -> String {
    error_line(id, -32800, "Request cancelled")
}
