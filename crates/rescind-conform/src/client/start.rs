//! Starts a client, which speaks on its standard streams or starts its own server. That server is us.

use std::ffi::OsString;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::bridge::{Doorway, TICK, connection, names_server, with_server};
use crate::target::{Child, Link, Program, Target, last_line};

/// The time that a client has to start its server, or to connect.
const PATIENCE: Duration = Duration::from_secs(30);

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
    /// its last argument: a program that calls [`bridge`](crate::bridge()) with it.
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
        let mut doorway = Doorway::open()?;
        let server = doorway.bridge(&self.bridge)?;
        let client = self.program.with(with_server(&self.program.command, &server, str::to_owned));
        start(&client, "started its server", || doorway.take())
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
    // Its output is for its user, and its input comes from nobody.
    let mut printed = spawned.stdout;
    thread::spawn(move || io::copy(&mut printed, &mut io::sink()));
    let process = spawned.owner.process();
    let why = |error| io::Error::other(format!("{error}{}", last_line(&process.stderr_tail())));
    let link = connection(("client", process), done, PATIENCE, take).map_err(why)?;
    Ok(Link { child: Some(Child(spawned.owner)), ..link })
}
