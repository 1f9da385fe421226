//! The limits of a listener on its clients together, and the ends of their connections (F47, F49).
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod served;
#[allow(dead_code, reason = "the other tests use the rest")]
mod support;

use std::io::{Read, Write};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use protocol_async::OverBudget;
use protocol_smol::SmolTimer;
use protocol_websocket::{Eviction, HandshakeError, Listener, ListenerLimits, Refused, ServeError};
use serde_json::{Value, json};
use served::{Ended, Server, all};
use support::{PATIENCE, Raw, Runtime, eventually};
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::{Error, Message};

/// Soon enough for a test, and long enough to differ from at once.
const SOON: Duration = Duration::from_millis(200);
const HOUR: Duration = Duration::from_secs(3_600);

/// Runs a check with each runtime, at the same time: most of these tests wait.
fn everywhere(limits: ListenerLimits, check: impl Fn(Server) + Sync) {
    std::thread::scope(|scope| {
        for runtime in Runtime::ALL {
            let check = &check;
            let server = move || check(Server::start(runtime, limits));
            std::thread::Builder::new()
                .name(format!("{runtime:?}"))
                .spawn_scoped(scope, server)
                .unwrap();
        }
    });
}

fn limits(set: impl FnOnce(&mut ListenerLimits)) -> ListenerLimits {
    let mut limits = ListenerLimits::DEFAULT;
    set(&mut limits);
    limits
}

fn ask(raw: &mut Raw, id: u64, method: &str) {
    let request = json!({ "jsonrpc": "2.0", "id": id, "method": method });
    raw.send(Message::text(request.to_string())).unwrap();
}

fn is_answered(raw: &mut Raw) {
    ask(raw, 7, "echo");
    assert_eq!(read(raw), json!({ "jsonrpc": "2.0", "id": 7, "result": null }));
}

/// Returns the next message, which must be text. Pings and pongs may come before it.
fn read(raw: &mut Raw) -> Value {
    loop {
        match raw.read().unwrap() {
            Message::Text(text) => return serde_json::from_str(&text).unwrap(),
            other => assert!(other.is_ping() || other.is_pong(), "{other:?}"),
        }
    }
}

/// Reads on until the server says goodbye.
fn goodbye(raw: &mut Raw) -> Option<CloseCode> {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        if let Message::Close(frame) = raw.read().unwrap() {
            return frame.map(|frame| frame.code);
        }
    }
    panic!("there is no goodbye");
}

