//! Standard input and output of any kind, also if other processes have them too.

use std::env::temp_dir;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;

use rustix::fs::{CWD, FileType, Mode, OFlags, fcntl_getfl, mknodat};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::support::{Program, RESCIND};

/// The programs that move the bytes of their standard streams on tokio.
const PROGRAMS: [&[&str]; 2] =
    [&["relay", "--", RESCIND, "serve"], &["serve", "--runtime", "tokio"]];

fn start(program: &[&str], stdin: OwnedFd, stdout: OwnedFd) -> Program {
    let mut command = Command::new(RESCIND);
    command.args(program).stdin(stdin).stdout(stdout);
    command.spawn().unwrap().into()
}

/// Returns a request and its response.
fn echo(id: u32, bytes: usize) -> [String; 2] {
    let text = "x".repeat(bytes);
    [
        format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"echo\",\"params\":[\"{text}\"]}}\n"
        ),
        format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":[\"{text}\"]}}\n"),
    ]
}

/// Both ends of both streams: ours, and those of a program.
struct Streams {
    input: Box<dyn Write>,
    output: Box<dyn Read>,
    end_input: Box<dyn FnOnce()>,
    stdin: OwnedFd,
    stdout: OwnedFd,
}

fn pipes() -> Streams {
    let ((stdin, input), (output, stdout)) =
        (pipe_with(PipeFlags::CLOEXEC).unwrap(), pipe_with(PipeFlags::CLOEXEC).unwrap());
    let (input, output) = (Box::new(File::from(input)), Box::new(File::from(output)));
    Streams { input, output, end_input: Box::new(|| {}), stdin, stdout }
}

/// Returns one socket for both streams, as a server of `inetd` has it.
fn socket() -> Streams {
    let (near, far) = UnixStream::pair().unwrap();
    let [input, ended] = [(); 2].map(|()| near.try_clone().unwrap());
    Streams {
        input: Box::new(input),
        output: Box::new(near),
        end_input: Box::new(move || ended.shutdown(Shutdown::Write).unwrap()),
        stdin: far.try_clone().unwrap().into(),
        stdout: far.into(),
    }
}

/// `O_NONBLOCK` belongs to the pipe or socket, which other processes have too.
#[test]
fn pipes_and_sockets_are_waited_for_without_a_thread_and_stay_in_the_mode_that_they_are_in() {
    for program in PROGRAMS {
        for streams in [pipes, socket] {
            let Streams { mut input, output, end_input, stdin, stdout } = streams();
            let others = [&stdin, &stdout].map(|stream| stream.try_clone().unwrap());
            let mut program = start(program, stdin, stdout);
            let mut output = BufReader::new(output);
            // The last is more than a pipe or a socket holds.
            for (id, bytes) in [(0, 1), (1, 10), (2, 1_000_000)] {
                let [request, answer] = echo(id, bytes);
                input.write_all(request.as_bytes()).unwrap();
                let mut line = String::new();
                output.read_line(&mut line).unwrap();
                assert!(line == answer, "{} bytes for {id}", line.len());
            }
            for other in others {
                assert!(!fcntl_getfl(other).unwrap().contains(OFlags::NONBLOCK));
            }
            let threads = threads(program.id());
            assert!(!threads.iter().any(|name| name.starts_with("tokio-r")), "{threads:?}");
            drop(input);
            end_input();
            assert!(program.wait().success());
        }
    }
}

fn threads(process: u32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let names = tasks.map(|task| fs::read_to_string(task.unwrap().path().join("comm")));
    names.filter_map(Result::ok).collect()
}

/// A path whose file is removed when this is dropped.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        Self(temp_dir().join(format!("rescind-stdio-{}-{name}", std::process::id())))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // It may not have been made.
        let _ = fs::remove_file(&self.0);
    }
}

/// Runs a program from `input` into the file `output`, and returns what is in the file then.
fn answers(program: &[&str], input: File, output: &Place) -> String {
    let file = File::create(&output.0).unwrap();
    assert!(start(program, input.into(), file.into()).wait().success());
    fs::read_to_string(&output.0).unwrap()
}

#[test]
fn files_are_read_and_written() {
    let [request, answer] = echo(0, 10);
    let (input, output) = (Place::new("input"), Place::new("output"));
    fs::write(&input.0, request).unwrap();
    for program in PROGRAMS {
        assert_eq!(answers(program, File::open(&input.0).unwrap(), &output), answer);
    }
}

/// A program that opened the pipe again would wait for ever. It would see no end of writers that were gone
/// before.
#[test]
fn a_named_pipe_whose_writer_is_gone_already_is_read_to_its_end() {
    let [request, answer] = echo(0, 10);
    for program in PROGRAMS {
        let (place, output) = (Place::new("fifo"), Place::new("from-fifo"));
        mknodat(CWD, &place.0, FileType::Fifo, Mode::RWXU, 0).unwrap();
        // Both ends, for each alone waits for the other.
        let mut writer = OpenOptions::new().read(true).write(true).open(&place.0).unwrap();
        let input = File::open(&place.0).unwrap();
        writer.write_all(request.as_bytes()).unwrap();
        drop(writer);
        assert_eq!(answers(program, input, &output), answer);
    }
}
