//! A cancel on every kind of host, in programs that name no crate of ours but `rescind`.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rescind::core::{Connection, Event, Response};
use rescind::{Cause, Config, Dialect, Router};
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

#[path = "../examples/own_loop.rs"]
#[allow(dead_code, reason = "its main is not run")]
mod own_loop;

#[test]
fn a_loop_of_ones_own_responds_to_a_cancel() {
    let (near, far) = UnixStream::pair().unwrap();
    let peer = std::thread::spawn(move || cancel_over(near));
    let serve = |core: &mut Connection<()>, event: Event<'_, ()>| {
        if let Event::Cancelled { request, cause, .. } = event {
            assert_eq!(cause, Cause::Peer);
            core.respond(request, Response::Cancelled).unwrap();
        }
    };
    own_loop::run(&far, Config::server(Dialect::ACP_V1), serve).unwrap();
    assert_cancelled(&peer.join().unwrap());
}

/// All requests arrive at once, and the outbox has room for a part of the responses.
#[test]
fn a_loop_of_ones_own_sends_every_response_that_had_to_wait_for_room() {
    let (mut near, far) = UnixStream::pair().unwrap();
    near.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let request = |id| json!({ "jsonrpc": "2.0", "id": id, "method": "work" }).to_string() + "\n";
    near.write_all((1..=500).map(request).collect::<String>().as_bytes()).unwrap();
    let peer = std::thread::spawn(move || {
        let mut responses = BufReader::new(near).lines();
        (1..=500).all(|_| responses.next().unwrap().unwrap().contains("done"))
    });
    let mut config = Config::server(Dialect::ACP_V1);
    config.limits.unsent_bytes = 4096;
    let mut server = own_loop::Server::default();
    own_loop::run(&far, config, |core, event| server.serve(core, event)).unwrap();
    assert!(peer.join().unwrap());
}

#[test]
fn the_guide_shows_the_loop_of_the_example() {
    let guide = include_str!("../../../docs/guide/own-driver.md");
    let trimmed = |text: &str| -> String {
        text.lines()
            .map(|line| line.split(" //").next().unwrap().trim().to_owned() + "\n")
            .collect()
    };
    let code = trimmed(guide.split("```rust\n").nth(1).unwrap().split("```").next().unwrap());
    assert!(code.len() > 100 && trimmed(include_str!("../examples/own_loop.rs")).contains(&code));
}

/// Everything above needs one crate of ours.
#[test]
fn the_programs_here_name_no_other_crate_of_ours() {
    assert!(!include_str!("hosts.rs").contains(concat!("protocol", "_")));
}
