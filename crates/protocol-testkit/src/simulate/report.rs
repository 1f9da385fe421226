//! A failure: what, how it came to that, and how to see it again.

use std::env;
use std::fmt;
use std::path::PathBuf;

use super::choices::{Choices, SCHEDULE};
use super::executor::Simulation;
use super::fault::{Fault, Problem};
use super::run::{Limits, Ran, run};
use super::shorten::shorten;
use super::trace::Trace;

/// A run that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// The kind of fault.
    pub fault: Fault,
    /// The event, in a sentence.
    pub what: String,
    /// Every step, in words.
    pub history: Vec<String>,
    /// Every message and note.
    pub trace: Trace,
    /// The run that failed was the one of this number, counted from 1.
    pub runs: u64,
    /// The environment variable that replays it, as `SIM_SCHEDULE=0.2.1`; empty for the bytes of a fuzzer,
    /// and where no single run failed.
    pub replay: String,
}

/// The meaning of a failure that is not met again.
pub(super) const REPEATED: &str = "the same choices lead to the same failure; they do not, so something in this world is \
    left to chance: another clock, another thread, or `tokio::select!` without `biased`";

/// The environment variable of the one seed that is to be run.
pub(super) const SEED: &str = "SIM_SEED";

pub(super) const TOLD: Limits = Limits { open: usize::MAX, most: usize::MAX, is_told: true };

impl Failure {
    /// The failure of a seed, made as short as it can be.
    pub(super) fn of_seed(ran: Ran, runs: u64, world: &dyn Fn(Simulation)) -> Option<Self> {
        let decided = shorten(ran.world.choices.decided(), ran.problem?.fault, world);
        Self::of_schedule(Choices::of(decided), runs, world)
    }

    /// The failure of a schedule, if it fails.
    pub(super) fn of_schedule(
        schedule: Choices,
        runs: u64,
        world: &dyn Fn(Simulation),
    ) -> Option<Self> {
        let replay = format!("{SCHEDULE}={schedule}");
        Self::of(run(schedule, TOLD, world), runs, replay)
    }

    /// Returns the failure of a run, if it failed. `replay` is empty for a caller that knows how to replay it.
    pub(super) fn of(ran: Ran, runs: u64, replay: String) -> Option<Self> {
        let Ran { problem, history, world, .. } = ran;
        let Problem { fault, what } = problem?;
        Some(Self { fault, what, history, trace: world.trace, runs, replay })
    }

    /// As [`Trace::recording`]; what is wrong is its last verdict, `failed`.
    #[must_use]
    pub fn recording(&self) -> String {
        self.trace.recorded(Some(format!("{}: {}", self.fault, self.what)))
    }

    /// Writes the recording to the file that `SIM_RECORDING` names, or to one in the directory for
    /// temporary files, and says where it is.
    fn record(&self) -> Option<PathBuf> {
        let name = || {
            let test = test().map_or_else(String::new, |test| test.replace("::", "-") + "-");
            env::temp_dir().join(format!("rescind-{test}{}.jsonl", std::process::id()))
        };
        let path = env::var_os("SIM_RECORDING").map_or_else(name, PathBuf::from);
        std::fs::write(&path, self.recording()).ok().map(|()| path)
    }

    /// Ends the test that met it.
    #[track_caller]
    pub(super) fn fail(self) -> ! {
        let recorded = self.record();
        let recorded = recorded.map(|path| format!("\nrecorded in {}", path.display()));
        panic!("\n{self}{}", recorded.unwrap_or_default())
    }
}

/// Of many steps, so many are shown at the beginning,
const FIRST: usize = 60;
/// and so many at the end.
const LAST: usize = 10;

/// The steps, the chart, what is wrong, and the line that replays it.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fault, what, history, trace, runs, replay } = self;
        if replay.is_empty() && history.is_empty() {
            return write!(f, "{fault}: {what}");
        }
        for (number, step) in history.iter().enumerate() {
            match number {
                FIRST if history.len() > FIRST + LAST => writeln!(f, "      …")?,
                _ if number < FIRST || number + LAST >= history.len() => {
                    writeln!(f, "{:>4}. {step}", number + 1)?;
                }
                _ => {}
            }
        }
        write!(f, "\n{}\n{fault}: {what}\nin run {runs}, step {}", trace.chart(), history.len())?;
        if replay.is_empty() {
            return Ok(());
        }
        write!(f, "; again:\n  {replay} cargo test")?;
        if let Ok(package) = env::var("CARGO_PKG_NAME") {
            write!(f, " -p {package}")?;
        }
        test().map_or(Ok(()), |test| write!(f, " {test}"))
    }
}

/// The test that runs, as the test harness names its thread.
fn test() -> Option<String> {
    let thread = std::thread::current();
    thread.name().filter(|name| *name != "main").map(str::to_owned)
}

/// Shows a run that did not fail, when one is replayed.
pub(super) fn show(trace: &Trace) {
    println!("{}nothing is wrong there", trace.chart());
}

/// Returns the value of an environment variable, if it is set.
pub(super) fn asked(variable: &str) -> Option<String> {
    env::var(variable).ok().filter(|value| !value.is_empty())
}
