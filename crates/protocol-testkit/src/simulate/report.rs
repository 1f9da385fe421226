//! A failure: what, how it came to that, and how to see it again.

use std::env;
use std::fmt;
use std::path::PathBuf;

use super::choices::{Choices, Path};
use super::executor::Simulation;
use super::fault::{Fault, Problem};
use super::run::{Limits, Ran, run};
use super::trace::Trace;

/// A run that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// What kind of fault it is.
    pub fault: Fault,
    /// What happened, in a sentence.
    pub what: String,
    /// Every step, in words.
    pub history: Vec<String>,
    /// Every message and note.
    pub trace: Trace,
    /// The run that failed was the one of this number, counted from 1.
    pub runs: u64,
    /// The environment variable that replays it, as `SIM_SEED=17`; empty for the bytes of a fuzzer.
    pub replay: String,
}

/// The environment variable of the one seed that is to be run.
pub(super) const SEED: &str = "SIM_SEED";
/// The environment variable of the one schedule that is to be run.
pub(super) const SCHEDULE: &str = "SIM_SCHEDULE";

const TOLD: Limits = Limits { open: usize::MAX, most: usize::MAX, is_told: true };

impl Failure {
    /// The failure of a seed, if it fails.
    pub(super) fn of_seed(seed: u64, runs: u64, world: &dyn Fn(Simulation)) -> Option<Self> {
        Self::of(run(Choices::seed(seed), TOLD, world), runs, format!("{SEED}={seed}"))
    }

    /// The failure of a schedule, if it fails.
    pub(super) fn of_schedule(
        given: &[u32],
        runs: u64,
        world: &dyn Fn(Simulation),
    ) -> Option<Self> {
        let words: Vec<_> = given.iter().map(u32::to_string).collect();
        let path = Path::only(given.to_vec());
        let replay = format!("{SCHEDULE}={}", words.join("."));
        Self::of(run(Choices::Path(path), TOLD, world), runs, replay)
    }

    /// The failure of a fuzzer's bytes, if they fail.
    pub(super) fn of_bytes(bytes: &[u8], world: &dyn Fn(Simulation)) -> Option<Self> {
        let choices = Choices::Bytes(bytes.iter().copied().collect());
        Self::of(run(choices, TOLD, world), 1, String::new())
    }

    fn of(ran: Ran, runs: u64, replay: String) -> Option<Self> {
        let Ran { problem, trace, history, .. } = ran;
        let Problem { fault, what } = problem?;
        Some(Self { fault, what, history, trace, runs, replay })
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

/// What an environment variable says, if it is set.
pub(super) fn asked(variable: &str) -> Option<String> {
    env::var(variable).ok().filter(|value| !value.is_empty())
}

/// The choices of a schedule, as they are written.
///
/// # Panics
///
/// If they are none.
pub(super) fn schedule(words: &str) -> Vec<u32> {
    let read = |word: &str| {
        word.parse().unwrap_or_else(|_| panic!("{SCHEDULE} is numbers with dots, not {words:?}"))
    };
    words.split('.').filter(|word| !word.is_empty()).map(read).collect()
}
