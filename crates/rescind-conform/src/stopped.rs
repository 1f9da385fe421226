//! Stopping a process, so that two messages wait for it in one read (`SIGSTOP`, write, `SIGCONT`).

#[cfg(unix)]
use rustix::process::{Pid, Signal, getpgid, kill_process_group};

/// Does something while the group of this process is stopped. Whether it was.
#[cfg(unix)]
pub(crate) fn while_stopped(process: u32, does: impl FnOnce()) -> bool {
    let Some(group) = group_of(process) else {
        does();
        return false;
    };
    let stopped = kill_process_group(group, Signal::STOP).is_ok() && is_stopped(group);
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
    use std::time::{Duration, Instant};

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

/// How much processor time the group of a process has used, in ticks.
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

/// The fields of `/proc/*/stat` from the state on, for the processes in a group.
#[cfg(target_os = "linux")]
fn group_stats(group: i32) -> impl Iterator<Item = Vec<String>> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(move |process| {
        let stat = std::fs::read_to_string(process.path().join("stat")).ok()?;
        // The name is in parentheses, and may hold some itself.
        let (_, rest) = stat.rsplit_once(") ")?;
        let fields: Vec<String> = rest.split(' ').map(String::from).collect();
        (fields.get(2)?.parse() == Ok(group)).then_some(fields)
    })
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn busy(_: u32) -> Option<u64> {
    None
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