/// Returns whether there is anything to read for a client that was sent nothing before.
fn has_goodbye(raw: &Raw) -> bool {
    raw.get_ref().set_nonblocking(true).unwrap();
    let peeked = raw.get_ref().peek(&mut [0]);
    raw.get_ref().set_nonblocking(false).unwrap();
    !matches!(peeked, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
}

#[track_caller]
fn evicted(ended: Ended, by: Eviction) {
    match ended {
        Err(ServeError::Connection(error)) => assert_eq!(Eviction::of(&error), Some(by)),
        other => panic!("{other:?} is no {by:?}"),
    }
}

#[test]
fn f47_connections_are_capped_and_a_place_is_given_back() {
    everywhere(limits(|limits| limits.connections = 2), |server| {
        let (mut one, _other) = (server.open(), server.open());
        let refused = server.try_open();
        assert!(matches!(&refused, Err(Error::Http(answer)) if answer.status() == 503));
        is_answered(&mut one);
        drop(one);
        server.next_end().unwrap();
        is_answered(&mut server.open());
    });
}

#[test]
fn f47_connections_of_one_address_are_capped() {
    let limits = limits(|limits| limits.connections_per_address = 2);
    let listener = Listener::new(limits, SmolTimer::start());
    let admit = |from: &str| listener.admit(Some(from.parse::<IpAddr>().unwrap()));
    let (one, _two) = (admit("192.0.2.1").unwrap(), admit("::ffff:192.0.2.1").unwrap());
    assert_eq!(admit("192.0.2.1").unwrap_err(), Refused::AddressFull);
    let _other = admit("192.0.2.2").unwrap();
    let _networks = (admit("2001:db8::1").unwrap(), admit("2001:db8::2").unwrap());
    assert_eq!(admit("2001:db8::3").unwrap_err(), Refused::AddressFull);
    let _nowhere = [(); 3].map(|()| listener.admit(None).unwrap());
    drop(one);
    let _again = admit("192.0.2.1").unwrap();
    assert_eq!(admit("192.0.2.1").unwrap_err().status(), 429);
}

#[test]
fn f47_a_client_that_asks_for_nothing_is_answered_and_goes() {
    everywhere(limits(|limits| limits.handshake_time = SOON), |server| {
        for begun in ["", "GET / HTTP/1.1\r\nHost: localhost\r\n"] {
            let answer = server.answer(begun.as_bytes());
            assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
            let ended = server.next_end();
            assert!(matches!(
                ended,
                Err(ServeError::Handshake(HandshakeError::Refused(status))) if status == 408
            ));
        }
        assert_eq!(server.connections(), 0);
    });
}

#[test]
fn f49_who_asks_for_no_websocket_is_told() {
    everywhere(ListenerLimits::DEFAULT, |server| {
        let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
        let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\n";
        let version = "Sec-WebSocket-Version: 13\r\n";
        for (request, status) in [
            ("GET / HTTP/1.1\r\nHost: a\r\n\r\n".into(), 426),
            (format!("GET / HTTP/1.1\r\n{upgrade}{key}Sec-WebSocket-Version: 8\r\n\r\n"), 426),
            (format!("GET / HTTP/1.1\r\n{upgrade}{version}\r\n"), 400),
            (format!("GET / HTTP/1.1\r\n{upgrade}{version}Sec-WebSocket-Key: short\r\n\r\n"), 400),
            (format!("POST / HTTP/1.1\r\n{upgrade}{version}{key}\r\nbody"), 405),
            (format!("GET / HTTP/1.0\r\n{upgrade}{version}{key}\r\n"), 505),
            ("\x16\x03\x01 this is TLS\n\r\n".into(), 400),
            (format!("GET / HTTP/1.1\r\n{}", "X: y\r\n".repeat(4_000)), 431),
            (
                format!(
                    "GET / HTTP/1.1\r\nOrigin: http://evil.com/.localhost\r\n{upgrade}{version}{key}\r\n"
                ),
                403,
            ),
        ] {
            let mut stream = server.stream();
            stream.write_all(request.as_bytes()).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let answer = all(&mut stream);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request:.60}: {answer}");
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            let length = format!("content-length: {}", body.len());
            assert!(head.contains(&length) && head.contains("connection: close"), "{answer}");
        }
        let asked = format!("GET / HTTP/1.1\r\n{upgrade}{version}{key}\r\n");
        let mut stream = server.stream();
        // A goodbye in the same write: what follows at once is read.
        stream.write_all(&[asked.as_bytes(), &[0x88, 0x80, 0, 0, 0, 0]].concat()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 101 ") && answer.ends_with(&[0x88, 0]), "{answer:?}");
    });
}

#[test]
fn f47_who_is_sent_away_gets_to_read_why_though_it_still_writes() {
    everywhere(ListenerLimits::DEFAULT, |server| {
        let mut raw = server.open();
        // A frame of no kind, and much behind it.
        let bytes = [&[0x83, 0x80, 0, 0, 0, 0][..], &[0; 48 << 10]].concat();
        raw.get_mut().write_all(&bytes).unwrap();
        raw.get_mut().shutdown(std::net::Shutdown::Write).unwrap();
        let mut said = Vec::new();
        raw.get_mut().read_to_end(&mut said).unwrap();
        assert_eq!(said, [0x88, 2, 0x03, 0xEA], "1002");
    });
}

#[test]
fn f47_who_is_sent_away_in_the_middle_of_a_long_message_gets_to_read_why() {
    everywhere(ListenerLimits::DEFAULT, |server| {
        let mut raw = server.open();
        // Far more than sockets hold, and all of it is written before the goodbye is looked for.
        let length = u64::to_be_bytes(40 << 20);
        raw.get_mut().write_all(&[&[0x82, 0x80 | 127][..], &length, &[0; 4]].concat()).unwrap();
        raw.get_mut().write_all(&vec![b' '; 40 << 20]).unwrap();
        assert_eq!(goodbye(&mut raw), Some(CloseCode::Size));
    });
}

#[test]
fn f47_who_is_refused_keeps_nobody_out() {
    let limits = limits(|limits| {
        limits.connections_per_address = 2;
        limits.handshake_time = HOUR;
    });
    everywhere(limits, |server| {
        let request = "GET / HTTP/1.1\r\nHost: a\r\nOrigin: http://evil.com\r\nConnection: Upgrade\r\n\
                       Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        let refused = || {
            let mut stream = server.stream();
            stream.write_all(request.as_bytes()).unwrap();
            stream
        };
        // They stay, and one goes without a look at its answer.
        let mut there = [refused(), refused()];
        there.iter_mut().for_each(|stream| assert!(all(stream).starts_with("HTTP/1.1 403 ")));
        eventually(|| server.connections() == 0);
        is_answered(&mut server.open());
        let gone = refused();
        gone.peek(&mut [0]).unwrap();
        drop(gone);
        // And the one that was answered.
        let ends: Vec<_> = (0..4).map(|_| server.next_end()).collect();
        let refused = |ended: &&Ended| {
            matches!(
                ended,
                Err(ServeError::Handshake(HandshakeError::Refused(status))) if *status == 403
            )
        };
        assert_eq!(ends.iter().filter(refused).count(), 3, "{ends:?}");
    });
}

