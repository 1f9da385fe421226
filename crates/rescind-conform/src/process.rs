//! Stopping a process, so that two messages wait for it in one read (`SIGSTOP`, write, `SIGCONT`), and what `/proc` tells of
//! its group. A system without `/proc` tells nothing.

use std::path::{Path, PathBuf};
use std::time::Duration;

#[cfg(unix)]
use rustix::process::{Pid, Signal, getpgid, kill_process, kill_process_group};

/// The places of the times of a process on a processor, by user and system, in what [`stat`] returns.
const USER_AND_SYSTEM: std::ops::Range<usize> = 11..13;

/// Does something while the group of this process is stopped. Whether it was.
#[cfg(unix)]
pub(crate) fn while_stopped(process: u32, does: impl FnOnce()) -> bool {
    let Some(group) = group_of(process) else {
        does();
        return false;
    };
    let stopped = kill_process_group(group, Signal::STOP).is_ok() && is_stopped(process);
    // The watchdog leads the group: it goes on, to end the others if we are killed meanwhile. A process that
    // leads a group of its own has none in it.
    if i32::try_from(process) != Ok(group.as_raw_pid()) {
        let _ = kill_process(group, Signal::CONT);
    }
    does();
    // It may be gone: then there is nothing to go on.
    let _ = kill_process_group(group, Signal::CONT);
    stopped
}

/// Kills the group of this process.
#[cfg(unix)]
pub(crate) fn kill(process: u32) {
    if let Some(group) = group_of(process) {
        // It may be gone.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// The group that a process is in, if that is not ours.
#[cfg(unix)]
fn group_of(process: u32) -> Option<Pid> {
    let process = Pid::from_raw(i32::try_from(process).ok()?)?;
    let group = getpgid(Some(process)).ok()?;
    (getpgid(None) != Ok(group)).then_some(group)
}

/// Waits until the process is seen to be stopped; a signal is not obeyed at once.
#[cfg(unix)]
fn is_stopped(process: u32) -> bool {
    const PATIENCE: Duration = Duration::from_secs(2);
    let begun = std::time::Instant::now();
    while cfg!(target_os = "linux") {
        let mut all = group_stats(process).peekable();
        if all.peek().is_some() && all.all(|(_, of)| matches!(&*of[0], "T" | "t" | "Z" | "X")) {
            return true;
        }
        if begun.elapsed() > PATIENCE {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

/// Returns the processor time that the group of a process has used, in ticks.
pub(crate) fn busy(process: u32) -> u64 {
    let times = group_stats(process).filter_map(|(_, fields)| {
        let times = fields.get(USER_AND_SYSTEM)?.iter().map(|ticks| ticks.parse::<u64>().ok());
        times.sum::<Option<u64>>()
    });
    times.sum()
}

/// Returns how long the first thread of a process, which mostly reads, has waited for a processor.
pub(crate) fn waited(process: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{process}/schedstat"));
    stat.ok().and_then(|stat| time_waited(&stat)).unwrap_or_default()
}

/// The second number of `schedstat`, in nanoseconds. The first is the time on a processor.
fn time_waited(stat: &str) -> Option<Duration> {
    stat.split(' ').nth(1)?.parse().ok().map(Duration::from_nanos)
}

/// Returns whether a process works since it was so busy. One of a low priority may not get a processor for long.
pub(crate) fn is_at_work(process: Option<u32>, since: Option<u64>) -> bool {
    process.is_some_and(|process| Some(busy(process)) != since || is_runnable(process))
}

/// Whether a thread in the group of a process runs, or would if it were given a processor.
fn is_runnable(process: u32) -> bool {
    let folders = group_stats(process).map(|(path, _)| std::fs::read_dir(path.join("task")));
    let mut threads = folders.flatten().flatten().flatten();
    threads.any(|thread| stat(&thread.path()).is_some_and(|fields| fields[0] == "R"))
}

/// Returns the processes in the group of this one, each by its folder in `/proc` and its fields, if that is not our group.
fn group_stats(process: u32) -> impl Iterator<Item = (PathBuf, Vec<String>)> {
    let proc = Path::new("/proc");
    let group = |of: &str| stat(&proc.join(of))?.into_iter().nth(2);
    let theirs =
        group(&process.to_string()).filter(|theirs| group("self").as_ref() != Some(theirs));
    let all = theirs.is_some().then(|| std::fs::read_dir(proc)).into_iter();
    all.flatten().flatten().flatten().filter_map(move |process| {
        let fields = stat(&process.path())?;
        (fields.get(2) == theirs.as_ref()).then(|| (process.path(), fields))
    })
}

/// The fields from the state on, of a process or a thread.
fn stat(path: &Path) -> Option<Vec<String>> {
    let stat = std::fs::read_to_string(path.join("stat")).ok()?;
    // The name is in parentheses, and may hold some itself.
    let (_, rest) = stat.rsplit_once(") ")?;
    Some(rest.split(' ').map(String::from).collect())
}

/// There is no such signal here: what is written at once is mostly read at once.
#[cfg(not(unix))]
pub(crate) fn while_stopped(_: u32, does: impl FnOnce()) -> bool {
    does();
    false
}

#[cfg(not(unix))]
pub(crate) fn kill(_: u32) {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::process::{Child, Command};

    use super::*;

    /// A process that works for ever, in a group of its own, until this is dropped.
    struct Spinning(Child);

    impl Spinning {
        fn start() -> Self {
            let mut command = Command::new("sh");
            command.args(["-c", "ulimit -t 20; while :; do :; done"]).process_group(0);
            Self(command.spawn().expect("a shell"))
        }
    }

    impl Drop for Spinning {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn the_time_that_a_process_has_waited_is_read() {
        assert_eq!(time_waited("441398 2322907 17\n"), Some(Duration::from_nanos(2_322_907)));
        assert_eq!(time_waited("0\n"), None);
        let all: Vec<Spinning> = (0..9).map(|_| Spinning::start()).collect();
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let begun = std::time::Instant::now();
        while processors < all.len() && all.iter().all(|it| waited(it.0.id()).is_zero()) {
            assert!(
                begun.elapsed() < Duration::from_secs(30),
                "nine have not waited for {processors}"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn work_and_waiting_for_a_processor_are_told_apart() {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let all: Vec<Spinning> = (0..=processors).map(|_| Spinning::start()).collect();
        let first = |of: &dyn Fn(u32) -> bool| {
            let begun = std::time::Instant::now();
            while !all.iter().any(|Spinning(child)| of(child.id())) {
                assert!(
                    begun.elapsed() < Duration::from_secs(30),
                    "there is more work than processors"
                );
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        first(&|process| busy(process) > 1);
        assert!(all.iter().any(|Spinning(child)| is_runnable(child.id())));
    }
}
