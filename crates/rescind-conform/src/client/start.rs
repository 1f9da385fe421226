//! How a client is started: it speaks on its standard streams, or starts a server, which is us.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use protocol_child::{ChildCommand, Process, Stderr, spawn};

use crate::target::{Child, HalfClosed, Link, Target, in_brackets};

/// This word in a client's command stands for the command of the server that it is to start.
pub const SERVER: &str = "{server}";

/// How long a client may take to start its server.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a client may take to end once its server is gone, before it is ended.
const GRACE: Duration = Duration::from_secs(10);
/// How much of its standard error is kept.
const STDERR_BYTES: usize = 16 << 10;
/// How often it is looked whether the server was started.
const TICK: Duration = Duration::from_millis(2);

/// A program that is a client, started anew for each check.
#[derive(Clone, Debug)]
pub struct ClientProgram {
    command: Vec<OsString>,
    bridge: Vec<OsString>,
}

impl ClientProgram {
    /// A program and its arguments.
    ///
    /// It speaks to its server on its standard output and input. If [`SERVER`] is among the arguments, or
    /// part of one, it starts its server itself, and that is this `bridge` with an address as its last
    /// argument: a program that calls [`bridge`] with it.
    #[must_use]
    pub fn new(command: Vec<OsString>, bridge: Vec<OsString>) -> Self {
        Self { command, bridge }
    }

    /// The command with the server's in it.
    fn with_server(&self, address: SocketAddr) -> Vec<OsString> {
        let mut server = self.bridge.clone();
        server.push(address.to_string().into());
        let in_one_line = server.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>();
        let in_one_line = in_one_line.join(" ");
        let words = self.command.iter().flat_map(|word| match word.to_str() {
            Some(SERVER) => server.clone(),
            Some(text) if text.contains(SERVER) => vec![text.replace(SERVER, &in_one_line).into()],
            _ => vec![word.clone()],
        });
        words.collect()
    }

    fn starts_server(&self) -> bool {
        let contains = |word: &OsStr| word.to_str().is_some_and(|word| word.contains(SERVER));
        self.command.iter().any(|word| contains(word))
    }
}

impl Target for ClientProgram {
    fn start(&self) -> io::Result<Link> {
        if !self.starts_server() {
            let spawned = spawn(command(&self.command)?)?;
            let child = Child::new(spawned.owner);
            return Ok(Link::new(spawned.stdout, spawned.stdin, Some(child)));
        }
        let listener = TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let spawned = spawn(command(&self.with_server(listener.local_addr()?))?)?;
        // What it prints is for its user, and what it reads comes from nobody.
        let mut printed = spawned.stdout;
        thread::spawn(move || io::copy(&mut printed, &mut io::sink()));
        let stream = accept(&listener, spawned.owner.process())?;
        let child = Child::new(spawned.owner);
        Ok(Link::new(stream.try_clone()?, HalfClosed(stream), Some(child)))
    }
}

fn command(words: &[OsString]) -> io::Result<ChildCommand> {
    let (program, arguments) =
        words.split_first().ok_or_else(|| io::Error::other("there is no command"))?;
    let mut command = Command::new(program);
    command.args(arguments);
    Ok(ChildCommand::new(command).grace(GRACE).stderr(Stderr::Last { bytes: STDERR_BYTES }))
}

/// Waits until the client has started its server.
fn accept(listener: &TcpListener, client: &Process) -> io::Result<TcpStream> {
    let begun = Instant::now();
    let (gone, ended) = channel();
    let process = client.clone();
    thread::spawn(move || {
        let status = process.wait();
        // Nobody waits any more once the server was started.
        let _ = gone.send(status);
    });
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        if begun.elapsed() > PATIENCE {
            return Err(io::Error::other("the client has not started its server"));
        }
        if let Ok(status) = ended.try_recv() {
            let status = status.map_or_else(|_| String::new(), in_brackets);
            let stderr = client.stderr_tail();
            let wrote = stderr.lines().last().map(|last| format!("; it wrote: {last}"));
            return Err(io::Error::other(format!(
                "the client ended before it started its server{status}{}",
                wrote.unwrap_or_default()
            )));
        }
        thread::sleep(TICK);
    }
}

/// Joins standard input and output with the tester that listens there, until either is gone. This is all that
/// the program does which a tested client starts as its server.
///
/// # Errors
///
/// Nobody listens there.
pub fn bridge(address: &str) -> io::Result<()> {
    let mut from_tester = TcpStream::connect(address)?;
    from_tester.set_nodelay(true)?;
    let mut to_tester = from_tester.try_clone()?;
    thread::spawn(move || {
        // Either side may go at any time, which ends the session.
        let _ = copy(&mut io::stdin().lock(), &mut to_tester);
        let _ = to_tester.shutdown(Shutdown::Write);
    });
    // A client that reads no more is one that is gone.
    let _ = copy(&mut from_tester, &mut io::stdout().lock());
    Ok(())
}

/// As `io::copy`, and each read is passed on at once.
fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        match from.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
            Ok(0) => return Ok(()),
            Ok(len) => to.write_all(&buffer[..len]).and_then(|()| to.flush())?,
        }
    }
}
