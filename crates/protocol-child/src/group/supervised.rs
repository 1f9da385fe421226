//! A process below a supervisor, as the program that spawned it sees the two.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, BufReader, IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Signal, getpid, set_child_subreaper};

use crate::lock::lock;
use crate::processes::{One, descendants, process, send};
use crate::supervise::{KILL, TERMINATE};

static SUPERVISORS: Mutex<Supervisors> =
    Mutex::new(Supervisors { orders: BTreeMap::new(), are_killed: false });

/// The supervisors of this program.
struct Supervisors {
    /// Those that are there, and the ways to them. Whatever else descends from this program and has left its
    /// session is the rest of one that is not.
    orders: BTreeMap<u32, UnixStream>,
    /// Whether no supervisor starts its process any more: nobody would be there to end it.
    are_killed: bool,
}

/// Kills every supervised process and all that it has started, for a program that ends without waiting. None can
/// be spawned from then on.
pub fn kill_supervised() {
    let mut supervisors = lock(&SUPERVISORS);
    supervisors.are_killed = true;
    // One that is gone has nothing left.
    supervisors.orders.values_mut().for_each(|orders| drop(orders.write_all(&[KILL])));
}

/// Lists a supervisor, which has started nothing yet.
fn list(supervisor: u32, orders: &UnixStream) -> io::Result<()> {
    let mut supervisors = lock(&SUPERVISORS);
    if supervisors.are_killed {
        return Err(io::Error::other("this program has killed all that it supervises"));
    }
    supervisors.orders.insert(supervisor, orders.try_clone()?);
    Ok(())
}

fn forget(supervisor: u32) {
    lock(&SUPERVISORS).orders.remove(&supervisor);
}

/// A supervisor that was started, and the pipes of the process below it.
pub(super) struct Below {
    pub(super) supervised: Supervised,
    /// The child of this program, which is the supervisor.
    pub(super) child: Child,
    pub(super) stdin: ChildStdin,
    pub(super) stdout: ChildStdout,
    pub(super) stderr: Option<ChildStderr>,
}

/// A process below a supervisor.
#[derive(Debug)]
pub(crate) struct Supervised {
    id: u32,
    supervisor: u32,
    /// The way to the supervisor. It ends everything when this is closed.
    orders: UnixStream,
    reports: Mutex<BufReader<UnixStream>>,
    status: Mutex<Option<ExitStatus>>,
}

/// Spawns the supervisor that is this command, and has it start its process.
///
/// # Errors
///
/// Those of starting the supervisor, and of the supervisor's starting the process.
pub(super) fn spawn(command: &mut Command) -> io::Result<Below> {
    // The rest of a supervisor that is killed becomes ours.
    set_child_subreaper(Some(getpid()))?;
    let (stdin, to_stdin) = pipe_with(PipeFlags::CLOEXEC)?;
    let (from_stdout, stdout) = pipe_with(PipeFlags::CLOEXEC)?;
    let (orders, theirs) = UnixStream::pair()?;
    command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null());
    let mut child = command.spawn().map_err(|error| named("its supervisor", &error))?;
    command.stdin(Stdio::null());
    let supervisor = child.id();
    let mut reports = BufReader::new(orders.try_clone()?);
    let started = list(supervisor, &orders)
        .and_then(|()| pass(&orders, [&stdin, &stdout]))
        .and_then(|()| first_report(&mut reports));
    drop((stdin, stdout));
    match started {
        Ok(id) => {
            let stderr = child.stderr.take();
            let reports = Mutex::new(reports);
            let status = Mutex::default();
            let supervised = Supervised { id, supervisor, orders, reports, status };
            let (stdin, stdout) = (to_stdin.into(), from_stdout.into());
            Ok(Below { supervised, child, stdin, stdout, stderr })
        }
        Err(error) => {
            // It has started nothing.
            let _ = child.kill();
            let _ = child.wait();
            forget(supervisor);
            Err(error)
        }
    }
}

fn named(what: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what} can't be started: {error}"))
}

