//! Starts a client, which speaks on its standard streams or starts its own server. That server is us.

use std::ffi::OsString;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use protocol_child::Process;

use crate::target::{Child, Link, Program, Target, in_brackets, join, names_server, with_server};

/// The time that a client has to start its server, or to connect.
const PATIENCE: Duration = Duration::from_secs(30);
/// The time between two looks for a connection.
const TICK: Duration = Duration::from_millis(2);

/// A program that is a client, started anew for each check.
#[derive(Clone, Debug)]
pub struct ClientProgram {
    program: Program,
    bridge: Vec<OsString>,
}

impl ClientProgram {
    /// A program and its arguments.
    ///
    /// It speaks to its server on its standard output and input. If [`SERVER`](crate::SERVER) is among the arguments, or part
    /// of one, the client starts its server itself. The command of that server is `bridge` with an address as
    /// its last argument: a program that calls [`bridge`] with it.
    #[must_use]
    pub fn new(program: Program, bridge: Vec<OsString>) -> Self {
        Self { program, bridge }
    }
}

impl Target for ClientProgram {
    fn start(&self) -> io::Result<Link> {
        if !names_server(&self.program.command) {
            return self.program.start();
        }
        let listener = TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let mut server = self.bridge.clone();
        server.push(listener.local_addr()?.to_string().into());
        let client = with_server(&self.program.command, &server, str::to_owned);
        start(&self.program.with(client), "started its server", || match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                Link::over(stream).map(Some)
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
    program: Program,
    listener: L,
    /// Whether somebody has come: then the next is waited for no longer than a program.
    has_come: AtomicBool,
}

impl<L: ClientListener> ConnectingClient<L> {
    /// A program and its arguments, in which [`SERVER`](crate::SERVER) stands for the address; or none, for clients that are
    /// started by somebody else.
    #[must_use]
    pub fn new(program: Program, listener: L) -> Self {
        Self { program, listener, has_come: AtomicBool::new(false) }
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
        if self.program.command.is_empty() {
            return self.visitor(&address);
        }
        let client = with_server(&self.program.command, &[address.as_str().into()], str::to_owned);
        start(&self.program.with(client), "connected", || self.listener.accept(&address, TICK))
    }
}

/// Starts a client, and takes its connection once it has `done` what makes one.
fn start(
    client: &Program,
    done: &str,
    take: impl FnMut() -> io::Result<Option<Link>>,
) -> io::Result<Link> {
    let spawned = client.spawn()?;
    // What it prints is for its user, and what it reads comes from nobody.
    let mut printed = spawned.stdout;
    thread::spawn(move || io::copy(&mut printed, &mut io::sink()));
    let link = connection(spawned.owner.process(), done, take)?;
    Ok(Link { child: Some(Child::new(spawned.owner)), ..link })
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
    join(TcpStream::connect(address)?)
}
