//! Both WebSocket crates over real loopback sockets: against each other, and against a peer that sends and
//! withholds what it likes.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io;
use std::net::{TcpListener, TcpStream};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_io::{AsyncRead, AsyncWrite};
use protocol_async::{Arrival, CallError, Incoming, Options, Peer, Phase, Request, Responder};
use protocol_core::{CallOptions, Cause, Config, Dialect, Role, Shutdown};
use protocol_router::Router;
use protocol_smol::SmolTimer;
use protocol_websocket::{Listener, ListenerLimits, Origins};
use serde_json::Value;
use smol::block_on;
use support::{PATIENCE, Runtime, Side, cancel, connected, eventually, facing, read, request};
use tungstenite::Message;

const MIB: usize = 1 << 20;

fn acp() -> Config {
    Config::client(Dialect::ACP_V1)
}

/// Runs a check with each runtime on each side.
fn in_pairs(config: Config, check: impl Fn(Side, Side)) {
    for client in Runtime::ALL {
        for server in Runtime::ALL {
            println!("{client:?} client, {server:?} server");
            let (client, server) = connected(client, server, config.clone());
            check(client, server);
        }
    }
}

/// Runs a check against a peer that is not ours.
fn everywhere(config: Config, check: impl Fn(Side, support::Raw)) {
    for runtime in Runtime::ALL {
        println!("{runtime:?}");
        let (side, raw) = facing(runtime, Role::Server, Options::new(config.clone()));
        check(side, raw);
    }
}

fn next_request(side: &mut Side) -> (Request, Responder) {
    match block_on(side.incoming.receive()) {
        Ok(Arrival::Request(request, responder)) => (request, responder),
        other => panic!("{other:?} is no request"),
    }
}

#[test]
fn calls_are_answered_both_ways() {
    for dialect in [Dialect::ACP_V1, Dialect::LSP_3_17] {
        in_pairs(Config::client(dialect), |client, server| {
            let sides = [&client, &server];
            let served = sides.map(|side| {
                let incoming = side.incoming.clone();
                std::thread::spawn(move || {
                    let router =
                        Router::new().request("double", async |(n,): (u64,), _cx| Ok(2 * n));
                    block_on(router.serve(&incoming))
                })
            });
            for side in sides {
                let doubled: u64 = block_on(side.peer().call("double", (21,))).unwrap();
                assert_eq!(doubled, 42);
            }
            client.peer().shutdown(Shutdown::Drain);
            client.end().unwrap();
            server.end().unwrap();
            for served in served {
                served.join().unwrap();
            }
        });
    }
}

#[test]
fn g03_a_cancel_during_the_work_marks_it_and_is_answered() {
    in_pairs(acp(), |client, mut server| {
        let sent = client.peer().call::<Value>("work", ());
        let (_, responder) = next_request(&mut server);
        let marker = responder.cancellation().clone();
        sent.cancel();
        block_on(marker.cancelled());
        assert_eq!(marker.cause(), Some(Cause::Peer));
        drop(responder);
        let outcome = block_on(sent);
        assert!(matches!(outcome, Err(CallError::Cancelled { error: Some(_), .. })), "{outcome:?}");
    });
}

#[test]
fn b09_a_cancel_in_the_same_write_is_there_before_the_work_begins() {
    everywhere(acp(), |mut side, mut raw| {
        raw.write(Message::text(request(1).to_string())).unwrap();
        raw.write(Message::text(cancel(1).to_string())).unwrap();
        raw.flush().unwrap();
        // Nobody has taken it yet.
        eventually(|| {
            let in_flight = side.peer().in_flight(1);
            in_flight.iter().any(|request| request.phase == Phase::Cancelled)
        });
        let (_, responder) = next_request(&mut side);
        assert!(responder.cancellation().is_cancelled());
        drop(responder);
        assert_eq!(read(&mut raw)["error"]["code"], -32800);
    });
}

#[test]
fn g05_a_deadline_frees_its_caller_and_tells_the_peer() {
    in_pairs(acp(), |client, mut server| {
        let options = CallOptions::default().timeout(Duration::from_millis(50));
        let sent = client.peer().call_with::<Value>("work", (), options);
        let (_, responder) = next_request(&mut server);
        let outcome = block_on(sent);
        assert!(
            matches!(outcome, Err(CallError::TimedOut { cause: Cause::Deadline })),
            "{outcome:?}"
        );
        block_on(responder.cancellation().cancelled());
    });
}

#[test]
fn g07_a_peer_that_closes_or_is_gone_settles_and_marks_everything() {
    for says_goodbye in [true, false] {
        everywhere(acp(), |mut side, mut raw| {
            let sent = side.peer().call::<Value>("work", ());
            assert_eq!(read(&mut raw)["method"], "work");
            raw.send(Message::text(request(1).to_string())).unwrap();
            let (_, responder) = next_request(&mut side);
            if says_goodbye {
                raw.close(None).unwrap();
                let answer = raw.read();
                assert!(matches!(answer, Ok(Message::Close(_))), "{answer:?}");
            }
            drop(raw);
            let outcome = block_on(sent);
            assert!(matches!(outcome, Err(CallError::ConnectionLost { .. })), "{outcome:?}");
            block_on(responder.cancellation().cancelled());
            assert_eq!(responder.cancellation().cause(), Some(Cause::PeerGone));
            drop(responder);
            side.end().unwrap();
        });
    }
}

