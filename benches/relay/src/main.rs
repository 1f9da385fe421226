//! The cost of `rescind relay`: the median round trip through it. Beside it stands one through a process that copies
//! bytes between two pipes and looks at nothing. That process has a thread each way, or one thread that waits for both.
//! The others are compared with the faster of the two.
//!
//! ```sh
//! cargo build --release -p rescind-cli
//! cd benches && cargo run --release -p bench-relay -- ../target/release/rescind
//! ```
//!
//! All subjects take turns in one run, so other work of the machine meets them alike. Each has the same server behind
//! it, which responds at once, and the same client in front.

use std::env;
use std::error::Error;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};

const TURNS: usize = 9;
const WARM_UP: usize = 500;
const ROUND_TRIPS: usize = 4_000;
const IN_FLIGHT: [usize; 2] = [1, 64];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("serve") => serve(io::stdin().lock(), io::stdout().lock())?,
        Some("copy") => copy()?,
        Some("copy-on-one-thread") => copy_on_one_thread()?,
        Some(rescind) => compare(rescind)?,
        None => return Err("which rescind?".into()),
    }
    Ok(())
}

/// Answers each request.
fn serve(mut input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    let mut line = String::new();
    while input.read_line(&mut line)? > 0 {
        let id = line.split_once("\"id\":").and_then(|(_, rest)| rest.split_once(','));
        if let Some((id, _)) = id {
            output.write_all(
                format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":[1]}}\n").as_bytes(),
            )?;
            output.flush()?;
        }
        line.clear();
    }
    Ok(())
}

/// Copies bytes both ways between us and a server, on a thread each way.
fn copy() -> Result<(), Box<dyn Error>> {
    let Ends { _server, stdin, stdout, input, output } = start_behind()?;
    let up = thread::spawn(move || pump(stdout, output));
    pump(input, stdin)?;
    up.join().map_err(|_| "the copier panicked")??;
    Ok(())
}

fn pump(mut from: impl Read, mut to: impl Write) -> io::Result<()> {
    let mut bytes = vec![0; 64 << 10];
    while copy_once(&mut from, &mut to, &mut bytes)? {}
    Ok(())
}

/// The same on one thread, which waits for both.
fn copy_on_one_thread() -> Result<(), Box<dyn Error>> {
    let Ends { _server, mut stdin, mut stdout, mut input, mut output } = start_behind()?;
    let mut bytes = vec![0; 64 << 10];
    loop {
        let mut either = [PollFd::new(&input, PollFlags::IN), PollFd::new(&stdout, PollFlags::IN)];
        poll(&mut either, None)?;
        let [down, up] = either.map(|end| !end.revents().is_empty());
        if down && !copy_once(&mut input, &mut stdin, &mut bytes)? {
            drop(stdin);
            return Ok(pump(stdout, output)?);
        }
        if up && !copy_once(&mut stdout, &mut output, &mut bytes)? {
            return Ok(());
        }
    }
}

/// Copies the bytes of one read, and returns whether there may be more.
fn copy_once(from: &mut impl Read, to: &mut impl Write, bytes: &mut [u8]) -> io::Result<bool> {
    let read = from.read(bytes)?;
    to.write_all(&bytes[..read])?;
    Ok(read > 0)
}

/// A server behind us, and our own input and output, with no buffer.
struct Ends {
    _server: Child,
    stdin: ChildStdin,
    stdout: ChildStdout,
    input: File,
    output: File,
}

fn start_behind() -> Result<Ends, Box<dyn Error>> {
    let server = [env::current_exe()?.to_string_lossy().into_owned(), "serve".into()];
    let (_server, stdin, stdout) = start(&server)?;
    let input = io::stdin().as_fd().try_clone_to_owned()?.into();
    let output = io::stdout().as_fd().try_clone_to_owned()?.into();
    Ok(Ends { _server, stdin, stdout, input, output })
}

fn start(command: &[String]) -> Result<(Child, ChildStdin, ChildStdout), Box<dyn Error>> {
    let mut child = Command::new(&command[0])
        .args(&command[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let stdin = child.stdin.take().ok_or("no standard input")?;
    let stdout = child.stdout.take().ok_or("no standard output")?;
    Ok((child, stdin, stdout))
}

fn compare(rescind: &str) -> Result<(), Box<dyn Error>> {
    let ours = env::current_exe()?.to_string_lossy().into_owned();
    let recording = env::temp_dir().join(format!("bench-relay-{}.jsonl", std::process::id()));
    let file = recording.to_string_lossy();
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<String>>();
    let relay = format!("{rescind} relay --dialect jsonrpc --quiet");
    let subjects = [
        ("copier", words(&format!("{ours} copy"))),
        ("copier, one thread", words(&format!("{ours} copy-on-one-thread"))),
        ("relay, tokio", words(&format!("{relay} --runtime tokio -- {ours} serve"))),
        ("relay, smol", words(&format!("{relay} --runtime smol -- {ours} serve"))),
        ("relay, tokio, recording", words(&format!("{relay} --record {file} -- {ours} serve"))),
        (
            "relay, tokio, payloads",
            words(&format!("{relay} --record {file} --payloads -- {ours} serve")),
        ),
    ];
    println!("| in flight | through | median | of the copier's |\n|---|---|---|---|");
    for in_flight in IN_FLIGHT {
        let mut medians = vec![Vec::new(); subjects.len()];
        for _ in 0..TURNS {
            for (at, (_, command)) in subjects.iter().enumerate() {
                medians[at].push(median(round_trips(command, in_flight)?));
            }
        }
        let medians: Vec<Duration> = medians.into_iter().map(median).collect();
        let copier = medians[0].min(medians[1]);
        for ((name, _), time) in subjects.iter().zip(&medians) {
            let ratio = time.as_secs_f64() / copier.as_secs_f64();
            println!("| {in_flight} | {name} | {time:.1?} | {ratio:.2} x |");
        }
    }
    for name in ["", ".1", ".2", ".3"] {
        // Older parts may not be there.
        let _ = std::fs::remove_file(format!("{file}{name}"));
    }
    Ok(())
}

/// Returns the duration of each request, with so many in flight.
fn round_trips(command: &[String], in_flight: usize) -> Result<Vec<Duration>, Box<dyn Error>> {
    let (mut child, mut stdin, stdout) = start(command)?;
    let mut stdout = BufReader::new(stdout);
    let (mut sent, mut took) = (Vec::new(), Vec::new());
    let mut line = String::new();
    while took.len() < WARM_UP + ROUND_TRIPS {
        while sent.len() < took.len() + in_flight && sent.len() < WARM_UP + ROUND_TRIPS {
            let id = sent.len();
            sent.push(Instant::now());
            stdin.write_all(
                format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"echo\",\"params\":[1]}}\n")
                    .as_bytes(),
            )?;
        }
        line.clear();
        stdout.read_line(&mut line)?;
        let id = line.split_once("\"id\":").and_then(|(_, rest)| rest.split_once(','));
        let id: usize = id.ok_or("no answer")?.0.parse()?;
        took.push(sent[id].elapsed());
    }
    drop(stdin);
    child.wait()?;
    Ok(took.split_off(WARM_UP))
}

fn median<T: Ord + Copy>(mut all: Vec<T>) -> T {
    all.sort_unstable();
    all[all.len() / 2]
}
