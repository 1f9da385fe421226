//! `rescind view --live`, the program, on a terminal.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Instant;

use rustix::process::Signal;
use rustix::termios::{self, LocalModes, Winsize};

use crate::support::{PATIENCE, Program, RESCIND, rescind, signal, terminal};

const HEADER: &str = r#"{"recording":{"version":1,"by":"x","start":"2026-01-01T00:00:00Z","part":1,"payloads":"redacted","hops":[]}}"#;
const ENTER: &str = "\u{1b}[?1049h";
const LEAVE: &str = "\u{1b}[?1049l";

/// Begins a recording of this test's own, and returns its path.
fn recording(name: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("live");
    fs::create_dir_all(&directory).unwrap();
    let path = directory.join(name).with_extension("jsonl");
    fs::write(&path, format!("{HEADER}\n")).unwrap();
    path
}

fn asks(path: &Path, id: u64, method: &str) {
    let part = format!(r#"{{"kind":"request","id":{id},"method":"{method}"}}"#);
    let line = format!(
        r#"{{"message":{{"t":{id},"hop":"down","dir":"sent","bytes":9,"parts":[{part}]}}}}"#
    );
    let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
    writeln!(file, "{line}").unwrap();
}

/// The program on a terminal of its own.
struct Shown {
    program: Program,
    keyboard: File,
    screen: Receiver<Vec<u8>>,
    seen: String,
}

/// Starts the program on a terminal of its own, and returns it with our side of that.
fn start(path: &Path) -> (Program, File) {
    let (ours, theirs) = terminal();
    let size = Winsize { ws_row: 20, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
    termios::tcsetwinsize(&ours, size).unwrap();
    // A session of its own, which has this terminal: not the one that the tests are run from.
    let mut command = Command::new("setsid");
    command.args(["--ctty", RESCIND, "view", "--live", path.to_str().unwrap()]);
    command.stdin(theirs.try_clone().unwrap()).stdout(theirs.try_clone().unwrap());
    command.stderr(theirs).env("TERM", "xterm-256color");
    (Program::from(command.spawn().unwrap()), ours)
}

impl Shown {
    fn start(path: &Path) -> Self {
        let (program, ours) = start(path);
        let (send, screen) = channel();
        let mut read = ours.try_clone().unwrap();
        thread::spawn(move || {
            let mut piece = [0; 4096];
            // A terminal that everybody has left ends with an error.
            while let Ok(length @ 1..) = read.read(&mut piece) {
                if send.send(piece[..length].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self { program, keyboard: ours, screen, seen: String::new() }
    }

    /// Waits until a word is drawn. Only what changes is: spaces may be left out.
    #[track_caller]
    fn shows(&mut self, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.seen.contains(text) {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.screen.recv_timeout(left) {
                Ok(piece) => self.seen.push_str(&String::from_utf8_lossy(&piece)),
                Err(_) => panic!("no {text:?} in {:?}", self.seen),
            }
        }
    }

    fn types(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    fn is_raw(&self) -> bool {
        let modes = termios::tcgetattr(self.keyboard.as_fd()).unwrap();
        !modes.local_modes.intersects(LocalModes::ICANON | LocalModes::ECHO)
    }

    /// Waits for its end, after which the terminal is as it was.
    fn ends(mut self) -> ExitStatus {
        let status = self.program.wait();
        self.shows(LEAVE);
        let cursor = |sign: &str| self.seen.rfind(&format!("\u{1b}[?25{sign}"));
        assert!(cursor("h") >= cursor("l"), "the cursor is seen again: {:?}", self.seen);
        assert!(!self.is_raw(), "lines are read again");
        status
    }
}

#[test]
fn rows_appear_as_they_are_written_and_q_ends_it() {
    let path = recording("rows");
    asks(&path, 1, "first/method");
    let mut shown = Shown::start(&path);
    shown.shows(ENTER);
    shown.shows("first/method");
    assert!(shown.is_raw());
    asks(&path, 2, "second/method");
    shown.shows("second/method");
    shown.types("/first\r");
    shown.shows("shows");
    shown.types("q");
    assert_eq!(shown.ends().code(), Some(0));
}

#[test]
fn a_signal_restores_the_terminal_and_ends_it_as_such() {
    use std::os::unix::process::ExitStatusExt;

    for sent in [Signal::TERM, Signal::HUP, Signal::INT] {
        let path = recording("signal");
        asks(&path, 1, "first/method");
        let mut shown = Shown::start(&path);
        shown.shows("first/method");
        signal(shown.program.id(), sent);
        assert_eq!(shown.ends().signal(), Some(sent.as_raw()));
    }
}

#[test]
fn a_terminal_that_is_closed_ends_it() {
    use std::os::unix::process::ExitStatusExt;

    let path = recording("closed");
    asks(&path, 1, "first/method");
    let (mut program, mut terminal) = start(&path);
    let (mut seen, mut piece) = (String::new(), [0; 4096]);
    while !seen.contains("first/method") {
        let length = terminal.read(&mut piece).unwrap();
        seen.push_str(&String::from_utf8_lossy(&piece[..length]));
    }
    drop(terminal);
    let ended = program.wait();
    // Whichever comes first: the signal, or that nothing can be drawn.
    assert!(ended.signal() == Some(Signal::HUP.as_raw()) || ended.code() == Some(7), "{ended}");
}

#[test]
fn what_can_not_be_shown_is_said_and_the_terminal_is_restored() {
    let path = recording("newer");
    let file = path.to_str().unwrap();
    let said = rescind(["view", "--live", file]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(
        said.stderr.contains("--live draws on a terminal, and standard output is none"),
        "{said:?}"
    );
    for other in [&["--json"][..], &["--chart"], &["--html", "x"]] {
        let said = rescind([&["view", "--live", file], other].concat());
        assert_eq!(said.code, Some(2), "{said:?}");
    }

    let mut shown = Shown::start(&path);
    shown.shows(ENTER);
    let newer = HEADER.replace(r#""version":1"#, r#""version":99"#);
    let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
    writeln!(file, "{newer}").unwrap();
    shown.shows("a recording of version 99");
    assert_eq!(shown.ends().code(), Some(2));
}
