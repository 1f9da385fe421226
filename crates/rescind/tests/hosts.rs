//! A cancel on every kind of host, in programs that name no crate of ours but `rescind`.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use rescind::core::{Connection, Event, InputBuffer, Response, StreamConnection};
use rescind::{Cause, Config, Dialect, Router, Timestamp};
use serde_json::{Value, json};

/// The request, as the peer's line.
const REQUEST: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"work\"}\n";
/// Its cancel.
const CANCEL: &[u8] =
    b"{\"jsonrpc\":\"2.0\",\"method\":\"$/cancel_request\",\"params\":{\"requestId\":7}}\n";

/// Sends the request and its cancel; returns the response.
fn cancel_over(mut stream: UnixStream) -> Value {
    stream.write_all(REQUEST).unwrap();
    stream.write_all(CANCEL).unwrap();
    let mut response = String::new();
    BufReader::new(stream).read_line(&mut response).unwrap();
    serde_json::from_str(&response).unwrap()
}

fn assert_cancelled(response: &Value) {
    assert_eq!((&response["id"], &response["error"]["code"]), (&json!(7), &json!(-32800)));
}

/// Returns handlers that work until they are cancelled.
fn router() -> Router {
    Router::new().request("work", async |(): (), cx| {
        Ok(cx.cancellation().unless_cancelled(std::future::pending::<()>()).await?)
    })
}

#[test]
fn a_turn_on_tokio_ends_with_its_cancel() {
    let (near, far) = UnixStream::pair().unwrap();
    let peer = std::thread::spawn(move || cancel_over(near));
    far.set_nonblocking(true).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stream = tokio::net::UnixStream::from_std(far).unwrap();
        let agent = rescind::tokio::unix(stream, Config::server(Dialect::ACP_V1));
        router().serve(&agent.incoming).await;
    });
    assert_cancelled(&peer.join().unwrap());
}

#[test]
fn a_turn_on_smol_ends_with_its_cancel() {
    let (near, far) = UnixStream::pair().unwrap();
    let peer = std::thread::spawn(move || cancel_over(near));
    smol::block_on(async {
        let stream = smol::Async::new(far).unwrap().into();
        let agent = rescind::smol::unix(stream, Config::server(Dialect::ACP_V1));
        router().serve(&agent.incoming).await;
    });
    assert_cancelled(&peer.join().unwrap());
}

mod without_a_runtime {
    use rescind::blocking::single::{FdTransport, Host};
    use rescind::blocking::threaded;
    use rescind::blocking::{Answer, Request, Responder};

    use super::*;

    /// Works in steps of a millisecond until a checkpoint fails.
    fn work(_: &Request, responder: &mut dyn Responder) -> Answer {
        loop {
            responder.checkpoint()?;
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    #[test]
    fn work_on_one_thread_ends_at_a_checkpoint() {
        let (near, far) = UnixStream::pair().unwrap();
        let peer = std::thread::spawn(move || cancel_over(near));
        let config = Config::server(Dialect::ACP_V1);
        Host::new(FdTransport::new(&far, &far), config).run(&work).unwrap();
        assert_cancelled(&peer.join().unwrap());
    }

    #[test]
    fn work_on_threads_ends_at_a_checkpoint() {
        let (near, far) = UnixStream::pair().unwrap();
        let peer = std::thread::spawn(move || cancel_over(near));
        let (ours, incoming) = threaded::unix(far, Config::server(Dialect::ACP_V1)).unwrap();
        drop(ours);
        threaded::serve(&incoming, 1, &work);
        assert_cancelled(&peer.join().unwrap());
    }
}

/// Hands what a peer sent to the core in one piece, and responds as the core reports.
#[test]
fn a_loop_of_ones_own_responds_to_a_cancel() {
    let mut core = StreamConnection::<()>::new(Config::server(Dialect::ACP_V1));
    let (mut input, mut output) = (InputBuffer::new(), Vec::new());
    let serve = |core: &mut Connection<()>, event: Event<'_, ()>| {
        if let Event::Cancelled { request, cause, .. } = event {
            assert_eq!(cause, Cause::Peer);
            core.respond(request, Response::Cancelled).unwrap();
        }
    };
    input.extend_from_slice(REQUEST);
    input.extend_from_slice(CANCEL);
    loop {
        let received = core.receive(input.unread(), Timestamp::ZERO);
        let (consumed, mut event) = (received.consumed, received.event);
        while let Some(reported) = event {
            serve(core.connection_mut(), reported);
            event = core.connection_mut().poll_event();
        }
        input.consume(consumed);
        if consumed == 0 {
            break;
        }
    }
    while core.poll_transmit(&mut output).is_some() {}
    assert_cancelled(&serde_json::from_slice(&output).unwrap());
}

/// Everything above needs one crate of ours.
#[test]
fn the_programs_here_name_no_other_crate_of_ours() {
    assert!(!include_str!("hosts.rs").contains(concat!("protocol", "_")));
}
