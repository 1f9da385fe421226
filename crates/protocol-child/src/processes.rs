//! The processes of this machine.

use std::io;

/// A process, as the system lists it.
#[derive(Clone, Debug)]
pub(crate) struct ProcessInfo {
    pub(crate) id: u32,
    pub(crate) group: i32,
    /// Whether it only waits to be reaped. In a container without an `init` it does so for ever.
    pub(crate) is_dead: bool,
    /// Its place among others, which is known on Linux alone.
    #[cfg(target_os = "linux")]
    pub(crate) lineage: Lineage,
}

/// The place of a process among others.
#[cfg(target_os = "linux")]
#[derive(Clone, Debug)]
pub(crate) struct Lineage {
    /// The name of its program, as far as the kernel keeps it.
    pub(crate) name: String,
    pub(crate) parent: u32,
    pub(crate) session: i32,
    /// The clock tick of the machine at which it began. An id that is used again has another.
    pub(crate) begun: u64,
}

#[cfg(target_os = "linux")]
impl ProcessInfo {
    /// Returns its program and arguments, or the kernel's name for a process that has ended or hides them.
    pub(crate) fn command(&self) -> String {
        let words = std::fs::read(format!("/proc/{}/cmdline", self.id)).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).trim_end_matches('\0').replace('\0', " ");
        if words.is_empty() { self.lineage.name.clone() } else { words }
    }
}

/// Lists all processes.
#[cfg(target_os = "linux")]
pub(crate) fn processes() -> io::Result<impl Iterator<Item = ProcessInfo>> {
    let listed = std::fs::read_dir("/proc")?;
    // An entry may be gone by now, or be no process.
    Ok(listed.filter_map(|entry| process(entry.ok()?.file_name().to_str()?.parse().ok()?)))
}

/// Reads one process.
#[cfg(target_os = "linux")]
pub(crate) fn process(id: u32) -> Option<ProcessInfo> {
    let status = std::fs::read(format!("/proc/{id}/stat")).ok()?;
    let status = String::from_utf8_lossy(&status);
    // The name may hold anything, parentheses too.
    let (before, after) = status.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    let words: Vec<&str> = after.split_whitespace().collect();
    let [state, parent, group, session] = *words.first_chunk()?;
    let lineage = Lineage {
        name: name.into(),
        parent: parent.parse().ok()?,
        session: session.parse().ok()?,
        begun: words.get(19)?.parse().ok()?,
    };
    // A process whose first thread is dead looks so, too, but runs on in others. It can't be reaped then.
    let is_dead = state.starts_with(['Z', 'X']) && matches!(*words.get(17)?, "0" | "1");
    Some(ProcessInfo { id, group: group.parse().ok()?, is_dead, lineage })
}

/// Lists all processes.
#[cfg(not(target_os = "linux"))]
pub(crate) fn processes() -> io::Result<impl Iterator<Item = ProcessInfo>> {
    let ps = std::process::Command::new("/bin/ps").args(["-A", "-o", "pid=,stat=,pgid="]).output();
    let listed = String::from_utf8_lossy(&ps?.stdout).into_owned();
    let read = |line: &str| {
        let mut words = line.split_whitespace();
        let (id, state, group) = (words.next()?, words.next()?, words.next()?);
        let is_dead = state.starts_with(['Z', 'X']);
        Some(ProcessInfo { id: id.parse().ok()?, group: group.parse().ok()?, is_dead })
    };
    Ok(listed.lines().filter_map(read).collect::<Vec<_>>().into_iter())
}

/// Lists the processes that descend from one, those that are dead left out.
#[cfg(target_os = "linux")]
pub(crate) fn descendants(of: u32) -> Vec<ProcessInfo> {
    descendants_among(of, processes().map(Iterator::collect).unwrap_or_default(), |_| false)
}

/// Lists the processes among these that descend from one. The dead are left out, and so is each of `others` with all
/// that descends from it.
#[cfg(target_os = "linux")]
pub(crate) fn descendants_among(
    of: u32,
    mut rest: Vec<ProcessInfo>,
    others: impl Fn(u32) -> bool,
) -> Vec<ProcessInfo> {
    let (mut parents, mut found) = (vec![of], Vec::new());
    while let Some(parent) = parents.pop() {
        let is_child = |one: &ProcessInfo| one.lineage.parent == parent && !others(one.id);
        let (children, left): (Vec<ProcessInfo>, _) = rest.into_iter().partition(is_child);
        rest = left;
        parents.extend(children.iter().map(|child| child.id));
        found.extend(children.into_iter().filter(|child| !child.is_dead));
    }
    found
}

/// Sends a signal to a process, unless another has its id by now.
#[cfg(target_os = "linux")]
pub(crate) fn send(to: &ProcessInfo, signal: rustix::process::Signal) {
    use rustix::process::{PidfdFlags, kill_process, pidfd_open, pidfd_send_signal};

    let pid = pid(to.id);
    let is_same = || process(to.id).is_some_and(|now| now.lineage.begun == to.lineage.begun);
    // A process that is gone needs no signal.
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) if is_same() => drop(pidfd_send_signal(process, signal)),
        // Before Linux 5.3 there is a moment in which the id may become another's.
        Err(rustix::io::Errno::NOSYS) if is_same() => drop(kill_process(pid, signal)),
        _ => {}
    }
}

pub(crate) fn pid(id: u32) -> rustix::process::Pid {
    let id = i32::try_from(id).ok().and_then(rustix::process::Pid::from_raw);
    id.expect("a process has a positive id that fits")
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_whatever_its_name_holds() {
        let dir = std::env::temp_dir().join(format!("protocol-child-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let program = dir.join("a) Z 1 (b");
        std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
        let mut child = std::process::Command::new(&program).arg("1000").spawn().unwrap();
        let found = descendants(std::process::id()).into_iter().find(|one| one.id == child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        let found = found.unwrap();
        assert_eq!((&*found.lineage.name, found.is_dead), ("a) Z 1 (b", false));
        assert_eq!(found.lineage.parent, std::process::id());
    }

    #[test]
    fn a_process_is_alive_as_long_as_one_of_its_threads() {
        let script = "import ctypes, sys, threading; threading.Thread(target=sys.stdin.read).start(); \
                      ctypes.CDLL(None).pthread_exit(None)";
        let mut python = std::process::Command::new("python3");
        python.args(["-c", script]).stdin(std::process::Stdio::piped());
        let Ok(mut child) = python.spawn() else {
            println!("left out: there is no python3 here");
            return;
        };
        let status = format!("/proc/{}/stat", child.id());
        while !std::fs::read_to_string(&status).unwrap().contains(") Z ") {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(!process(child.id()).unwrap().is_dead);
        // The other thread ends with its input.
        drop(child.stdin.take());
        while !process(child.id()).unwrap().is_dead {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        child.wait().unwrap();
    }
}
