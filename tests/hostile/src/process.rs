//! The memory and the processor time of a process.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::{KIB, PATIENCE};

/// Returns the time that a thread has waited for a processor while it had work. `name` is its name below `/proc`.
pub(crate) fn kept_waiting(name: &str) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{name}/schedstat")).ok()?;
    Some(Duration::from_nanos(stat.split_whitespace().nth(1)?.parse().ok()?))
}

/// A process that runs, by its number.
#[derive(Clone, Copy, Debug)]
pub struct Process(pub u32);

impl Process {
    /// The memory that it has had at most; nothing once it has ended.
    #[must_use]
    pub fn peak(self) -> Option<usize> {
        self.status("VmHWM:")
    }

    /// The memory that it has now.
    #[must_use]
    pub fn resident(self) -> Option<usize> {
        self.status("VmRSS:")
    }

    fn status(self, name: &str) -> Option<usize> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0)).ok()?;
        let line = status.lines().find(|line| line.starts_with(name))?;
        Some(line.split_whitespace().nth(1)?.parse::<usize>().ok()? * KIB)
    }

    /// The processor time that it has taken, to a hundredth of a second.
    #[must_use]
    pub fn processor(self) -> Option<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0)).ok()?;
        // Behind the name, which may have anything in it.
        let fields: Vec<_> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks = |field: usize| fields.get(field)?.parse::<u64>().ok();
        Some(Duration::from_millis((ticks(11)? + ticks(12)?) * 10))
    }

    /// Returns the time that its first thread has waited for a processor while it had work.
    #[must_use]
    pub fn kept_waiting(self) -> Option<Duration> {
        kept_waiting(&self.0.to_string())
    }

    /// Waits until it has nothing to do: none of its threads runs or is ready to, in so many looks. A loaded machine
    /// can't make a thread with work look otherwise.
    pub fn rest(self) {
        const LOOK: Duration = Duration::from_millis(10);
        const LOOKS: usize = 5;
        let (mut before, mut still, begun) = (None, 0, Instant::now());
        while still < LOOKS && begun.elapsed() < PATIENCE {
            thread::sleep(LOOK);
            let now = self.processor();
            still = if self.is_asleep() && now == before { still + 1 } else { 0 };
            before = now;
        }
    }

    /// Whether all its threads sleep, or it has ended.
    fn is_asleep(self) -> bool {
        let threads = fs::read_dir(format!("/proc/{}/task", self.0)).into_iter().flatten();
        let mut stats =
            threads.flatten().map(|thread| fs::read_to_string(thread.path().join("stat")));
        // Behind the name comes the state.
        stats.all(|stat| {
            let stat = stat.unwrap_or_default();
            !stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['R', 'D']))
        })
    }

    /// Forgets its peak.
    pub fn forget_peak(self) {
        // Without this, peaks are those of all attacks so far.
        let _ = fs::write(format!("/proc/{}/clear_refs", self.0), "5");
    }

    /// Gives it so much address space, so that it can't take all of a machine.
    ///
    /// # Errors
    ///
    /// It is another's, or gone.
    pub fn confine(self, bytes: usize) -> rustix::io::Result<()> {
        let limit = Some(bytes as u64);
        let process = i32::try_from(self.0).ok().and_then(Pid::from_raw);
        prlimit(process, Resource::As, Rlimit { current: limit, maximum: limit })?;
        Ok(())
    }
}
