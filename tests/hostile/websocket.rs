//! Clients of `rescind serve --listen` that ask for too much, and one beside them that does not.

use std::io::{self, Write};
use std::time::Duration;

use rescind_hostile_suite::attacks::{self, Held, descriptors};
use rescind_hostile_suite::beside::beside;
use rescind_hostile_suite::stream::Stream;
use rescind_hostile_suite::wire::{Target, header};
use rescind_hostile_suite::{KIB, MIB, mib};
use tungstenite::WebSocket;

use crate::program::Program;
use crate::{alone, formula};

/// The most times that an attack is measured. Other work of the machine may slow one attempt; an attack slows all.
const ATTEMPTS: usize = 3;
/// The most by which another client's median may grow, as a factor.
const SLOWER: u32 = 5;
/// The time that 99 in a hundred of its round trips have to stay below.
const P99: Duration = Duration::from_millis(100);

pub(crate) struct Server {
    pub(crate) program: Program,
    pub(crate) target: Target,
}

/// One client that sends what it likes.
pub(crate) type Client = WebSocket<Stream>;

impl Server {
    pub(crate) fn start(more: &[&str]) -> Self {
        let arguments = [&["serve", "--listen", "ws://127.0.0.1:0"], more].concat();
        let mut program = Program::start(&arguments);
        let line = program.first_line();
        let target = line.trim().trim_start_matches("listening on ").parse().unwrap();
        Self { program, target }
    }

    pub(crate) fn open(&self) -> Client {
        self.target.websocket().expect("it takes clients")
    }
}

/// Attacks a server, and measures the cost to it and to another client. An attack counts only
/// if the server takes at least so many of its messages.
fn withstands(
    name: &str,
    options: &[&str],
    most: usize,
    at_least: usize,
    attack: impl Fn(&Target) -> io::Result<Held> + Sync,
) {
    let _alone = alone();
    for _ in 0..ATTEMPTS {
        let server = Server::start(options);
        let process = server.program.process();
        let (cost, held) = beside(&server.target, Some(process), &attack).unwrap();
        let (more, p50, p99) = (cost.memory.unwrap(), cost.beside.median(), cost.beside.p99());
        println!(
            "{name:<34} {:>11} of {:>11}   p50 {:>9.1?} alone, {p50:>9.1?} beside ({:.1} times), p99 {p99:.1?}, {} trips, {} disturbed",
            mib(more),
            mib(most),
            cost.alone.median(),
            cost.slower(),
            cost.beside.count(),
            cost.beside.disturbed,
        );
        assert!(cost.beside.failed.is_none(), "{name}: {:?}", cost.beside.failed);
        assert!(held.taken >= at_least, "{name}: {} taken: that is no flood", held.taken);
        assert!(more <= most, "{name}: {} are more than the formula's {}", mib(more), mib(most));
        if p50 <= SLOWER * cost.alone.median() && p99 < P99 {
            return;
        }
    }
    panic!("{name}: more than {SLOWER} times the median, or {P99:?}, in {ATTEMPTS} attempts");
}

#[test]
fn f31_answers_that_nobody_reads() {
    let (many, most) = (1_500, formula::connection());
    withstands("1,500 unread echoes of 1 MiB", &[], most, many.min(32), |target| {
        attacks::unread_echoes(target, many)
    });
}

#[test]
fn f44_params_of_requests_at_work() {
    let (many, most) = (1_000, formula::connection());
    withstands("1,000 sleeps with 1 MiB", &[], most, many.min(32), |target| {
        attacks::large_sleeps(target, many)
    });
}

#[test]
fn f48_ids_of_256_bytes() {
    let (many, most) = (16_384, formula::connection());
    withstands("16,384 requests with ids of 256 bytes", &[], most, many.min(1_024), |target| {
        attacks::long_ids(target, many)
    });
}

#[test]
fn f46_notifications_behind_answers_that_wait() {
    let (echoes, most) = (200, formula::connection());
    withstands("100,000 notifications behind them", &[], most, echoes.min(32), |target| {
        attacks::notifications_behind_echoes(target, echoes, 1_000)
    });
}

#[test]
fn f45_pings_whose_pongs_nobody_reads() {
    // 1,000 are allowed in a second.
    withstands("100,000 pings", &[], formula::websockets(1), 10, |target| {
        attacks::pings(target, 1_000)
    });
}

const ROOM: [&str; 4] = ["--connections", "20000", "--connections-per-address", "20000"];

#[test]
fn f47_sockets_that_ask_for_nothing() {
    let many = 10_000.min(descriptors());
    let name = format!("{many} half-open sockets");
    withstands(&name, &ROOM, formula::half_open(many, 16 * KIB), many, |target| {
        attacks::half_open(target, many)
    });
}

#[test]
fn f47_messages_that_are_never_finished() {
    let many = 1_000.min(descriptors());
    let name = format!("{many} unfinished messages");
    // One address has a quarter of the 256 MiB, and most are sent away.
    withstands(&name, &ROOM, formula::unfinished(many, 64 * MIB), 0, |target| {
        attacks::unfinished(target, many)
    });
}

#[test]
fn f71_a_message_without_end_on_a_socket() {
    withstands("a message of 600 MiB", &[], formula::connection(), 1, |target| {
        attacks::endless(target, 600)
    });
}

#[test]
fn f47_frames_that_are_announced_take_no_more_than_what_is_charged() {
    let _alone = alone();
    let server = Server::start(&ROOM);
    let announce = || {
        let mut client = server.open();
        client.get_mut().write_all(&header(0x81, 4 * MIB)).unwrap();
        client
    };
    let mut there: Vec<_> = (0..40).map(|_| announce()).collect();
    for client in &there {
        client.get_ref().set_read_timeout(Duration::from_millis(50)).unwrap();
    }
    // Of 256 MiB one address has a quarter, and the first 64 KiB of each are free. The server reads the first frames of
    // several sockets in any order, so which of them stay is not said.
    let mut look = || {
        there.retain_mut(|client| !client.read().is_ok_and(|message| message.is_close()));
        there.len()
    };
    let settled = (0..20).any(|_| look() <= 16);
    assert!(settled && look() == 16, "as many stay as there is room for: {}", look());
}
