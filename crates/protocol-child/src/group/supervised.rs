//! A process below a supervisor, seen from the program that spawned the two.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use rustix::io::retry_on_intr;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Signal, WaitId, WaitIdOptions, WaitOptions, getpid, kill_process, set_child_subreaper, waitid,
    waitpid,
};

use super::{Group, Started, WATCHED};
use crate::lock::lock;
use crate::processes::{ProcessInfo, descendants_among, pid, process, processes, send};
use crate::supervise::{KILL, TERMINATE};

/// The longest wait for a supervisor's report that it has started its process.
const START: Duration = Duration::from_secs(30);

/// The bytes of the longest report.
const LONGEST_REPORT: u64 = 64;

static SUPERVISORS: Mutex<Supervisors> =
    Mutex::new(Supervisors { orders: BTreeMap::new(), are_killed: false });

/// The supervisors of this program.
struct Supervisors {
    /// The supervisors that are not reaped, with the streams of their orders. Other processes that descend from this
    /// program and have left its session are the rest of one that is gone.
    orders: BTreeMap<u32, UnixStream>,
    /// Whether no supervisor starts its process any more, because nobody would be there to end it.
    are_killed: bool,
}

/// Kills every supervised process and all that it has started, for a program that ends without waiting. None can
/// be spawned from then on.
pub fn kill_supervised() {
    let mut supervisors = lock(&SUPERVISORS);
    supervisors.are_killed = true;
    supervisors.orders.iter_mut().for_each(|(id, orders)| give(*id, orders, KILL));
}

/// Gives an order to a supervisor that is listed. One that was stopped goes on.
fn give(supervisor: u32, orders: &mut UnixStream, order: u8) {
    // One that is gone has nothing left to end.
    let _ = (orders.write_all(&[order]), kill_process(pid(supervisor), Signal::CONT));
}

/// Lists a supervisor, which has started nothing yet.
fn list(supervisor: u32, orders: UnixStream) -> io::Result<()> {
    let mut supervisors = lock(&SUPERVISORS);
    if supervisors.are_killed {
        return Err(io::Error::other("this program has killed all that it supervises"));
    }
    supervisors.orders.insert(supervisor, orders);
    Ok(())
}

/// A process below a supervisor.
struct Supervised {
    supervisor: u32,
    child: Mutex<Child>,
    /// The supervisor's reports, until its process has ended.
    reports: Mutex<Option<BufReader<UnixStream>>>,
}

/// Spawns the supervisor that is this command, and has it start its process.
///
/// # Errors
///
/// The supervisor can't be started, or it can't start its process, or it does not report that in time.
pub(crate) fn spawn(command: &mut Command, _: Duration) -> io::Result<Started> {
    spawn_within(command, START)
}

fn spawn_within(command: &mut Command, patience: Duration) -> io::Result<Started> {
    // The rest of a supervisor that is killed becomes ours.
    set_child_subreaper(Some(getpid()))?;
    let (stdin, to_stdin) = pipe_with(PipeFlags::CLOEXEC)?;
    let (from_stdout, stdout) = pipe_with(PipeFlags::CLOEXEC)?;
    let (orders, theirs) = UnixStream::pair()?;
    let mut reports = BufReader::new(orders.try_clone()?);
    command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null());
    let mut child = command.spawn().map_err(|error| named("its supervisor", &error))?;
    command.stdin(Stdio::null());
    let (supervisor, stderr) = (child.id(), child.stderr.take());
    let started =
        list(supervisor, orders).and_then(|()| pass(reports.get_ref(), [&stdin, &stdout]));
    let started = match started {
        Ok(()) => first_report(&mut reports, patience),
        Err(error) => Ok(Err(error)),
    };
    let (child, reports) = (Mutex::new(child), Mutex::new(Some(reports)));
    let supervised = Supervised { supervisor, child, reports };
    let id = match started {
        Ok(Ok(id)) => id,
        // Nothing of it was started, so no other process of ours is looked at.
        Ok(Err(refused)) => {
            supervised.kill_supervisor();
            return Err(refused);
        }
        Err(error) => {
            supervised.destroy();
            return Err(error);
        }
    };
    let (stdin, stdout) = (to_stdin.into(), from_stdout.into());
    Ok(Started { group: Box::new(supervised), id, stdin, stdout, stderr })
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

