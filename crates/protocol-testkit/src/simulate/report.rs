//! A failure: what, how it came to that, and how to see it again.

use std::env;
use std::fmt;
use std::path::{Path, PathBuf};

use super::asked::SEED;
use super::choices::Choices;
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
const CHANCE: &str = "the same choices lead to another run, so something in this world is left to chance: a `static` or \
    another value that outlives a run, the order of a `HashMap`, another clock, another thread, or `tokio::select!` \
    without `biased`";

impl Failure {
    /// Returns the failure of a seed if it failed, made as short as it can be, else the run.
    pub(super) fn of_seed(
        ran: Ran,
        seed: u64,
        runs: u64,
        world: &dyn Fn(Simulation),
    ) -> Result<Ran, Self> {
        let Some(problem) = ran.problem.clone() else { return Ok(ran) };
        let shortest = Choices::of(shorten(ran.world.choices.decided(), &problem, world));
        let replay = shortest.replay();
        Self::of(ran, runs, format!("{SEED}={seed}"))
            .map_err(|first| first.again(shortest, replay, world))
    }

    /// Runs what failed again, and puts each step in words.
    ///
    /// # Panics
    ///
    /// If it does not fail again.
    #[track_caller]
    pub(super) fn again(
        self,
        choices: Choices,
        replay: String,
        world: &dyn Fn(Simulation),
    ) -> Self {
        match Self::of(run(choices, Limits::TOLD, world), self.runs, replay) {
            Err(again) => again,
            Ok(_) => panic!("\n{self}\n\n{CHANCE}"),
        }
    }

    /// Returns the failure of a run if it failed, else the run. `replay` is empty for the bytes of a fuzzer.
    pub(super) fn of(mut ran: Ran, runs: u64, replay: String) -> Result<Ran, Self> {
        let Some(Problem { fault, what }) = ran.problem.take() else { return Ok(ran) };
        let Ran { history, world, .. } = ran;
        Err(Self { fault, what, history, trace: world.trace, runs, replay })
    }

    /// As [`Trace::recording`]; what is wrong is its last verdict, `failed`.
    #[must_use]
    pub fn recording(&self) -> String {
        self.trace.recorded(Some(format!("{}: {}", self.fault, self.what)))
    }

    /// Ends the test that met it. The recording is beside the program, if it is asked for nowhere else.
    #[track_caller]
    pub(super) fn fail(self) -> ! {
        let beside_program = || {
            let program = env::current_exe().ok()?;
            let test =
                test().map_or_else(String::new, |test| "-".to_owned() + &test.replace("::", "-"));
            let name = program.file_stem()?.to_string_lossy();
            Some(program.with_file_name(format!("{name}{test}.jsonl")))
        };
        let path = asked_path().or_else(beside_program);
        let recorded = path.map(|path| format!("\n{}", write(&path, self.recording())));
        panic!("\n{self}{}", recorded.unwrap_or_default())
    }
}

/// Writes the recording of a run without a failure, if `SIM_RECORDING` names a file, and prints where it is.
pub(super) fn record(trace: &Trace) {
    if let Some(path) = asked_path() {
        println!("{}", write(&path, trace.recording()));
    }
}

/// Returns the file that `SIM_RECORDING` names.
fn asked_path() -> Option<PathBuf> {
    env::var_os("SIM_RECORDING").filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Writes a recording, and says where it is, or why it is not there.
fn write(path: &Path, recording: String) -> String {
    match std::fs::write(path, recording) {
        Ok(()) => format!("recorded in {}", path.display()),
        Err(why) => format!("not recorded in {}: {why}", path.display()),
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
        if *fault == Fault::Unmatched {
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
        write!(f, "\n{}\n{fault}: {what}\nin run {runs}", trace.chart())?;
        if !history.is_empty() {
            write!(f, ", step {}", history.len())?;
        }
        if replay.is_empty() {
            return Ok(());
        }
        write!(f, "; again:\n  {replay} cargo test")?;
        if let Ok(package) = env::var("CARGO_PKG_NAME") {
            write!(f, " -p {package}")?;
        }
        // Only so is it this test alone, and a run without a failure is shown.
        test().map_or(Ok(()), |test| write!(f, " {test} -- --exact --nocapture"))
    }
}

/// The test that runs, as the test harness names its thread.
fn test() -> Option<String> {
    let thread = std::thread::current();
    thread.name().filter(|name| *name != "main").map(str::to_owned)
}
