//! Stopping a process, so that two messages wait for it in one read (`SIGSTOP`, write, `SIGCONT`).

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
        let mut all = group_states(group.as_raw_pid()).peekable();
        if all.peek().is_some() && all.all(|state| matches!(state, 'T' | 't' | 'Z' | 'X')) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    false
}

/// The states of the processes in a group.
#[cfg(target_os = "linux")]
fn group_states(group: i32) -> impl Iterator<Item = char> {
    group_stats(group).filter_map(|fields| fields.first()?.chars().next())
}

/// How much processor time the group of a process has used, to a hundredth of a second.
#[cfg(target_os = "linux")]
pub(crate) fn busy(process: u32) -> Option<Duration> {
    const USER_AND_SYSTEM: std::ops::Range<usize> = 11..13;
    let group = group_of(process)?.as_raw_pid();
    let times = group_stats(group).filter_map(|fields| {
        let times = fields.get(USER_AND_SYSTEM)?.iter().map(|ticks| ticks.parse::<u64>().ok());
        times.sum::<Option<u64>>()
    });
    let ticks: u64 = times.sum();
    Some(Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second()))
}

/// Whether a thread in the group of a process runs, or would if it were given a processor.
#[cfg(target_os = "linux")]
pub(crate) fn is_runnable(process: u32) -> bool {
    let Some(group) = group_of(process) else { return false };
    group_processes(group.as_raw_pid()).any(|(path, _)| {
        let mut threads = std::fs::read_dir(path.join("task")).into_iter().flatten().flatten();
        threads.any(|thread| stat(&thread.path()).is_some_and(|fields| fields[0] == "R"))
    })
}

/// The fields of `/proc/*/stat` from the state on, for the processes in a group.
#[cfg(target_os = "linux")]
fn group_stats(group: i32) -> impl Iterator<Item = Vec<String>> {
    group_processes(group).map(|(_, fields)| fields)
}

/// The same, with where each is.
#[cfg(target_os = "linux")]
fn group_processes(group: i32) -> impl Iterator<Item = (std::path::PathBuf, Vec<String>)> {
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
pub(crate) fn busy(_: u32) -> Option<Duration> {
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
