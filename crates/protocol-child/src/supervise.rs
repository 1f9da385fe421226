//! The supervisor of a process: a small program between a host and the process that it spawns.
//!
//! It is a subreaper, so every orphan among those that descend from the process becomes its child, however the
//! orphan has detached itself. It ends them all at an order of its host, or when its host is gone.

use std::collections::BTreeSet;
use std::io::{self, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{Pid, Signal, WaitOptions, getpid, set_child_subreaper, setsid, wait};

use crate::processes::{ProcessInfo, descendants, pid, send};

/// The orders of a host, a byte each.
pub(crate) const TERMINATE: u8 = b'T';
pub(crate) const KILL: u8 = b'K';

/// The time between two looks at processes that were killed, or that have just ended.
const AGAIN: Duration = Duration::from_millis(5);

/// The options of a supervisor.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Supervision {
    /// The time that the process has to end when the host is gone, and once more after `SIGTERM`; 2 s.
    pub grace: Duration,
    /// The treatment of processes that have a session of their own, as `setsid` and Node's `detached` make
    /// one; [`Detached::End`].
    pub detached: Detached,
}

impl Default for Supervision {
    fn default() -> Self {
        Self { grace: Duration::from_secs(2), detached: Detached::End }
    }
}

/// The treatment of processes that were detached on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detached {
    /// The processes end with the one that they descend from.
    End,
    /// The processes are left. They become children of the host, and nobody but the host reaps them.
    Keep,
}

/// A process that had left the group of the process which it descends from, and was ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Ended {
    /// The id that it had.
    pub id: u32,
    /// Its program and its arguments, with spaces between them.
    pub command: String,
}

/// Supervises a command for the host that spawned this program with [`ChildCommand::supervisor`].
///
/// It returns when nothing is left of the command, and calls `ended` for each process that it ended outside of the
/// command's own group. The program must have no other children, and ignore no signal that the command should not.
/// It has a session of its own from then on, so the command has no terminal to ask on.
///
/// [`ChildCommand::supervisor`]: crate::ChildCommand::supervisor
///
/// # Errors
///
/// The program was not spawned so, or has no more descriptors or threads. A command that can't be spawned is reported
/// to the host.
pub fn supervise(
    command: &mut Command,
    supervision: &Supervision,
    ended: &mut dyn FnMut(Ended),
) -> io::Result<()> {
    let mut host = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let [stdin, stdout] = receive_pipes(&host)?;
    // It fails for a process that leads a session already.
    let _ = setsid();
    set_child_subreaper(Some(getpid()))?;
    let (tell, events) = channel();
    let (orders, heard) = (host.try_clone()?, tell.clone());
    let (begin, begun) = channel();
    thread::Builder::new().name("orders".into()).spawn(move || read_orders(orders, &heard))?;
    thread::Builder::new().name("ends".into()).spawn(move || {
        // Before the spawn a wait would find no child, and end.
        if begun.recv().is_ok() {
            reap(&tell);
        }
    })?;
    // In a group of its own, so that a signal for its whole group does not reach us.
    command.stdin(Stdio::from(stdin)).stdout(Stdio::from(stdout)).process_group(0);
    let spawned = command.spawn();
    // A reader of its output sees the end of it.
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let process = match spawned {
        Ok(child) => child.id(),
        Err(error) => {
            let code = error.raw_os_error().unwrap_or(Errno::INVAL.raw_os_error());
            return writeln!(host, "failed {code}");
        }
    };
    // Nothing fails from here on, because the process has to be ended. `read_orders` reports a host that is gone.
    let _ = (writeln!(host, "started {process}"), begin.send(()));
    let Supervision { grace, detached } = *supervision;
    let (process, named) = (pid(process), BTreeSet::new());
    let mut supervisor = Supervisor { process, is_running: true, host, grace, detached, named };
    supervisor.run(&events, ended);
    Ok(())
}

fn receive_pipes(host: &UnixStream) -> io::Result<[OwnedFd; 2]> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut passed = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(host, &mut [IoSliceMut::new(&mut byte)], &mut passed, RecvFlags::CMSG_CLOEXEC)?;
    let pipes = passed.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(pipes) => pipes.collect::<Vec<_>>().try_into().ok(),
        _ => None,
    });
    pipes.ok_or_else(|| io::Error::other("this program is started by its host, with two pipes"))
}

