//! Attacks on programs by their server, or from both sides: `call`, `relay` and `step`, on each runtime (F31, F45, F70,
//! F71).
//!
//! An attack here has no end, so it is held to memory: above that of a twin in the same run, whose peer writes and
//! reads nothing.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::ChildStdin;
use std::thread;
use std::time::{Duration, Instant};

use protocol_async::Options;
use protocol_core::{Config, Dialect};
use rescind_hostile_suite::wire::request;
use rescind_hostile_suite::{MIB, mib};
use serde_json::json;

use crate::alone;
use crate::program::Program;

/// The time that an attack lasts: a leak without bound has grown by then.
const LASTS: Duration = Duration::from_secs(5);

/// Returns the most that a program may keep of unusable input. One part waits to be taken, where reading is faster than
/// taking; docs/memory.md explains why it counts three times its limit. The other is a message of the longest in a
/// buffer that doubles, with its copies.
fn most() -> usize {
    let options = Options::new(Config::client(Dialect::LSP_3_17));
    3 * (options.inbox_bytes + options.config.limits.message_bytes)
}

const CALLS: [&[&str]; 3] = [
    &["call", "--runtime", "blocking", "sleep", r#"{"ms":3600000}"#],
    &["call", "--runtime", "tokio", "sleep", r#"{"ms":3600000}"#],
    &["call", "--runtime", "smol", "sleep", r#"{"ms":3600000}"#],
];
const RELAYS: [&[&str]; 2] = [&["relay", "--runtime", "tokio"], &["relay", "--runtime", "smol"]];

/// A server that neither reads nor says anything.
const SILENT: &str = "exec sleep 1000";

/// The two ends around a program.
#[derive(Clone, Copy)]
struct Around {
    /// The server, a script of a shell.
    server: &'static str,
    /// The input that the client writes before it is silent.
    client: Client,
    /// Whether the client reads what the program says.
    is_read: bool,
}

#[derive(Clone, Copy)]
enum Client {
    Silent,
    /// So many requests with this method, with 1 MiB each.
    Asks(usize, &'static str),
    /// So many MiB of one line.
    Line(usize),
}

impl Around {
    const SILENT: Self = Self { server: SILENT, client: Client::Silent, is_read: true };
}

impl Client {
    fn write(self, stdin: &mut ChildStdin) -> std::io::Result<()> {
        match self {
            Self::Silent => Ok(()),
            Self::Asks(many, method) => {
                let params = json!(["x".repeat(MIB)]);
                (0..many)
                    .try_for_each(|id| writeln!(stdin, "{}", request(&json!(id), method, &params)))
            }
            Self::Line(mibs) => {
                let piece = [b'x'; MIB];
                (0..mibs).try_for_each(|_| stdin.write_all(&piece))
            }
        }
    }
}

/// The most memory of a program in such company.
fn peak(arguments: &[&str], around: Around) -> usize {
    let server = ["--", "sh", "-c", around.server];
    let mut program = Program::start(&[arguments, &server].concat());
    let mut stdin = program.child.stdin.take().unwrap();
    let mut stdout = program.child.stdout.take().unwrap();
    let mut stderr = program.child.stderr.take().unwrap();
    thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
    thread::spawn(move || {
        if around.is_read {
            let _ = std::io::copy(&mut stdout, &mut std::io::sink());
        }
        thread::sleep(LASTS);
        drop(stdout);
    });
    thread::spawn(move || {
        // A program that is attacked may end.
        let _ = around.client.write(&mut stdin);
        thread::sleep(LASTS);
        drop(stdin);
    });
    watch(&program, LASTS)
}

/// The most memory of a program for so long, or until it ends: under attack that is no less of an answer.
fn watch(program: &Program, time: Duration) -> usize {
    let (begun, mut most) = (Instant::now(), 0);
    while begun.elapsed() < time {
        let Some(now) = program.process().peak() else { break };
        most = most.max(now);
        thread::sleep(Duration::from_millis(5));
    }
    assert_ne!(most, 0, "it does not run at all");
    most
}

/// Attacks programs, and holds each to a bound above its twin's memory. All run at the same time.
fn withstand(name: &str, programs: &[&'static [&'static str]], around: Around) {
    let _alone = alone();
    thread::scope(|scope| {
        let runs: Vec<_> = programs
            .iter()
            .map(|program| {
                let runs = [Around::SILENT, around]
                    .map(|around| scope.spawn(move || peak(program, around)));
                (program, runs)
            })
            .collect();
        for (program, runs) in runs {
            let [idle, attacked] = runs.map(|run| run.join().unwrap());
            let more = attacked.saturating_sub(idle);
            let title = program[..3].join(" ");
            println!("{name:<34} {:>11} of {:>11}   {title}", mib(more), mib(most()));
            assert!(more <= most(), "{title}: {} for what nobody wants", mib(more));
        }
    });
}

/// Attacks both programs with a server.
fn serve(name: &str, server: &'static str) {
    let programs = [&CALLS[..], &RELAYS].concat();
    withstand(name, &programs, Around { server, ..Around::SILENT });
}

/// Attacks a relay with a client, whose server does as it likes.
fn ask(name: &str, around: Around) {
    withstand(name, &RELAYS, around);
}

/// A server that floods with notifications.
const NOTIFICATIONS: &str = r#"exec yes '{"jsonrpc":"2.0","method":"n","params":[1]}'"#;

#[test]
fn f71_a_server_whose_line_has_no_end() {
    serve("a line without end", "exec tr '\\0' x < /dev/zero");
}

#[test]
fn g08_a_server_that_floods_with_notifications() {
    serve("notifications without end", NOTIFICATIONS);
}

#[test]
fn g08_a_server_that_answers_what_was_never_asked() {
    serve("answers to nothing", r#"exec yes '{"jsonrpc":"2.0","id":90001,"result":1}'"#);
}

#[test]
fn f44_a_server_that_asks_without_end() {
    serve(
        "requests without end",
        r#"exec seq -f '{"jsonrpc":"2.0","id":%.0f,"method":"sleep"}' 1 inf"#,
    );
}

#[test]
fn f70_a_client_of_a_relay_whose_server_reads_nothing() {
    let client = Client::Asks(600, "echo");
    ask("600 requests of 1 MiB, unread", Around { client, ..Around::SILENT });
}

#[test]
fn f70_a_client_of_a_relay_that_reads_nothing_of_a_flood() {
    let around = Around { server: NOTIFICATIONS, is_read: false, ..Around::SILENT };
    ask("notifications that nobody reads", around);
}

#[test]
fn f31_a_client_of_a_relay_that_reads_no_answers() {
    // Each is answered with itself: the peer of a relay may well be generous.
    let server = r#"exec sed -u 's/"method":"echo",//;s/"params"/"result"/'"#;
    let client = Client::Asks(600, "echo");
    ask("600 answers of 1 MiB, unread", Around { server, client, is_read: false });
}

#[test]
fn f71_a_client_of_a_relay_whose_line_has_no_end() {
    let client = Client::Line(600);
    ask("a client's line without end", Around { client, ..Around::SILENT });
}

/// A server on a WebSocket that pings without end, or says nothing.
fn pinging(pings: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let mut socket = tungstenite::accept(listener.accept().unwrap().0).unwrap();
        let ping = [&[0x89, 125][..], &[b'x'; 125]].concat().repeat(100);
        while pings && socket.get_mut().write_all(&ping).is_ok() {}
        // Open until the other side goes.
        let _ = socket.get_mut().read_to_end(&mut Vec::new());
    });
    format!("ws://{address}")
}

#[test]
fn f45_a_server_of_call_that_pings_without_end() {
    let _alone = alone();
    let [idle, attacked] = [false, true].map(|pings| {
        let address = pinging(pings);
        let mut program =
            Program::start(&["call", "--connect", &address, "sleep", r#"{"ms":3600000}"#]);
        let _unread = program.child.stdout.take();
        let most = watch(&program, LASTS);
        if pings {
            assert_ne!(program.wait(), Some(0), "it is not answered");
        }
        most
    });
    let more = attacked.saturating_sub(idle);
    println!(
        "{:<34} {:>11} of {:>11}   call --connect",
        "pings without end",
        mib(more),
        mib(4 * MIB)
    );
    assert!(more <= 4 * MIB, "{} for pings", mib(more));
}

#[test]
fn f71_a_line_without_end_is_not_kept_by_step() {
    let _alone = alone();
    let peak = |mibs: usize| {
        let mut program = Program::start(&["step"]);
        let mut input = program.child.stdin.take().unwrap();
        let (piece, mut most) = (vec![b'x'; MIB], program.peak());
        for _ in 0..mibs {
            // It says that the line is too long, and ends.
            if input.write_all(&piece).is_err() {
                break;
            }
            most = program.process().peak().unwrap_or(most);
        }
        most
    };
    let (idle, long) = (peak(0), peak(600));
    // A line of 128 MiB is taken, in a buffer that doubles.
    let most = idle + 2 * 128 * MIB;
    println!("{:<34} {:>11} of {:>11}   step", "a line of 600 MiB", mib(long - idle), mib(most));
    assert!(long <= most, "{} of {}", mib(long), mib(most));
}
