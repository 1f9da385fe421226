//! Clients of `rescind serve --listen` that ask for too much, and one beside them that does not.

use std::io::{self, Read, Write};
use std::iter::repeat_n;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use tungstenite::{Message, WebSocket};

use crate::program::Program;
use crate::{KIB, MIB, PATIENCE, alone, formula, mib, times};

/// Round trips of the client that is watched, alone and beside an attack.
const TRIPS: usize = 300;
/// How often an attack is measured at most. What else a machine does may slow one attempt; an attack slows all.
const ATTEMPTS: usize = 3;
/// Who takes nothing for so long reads no more.
const STALLED: Duration = Duration::from_secs(2);
/// What a second client may wait for at most.
const P99: Duration = Duration::from_millis(100);

pub(crate) struct Server {
    pub(crate) program: Program,
    authority: String,
}

/// One client that sends what it likes.
pub(crate) type Client = WebSocket<TcpStream>;

impl Server {
    pub(crate) fn start(more: &[&str]) -> Self {
        let arguments = [&["serve", "--listen", "ws://127.0.0.1:0"], more].concat();
        let mut program = Program::start(&arguments);
        let line = program.first_line();
        let authority = line.trim().trim_start_matches("listening on ws://").into();
        Self { program, authority }
    }

    pub(crate) fn stream(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect(&self.authority)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    pub(crate) fn open(&self) -> Client {
        self.try_open().expect("it takes clients")
    }

    pub(crate) fn try_open(&self) -> Option<Client> {
        let url = format!("ws://{}/", self.authority);
        Some(tungstenite::client(url, self.stream().ok()?).ok()?.0)
    }
}

/// The text of a request.
pub(crate) fn request(id: &Value, method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}

/// The header of a client's frame. Its mask is zero, so that what follows is as it is.
fn header(first: u8, length: usize) -> Vec<u8> {
    let length = u64::try_from(length).unwrap().to_be_bytes();
    match length {
        [0, 0, 0, 0, 0, 0, 0, short @ ..=125] => vec![first, 0x80 | short, 0, 0, 0, 0],
        _ => [&[first, 0x80 | 127][..], &length, &[0; 4]].concat(),
    }
}

fn text(text: &str) -> Vec<u8> {
    [&header(0x81, text.len()), text.as_bytes()].concat()
}

/// Writes all, if the server still takes it: it may have sent this client away, or read no more. Some it has to take, or
/// the attack is none.
///
/// One that was not taken whole is the last: nothing else may be said on that socket then.
fn flood(
    stream: &mut TcpStream,
    frames: impl IntoIterator<Item = impl AsRef<[u8]>>,
    at_least: usize,
) {
    stream.set_write_timeout(Some(STALLED)).unwrap();
    let frames = frames.into_iter();
    let taken = frames.take_while(|frame| stream.write_all(frame.as_ref()).is_ok()).count();
    assert!(taken >= at_least, "{taken} taken, not {at_least}: that is no flood");
}

/// How long each round trip of a client takes, until enough are made and it is over.
fn round_trips(client: &mut Client, is_over: &AtomicBool) -> Vec<Duration> {
    let begun = Instant::now();
    let mut taken = Vec::new();
    while taken.len() < TRIPS || !is_over.load(Relaxed) {
        assert!(begun.elapsed() < 2 * PATIENCE, "it does not end");
        let asked = Instant::now();
        client.send(Message::text(request(&json!(7), "echo", &json!([1])))).unwrap();
        assert_eq!(
            client.read().unwrap().into_text().unwrap(),
            r#"{"jsonrpc":"2.0","id":7,"result":[1]}"#
        );
        taken.push(asked.elapsed());
        // A person's or a program's pace, so that what is measured is the waiting.
        thread::sleep(Duration::from_micros(200));
    }
    taken.sort_unstable();
    taken
}

/// Attacks a server, and looks at what that costs it and another client: its median may be five times what it is alone.
fn withstands<H: Send>(
    name: &str,
    options: &[&str],
    most: usize,
    attack: impl Fn(&Server) -> H + Sync,
) {
    slows(5, name, options, most, attack);
}

/// The same with another bound of the median.
fn slows<H: Send>(
    slower: u32,
    name: &str,
    options: &[&str],
    most: usize,
    attack: impl Fn(&Server) -> H + Sync,
) {
    let _alone = alone();
    for _ in 0..ATTEMPTS {
        let [p50_before, p50, p99] = round_trips_beside(name, options, most, &attack);
        if cfg!(debug_assertions) || p50 <= slower * p50_before && p99 < P99 {
            return;
        }
    }
    panic!("{name}: more than {slower} times the median, or {P99:?}, in {ATTEMPTS} attempts");
}

/// The median of another client's round trips alone, that beside an attack, and what one in a hundred takes longer
/// than.
fn round_trips_beside<H: Send>(
    name: &str,
    options: &[&str],
    most: usize,
    attack: &(impl Fn(&Server) -> H + Sync),
) -> [Duration; 3] {
    let server = Server::start(options);
    let mut honest = server.open();
    let before = round_trips(&mut honest, &AtomicBool::new(true));
    let idle = server.program.peak();
    let is_over = AtomicBool::new(false);
    let beside = thread::scope(|scope| {
        let attack = scope.spawn(|| {
            let held = attack(&server);
            is_over.store(true, Relaxed);
            held
        });
        let beside = round_trips(&mut honest, &is_over);
        drop(attack.join().unwrap());
        beside
    });
    let more = server.program.peak() - idle;
    let [p50_before, p50, p99] =
        [before[before.len() / 2], beside[beside.len() / 2], beside[beside.len() * 99 / 100]];
    println!(
        "{name:<34} {:>11} of {:>11}   p50 {p50_before:>9.1?} alone, {p50:>9.1?} beside ({:.1} times), p99 {p99:.1?}, {} trips",
        mib(more),
        mib(most),
        p50.as_secs_f64() / p50_before.as_secs_f64(),
        beside.len(),
    );
    assert!(more <= most, "{name}: {} are more than the formula's {}", mib(more), mib(most));
    [p50_before, p50, p99]
}

#[test]
fn f31_answers_that_nobody_reads() {
    let params = json!(["x".repeat(MIB)]);
    slows(10, "1,500 unread echoes of 1 MiB", &[], formula::connection(), |server| {
        let mut client = server.open();
        let echo = text(&request(&json!(1), "echo", &params));
        // The id is free again once the answer is made.
        flood(client.get_mut(), repeat_n(&echo, times(1_500)), times(1_500).min(32));
        client
    });
}

#[test]
fn f44_params_of_requests_at_work() {
    let params = json!({ "ms": 3_600_000, "more": "x".repeat(MIB) });
    slows(10, "1,000 sleeps with 1 MiB", &[], formula::connection(), |server| {
        let mut client = server.open();
        let sleeps = (0..times(1_000)).map(|id| text(&request(&json!(id), "sleep", &params)));
        flood(client.get_mut(), sleeps, times(1_000).min(32));
        client
    });
}

#[test]
fn f48_ids_of_1_kib() {
    withstands("65,536 requests with ids of 1 KiB", &[], formula::connection(), |server| {
        let mut client = server.open();
        let sleeps = (0..times(65_536)).map(|number| {
            let id = json!(format!("{number:01020}"));
            text(&request(&id, "sleep", &json!({ "ms": 3_600_000 })))
        });
        flood(client.get_mut(), sleeps, times(65_536).min(1_024));
        client
    });
}

#[test]
fn f46_notifications_behind_answers_that_wait() {
    let params = json!(["x".repeat(MIB)]);
    slows(10, "100,000 notifications behind them", &[], formula::connection(), |server| {
        let mut client = server.open();
        let echo = text(&request(&json!(1), "echo", &params));
        let notifications = text(r#"{"jsonrpc":"2.0","method":"n"}"#).repeat(100);
        let (echoes, behind) = (times(200), times(1_000));
        let all = repeat_n(&echo, echoes).chain(repeat_n(&notifications, behind));
        flood(client.get_mut(), all, echoes.min(32));
        client
    });
}

#[test]
fn f45_pings_whose_pongs_nobody_reads() {
    withstands("100,000 pings", &[], formula::websockets(1), |server| {
        let mut client = server.open();
        let ping = [&header(0x89, 125)[..], &[b'x'; 125]].concat().repeat(100);
        // 1,000 are allowed in a second.
        flood(client.get_mut(), repeat_n(&ping, times(1_000)), 10);
        client
    });
}

/// As many descriptors as this process may have, which those it starts may have too.
fn descriptors() -> usize {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    usize::try_from(limit.maximum.unwrap_or(1 << 20)).unwrap()
}

const ROOM: [&str; 4] = ["--connections", "20000", "--connections-per-address", "20000"];

#[test]
fn f47_sockets_that_ask_for_nothing() {
    let many = times(10_000).min(descriptors() - 200);
    let name = format!("{many} half-open sockets");
    withstands(&name, &ROOM, formula::half_open(many, 16 * KIB), |server| {
        let begin = || {
            let mut stream = server.stream().unwrap();
            stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n").unwrap();
            stream
        };
        (0..many).map(|_| begin()).collect::<Vec<_>>()
    });
}

#[test]
fn f47_frames_that_are_never_finished() {
    let many = times(1_000).min(descriptors() - 200);
    let name = format!("{many} unfinished frames");
    // One address has a quarter of the 256 MiB.
    withstands(&name, &ROOM, formula::unfinished(many, 64 * MIB), |server| {
        let begin = || {
            let mut client = server.open();
            let frame = [header(0x81, 4 * MIB), vec![b' '; MIB]].concat();
            // Most are sent away.
            flood(client.get_mut(), [frame], 0);
            client
        };
        (0..many).map(|_| begin()).collect::<Vec<_>>()
    });
}

#[test]
fn f47_frames_that_are_announced_take_no_more_than_what_is_charged() {
    let _alone = alone();
    let server = Server::start(&ROOM);
    let announce = || {
        let mut client = server.open();
        client.get_mut().write_all(&header(0x81, 16 * MIB)).unwrap();
        client
    };
    let mut there: Vec<_> = (0..40).map(|_| announce()).collect();
    // Of 256 MiB one address has a quarter, and the first 64 KiB of each are free.
    for mut client in there.split_off(4) {
        assert!(client.read().unwrap().is_close());
    }
    for client in &mut there {
        client.get_ref().set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        assert!(!client.read().is_ok_and(|message| message.is_close()), "it stays");
    }
}

#[test]
fn f46_a_message_costs_no_more_behind_answers_that_wait() {
    let _alone = alone();
    let cost = |echoes: usize| {
        let server = Server::start(&[]);
        let mut client = server.open();
        let echo = text(&request(&json!(1), "echo", &json!(["x".repeat(MIB)])));
        flood(client.get_mut(), repeat_n(&echo, echoes), echoes);
        let before = server.program.processor();
        let notifications = text(r#"{"jsonrpc":"2.0","method":"n"}"#).repeat(100);
        flood(client.get_mut(), repeat_n(&notifications, times(3_000)), times(3_000));
        // The last of it has been read when a cancel is answered, or the client's goodbye is taken.
        client.get_ref().shutdown(std::net::Shutdown::Write).unwrap();
        let mut room = vec![0; MIB];
        while client.get_mut().read(&mut room).is_ok_and(|read| read > 0) {}
        server.program.processor() - before
    };
    let (alone, behind) = (cost(0), cost(40));
    println!(
        "notifications: {alone:?} of processor time alone, {behind:?} behind 40 answers of 1 MiB"
    );
    // Writing the 40 MiB is in it.
    assert!(behind <= 3 * alone + Duration::from_millis(500), "{alone:?}, then {behind:?}");
}