/// Passes the pipes of the process to its supervisor.
fn pass(orders: &UnixStream, pipes: [&OwnedFd; 2]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut passed = SendAncillaryBuffer::new(&mut space);
    let pipes = pipes.map(AsFd::as_fd);
    let fits = passed.push(SendAncillaryMessage::ScmRights(&pipes));
    debug_assert!(fits, "there is room for both");
    sendmsg(orders, &[IoSlice::new(b"\n")], &mut passed, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Reads whether the process was started, and returns its id.
fn first_report(reports: &mut impl BufRead) -> io::Result<u32> {
    let mut line = String::new();
    reports.read_line(&mut line)?;
    match line.trim_end().split_once(' ') {
        Some(("started", id)) => id.parse().map_err(io::Error::other),
        Some(("failed", code)) => {
            Err(code.parse().map_or_else(io::Error::other, io::Error::from_raw_os_error))
        }
        _ => Err(io::Error::other("its supervisor did not start it")),
    }
}

impl Supervised {
    pub(super) const fn id(&self) -> u32 {
        self.id
    }

    /// Waits until the process has ended, or its supervisor.
    pub(super) fn wait(&self) {
        let mut reports = lock(&self.reports);
        let mut line = String::new();
        // An error is an end, too.
        let _ = reports.read_line(&mut line);
        let status = line.trim_end().strip_prefix("ended ").and_then(|raw| raw.parse().ok());
        *lock(&self.status) = status.map(ExitStatus::from_raw);
        if status.is_none() {
            self.end_the_rest();
        }
    }

    /// Returns how the process ended, or else how its supervisor did.
    pub(super) fn status(&self, supervisor: &Mutex<Child>) -> io::Result<ExitStatus> {
        let status = *lock(&self.status);
        status.map_or_else(|| lock(supervisor).wait(), Ok)
    }

    pub(super) fn terminate(&self) {
        self.order(TERMINATE);
    }

    pub(super) fn kill(&self) {
        self.order(KILL);
    }

    fn order(&self, order: u8) {
        // A supervisor that is gone has nothing left to end.
        let _ = (&self.orders).write_all(&[order]);
    }

    /// Returns whether nothing is left: a supervisor ends last. The rest of one that was killed is ended here.
    pub(super) fn is_empty(&self, supervisor: &Mutex<Child>) -> bool {
        match lock(supervisor).try_wait() {
            Ok(None) => return false,
            Ok(Some(status)) if status.success() => {}
            _ => self.end_the_rest(),
        }
        forget(self.supervisor);
        true
    }

    /// Kills a supervisor that does not end, and all that it had.
    pub(super) fn release(&self, supervisor: &Mutex<Child>) {
        if !self.is_empty(supervisor) {
            let mut child = lock(supervisor);
            let _ = child.kill();
            let _ = child.wait();
            drop(child);
            self.end_the_rest();
            forget(self.supervisor);
        }
    }

    /// Kills whatever a supervisor that is gone has left.
    fn end_the_rest(&self) {
        forget(self.supervisor);
        // One that is killed may just have started another.
        for _ in 0..1_000 {
            let rest = adopted();
            if rest.is_empty() {
                return;
            }
            rest.iter().for_each(|one| send(one, Signal::KILL));
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Returns the processes that have become ours: they are in no session of ours, and below no supervisor.
fn adopted() -> Vec<One> {
    let ours = std::process::id();
    let supervisors: BTreeSet<u32> = lock(&SUPERVISORS).orders.keys().copied().collect();
    // It is 0 for a program that has been in its container's first session, which `getsid` takes for no session.
    let Some(session) = process(ours).map(|it| it.lineage.session) else { return Vec::new() };
    let below: BTreeSet<u32> =
        supervisors.iter().flat_map(|id| descendants(*id)).map(|one| one.id).collect();
    let mut all = descendants(ours);
    all.retain(|one| {
        let is_supervised = supervisors.contains(&one.id) || below.contains(&one.id);
        one.lineage.session != session && !is_supervised
    });
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f102_a_supervisor_that_comes_after_all_were_killed_starts_nothing() {
        kill_supervised();
        let mut command = Command::new("sh");
        // One that would say that it has started itself.
        command.args(["-c", "echo started $$ >&0; read -r _"]);
        let error = spawn(&mut command).map(|below| below.supervised.id()).unwrap_err();
        assert!(error.to_string().contains("has killed all"), "{error}");
    }
}
