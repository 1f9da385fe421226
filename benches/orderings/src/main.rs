//! The same small program in every order that a tool knows: pairs of tasks, of which one sets a flag and the other
//! waits for it. Prints the fault that was found, in which run, and how many runs a second there were.
//!
//! `cargo run --release --manifest-path benches/Cargo.toml -p bench-orderings -- TOOL PAIRS right|wrong [SECONDS]`

mod by_loom;
mod by_shuttle;
mod by_testkit;
mod flag;

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The number of times that the program began.
static RUNS: AtomicU64 = AtomicU64::new(0);

pub(crate) fn count() {
    RUNS.fetch_add(1, Relaxed);
}

/// The model that a tool searches, and the time that it has.
#[derive(Clone, Copy)]
pub(crate) struct Task {
    pairs: usize,
    is_wrong: bool,
    /// The time after which a tool that searches all orders gives up.
    most: Duration,
}

type Tool = (&'static str, fn(Task));

const TOOLS: [Tool; 6] = [
    ("every-order", by_testkit::every_order),
    ("simulate", by_testkit::simulate),
    ("shuttle-dfs", by_shuttle::depth_first),
    ("shuttle-random", by_shuttle::random),
    ("shuttle-pct", by_shuttle::pct),
    ("loom", by_loom::model),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let task = |pairs: &String, which: &String, seconds: Option<&String>| {
        let seconds = seconds.map_or(Some(40), |seconds| seconds.parse().ok())?;
        let (pairs, most) = (pairs.parse().ok()?, Duration::from_secs(seconds));
        ["right", "wrong"].contains(&which.as_str()).then(|| Task {
            pairs,
            is_wrong: which == "wrong",
            most,
        })
    };
    let asked = match &arguments[..] {
        [tool, pairs, which, rest @ ..] => TOOLS
            .iter()
            .find(|(name, _)| name == tool)
            .and_then(|(_, run)| Some((run, task(pairs, which, rest.first())?))),
        _ => None,
    };
    let Some((run, task)) = asked else {
        let names = TOOLS.map(|(name, _)| name).join("|");
        eprintln!("usage: bench-orderings {names} PAIRS right|wrong [SECONDS]");
        return ExitCode::from(2);
    };
    let begun = Instant::now();
    let is_found = catch_unwind(AssertUnwindSafe(|| run(task))).is_err();
    let (runs, took) = (RUNS.load(Relaxed), begun.elapsed());
    let each_second = runs as f64 / took.as_secs_f64();
    let end = if is_found {
        "found in the last"
    } else if took < task.most {
        "ended, nothing found"
    } else {
        "not ended, nothing found"
    };
    println!("{runs} runs, {end}; {:.3} s, {each_second:.0} runs a second", took.as_secs_f64());
    ExitCode::SUCCESS
}