#[test]
fn f47_an_unfinished_message_has_its_time() {
    let limits = limits(|limits| {
        limits.message_time = SOON;
        limits.ping_every = Some(SOON / 8);
    });
    everywhere(limits, |server| {
        // A frame that is never finished.
        let mut raw = server.open();
        raw.get_mut().write_all(&[0x82, 0x80 | 126, 0xFF, 0xFF, 0, 0, 0, 0, b'x']).unwrap();
        assert_eq!(goodbye(&mut raw), Some(CloseCode::Policy));
        evicted(server.next_end(), Eviction::UnfinishedMessage);

        // A message whose frames come one by one, and whose client answers every ping.
        let mut raw = server.open();
        raw.get_mut().write_all(&[0x01, 0x81, 0, 0, 0, 0, b'"']).unwrap();
        // A pong that comes too late fails before the goodbye is read.
        while raw.get_mut().write_all(&[0x00, 0x81, 0, 0, 0, 0, b'x']).is_ok() {
            match raw.read() {
                Ok(Message::Ping(_)) => {}
                Ok(Message::Close(frame)) => assert_eq!(frame.unwrap().code, CloseCode::Policy),
                Ok(other) => panic!("{other:?}"),
                Err(_) => break,
            }
        }
        evicted(server.next_end(), Eviction::UnfinishedMessage);
    });
}

