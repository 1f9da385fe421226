//! Stopping a process, so that two messages wait for it in one read (`SIGSTOP`, write, `SIGCONT`).

/// Does something while the group of this process is stopped. Whether it was.
#[cfg(unix)]
pub(crate) fn while_stopped(leader: u32, does: impl FnOnce()) -> bool {
    use rustix::process::{Signal, kill_process_group};

    let Some(group) = group(leader) else {
        does();
        return false;
    };
    let stopped = kill_process_group(group, Signal::STOP).is_ok() && is_stopped(leader);
    does();
    // It may be gone: then there is nothing to go on.
    let _ = kill_process_group(group, Signal::CONT);
    stopped
}

/// Kills the group of this process.
#[cfg(unix)]
pub(crate) fn kill(leader: u32) {
    use rustix::process::{Signal, kill_process_group};

    if let Some(group) = group(leader) {
        // It may be gone.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

#[cfg(unix)]
fn group(leader: u32) -> Option<rustix::process::Pid> {
    rustix::process::Pid::from_raw(i32::try_from(leader).ok()?)
}

/// Waits until the process is seen to be stopped; a signal is not obeyed at once.
#[cfg(target_os = "linux")]
fn is_stopped(leader: u32) -> bool {
    use std::time::{Duration, Instant};

    const PATIENCE: Duration = Duration::from_secs(2);
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let mut all = group_states(leader).peekable();
        if all.peek().is_some() && all.all(|state| matches!(state, 'T' | 't' | 'Z' | 'X')) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    false
}

/// The states of the processes in a group.
#[cfg(target_os = "linux")]
fn group_states(leader: u32) -> impl Iterator<Item = char> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(move |process| {
        let stat = std::fs::read_to_string(process.path().join("stat")).ok()?;
        // The name is in parentheses, and may hold some itself.
        let (_, rest) = stat.rsplit_once(") ")?;
        let mut fields = rest.split(' ');
        let state = fields.next()?.chars().next()?;
        let group: u32 = fields.nth(1)?.parse().ok()?;
        (group == leader).then_some(state)
    })
}

#[cfg(all(unix, not(target_os = "linux")))]
fn is_stopped(_: u32) -> bool {
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
