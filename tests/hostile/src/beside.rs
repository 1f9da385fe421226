//! A client that asks for little, alone and beside an attack.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::PATIENCE;
use crate::attacks::Held;
use crate::process::{Process, kept_waiting};
use crate::wire::{Client, Target};

/// Round trips of the client that is watched, at least.
const TRIPS: usize = 300;

/// The longest wait for a processor that a trip may have. A trip with a longer one shows a busy machine, and nothing of
/// the server.
const KEPT_WAITING: Duration = Duration::from_micros(100);

/// The durations of round trips, the shortest first. One without a response is the last.
#[derive(Debug)]
pub struct Trips {
    taken: Vec<Duration>,
    /// Those that were not counted, since the machine was busy with something else.
    pub disturbed: usize,
    /// The reason that there were no more, if one had no response.
    pub failed: Option<io::Error>,
}

impl Trips {
    /// Until enough are made and it is over.
    fn of(client: &mut Client, server: Option<Process>, is_over: &AtomicBool) -> Self {
        let kept_waiting = || {
            let server = server.and_then(Process::kept_waiting);
            server.unwrap_or_default() + kept_waiting("thread-self").unwrap_or_default()
        };
        let (begun, mut taken, mut failed) = (Instant::now(), Vec::new(), None);
        let mut disturbed = 0;
        while failed.is_none() && (taken.len() < TRIPS || !is_over.load(Relaxed)) {
            if begun.elapsed() > 2 * PATIENCE {
                failed = Some(io::Error::other("it does not end"));
            }
            let (waited, asked) = (kept_waiting(), Instant::now());
            failed = client.ask().err().or(failed);
            let trip = asked.elapsed();
            if kept_waiting() - waited <= KEPT_WAITING || failed.is_some() {
                taken.push(trip);
            } else {
                disturbed += 1;
            }
            // A person's or a program's pace, so that what is measured is the waiting.
            thread::sleep(Duration::from_micros(200));
        }
        taken.sort_unstable();
        Self { taken, disturbed, failed }
    }

    /// Returns the median of the round trips.
    #[must_use]
    pub fn median(&self) -> Duration {
        self.taken[self.taken.len() / 2]
    }

    /// Returns the time that one in a hundred exceeded.
    #[must_use]
    pub fn p99(&self) -> Duration {
        self.taken[self.taken.len() * 99 / 100]
    }

    /// Returns the number of round trips.
    #[must_use]
    pub fn count(&self) -> usize {
        self.taken.len()
    }
}

/// The cost of an attack.
#[derive(Debug)]
pub struct Cost {
    /// Another client's round trips before.
    pub alone: Trips,
    /// The same client's while it lasted.
    pub beside: Trips,
    /// The most memory above what the server had before; nothing if it has ended, or is not known.
    pub memory: Option<usize>,
}

impl Cost {
    /// Returns the factor by which another client waited longer.
    #[must_use]
    pub fn slower(&self) -> f64 {
        self.beside.median().as_secs_f64() / self.alone.median().as_secs_f64()
    }
}

/// Attacks a server. The attack's sockets and bytes live until the cost is known.
///
/// # Errors
///
/// There is no server, or the attack is none.
pub fn beside(
    target: &Target,
    server: Option<Process>,
    attack: impl FnOnce(&Target) -> io::Result<Held> + Send,
) -> io::Result<(Cost, Held)> {
    let mut honest = target.open()?;
    let alone = Trips::of(&mut honest, server, &AtomicBool::new(true));
    let idle = server.and_then(|server| {
        server.forget_peak();
        server.peak()
    });
    let is_over = AtomicBool::new(false);
    let (beside, held) = thread::scope(|scope| {
        let attack = scope.spawn(|| {
            let held = attack(target);
            is_over.store(true, Relaxed);
            held
        });
        (Trips::of(&mut honest, server, &is_over), attack.join())
    });
    let held = held.map_err(|_| io::Error::other("the attack failed"))??;
    let peak = server.and_then(Process::peak);
    let memory = peak.zip(idle).map(|(peak, idle)| peak.saturating_sub(idle));
    Ok((Cost { alone, beside, memory }, held))
}