/// Reads whether the process was started, and returns its id, or the error of starting it.
///
/// # Errors
///
/// Nobody knows whether it was started.
fn first_report(
    reports: &mut BufReader<UnixStream>,
    patience: Duration,
) -> io::Result<io::Result<u32>> {
    let mut line = String::new();
    reports.get_ref().set_read_timeout(Some(patience))?;
    reports.by_ref().take(LONGEST_REPORT).read_line(&mut line).map_err(|error| {
        match error.kind() {
            io::ErrorKind::WouldBlock => {
                io::Error::new(io::ErrorKind::TimedOut, "its supervisor did not report in time")
            }
            _ => error,
        }
    })?;
    reports.get_ref().set_read_timeout(None)?;
    match line.trim_end().split_once(' ') {
        Some(("started", id)) => id.parse().map(Ok).map_err(io::Error::other),
        Some(("failed", code)) => code
            .parse()
            .map(|code| Err(io::Error::from_raw_os_error(code)))
            .map_err(io::Error::other),
        _ => Err(io::Error::other("its supervisor did not report that it has started it")),
    }
}

impl Supervised {
    fn order(&self, order: u8) {
        if let Some(orders) = lock(&SUPERVISORS).orders.get_mut(&self.supervisor) {
            give(self.supervisor, orders, order);
        }
    }

    /// Kills the supervisor and all that it had.
    fn destroy(&self) {
        self.kill_supervisor();
        Self::end_the_rest();
    }

    fn kill_supervisor(&self) {
        let mut child = lock(&self.child);
        let _ = child.kill();
        let is_listed = lock(&SUPERVISORS).orders.contains_key(&self.supervisor);
        if is_listed {
            // It is listed until it is dead. Its id is another's once it is reaped.
            let (id, until_dead) = (WaitId::Pid(pid(self.supervisor)), WaitIdOptions::EXITED);
            let _ = retry_on_intr(|| waitid(id.clone(), until_dead | WaitIdOptions::NOWAIT));
            lock(&SUPERVISORS).orders.remove(&self.supervisor);
        }
        let _ = child.wait();
    }

