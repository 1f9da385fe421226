//! Every attack on every server that it concerns: the program and the libraries, on each runtime.
//!
//! A cell is an attack on a server. Its memory is held to the sum of all that may wait there, above that of the same
//! process before. Its processor time is held to that of a twin under the same flood, whose client reads the responses.
//! Both are measured in the same run.

use std::env;
use std::io;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use protocol_async::Options;
use protocol_core::{Config, Dialect};
use rescind_hostile_suite::attacks::{self, Held};
use rescind_hostile_suite::hosting;
use rescind_hostile_suite::wire::Target;
use rescind_hostile_suite::{KIB, MIB, mib};

use crate::alone;
use crate::formula;
use crate::program::Program;
use crate::tls::identity;

/// The server that is attacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    /// `rescind serve` on standard input, on this runtime.
    Serve(&'static str),
    /// The libraries on standard input, on this runtime.
    Library(&'static str),
    /// `rescind serve --listen` on an address that begins so.
    Listen(&'static str),
    /// A `Listener` of the libraries, on this runtime.
    Listener(&'static str),
}

const VICTIMS: [Victim; 16] = [
    Victim::Serve("blocking"),
    Victim::Serve("single"),
    Victim::Serve("tokio"),
    Victim::Serve("smol"),
    Victim::Library("tokio-current-thread"),
    Victim::Library("tokio-multi-thread"),
    Victim::Library("tokio-local"),
    Victim::Library("smol"),
    Victim::Library("smol-local"),
    Victim::Library("no-executor"),
    Victim::Library("threads"),
    Victim::Library("single"),
    Victim::Listen("ws"),
    Victim::Listen("wss"),
    Victim::Listener("tokio"),
    Victim::Listener("smol"),
];

/// The meaning of an attack for the servers of one kind.
#[derive(Clone, Copy)]
enum Cell {
    /// It may take at most this much memory.
    Holds(fn(&Options, usize) -> usize),
    /// It is no attack there, for this reason.
    No(&'static str),
}

struct Attack {
    fault: &'static str,
    name: &'static str,
    run: fn(&Target, usize) -> io::Result<Held>,
    many: usize,
    /// On servers on standard input.
    pipes: Cell,
    /// On servers of `ws://`.
    sockets: Cell,
    /// On servers of `wss://`.
    secure: Cell,
}

use Cell::{Holds, No};

const NO_PINGS: Cell = No("lines have no pings");
const ONE_PEER: Cell = No("there is one peer, and it is there");
const NO_TLS: Cell = No("TLS is not spoken there");
const PLAIN: Cell =
    No("it comes before TLS is spoken; see F47 of handshakes that are never finished");

#[rustfmt::skip]
const ATTACKS: [Attack; 13] = [
    Attack { fault: "F31", name: "unread echoes of 1 MiB", run: attacks::unread_echoes, many: 400,
        pipes: Holds(answers), sockets: Holds(answers), secure: Holds(answers) },
    Attack { fault: "F31", name: "unread echoes in tiny records", run: attacks::tiny_records, many: 50,
        pipes: NO_TLS, sockets: NO_TLS, secure: Holds(answers) },
    Attack { fault: "F44", name: "sleeps with 1 MiB", run: attacks::large_sleeps, many: 400,
        pipes: Holds(work), sockets: Holds(work), secure: Holds(work) },
    Attack { fault: "F45", name: "hundreds of pings, unread", run: attacks::pings, many: 1_000,
        pipes: NO_PINGS, sockets: Holds(one_socket), secure: Holds(one_socket) },
    Attack { fault: "F46", name: "hundreds of notifications behind echoes", run: behind_echoes, many: 1_000,
        pipes: Holds(answers), sockets: Holds(answers), secure: Holds(answers) },
    Attack { fault: "F47", name: "half-open sockets", run: attacks::half_open, many: 5_000,
        pipes: ONE_PEER, sockets: Holds(half_open), secure: PLAIN },
    Attack { fault: "F47", name: "handshakes of TLS that never finish", run: attacks::unfinished_handshakes, many: 1_000,
        pipes: NO_TLS, sockets: NO_TLS, secure: Holds(handshakes) },
    Attack { fault: "F47", name: "unfinished messages of 4 MiB", run: attacks::unfinished, many: 300,
        pipes: No("there is one peer, and F71 is its unfinished message"), sockets: Holds(unfinished), secure: Holds(unfinished) },
    Attack { fault: "F48", name: "sleeps with ids of 256 bytes", run: attacks::long_ids, many: 16_384,
        pipes: Holds(rows), sockets: Holds(rows), secure: Holds(rows) },
    Attack { fault: "F48", name: "broken requests with ids of 1 KiB", run: attacks::broken_requests, many: 100_000,
        pipes: Holds(answers), sockets: Holds(answers), secure: Holds(answers) },
    Attack { fault: "F49", name: "handshakes of foreign pages", run: attacks::foreign_pages, many: 2_000,
        pipes: No("pages can't write to pipes"), sockets: Holds(half_open), secure: Holds(half_open_secure) },
    Attack { fault: "F67", name: "complaints, unread", run: attacks::broken_requests, many: 9_000,
        pipes: Holds(answers), sockets: Holds(answers), secure: Holds(answers) },
    Attack { fault: "F71", name: "MiB of one message", run: attacks::endless, many: 600,
        pipes: Holds(messages), sockets: Holds(messages), secure: Holds(messages) },
];

/// The memory that an allocator keeps of freed blocks, and all that is not counted by the byte.
const SLACK: usize = 16 * MIB;

fn messages(options: &Options, _: usize) -> usize {
    3 * options.config.limits.message_bytes + SLACK
}

/// Returns the bytes that may wait to be taken, be worked at, and wait to be sent.
fn answers(options: &Options, many: usize) -> usize {
    options.response_bytes + work(options, many)
}

/// Returns the bytes that may wait to be taken, and be worked at.
fn work(options: &Options, many: usize) -> usize {
    options.inbox_bytes + options.work_bytes + messages(options, many)
}

/// Returns the bytes that rows of the core take beside that: each has its id in several indexes.
fn rows(options: &Options, many: usize) -> usize {
    work(options, many) + many * 2 * KIB
}

fn one_socket(_: &Options, _: usize) -> usize {
    formula::websockets(1) + formula::tls(1) + SLACK / 4
}

fn half_open(_: &Options, many: usize) -> usize {
    formula::half_open(many, 16 * KIB) + SLACK
}

fn half_open_secure(options: &Options, many: usize) -> usize {
    half_open(options, many) + formula::tls(many)
}

fn handshakes(_: &Options, many: usize) -> usize {
    formula::tls(many)
}

/// One address has a quarter of 256 MiB.
fn unfinished(_: &Options, many: usize) -> usize {
    formula::unfinished(many, 64 * MIB) + formula::tls(many)
}

fn behind_echoes(target: &Target, hundreds: usize) -> io::Result<Held> {
    attacks::notifications_behind_echoes(target, 200, hundreds)
}

/// More processor time than its twin's an attack may take.
const TIMES: u32 = 3;
/// And so much more: clocks tick every hundredth of a second, and sockets take as long as they take.
const TICKS: Duration = Duration::from_millis(300);

impl Victim {
    fn cell(self, attack: &Attack) -> Cell {
        match self {
            Self::Serve(_) | Self::Library(_) => attack.pipes,
            Self::Listen("wss") => attack.secure,
            Self::Listen(_) | Self::Listener(_) => attack.sockets,
        }
    }

    /// Returns the options of one connection there.
    fn options(self) -> Options {
        match self {
            Self::Serve(_) | Self::Listen(_) => Options::new(Config::server(Dialect::ACP_V1)),
            Self::Library(_) | Self::Listener(_) => hosting::options(),
        }
    }

    /// One who reads its log, or not: a full pipe is F67.
    fn start(self, reads_log: bool) -> (Program, Target) {
        let room = ["--connections", "20000", "--connections-per-address", "20000"];
        let mut program = match self {
            Self::Serve(runtime) => Program::start(&["serve", "--runtime", runtime]),
            Self::Library(runtime) => Program::hosted(&[runtime]),
            Self::Listener(runtime) => Program::hosted(&[runtime, "listen"]),
            Self::Listen("wss") => {
                let serve = ["serve", "--listen", "wss://localhost:0"];
                let files = ["--certificate", &identity().certificate, "--key", &identity().key];
                Program::start(&[&serve[..], &files, &room].concat())
            }
            Self::Listen(_) => {
                Program::start(&[&["serve", "--listen", "ws://127.0.0.1:0"][..], &room].concat())
            }
        };
        let target = match self {
            Self::Serve(_) | Self::Library(_) => {
                let (stdin, stdout) = (program.child.stdin.take(), program.child.stdout.take());
                program.log(reads_log);
                Target::pipes(stdin.unwrap(), stdout.unwrap())
            }
            Self::Listen(_) | Self::Listener(_) => {
                let line = program.first_line_and_log(reads_log);
                let address = line.split_whitespace().next_back().unwrap();
                match address.strip_prefix("wss://") {
                    Some(authority) => {
                        let (_, port) = authority.rsplit_once(':').unwrap();
                        Target::secure(port, identity().trust.clone())
                    }
                    None => address.parse().unwrap(),
                }
            }
        };
        (program, target)
    }
}

/// The cost of one attack.
struct Cost {
    taken: usize,
    /// Memory before it.
    idle: usize,
    /// The most above that.
    memory: usize,
    processor: Duration,
}

/// The exit code of a program that panicked.
const PANICKED: i32 = 101;

impl Attack {
    fn cost(&self, victim: Victim, is_read: bool) -> Cost {
        let (mut program, target) = victim.start(is_read || self.fault != "F67");
        let target = if is_read { target.read() } else { target };
        let process = program.process();
        process.rest();
        process.forget_peak();
        let (idle, before) = (process.peak().unwrap(), program.processor());
        let held = (self.run)(&target, self.many)
            .unwrap_or_else(|error| panic!("{}, {victim:?}: {error}", self.name));
        process.rest();
        let processor = program.processor() - before;
        // One whose only client is over a budget ends, and keeps nothing.
        let peak = process.peak().unwrap_or_else(|| {
            let code = program.wait();
            assert!(code.is_some_and(|code| code != PANICKED), "{}: {victim:?} died", self.name);
            idle
        });
        let memory = peak.saturating_sub(idle);
        Cost { taken: held.taken, idle, memory, processor }
    }

    /// Attacks one server and its twin.
    fn is_withstood(&self, victim: Victim, most: usize) -> Result<(), String> {
        let [honest, cost] = [true, false].map(|is_read| self.cost(victim, is_read));
        let times = |one: usize, other: usize| one as f64 / other.max(1) as f64;
        println!(
            "{} {:<40} {:<34} {:>9} taken, {:>10} of {:>10}, {:>5.1} times idle; {:>7.0?} of processor time, the twin's {:.0?}",
            self.fault,
            format!("{} {}", self.many, self.name),
            format!("{victim:?}"),
            cost.taken,
            mib(cost.memory),
            mib(most),
            times(cost.idle + cost.memory, cost.idle),
            cost.processor,
            honest.processor,
        );
        let place = format!("{} {}, {victim:?}", self.fault, self.name);
        if cost.memory > most {
            return Err(format!("{place}: {} of {}", mib(cost.memory), mib(most)));
        }
        if cost.processor > TIMES * honest.processor + TICKS {
            return Err(format!("{place}: {:?}, its twin {:?}", cost.processor, honest.processor));
        }
        Ok(())
    }
}

/// Servers that are attacked at the same time. Each is a process, so its memory and time are its own.
const AT_ONCE: usize = 4;

/// The number of turns. If `RESCIND_TURN` is set, each server is attacked in one of them: `.ci/run` sets it to a number that
/// differs after each commit. An attack that concerns fewer servers is tried on all of them.
const TURNS: usize = 3;

/// Returns the servers that an attack concerns and whose turn it is, each with the memory that it may take.
fn concerned(attack: &Attack) -> Vec<(&Attack, Victim, usize)> {
    let turn = env::var("RESCIND_TURN").ok().map(|it| it.parse::<usize>().expect("a number"));
    let mut cells: Vec<_> = VICTIMS
        .into_iter()
        .filter_map(|victim| match victim.cell(attack) {
            Holds(most) => Some((attack, victim, most(&victim.options(), attack.many))),
            No(why) => {
                println!("{} {:<40} {victim:?}: no, {why}", attack.fault, attack.name);
                None
            }
        })
        .collect();
    if let Some(turn) = turn.filter(|_| cells.len() >= TURNS) {
        cells = cells.into_iter().skip(turn % TURNS).step_by(TURNS).collect();
    }
    cells
}

/// Runs all attacks of a fault.
fn withstood(fault: &str) {
    let _alone = alone();
    let attacks = ATTACKS.iter().filter(|attack| attack.fault == fault);
    let cells: Vec<_> = attacks.flat_map(concerned).collect();
    let (cells, broken) = (Mutex::new(cells.into_iter()), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let next = cells.lock().unwrap().next();
                    let Some((attack, victim, most)) = next else { break };
                    if let Err(error) = attack.is_withstood(victim, most) {
                        broken.lock().unwrap().push(error);
                    }
                }
            });
        }
    });
    let broken = broken.into_inner().unwrap();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn f31_answers_that_nobody_reads() {
    withstood("F31");
}

#[test]
fn f44_params_of_requests_at_work() {
    withstood("F44");
}

#[test]
fn f45_pings_whose_pongs_nobody_reads() {
    withstood("F45");
}

#[test]
fn f46_notifications_behind_answers_that_wait() {
    withstood("F46");
}

#[test]
fn f47_what_is_begun_and_never_finished() {
    withstood("F47");
}

#[test]
fn f48_ids_of_violations() {
    withstood("F48");
}

#[test]
fn f49_handshakes_of_foreign_pages() {
    withstood("F49");
}

#[test]
fn f67_complaints_that_nobody_reads() {
    withstood("F67");
}

#[test]
fn f71_a_message_without_end() {
    withstood("F71");
}
