//! The tests, each named for what it holds; see `main.rs`.

mod calls;
mod endings;
mod flow;
mod forwarded;
mod hostile;
mod keep_alive;
mod markers;
mod operations;
mod proxies;
mod requests;
mod router;
mod served;
mod shutdown;
mod undo;

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use protocol_async::{Arrival, Incoming, Options, Peer, Request, Responder};
use protocol_core::{Config, Dialect};

use super::{DRIVER, Router, Shared, TICK, open, run, sleep, spawn};
use crate::Driver;
use crate::far::Far;
use crate::pipe::{ENDLESS, PipeReader, PipeWriter, pipe};

fn acp() -> Config {
    Config::client(Dialect::ACP_V1)
}

/// A connection whose far end is played by hand. Our output waits in a pipe of so many bytes.
fn against_far(options: impl Into<Options>, capacity: usize) -> (Peer, Incoming, Far) {
    let (far_reader, writer) = pipe(capacity);
    let (reader, far_writer) = pipe(ENDLESS);
    let (peer, incoming) = connect(reader, writer, options);
    (peer, incoming, Far::new(far_reader, far_writer))
}

/// Two ends of one connection.
fn pair() -> ((Peer, Incoming), (Peer, Incoming)) {
    let (near_reader, far_writer) = pipe(4 << 10);
    let (far_reader, near_writer) = pipe(4 << 10);
    let server = Config::server(Dialect::ACP_V1);
    (connect(near_reader, near_writer, acp()), connect(far_reader, far_writer, server))
}

fn connect(
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
async fn request(incoming: &Incoming) -> (Request, Responder) {
    match incoming.receive().await {
        Ok(Arrival::Request(request, responder)) => (request, responder),
        other => panic!("no request: {other:?}"),
    }
}

/// The next arrival, which is a notification of this method.
async fn notification(incoming: &Incoming, method: &str) {
    match incoming.receive().await {
        Ok(Arrival::Notification(notification)) => assert_eq!(notification.method, method),
        other => panic!("no notification: {other:?}"),
    }
}

/// Polls a future once.
async fn is_pending(future: &mut (impl Future + Unpin)) -> bool {
    poll_fn(|cx| Poll::Ready(Pin::new(&mut *future).poll(cx).is_pending())).await
}

fn request_line(id: u64, method: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#)
}

fn notification_line(method: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#)
}

fn cancel_line(id: u64) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"$/cancel_request","params":{{"requestId":{id}}}}}"#)
}

fn result_line(id: u64, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

fn error_line(id: u64, code: i64, message: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"{message}"}}}}"#)
}

fn cancelled_line(id: u64) -> String {
    error_line(id, -32800, "Request cancelled")
}
