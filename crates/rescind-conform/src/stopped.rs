//! Stopping a process, so that two messages wait for it in one read (`SIGSTOP`, write, `SIGCONT`).

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

#[cfg(unix)]
use rustix::process::{Pid, Signal, getpgid, kill_process, kill_process_group};

/// Does something while the group of this process is stopped. Whether it was.
#[cfg(unix)]
pub(crate) fn while_stopped(process: u32, does: impl FnOnce()) -> bool {
    let Some(group) = group_of(process) else {
        does();
        return false;
    };
    let stopped = kill_process_group(group, Signal::STOP).is_ok() && is_stopped(group);
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
#[cfg(target_os = "linux")]
fn is_stopped(group: Pid) -> bool {
    use std::time::Instant;

    const PATIENCE: Duration = Duration::from_secs(2);
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let mut all = group_stats(group.as_raw_pid()).peekable();
        if all.peek().is_some() && all.all(|of| matches!(&*of[0], "T" | "t" | "Z" | "X")) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    false
}

/// Returns the processor time that the group of a process has used, in ticks.
#[cfg(target_os = "linux")]
pub(crate) fn busy(process: u32) -> Option<u64> {
    const USER_AND_SYSTEM: std::ops::Range<usize> = 11..13;
    let group = group_of(process)?.as_raw_pid();
    let times = group_stats(group).filter_map(|fields| {
        let times = fields.get(USER_AND_SYSTEM)?.iter().map(|ticks| ticks.parse::<u64>().ok());
        times.sum::<Option<u64>>()
    });
    Some(times.sum())
}

/// Whether a thread in the group of a process runs, or would if it were given a processor.
#[cfg(target_os = "linux")]
pub(crate) fn is_runnable(process: u32) -> bool {
    group_threads(process).any(|path| stat(&path).is_some_and(|fields| fields[0] == "R"))
}

/// The time for which each thread in the group of a process, and the asking thread, have waited for a
/// processor. It is empty on systems other than Linux.
#[derive(Clone, Debug, Default)]
pub(crate) struct Delays {
    threads: HashMap<PathBuf, Duration>,
    own: Duration,
}

impl Delays {
    #[cfg(target_os = "linux")]
    pub(crate) fn until_now(process: Option<u32>) -> Self {
        let threads = process.into_iter().flat_map(group_threads);
        Self {
            threads: threads.filter_map(|path| Some((path.clone(), delay(&path)?))).collect(),
            own: delay(std::path::Path::new("/proc/thread-self")).unwrap_or_default(),
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn until_now(_: Option<u32>) -> Self {
        Self::default()
    }

    /// Returns the growth since then: of the thread that waited longest, and of the one that asks.
    pub(crate) fn grown(&self, later: &Self) -> Duration {
        let before = |path| self.threads.get(path).copied().unwrap_or_default();
        let grown = later.threads.iter().map(|(path, delay)| delay.saturating_sub(before(path)));
        grown.max().unwrap_or_default() + later.own.saturating_sub(self.own)
    }
}

/// Returns the time for which a thread has waited for a processor.
#[cfg(target_os = "linux")]
fn delay(thread: &std::path::Path) -> Option<Duration> {
    let statistics = std::fs::read_to_string(thread.join("schedstat")).ok()?;
    statistics.split(' ').nth(1)?.parse().ok().map(Duration::from_nanos)
}

/// Returns the folders in `/proc` of the threads in the group of a process.
#[cfg(target_os = "linux")]
fn group_threads(process: u32) -> impl Iterator<Item = PathBuf> {
    let group = group_of(process).map(Pid::as_raw_pid);
    let processes = group.into_iter().flat_map(group_processes);
    processes
        .flat_map(|(path, _)| std::fs::read_dir(path.join("task")).into_iter().flatten().flatten())
        .map(|thread| thread.path())
}

/// The fields of `/proc/*/stat` from the state on, for the processes in a group.
#[cfg(target_os = "linux")]
fn group_stats(group: i32) -> impl Iterator<Item = Vec<String>> {
    group_processes(group).map(|(_, fields)| fields)
}

/// The same, with where each is.
#[cfg(target_os = "linux")]
fn group_processes(group: i32) -> impl Iterator<Item = (PathBuf, Vec<String>)> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(move |process| {
        let fields = stat(&process.path())?;
        (fields.get(2)?.parse() == Ok(group)).then(|| (process.path(), fields))
    })
}

/// The fields from the state on, of a process or a thread.
#[cfg(target_os = "linux")]
fn stat(path: &std::path::Path) -> Option<Vec<String>> {
    let stat = std::fs::read_to_string(path.join("stat")).ok()?;
    // The name is in parentheses, and may hold some itself.
    let (_, rest) = stat.rsplit_once(") ")?;
    Some(rest.split(' ').map(String::from).collect())
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn busy(_: u32) -> Option<u64> {
    None
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn is_runnable(_: u32) -> bool {
    false
}

#[cfg(all(unix, not(target_os = "linux")))]
fn is_stopped(_: Pid) -> bool {
    true
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
    fn the_thread_that_waited_longest_since_counts_and_our_own() {
        let seconds = Duration::from_secs;
        let delays = |threads: &[(&str, u64)], own| Delays {
            threads: threads.iter().map(|(path, delay)| (path.into(), seconds(*delay))).collect(),
            own: seconds(own),
        };
        let before = delays(&[("idle", 100), ("gone", 50)], 1);
        let after = delays(&[("idle", 101), ("new", 7)], 3);
        assert_eq!(before.grown(&after), seconds(7 + 2));
        assert_eq!(after.grown(&after), Duration::ZERO);
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
        let before = Delays::default();
        let enough = |time: Duration| time.as_millis() >= 20;
        first(&|process| busy(process).is_some_and(|ticks| ticks > 1));
        first(&|process| {
            let Delays { threads, .. } = Delays::until_now(Some(process));
            enough(before.grown(&Delays { threads, ..Delays::default() }))
        });
        assert!(all.iter().any(|Spinning(child)| is_runnable(child.id())));
    }
}
