//! Targets: a program that is started anew for every check, or a server in this process.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread;
use std::time::Duration;

use protocol_child::{ChildCommand, Owner, Process, Pushed, Spawned, Stderr, spawn};

use crate::process;

/// The time that a server has to end after its input is closed. Then it is killed.
const GRACE: Duration = Duration::from_secs(10);
/// The time within which the status of a process has to be known once its output has ended.
const SOON: Duration = Duration::from_secs(2);
/// The bytes of its standard error that are kept.
const STDERR_BYTES: usize = 16 << 10;
/// A socket that nobody reads takes at most so many bytes: 4 MiB from a writer on Linux, and a little that the reader holds.
const SOCKET: usize = 5 << 20;

/// Starts the server that is tested, once for every check.
pub trait Target: Sync {
    /// Starts one.
    ///
    /// # Errors
    ///
    /// It can't be started.
    fn start(&self) -> io::Result<Link>;
}

/// The reason why nothing could be tested.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Unreached {
    /// The server could not be started.
    Start(String),
    /// It did not open a session.
    Opening {
        /// The description of what went wrong.
        why: String,
        /// The last of its standard error.
        stderr: String,
    },
}

impl std::fmt::Display for Unreached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Start(why) => write!(f, "it can't be started: {why}"),
            Self::Opening { why, stderr } => {
                write!(f, "no session could be opened: {why}{}", last_line(stderr))
            }
        }
    }
}

impl std::error::Error for Unreached {}

/// Returns the last of what somebody wrote to its standard error, to follow what went wrong.
pub(crate) fn last_line(stderr: &str) -> String {
    stderr.lines().last().map_or_else(String::new, |last| format!("; it wrote: {last}"))
}

/// A program that speaks on its standard input and output.
#[derive(Clone)]
pub struct Program {
    pub(crate) command: Vec<OsString>,
    keep: Arc<dyn Fn(Command) -> ChildCommand + Send + Sync>,
}

impl Program {
    /// A program and its arguments. Its process ends soon after its input.
    #[must_use]
    pub fn new(command: Vec<OsString>) -> Self {
        Self { command, keep: Arc::new(|command| ChildCommand::new(command).grace(GRACE)) }
    }

    /// Sets how its process is kept, such as below a [supervisor](ChildCommand::supervisor).
    #[must_use]
    pub fn kept(self, keep: impl Fn(Command) -> ChildCommand + Send + Sync + 'static) -> Self {
        Self { keep: Arc::new(keep), ..self }
    }

    /// The same with other words.
    pub(crate) fn with(&self, command: Vec<OsString>) -> Self {
        Self { command, keep: self.keep.clone() }
    }

    /// Spawns it. The last of its standard error is kept.
    pub(crate) fn spawn(&self) -> io::Result<Spawned> {
        let (program, arguments) =
            self.command.split_first().ok_or_else(|| io::Error::other("there is no command"))?;
        let mut command = Command::new(program);
        command.args(arguments);
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("{}: {error}", Path::new(program).display()))
        };
        spawn((self.keep)(command).stderr(Stderr::Last { bytes: STDERR_BYTES })).map_err(named)
    }
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Program").field(&self.command).finish()
    }
}

impl Target for Program {
    fn start(&self) -> io::Result<Link> {
        let spawned = self.spawn()?;
        Ok(Link::new(spawned.stdout, spawned.stdin, Some(Child(spawned.owner))))
    }
}

/// A server in this process: a function that serves a connection until its input ends.
#[derive(Debug)]
pub struct InProcess<F>(pub F);

impl<F> Target for InProcess<F>
where
    F: Fn(TcpStream) + Clone + Send + Sync + 'static,
{
    fn start(&self) -> io::Result<Link> {
        let (theirs, link) = Link::pair()?;
        let serve = self.0.clone();
        thread::Builder::new().name("server".into()).spawn(move || serve(theirs))?;
        Ok(link)
    }
}

/// The bytes to and from a server that was started.
#[derive(Debug)]
pub struct Link {
    /// The bytes that the server writes, until it ends.
    pub(crate) output: Receiver<Vec<u8>>,
    /// The bytes for the server to read. Dropping this ends its input.
    pub(crate) input: Option<Sender<Told>>,
    pub(crate) child: Option<Child>,
    /// The bytes that sockets between the two may hold.
    pub(crate) held: usize,
}

impl Link {
    /// A connection to a server by its output and its input.
    pub fn new(
        output: impl Read + Send + 'static,
        input: impl Write + Send + 'static,
        child: Option<Child>,
    ) -> Self {
        Self::ending(output, input, child, || {})
    }