/// Something that a supervisor waits for.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// The host orders all processes to end, by this signal.
    Order(Signal),
    /// The host is gone.
    HostGone,
    /// A child of ours has ended, with this status.
    Ended(Pid, i32),
    /// There is no child of ours any more.
    NoChild,
}

/// Reads the orders of the host, until it is gone.
fn read_orders(mut orders: UnixStream, tell: &Sender<Event>) {
    let mut order = [0];
    loop {
        let event = match orders.read(&mut order) {
            Ok(1) if order[0] == TERMINATE => Event::Order(Signal::TERM),
            Ok(1) if order[0] == KILL => Event::Order(Signal::KILL),
            Ok(1) => continue,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Ok(_) | Err(_) => Event::HostGone,
        };
        if tell.send(event).is_err() || matches!(event, Event::HostGone) {
            return;
        }
    }
}

/// Reaps every child, orphans too, until there is none. An orphan has a parent until it is ours, so nothing is left
/// then.
fn reap(tell: &Sender<Event>) {
    loop {
        let event = match wait(WaitOptions::empty()) {
            Ok(Some((child, status))) => Event::Ended(child, status.as_raw()),
            Ok(None) | Err(Errno::INTR) => continue,
            Err(_) => Event::NoChild,
        };
        if tell.send(event).is_err() || matches!(event, Event::NoChild) {
            return;
        }
    }
}

struct Supervisor {
    /// The process, which leads the group that it was spawned in.
    process: Pid,
    is_running: bool,
    host: UnixStream,
    grace: Duration,
    detached: Detached,
    /// The processes that were reported as ended.
    named: BTreeSet<u32>,
}

impl Supervisor {
    /// Carries orders out until nothing is left.
    fn run(&mut self, events: &Receiver<Event>, ended: &mut dyn FnMut(Ended)) {
        // The signals that follow without an order once the host is gone.
        let mut left = vec![Signal::KILL, Signal::TERM];
        // A grace that is too long for an instant never ends.
        let (mut due, mut is_killing) = (None::<Instant>, false);
        loop {
            let pause = match due {
                _ if is_killing => AGAIN,
                Some(at) => at.saturating_duration_since(Instant::now()),
                None => Duration::MAX,
            };
            match events.recv_timeout(pause) {
                Ok(Event::NoChild) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(Event::Ended(child, status)) => self.reaped(child, status),
                Ok(Event::Order(signal)) => {
                    is_killing |= signal == Signal::KILL;
                    self.signal(signal, ended);
                }
                Ok(Event::HostGone) => due = Instant::now().checked_add(self.grace),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if due.is_some_and(|at| at <= Instant::now()) {
                if let Some(signal) = left.pop() {
                    is_killing |= signal == Signal::KILL;
                    self.signal(signal, ended);
                }
                due = Instant::now().checked_add(self.grace);
            }
            if is_killing {
                // A process that is killed may just have started another.
                self.signal(Signal::KILL, ended);
            }
            let is_over = !self.is_running && self.detached == Detached::Keep;
            if is_over && self.ours().is_empty() {
                return;
            }
        }
    }

    fn reaped(&mut self, child: Pid, status: i32) {
        if self.is_running && child == self.process {
            self.is_running = false;
            // A host that is gone does not read it.
            let _ = writeln!(self.host, "ended {status}");
        }
    }

    /// Returns the processes that end with the supervisor.
    fn ours(&self) -> Vec<ProcessInfo> {
        let mut all = descendants(std::process::id());
        if self.detached == Detached::Keep {
            let session = getpid().as_raw_pid();
            all.retain(|one| one.lineage.session == session);
        }
        all
    }

    fn signal(&mut self, signal: Signal, ended: &mut dyn FnMut(Ended)) {
        for one in self.ours() {
            let has_left = one.group != self.process.as_raw_pid();
            // A process that is gone has no arguments any more.
            let left = (has_left && self.named.insert(one.id)).then(|| one.command());
            send(&one, signal);
            if let Some(command) = left {
                ended(Ended { id: one.id, command });
            }
        }
    }
}