    /// Kills all that a supervisor which is gone has left, and reaps it.
    fn end_the_rest() {
        let mut killed = BTreeMap::new();
        // A process that is killed may just have started another, and its threads take a while to end.
        for _ in 0..1_000 {
            let rest = adopted();
            rest.iter().for_each(|one| send(one, Signal::KILL));
            killed.extend(rest.iter().map(|one| (one.id, one.lineage.begun)));
            killed.retain(|id, begun| !reap(*id, *begun));
            if rest.is_empty() && killed.is_empty() {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Reaps a process that is dead and a child of ours. Returns whether it is gone.
fn reap(id: u32, begun: u64) -> bool {
    let Some(now) = process(id).filter(|now| now.lineage.begun == begun) else { return true };
    let is_ours = now.is_dead && now.lineage.parent == std::process::id();
    is_ours && !matches!(waitpid(Some(pid(id)), WaitOptions::NOHANG), Ok(None))
}

impl Group for Supervised {
    /// Returns the status that the supervisor reports. If it ends without a report, so does all that it had.
    fn wait(&self) -> Option<ExitStatus> {
        let mut reports = lock(&self.reports).take()?;
        let mut line = String::new();
        // An error is an end, too.
        let _ = reports.read_line(&mut line);
        let status = line.trim_end().strip_prefix("ended ").and_then(|raw| raw.parse().ok());
        if status.is_none() {
            self.destroy();
        }
        status.map(ExitStatus::from_raw)
    }

    /// Returns the status of the supervisor, which stands for that of its process.
    fn reap(&self) -> io::Result<ExitStatus> {
        lock(&self.child).wait()
    }

    fn terminate(&self, _: bool) {
        self.order(TERMINATE);
    }

    fn kill(&self, _: bool) {
        self.order(KILL);
    }

    /// Returns whether the supervisor has ended, which it does last. If it was killed, this ends its rest.
    fn is_empty(&self) -> bool {
        let mut child = lock(&self.child);
        let mut supervisors = lock(&SUPERVISORS);
        let ended = child.try_wait();
        if matches!(ended, Ok(None)) {
            return false;
        }
        supervisors.orders.remove(&self.supervisor);
        drop((supervisors, child));
        if !ended.is_ok_and(|status| status.is_some_and(|status| status.success())) {
            Self::end_the_rest();
        }
        true
    }

    fn release(&self) {
        if !self.is_empty() {
            self.destroy();
        }
    }
}

/// Returns the processes that have become ours. They are in no session of ours, and neither below a supervisor nor
/// below a process that this crate has spawned without one.
fn adopted() -> Vec<ProcessInfo> {
    let ours = std::process::id();
    // It is 0 for a program that has been in its container's first session, which `getsid` takes for no session.
    let Some(session) = process(ours).map(|it| it.lineage.session) else { return Vec::new() };
    // The list comes first, so that no process is in it that is spawned meanwhile. The rest of a supervisor is in no
    // session of ours, and neither is what descends from that.
    let all = processes().into_iter().flatten().filter(|one| one.lineage.session != session);
    let all = all.collect();
    let (watched, supervisors) = (lock(&WATCHED), lock(&SUPERVISORS));
    let is_owned = |id| watched.contains(&id) || supervisors.orders.contains_key(&id);
    descendants_among(ours, all, is_owned)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::ChildCommand;

    /// The supervisors are those of the whole program, so one test has them at a time.
    static TURN: Mutex<()> = Mutex::new(());

    #[test]
    fn f102_a_supervisor_that_comes_after_all_were_killed_starts_nothing() {
        let _turn = lock(&TURN);
        kill_supervised();
        let mut command = Command::new("sh");
        // One that would say that it has started itself.
        command.args(["-c", "echo started $$ >&0; read -r _"]);
        let error = spawn_within(&mut command, START).map(|started| started.id).unwrap_err();
        assert!(error.to_string().contains("has killed all"), "{error}");
        assert!(lock(&SUPERVISORS).orders.is_empty());
        lock(&SUPERVISORS).are_killed = false;
    }

    #[test]
    fn f132_a_supervisor_that_obeys_nothing_is_killed() {
        let _turn = lock(&TURN);
        let mut command = Command::new("sh");
        command.args(["-c", "setsid sleep 1000 & echo started $! >&0; exec sleep 1000"]);
        let command = ChildCommand::new(command).supervisor().grace(Duration::from_millis(100));
        let spawned = crate::spawn(command).unwrap();
        let process = spawned.owner.process().clone();
        let id = process.id();
        drop(spawned);
        let (tell, told) = channel();
        thread::spawn(move || tell.send(process.wait().map(|status| status.success())));
        let ended = told.recv_timeout(Duration::from_secs(60)).expect("it is killed");
        assert!(!ended.unwrap());
        assert!(!std::path::Path::new(&format!("/proc/{id}")).exists(), "it is reaped, too");
    }

    #[test]
    fn f135_a_process_that_left_our_session_is_not_the_rest_of_another_ones_supervisor() {
        let _turn = lock(&TURN);
        let mut command = Command::new("sh");
        command.args(["-c", "exec setsid sleep 1000"]);
        let watched = crate::spawn(ChildCommand::new(command)).unwrap();
        let id = watched.owner.process().id();
        while process(id).is_some_and(|it| it.lineage.session.unsigned_abs() != id) {
            thread::sleep(Duration::from_millis(1));
        }
        let mut command = Command::new("sh");
        command.args(["-c", "echo started $$ >&0; exec sleep 1000"]);
        let lost = crate::spawn(ChildCommand::new(command).supervisor()).unwrap();
        kill_process(pid(lost.owner.process().id()), Signal::KILL).unwrap();
        assert!(!lost.owner.process().wait().unwrap().success());
        assert!(process(id).is_some_and(|it| !it.is_dead));
        let process = watched.owner.process().clone();
        drop(watched);
        assert_eq!(process.wait().unwrap().signal(), Some(Signal::TERM.as_raw()));
    }

    #[test]
    fn f134_a_supervisor_that_reports_nothing_is_ended_in_time() {
        let _turn = lock(&TURN);
        let mut command = Command::new("sleep");
        let error = spawn_within(command.arg("1000"), Duration::from_millis(100)).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
        assert!(lock(&SUPERVISORS).orders.is_empty());
    }

    #[test]
    fn f60_an_orphan_of_a_group_that_a_subreaper_adopts_is_reaped() {
        set_child_subreaper(Some(getpid())).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & read -r _"]);
        let command = ChildCommand::new(command).grace(Duration::ZERO);
        let crate::Spawned { owner, stdin, .. } = crate::spawn(command).unwrap();
        let group = process(owner.process().id()).unwrap().group;
        // The process ends by itself before the other does, which is an orphan then.
        drop(stdin);
        owner.process().wait().unwrap();
        let left: Vec<_> = processes().unwrap().filter(|one| one.group == group).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}
