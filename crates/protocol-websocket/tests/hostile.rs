//! A peer can make a WebSocket keep only so much, and only for so long. That holds for pongs and responses that
//! it does not read, and for the socket itself (F45, F47, F49).
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "the other tests use the rest")]
mod support;

use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::Mutex;

use heap::Heap;
use protocol_async::{Arrival, Budget, Budgets, Cheap, Options, OverBudget, Responder};
use protocol_core::{Config, Dialect, Role};
use smol::block_on;
use support::{Raw, Runtime, Side, facing, request};
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::{Error, Message};

const MIB: usize = 1 << 20;

/// One test at a time: the counts are of the whole process.
static ALONE: Mutex<()> = Mutex::new(());

/// Runs a check on a server on each runtime, with these options.
fn everywhere(set: impl Fn(&mut Options), check: impl Fn(Side, Raw)) {
    let _alone = ALONE.lock();
    for runtime in Runtime::ALL {
        println!("{runtime:?}");
        let mut options = acp();
        set(&mut options);
        let (side, raw) = facing(runtime, Role::Server, options);
        check(side, raw);
    }
}

fn acp() -> Options {
    Options::new(Config::server(Dialect::ACP_V1))
}

fn next_request(side: &mut Side) -> Responder {
    match block_on(side.incoming.receive()) {
        Ok(Arrival::Request(_, responder)) => responder,
        other => panic!("{other:?} is no request"),
    }
}

/// Returns a short frame of a client's, with this first byte.
fn frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
    let len = u8::try_from(payload.len()).unwrap();
    [&[opcode, 0x80 | len, 0, 0, 0, 0], payload].concat()
}

#[test]
fn f45_pongs_that_nobody_reads_are_bounded_and_reading_goes_on() {
    let set = |options: &mut Options| options.budgets.control_frames = Budget::Unlimited;
    everywhere(set, |mut side, mut raw| {
        // 50 MB of pongs, far more than sockets hold.
        let pings = frame(0x89, &[b'x'; 125]).repeat(1_000);
        let heap = Heap::of_process();
        for _ in 0..400 {
            raw.get_mut().write_all(&pings).unwrap();
        }
        raw.send(Message::text(request(1).to_string())).unwrap();
        let _responder = next_request(&mut side);
        let kept = heap.peak();
        assert!(kept < MIB, "{kept} bytes were kept");
    });
}

#[test]
fn f45_a_peer_that_sends_nothing_but_pings_goes_whoever_called_whom() {
    let _alone = ALONE.lock();
    let budget = Budgets::default().control_frames;
    let Budget::Limited { burst, .. } = budget else { panic!("there is none") };
    let pings = |raw: &mut Raw, mask: &[u8], many| {
        // A side that is ended reads no more.
        let _ = raw.get_mut().write_all(&[&[0x89][..], mask].concat().repeat(many));
    };
    let masks: [(Role, &[u8]); 2] = [(Role::Server, &[0x80, 0, 0, 0, 0]), (Role::Client, &[0])];
    for runtime in Runtime::ALL {
        for (role, mask) in masks {
            println!("{runtime:?}, {role:?}");
            let (mut side, mut raw) = facing(runtime, role, acp());
            pings(&mut raw, mask, burst as usize);
            raw.send(Message::text(request(1).to_string())).unwrap();
            drop(next_request(&mut side));
            // So many that no machine is too slow to see more than the budget has.
            pings(&mut raw, mask, 100 * burst as usize);
            let ended = side.ended_by_peer().unwrap_err();
            let over = ended.get_ref().unwrap().downcast_ref::<OverBudget>().unwrap();
            assert_eq!((over.what, over.budget), (Cheap::ControlFrame, budget));
        }
    }
}

#[test]
fn f45_a_peer_that_pings_too_often_is_told_so() {
    let few = Budget::Limited { per_second: 1, burst: 3 };
    everywhere(
        |options| options.budgets.control_frames = few,
        |side, mut raw| {
            raw.get_mut().write_all(&frame(0x8A, b"").repeat(40)).unwrap();
            assert_eq!(goodbye(&mut raw), Some(CloseCode::Policy));
            side.end().unwrap_err();
        },
    );
}

#[test]
fn f47_a_peer_that_is_gone_keeps_no_socket_while_its_handler_still_works() {
    everywhere(
        |_| {},
        |mut side, mut raw| {
            raw.send(Message::text(request(1).to_string())).unwrap();
            let responder = next_request(&mut side);
            raw.get_ref().shutdown(Shutdown::Write).unwrap();
            block_on(responder.cancellation().cancelled());
            // Reading would fail rather than wait for ever.
            assert_eq!(raw.get_mut().read(&mut [0; 64]).unwrap(), 0, "it is closed");
            drop(responder);
            side.end().unwrap();
        },
    );
}

#[test]
fn f47_a_peer_that_said_goodbye_keeps_no_socket_while_its_handler_still_works() {
    everywhere(
        |_| {},
        |mut side, mut raw| {
            raw.send(Message::text(request(1).to_string())).unwrap();
            let responder = next_request(&mut side);
            raw.close(None).unwrap();
            block_on(responder.cancellation().cancelled());
            assert!(raw.read().unwrap().is_close());
            // tungstenite says so once the server has closed the connection.
            let ended = raw.read();
            assert!(matches!(ended, Err(Error::ConnectionClosed)), "{ended:?}");
            drop(responder);
            side.end().unwrap();
        },
    );
}

#[test]
fn f49_a_goodbye_says_why() {
    let set = |options: &mut Options| options.config.limits.message_bytes = 1_000;
    let too_long = [&[0x82, 0x80 | 126][..], &u16::to_be_bytes(2_001), &[0; 4]].concat();
    for (bytes, code) in [
        (too_long, CloseCode::Size),
        (frame(0x81, b"\xFF\xFE"), CloseCode::Invalid),
        (frame(0x83, b"reserved"), CloseCode::Protocol),
        (vec![0x81, 1, b'1'], CloseCode::Protocol),
    ] {
        everywhere(set, |side, mut raw| {
            raw.get_mut().write_all(&bytes).unwrap();
            assert_eq!(goodbye(&mut raw), Some(code), "{bytes:?}");
            side.end().unwrap_err();
        });
    }
    everywhere(set, |side, mut raw| {
        let ended = side.let_go();
        assert_eq!(goodbye(&mut raw), Some(CloseCode::Normal));
        while raw.read().is_ok() {}
        ended.join().unwrap().unwrap();
    });
}

fn goodbye(raw: &mut Raw) -> Option<CloseCode> {
    match raw.read().unwrap() {
        Message::Close(frame) => frame.map(|frame| frame.code),
        other => panic!("{other:?} is no goodbye"),
    }
}