#[test]
fn g08_too_large_a_message_is_refused_and_the_connection_lives_unless_it_is_far_too_large() {
    let mut config = acp();
    config.limits.message_bytes = MIB;
    everywhere(config, |side, mut raw| {
        raw.send(Message::text(" ".repeat(2 * MIB))).unwrap();
        assert_eq!(read(&mut raw)["error"]["code"], -32600);
        raw.send(Message::text(request(1).to_string())).unwrap();
        while !matches!(block_on(side.incoming.receive()), Ok(Arrival::Request(..))) {}
        // The rest of it may find nobody any more.
        let _ = raw.send(Message::text(" ".repeat(2 * MIB + 1)));
        while block_on(side.incoming.receive()).is_ok() {}
        let ended = side.end().unwrap_err();
        assert!(ended.to_string().contains("Message too long"), "{ended}");
    });
}

#[test]
fn a_message_of_many_frames_worth_arrives_whole() {
    in_pairs(acp(), |client, server| {
        let incoming = server.incoming.clone();
        let served = std::thread::spawn(move || {
            let router = Router::new().request("echo", async |(text,): (String,), _cx| Ok(text));
            block_on(router.serve(&incoming))
        });
        let text = "é".repeat(MIB);
        let echoed: String = block_on(client.peer().call("echo", (&text,))).unwrap();
        assert!(echoed == text);
        client.end().unwrap();
        served.join().unwrap();
        server.end().unwrap();
    });
}

#[test]
fn g03_cancels_are_marked_while_the_peer_reads_nothing() {
    everywhere(acp(), |mut side, mut raw| {
        const ANSWERS: u64 = 16;
        for id in 0..=ANSWERS {
            raw.send(Message::text(request(id).to_string())).unwrap();
        }
        let (_, last) = next_request(&mut side);
        for _ in 0..ANSWERS {
            let (_, responder) = next_request(&mut side);
            let text = serde_json::value::to_raw_value(&"x".repeat(MIB)).unwrap();
            responder.respond(text);
        }
        raw.send(Message::text(cancel(0).to_string())).unwrap();
        let begun = Instant::now();
        block_on(last.cancellation().cancelled());
        assert!(begun.elapsed() < PATIENCE);
        drop(last);
        let answers: Vec<_> = (0..=ANSWERS).map(|_| read(&mut raw)).collect();
        let cancelled: Vec<_> =
            answers.iter().filter(|answer| answer["error"]["code"] == -32800).collect();
        assert_eq!(cancelled.len(), 1);
        assert_eq!(cancelled[0]["id"], 0);
    });
}

#[test]
fn pings_are_answered_and_binary_is_taken_while_work_is_done() {
    everywhere(acp(), |mut side, mut raw| {
        raw.send(Message::binary(request(1).to_string().into_bytes())).unwrap();
        let (_, responder) = next_request(&mut side);
        raw.send(Message::Ping("still there?".into())).unwrap();
        let pong = raw.read().unwrap();
        assert_eq!(pong, Message::Pong("still there?".into()));
        drop(responder);
        assert!(raw.read().unwrap().is_text());
    });
}

#[test]
fn a_connection_that_nobody_holds_answers_and_says_goodbye() {
    everywhere(acp(), |mut side, mut raw| {
        raw.send(Message::text(request(1).to_string())).unwrap();
        let (_, responder) = next_request(&mut side);
        let ended = side.let_go();
        responder.respond(serde_json::value::to_raw_value(&7).unwrap());
        assert_eq!(read(&mut raw)["result"], 7);
        let goodbye = raw.read().unwrap();
        assert!(goodbye.is_close(), "{goodbye:?}");
        // To read on is what answers it.
        while raw.read().is_ok() {}
        ended.join().unwrap().unwrap();
    });
}

#[test]
fn a_page_of_a_strange_origin_is_refused() {
    for runtime in Runtime::ALL {
        for (origin, is_admitted) in [
            (None, true),
            (Some("http://localhost:3000"), true),
            (Some("https://pages.example"), true),
            (Some("https://example.org"), false),
            (Some("null"), false),
        ] {
            let status = support::status_for(runtime, origin, "https://pages.example");
            assert_eq!(status, if is_admitted { 101 } else { 403 }, "{runtime:?}, {origin:?}");
        }
    }
}

/// A stream that notes that it is closed, as TLS has to be.
struct Closing(smol::Async<TcpStream>, Arc<AtomicBool>);

impl AsyncRead for Closing {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        room: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_read(cx, room)
    }
}

impl AsyncWrite for Closing {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.1.store(true, Ordering::Relaxed);
        Pin::new(&mut self.0).poll_close(cx)
    }
}

#[test]
fn a_listener_closes_the_stream_below_whoever_says_goodbye_first() {
    for client_is_first in [true, false] {
        let bound = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = bound.local_addr().unwrap();
        let client = std::thread::spawn(move || {
            let stream = TcpStream::connect(address).unwrap();
            let (mut raw, _) = tungstenite::client(format!("ws://{address}/"), stream).unwrap();
            if client_is_first {
                raw.close(None).unwrap();
            }
            while raw.read().is_ok() {}
        });
        let closed = Arc::<AtomicBool>::default();
        let stream = smol::Async::new(bound.accept().unwrap().0).unwrap();
        let stream = Closing(stream, closed.clone());
        let seat = Listener::new(ListenerLimits::DEFAULT, SmolTimer::start()).admit(None).unwrap();
        let conversation = async |peer: Peer, incoming: Incoming| {
            if !client_is_first {
                peer.shutdown(Shutdown::Drain);
            }
            while incoming.receive().await.is_ok() {}
        };
        let gate = Origins::local();
        let config = Config::server(Dialect::ACP_V1);
        block_on(seat.serve(stream, &gate, config, conversation)).unwrap();
        client.join().unwrap();
        assert!(closed.load(Ordering::Relaxed), "client first: {client_is_first}");
    }
}