    /// Creates a connection that does something once the server's input has ended.
    fn ending(
        output: impl Read + Send + 'static,
        input: impl Write + Send + 'static,
        child: Option<Child>,
        at_end: impl FnOnce() + Send + 'static,
    ) -> Self {
        // Nothing is read before it is looked at, so that a server that says more waits.
        let (said, heard) = sync_channel(0);
        let (tell, told) = channel();
        thread::spawn(move || {
            each_read(output, |bytes| said.send(bytes.to_vec()).map_err(io::Error::other))
        });
        thread::spawn(move || {
            write(input, &told);
            at_end();
        });
        Self { output: heard, input: Some(tell), child, held: 0 }
    }

    /// A connection to a server that is no process of its own, and the server's end of it.
    ///
    /// # Errors
    ///
    /// This machine has no more sockets.
    pub fn pair() -> io::Result<(TcpStream, Self)> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let near = TcpStream::connect(listener.local_addr()?)?;
        let (far, _) = listener.accept()?;
        far.set_nodelay(true)?;
        // Behind it is another.
        Ok((far, Self { held: 2 * SOCKET, ..Self::over(near)? }))
    }

    /// A connection to what is no process of its own.
    pub(crate) fn over(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let (output, input) = (stream.try_clone()?, stream.try_clone()?);
        // A server that is gone already has no input to end.
        let end = move || drop(stream.shutdown(Shutdown::Write));
        Ok(Self { held: SOCKET, ..Self::ending(output, input, None, end) })
    }
}

/// Hands on the bytes of each read at once, until there are no more or nobody `takes` them.
pub(crate) fn each_read(
    mut from: impl Read,
    mut takes: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        match from.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
            Ok(0) => return Ok(()),
            Ok(len) => takes(&buffer[..len])?,
        }
    }
}

/// The bytes of one write to a server.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) bytes: Vec<u8>,
    /// Gone once it is written.
    pub(crate) until_written: Option<Sender<()>>,
}

fn write(mut input: impl Write, told: &Receiver<Told>) {
    for Told { bytes, until_written } in told {
        // A server that is gone is seen by the end of its output.
        if input.write_all(&bytes).and_then(|()| input.flush()).is_err() {
            return;
        }
        drop(until_written);
    }
}

/// The process of a server.
#[derive(Debug)]
pub struct Child(pub(crate) Owner);

impl Child {
    pub(crate) fn id(&self) -> u32 {
        self.process().id()
    }

    pub(crate) fn process(&self) -> &Process {
        self.0.process()
    }

    pub(crate) fn stderr(&self) -> String {
        self.process().stderr_tail()
    }

    /// Waits until it is gone, whose input has ended: whether it ended by itself, and nothing that it
    /// had started was left. `None` if it has not ended in that time.
    pub(crate) fn ends(&self, patience: Duration) -> Option<bool> {
        let is_gone = end_of(self.process()).recv_timeout(patience).is_ok();
        // Whatever it has left may have a longer grace.
        self.process().has_ended().then(|| is_gone && self.process().pushed() == Pushed::No)
    }

    /// Waits until it is gone: its status. `None` if it is not in that time, or nobody knows.
    pub(crate) fn status(&self, patience: Duration) -> Option<ExitStatus> {
        end_of(self.process()).recv_timeout(patience).ok()?.ok()
    }

    /// Returns its exit status in brackets, to follow "it ended". It is empty if it has not ended, or that is
    /// unknown.
    pub(crate) fn how_it_ended(&self) -> String {
        self.status(SOON).map_or_else(String::new, in_brackets)
    }
}

/// Returns what tells the status of a process once it is gone.
pub(crate) fn end_of(process: &Process) -> Receiver<io::Result<ExitStatus>> {
    let process = process.clone();
    let (gone, told) = channel();
    // Nobody waits any more once the patience is over.
    thread::spawn(move || gone.send(process.wait()));
    told
}

/// A status, to be said after that something ended.
pub(crate) fn in_brackets(status: ExitStatus) -> String {
    format!(" ({status})")
}

impl Drop for Child {
    fn drop(&mut self) {
        // It gets no grace for what it is doing: what it says is no evidence any more.
        process::kill(self.id());
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_program_has_ended_however_long_the_grace_of_what_it_leaves_is() {
        // A shell gives what it leaves behind no input but one of another number.
        let leaves = "exec 3<&0; cat <&3 >/dev/null 2>&1 & exit 0";
        let command = ["sh", "-c", leaves].map(OsString::from);
        let graceful = |command| ChildCommand::new(command).grace(Duration::from_secs(60 * 60));
        let spawned = Program::new(command.to_vec()).kept(graceful).spawn().unwrap();
        let child = Child(spawned.owner);
        assert_eq!(io::copy(&mut { spawned.stdout }, &mut io::sink()).unwrap(), 0);
        let mut looks = 0..1_000;
        let ended = looks.find_map(|_| child.ends(Duration::from_millis(10)));
        assert_eq!(ended, Some(false), "it has ended, and has left something");
        // The rest ends with its input.
        drop(spawned.stdin);
        assert!(looks.any(|_| child.status(Duration::from_millis(10)).is_some()));
    }
}