#[test]
fn f47_an_unfinished_message_has_its_time_whatever_comes_with_its_frames() {
    let limits = limits(|limits| {
        limits.message_time = SOON;
        limits.ping_every = None;
    });
    everywhere(limits, |server| {
        // Its first frame in one write with a whole message, and nothing behind it.
        let mut raw = server.open();
        let whole = br#"{"jsonrpc":"2.0","method":"whole"}"#;
        let header = [0x81, 0x80 | u8::try_from(whole.len()).unwrap(), 0, 0, 0, 0];
        let bytes = [&header[..], whole, &[0x01, 0x81, 0, 0, 0, 0, b'"']].concat();
        raw.get_mut().write_all(&bytes).unwrap();
        assert_eq!(goodbye(&mut raw), Some(CloseCode::Policy));
        evicted(server.next_end(), Eviction::UnfinishedMessage);

        // Empty frames that never stop: there is always something to read.
        let mut raw = server.open();
        raw.get_mut().write_all(&[0x01, 0x80, 0, 0, 0, 0]).unwrap();
        let frames = [0x00, 0x80, 0, 0, 0, 0].repeat(1_000);
        let begun = Instant::now();
        while !has_goodbye(&raw) && raw.get_mut().write_all(&frames).is_ok() {
            assert!(begun.elapsed() < PATIENCE, "they are all taken");
        }
        drop(raw);
        match server.next_end() {
            Err(ServeError::Connection(error)) => assert!(
                matches!(
                    Eviction::of(&error),
                    // Who is faster than the clock is sent away for what it has sent.
                    Some(Eviction::UnfinishedMessage | Eviction::MessageTooLong)
                ),
                "{error}"
            ),
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn f47_a_frame_that_is_announced_is_charged_before_it_comes() {
    const MIB: usize = 1 << 20;
    everywhere(limits(|limits| limits.unfinished_bytes = 128 * MIB), |server| {
        let announce = |bytes: usize| {
            let mut raw = server.open();
            let length = u64::try_from(bytes).unwrap().to_be_bytes();
            raw.get_mut().write_all(&[&[0x82, 0x80 | 127][..], &length, &[0; 4]].concat()).unwrap();
            raw
        };
        // Of 128 MiB one address has 32, and one message of the longest.
        let _first = announce(20 * MIB);
        eventually(|| server.connections() == 1);
        is_answered(&mut server.open());
        let mut second = announce(20 * MIB);
        assert_eq!(goodbye(&mut second), Some(CloseCode::Again));
        let mut too_long = announce(33 * MIB);
        assert_eq!(goodbye(&mut too_long), Some(CloseCode::Size));
    });
}

/// A handler that goes on keeps its place and no message.
#[test]
fn f131_an_unfinished_message_is_charged_no_longer_than_it_is_kept() {
    const MIB: usize = 1 << 20;
    everywhere(limits(|limits| limits.message_time = SOON), |server| {
        let mut raw = server.open();
        ask(&mut raw, 1, "stubborn");
        is_answered(&mut raw);
        let length = u64::try_from(20 * MIB).unwrap().to_be_bytes();
        raw.get_mut().write_all(&[&[0x82, 0x80 | 127][..], &length, &[0; 4]].concat()).unwrap();
        eventually(|| server.charged() >= 20 * MIB);
        assert_eq!(goodbye(&mut raw), Some(CloseCode::Policy));
        eventually(|| server.charged() < MIB);
        assert_eq!(server.connections(), 1);
    });
}

#[test]
fn f47_unfinished_messages_are_bounded_together() {
    const FREE: usize = 64 << 10;
    everywhere(limits(|limits| limits.unfinished_bytes = FREE), |server| {
        let begin = |bytes: usize| {
            let mut raw = server.open();
            // One frame of a message that has more.
            let length = u64::try_from(bytes).unwrap().to_be_bytes();
            raw.get_mut().write_all(&[&[0x02, 0x80 | 127][..], &length, &[0; 4]].concat()).unwrap();
            raw.get_mut().write_all(&vec![b' '; bytes]).unwrap();
            raw
        };
        let _others: Vec<_> = (0..4).map(|_| begin(FREE / 2)).collect();
        let mut first = begin(2 * FREE - 1_000);
        let mut second = begin(FREE + 2_000);
        // Whichever was read first stays.
        evicted(server.next_end(), Eviction::UnfinishedBytes);
        eventually(|| server.connections() == 5);
        let codes = [&mut first, &mut second].map(|raw| {
            raw.get_mut().set_read_timeout(Some(10 * SOON)).unwrap();
            match raw.read() {
                Ok(Message::Close(frame)) => frame.map(|frame| frame.code),
                _ => None,
            }
        });
        assert_eq!(codes.into_iter().flatten().collect::<Vec<_>>(), [CloseCode::Again]);
        is_answered(&mut server.open());
    });
}

#[test]
fn f47_a_silent_client_is_pinged_and_goes_if_it_stays_silent() {
    let limits = limits(|limits| {
        limits.ping_every = Some(SOON);
        // Who lives has to answer in this time on a loaded machine.
        limits.ping_time = 10 * SOON;
    });
    everywhere(limits, |server| {
        let (silent, mut live) = (server.open(), server.open());
        // Reading is what answers.
        let begun = Instant::now();
        let ended = loop {
            assert!(begun.elapsed() < PATIENCE, "nobody is sent away");
            assert!(live.read().unwrap().is_ping());
            if let Ok(ended) = server.ended.try_recv() {
                break ended;
            }
        };
        evicted(ended, Eviction::Unanswered);
        assert_eq!(server.connections(), 1);
        drop(silent);
    });
}

#[test]
fn f45_a_client_that_reads_nothing_goes_however_it_pings() {
    let limits = limits(|limits| {
        limits.write_time = SOON;
        limits.ping_every = Some(SOON / 4);
    });
    everywhere(limits, |server| {
        let mut raw = server.open();
        // More than sockets hold.
        (0..4).for_each(|id| ask(&mut raw, id, "long"));
        let begun = Instant::now();
        // Nothing that comes is read, and bytes of ours are there all the time.
        while raw.get_mut().write_all(&[0x89, 0x80, 0, 0, 0, 0]).is_ok() && server.connections() > 0
        {
            assert!(begun.elapsed() < PATIENCE, "it stays");
            std::thread::sleep(SOON / 20);
        }
        evicted(server.next_end(), Eviction::Unread);
    });
}

#[test]
fn f47_a_client_that_reads_nothing_and_says_nothing_goes_too() {
    let limits = limits(|limits| {
        limits.ping_every = Some(SOON);
        limits.ping_time = SOON;
    });
    everywhere(limits, |server| {
        let mut raw = server.open();
        // More than sockets hold.
        (0..4).for_each(|id| ask(&mut raw, id, "long"));
        evicted(server.next_end(), Eviction::Unanswered);
    });
}

#[test]
fn f47_an_idle_client_goes_however_it_answers_pings() {
    let limits = limits(|limits| {
        limits.ping_every = Some(SOON / 4);
        limits.idle_time = Some(SOON);
    });
    everywhere(limits, |server| {
        let mut raw = server.open();
        assert!(raw.read().unwrap().is_ping());
        assert_eq!(goodbye(&mut raw), Some(CloseCode::Away));
        evicted(server.next_end(), Eviction::Idle);
    });
}

#[test]
fn f47_a_client_whose_request_is_still_worked_at_is_not_idle() {
    let limits = limits(|limits| {
        limits.ping_every = Some(SOON / 4);
        limits.idle_time = Some(SOON);
    });
    everywhere(limits, |server| {
        let mut raw = server.open();
        ask(&mut raw, 1, "work");
        // Each is a quarter of the idle time after the one before.
        for _ in 0..12 {
            assert!(raw.read().unwrap().is_ping());
        }
        raw.send(Message::text(support::cancel(1).to_string())).unwrap();
        assert_eq!(read(&mut raw)["error"]["code"], -32800);
        assert_eq!(goodbye(&mut raw), Some(CloseCode::Away));
        evicted(server.next_end(), Eviction::Idle);
    });
}

#[test]
fn f45_a_client_that_sends_nothing_but_pings_goes() {
    everywhere(ListenerLimits::DEFAULT, |server| {
        let mut raw = server.open();
        // So many that no machine is too slow to see more of them in a second than the budget has.
        let _ = raw.get_mut().write_all(&[0x89, 0x80, 0, 0, 0, 0].repeat(100_000));
        match server.next_end() {
            Err(ServeError::Connection(error)) => {
                assert!(error.get_ref().unwrap().is::<OverBudget>(), "{error}");
            }
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn f47_a_client_keeps_its_place_until_its_work_is_done() {
    everywhere(limits(|limits| limits.connections = 1), |server| {
        let mut raw = server.open();
        ask(&mut raw, 1, "stubborn");
        is_answered(&mut raw);
        raw.get_ref().shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(raw.get_mut().read(&mut [0; 64]).unwrap(), 0, "its socket is closed");
        assert_eq!(server.connections(), 1);
        assert!(server.try_open().is_err());
    });
}

#[test]
fn g05_a_drain_lets_what_is_in_flight_finish_or_cancels_it() {
    everywhere(ListenerLimits::DEFAULT, |server| {
        let (mut working, mut idle) = (server.open(), server.open());
        ask(&mut working, 1, "work");
        is_answered(&mut working);
        server.drain(Duration::ZERO, HOUR);
        assert_eq!(read(&mut working)["error"]["code"], -32800);
        for raw in [&mut working, &mut idle] {
            assert_eq!(goodbye(raw), Some(CloseCode::Away));
            while raw.read().is_ok() {}
        }
        assert!(server.end().iter().all(Result::is_ok));
    });
    everywhere(ListenerLimits::DEFAULT, |server| {
        let mut working = server.open();
        ask(&mut working, 1, "work");
        is_answered(&mut working);
        server.drain(HOUR, HOUR);
        // It is not cancelled, so the client does that.
        let cancel = support::cancel(1);
        loop {
            ask(&mut working, 2, "echo");
            let answer: Value = read(&mut working);
            if answer.get("error").is_some() {
                break;
            }
        }
        working.send(Message::text(cancel.to_string())).unwrap();
        let answer = read(&mut working);
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(1), &json!(-32800)));
        assert_eq!(goodbye(&mut working), Some(CloseCode::Away));
        while working.read().is_ok() {}
        assert!(server.end().iter().all(Result::is_ok));
    });
}

#[test]
fn g05_a_drain_cancels_what_was_not_finished_in_time_and_answers_it() {
    everywhere(ListenerLimits::DEFAULT, |server| {
        let mut working = server.open();
        ask(&mut working, 1, "work");
        is_answered(&mut working);
        server.drain(SOON, HOUR);
        assert_eq!(read(&mut working)["error"]["code"], -32800);
        assert_eq!(goodbye(&mut working), Some(CloseCode::Away));
        while working.read().is_ok() {}
        assert!(server.end().iter().all(Result::is_ok));
    });
}

#[test]
fn g05_a_drain_ends_when_its_grace_is_over() {
    everywhere(ListenerLimits::DEFAULT, |server| {
        let (mut stubborn, half_open) = (server.open(), server.stream());
        ask(&mut stubborn, 1, "stubborn");
        is_answered(&mut stubborn);
        eventually(|| server.connections() == 2);
        server.drain(SOON, SOON);
        let ended = server.end();
        assert!(ended.iter().any(|ended| matches!(ended, Err(ServeError::Abandoned))), "{ended:?}");
        assert_eq!(ended.len(), 2, "{ended:?}");
        drop(half_open);
    });
}

#[test]
fn g05_a_drain_ends_though_a_seat_is_held_that_nobody_serves() {
    let listener = Listener::new(ListenerLimits::DEFAULT, SmolTimer::start());
    let seat = listener.admit(None).unwrap();
    let begun = Instant::now();
    smol::block_on(listener.drain(SOON, SOON));
    assert!(begun.elapsed() < PATIENCE && listener.connections() == 1);
    drop(seat);
}

#[test]
fn g05_a_conversation_that_is_over_ends_its_connection_though_a_handle_is_held() {
    everywhere(ListenerLimits::DEFAULT, |server| {
        let mut raw = server.open();
        ask(&mut raw, 1, "hold");
        assert_eq!(read(&mut raw)["result"], Value::Null);
        assert_eq!(goodbye(&mut raw), Some(CloseCode::Normal));
        while raw.read().is_ok() {}
        server.next_end().unwrap();
    });
}

#[test]
fn a_drain_without_clients_is_over_at_once() {
    let limits = ListenerLimits::DEFAULT;
    let listener = Listener::new(limits, SmolTimer::start());
    smol::block_on(listener.drain(PATIENCE, PATIENCE));
    assert_eq!(listener.admit(None).unwrap_err(), Refused::Draining);
}
