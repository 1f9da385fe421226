//! Starts a client, which speaks on its standard streams or starts its own server. That server is us.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use protocol_child::{ChildCommand, Process, Stderr, spawn};

use crate::target::{Child, HalfClosed, Link, Target, in_brackets};

/// This word in a client's command stands for the command of the server that it is to start.
pub const SERVER: &str = "{server}";

/// The time that a client has to start its server, or to connect.
const PATIENCE: Duration = Duration::from_secs(30);
/// The time that a client has to end after its server is gone. Then it is killed.
const GRACE: Duration = Duration::from_secs(10);
/// The bytes of its standard error that are kept.
const STDERR_BYTES: usize = 16 << 10;
/// The time between two looks for a connection.
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
    /// It speaks to its server on its standard output and input. If [`SERVER`] is among the arguments, or part
    /// of one, the client starts its server itself. The command of that server is `bridge` with an address as
    /// its last argument: a program that calls [`bridge`] with it.
    #[must_use]
    pub fn new(command: Vec<OsString>, bridge: Vec<OsString>) -> Self {
        Self { command, bridge }
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
        let mut server = self.bridge.clone();
        server.push(listener.local_addr()?.to_string().into());
        let client = with_server(&self.command, &server);
        start(&client, "started its server", || match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                stream.set_nodelay(true)?;
                Ok(Some(Link::new(stream.try_clone()?, HalfClosed(stream), None)))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                thread::sleep(TICK);
                Ok(None)
            }
            Err(error) => Err(error),
        })
    }
}

/// Accepts clients that find their server at an address.
pub trait ClientListener: Sync {
    /// The address of the next client's server.
    fn address(&self) -> String;

    /// Waits so long for whoever connects there.
    ///
    /// # Errors
    ///
    /// Nobody can connect any more.
    fn accept(&self, address: &str, within: Duration) -> io::Result<Option<Link>>;
}

/// A client that connects to its server: a program that is started anew for each check, or whoever comes.
#[derive(Debug)]
pub struct ConnectingClient<L> {
    command: Vec<OsString>,
    listener: L,
    /// Whether somebody has come: then the next is waited for no longer than a program.
    has_come: AtomicBool,
}

impl<L: ClientListener> ConnectingClient<L> {
    /// A program and its arguments, in which [`SERVER`] stands for the address; or none, for clients that are
    /// started by somebody else.
    #[must_use]
    pub fn new(command: Vec<OsString>, listener: L) -> Self {
        Self { command, listener, has_come: AtomicBool::new(false) }
    }

    fn visitor(&self, address: &str) -> io::Result<Link> {
        loop {
            if let Some(link) = self.listener.accept(address, PATIENCE)? {
                self.has_come.store(true, Ordering::Relaxed);
                return Ok(link);
            }
            if self.has_come.load(Ordering::Relaxed) {
                return Err(io::Error::other("no client connects any more"));
            }
        }
    }
}

impl<L: ClientListener> Target for ConnectingClient<L> {
    fn start(&self) -> io::Result<Link> {
        let address = self.listener.address();
        if self.command.is_empty() {
            return self.visitor(&address);
        }
        let client = with_server(&self.command, &[address.as_str().into()]);
        start(&client, "connected", || self.listener.accept(&address, TICK))
    }
}

/// A command with that of its server, or the server's address, in it.
fn with_server(command: &[OsString], server: &[OsString]) -> Vec<OsString> {
    let in_one_line = server.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>();
    let in_one_line = in_one_line.join(" ");
    let words = command.iter().flat_map(|word| match word.to_str() {
        Some(SERVER) => server.to_vec(),
        Some(text) if text.contains(SERVER) => vec![text.replace(SERVER, &in_one_line).into()],
        _ => vec![word.clone()],
    });
    words.collect()
}

/// Starts a client, and takes its connection once it has `done` what makes one.
fn start(
    client: &[OsString],
    done: &str,
    take: impl FnMut() -> io::Result<Option<Link>>,
) -> io::Result<Link> {
    let spawned = spawn(command(client)?)?;
    // What it prints is for its user, and what it reads comes from nobody.
    let mut printed = spawned.stdout;
    thread::spawn(move || io::copy(&mut printed, &mut io::sink()));
    let link = connection(spawned.owner.process(), done, take)?;
    Ok(Link { child: Some(Child::new(spawned.owner)), ..link })
}

fn command(words: &[OsString]) -> io::Result<ChildCommand> {
    let (program, arguments) =
        words.split_first().ok_or_else(|| io::Error::other("there is no command"))?;
    let mut command = Command::new(program);
    command.args(arguments);
    Ok(ChildCommand::new(command).grace(GRACE).stderr(Stderr::Last { bytes: STDERR_BYTES }))
}

/// Waits until the client has made its connection, unless it ends first.
fn connection(
    client: &Process,
    done: &str,
    mut take: impl FnMut() -> io::Result<Option<Link>>,
) -> io::Result<Link> {
    let begun = Instant::now();
    let (gone, ended) = channel();
    let process = client.clone();
    thread::spawn(move || {
        let status = process.wait();
        // Nobody waits any more once there is a connection.
        let _ = gone.send(status);
    });
    loop {
        if let Some(link) = take()? {
            return Ok(link);
        }
        if begun.elapsed() > PATIENCE {
            return Err(io::Error::other(format!("the client has not {done}")));
        }
        if let Ok(status) = ended.try_recv() {
            let status = status.map_or_else(|_| String::new(), in_brackets);
            let stderr = client.stderr_tail();
            let wrote = stderr.lines().last().map(|last| format!("; it wrote: {last}"));
            let wrote = wrote.unwrap_or_default();
            let why = format!("the client ended before it {done}{status}{wrote}");
            return Err(io::Error::other(why));
        }
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
