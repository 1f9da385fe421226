//! Runs your own async handlers in every order, as [`protocol_async`] serves them, on a virtual clock and a
//! simulated network, with a scripted peer.
//!
//! ```
//! use protocol_router::Router;
//! use protocol_core::{Config, Dialect};
//! use protocol_testkit::simulate::{Bound, PeerAnswer, Script, Simulation, every_order, simulate};
//! use serde_json::json;
//!
//! fn world(simulation: Simulation) {
//!     let peer = Script::new(Config::server(Dialect::ACP_V1))
//!         .request("edit", json!(["main.rs"]))
//!         .request("edit", json!(["lib.rs"]))
//!         .cancels(1)
//!         .answers([PeerAnswer::Result(json!(true)), PeerAnswer::Never]);
//!     simulation.serve(peer, async move |incoming| {
//!         let router = Router::new().request("edit", async move |(file,): (String,), cx| {
//!             let may = cx.call::<bool>("user/confirm", [&file]).await?;
//!             simulation.note(format!("writes {file}"));
//!             Ok(may)
//!         });
//!         router.serve(&incoming).await
//!     });
//! }
//!
//! simulate(0..100, world);
//! let searched = every_order(Bound::steps(9), world);
//! assert!(searched.schedules > 100);
//! ```
//!
//! - [`simulate`] runs a world once a seed. The seed chooses each next event: the task that goes on, the peer's
//!   move, or the passing of time. It also chooses the network's behaviour, which is late, narrow, in pieces, and
//!   cut at any byte.
//! - [`every_order`] runs it in every order, up to a [`Bound`]. The order is that of deliveries, cancels,
//!   timers, wake-ups of tasks, and the peer's answers. Each run begins anew, so nothing need be `Clone`. It
//!   stops at the failure with the fewest steps.
//! - [`fuzz`] runs it as the bytes of a fuzzer, or of proptest, say.
//!
//! Tasks take no time; the network and the peer take any. Time passes only when no task can go on.
//!
//! # What is checked
//!
//! Every run checks these rules without a line of yours. A breach of each is a [`Fault`]:
//!
//! - every request is answered once, or not at all where the dialect wants silence, and nothing is
//!   answered twice;
//! - a request that was cancelled ends within [`Script::cancel_within`], unless the peer keeps it waiting
//!   for the answer to a call that was cancelled too;
//! - a call that was made while a request was served is cancelled with it;
//! - when nothing happens any more the peer hangs up. Then every task ends, nothing is in flight, and nothing
//!   of the connection is left in memory;
//! - nobody spins, and nobody panics, also where the panic is caught and answered.
//!
//! You can add your own. [`Simulation::always`] looks at something after every step. [`Simulation::check`]
//! looks at all messages and notes in the end. [`Script::reference`] says which answers are right. A check that
//! looks for something by name and never finds it is a fault too, [`Fault::Unmatched`].
//!
//! # What a handler must do
//!
//! Take its time from the simulation, which is a [`Timer`](protocol_async::Timer), and spawn by
//! [`Simulation::spawn`]: both can be had from anywhere, as `Simulation` is a value without anything
//! in it. No other clock, no other thread, no other randomness. With the feature `tokio`,
//! `Simulation::tokio` lets it use those of tokio.

mod asked;
mod choices;
mod clock;
mod executor;
mod far;
mod fault;
mod judge;
mod network;
mod recording;
mod report;
mod run;
mod script;
mod search;
mod seen;
mod serve;
mod served;
mod shorten;
mod socket;
mod tally;
#[cfg(feature = "tokio")]
mod tokio;
mod trace;
mod watched;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

pub use executor::{Simulation, Sleep};
pub use fault::Fault;
pub use network::{Reader, Writer};
pub use report::Failure;
pub use script::{PeerAnswer, Script};
pub use search::{Bound, Searched, try_every_order};
pub use seen::{Message, Seen};
pub use socket::Socket;
pub use trace::{Happening, Trace};

use asked::{Asked, SEED, SEEDS};
use choices::{Choices, SCHEDULE};
use run::{Limits, Ran, run};
use tally::Tally;

/// The account of runs without a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Simulated {
    /// The number of runs.
    pub runs: u64,
    /// The number of runs that were [excused](Simulation::excuse), and say nothing.
    pub excused: u64,
    /// A hash of everything that happened in the runs.
    ///
    /// The same seeds give the same hash (G10).
    pub fingerprint: u64,
}

/// Runs a world once a seed, for a test.
///
/// Three environment variables change the run. `SIM_SEED=17` runs that seed alone and shows it.
/// `SIM_SCHEDULE=weather.0.2.1` runs that schedule alone and shows it. `SIM_SEEDS=100000` runs so many seeds
/// instead of those in the code. `SIM_RECORDING=FILE` is written by a failure, and by a run alone. The output
/// says which of these variables a search does not use.
///
/// # Panics
///
/// If a variable can't be read. At the first seed that fails, with its steps, a sequence chart, a recording in
/// JSON Lines, and the line that replays it. The schedule is shortened first.
#[track_caller]
pub fn simulate(seeds: Range<u64>, world: impl Fn(Simulation)) -> Simulated {
    let seeds = match Asked::read(&[SCHEDULE, SEED, SEEDS]) {
        Some(Asked::Schedule(schedule)) => return shown(replayed(schedule, &world)),
        Some(Asked::Seed(seed)) => {
            let ran = run(Choices::seed(seed), Limits::WHOLE, &world);
            return shown(Failure::of_seed(ran, seed, 1, &world));
        }
        Some(Asked::Seeds(number)) => seeds.start..seeds.start + number,
        None => seeds,
    };
    let simulated = try_simulate(seeds, world).unwrap_or_else(|failure| failure.fail());
    Tally::report(simulated.runs, simulated.excused);
    simulated
}

/// As [`simulate`], whatever the environment says.
///
/// # Errors
///
/// The first seed that fails, or [`Fault::Unmatched`].
pub fn try_simulate(seeds: Range<u64>, world: impl Fn(Simulation)) -> Result<Simulated, Failure> {
    let (mut fingerprint, mut tally) = (DefaultHasher::new(), Tally::default());
    for seed in seeds {
        let ran = run(Choices::seed(seed), Limits::WHOLE, &world);
        tally.add(&ran);
        let ran = Failure::of_seed(ran, seed, tally.runs, &world)?;
        ran.world.fingerprint.finish().hash(&mut fingerprint);
    }
    tally.judge()?;
    let Tally { runs, excused, .. } = tally;
    Ok(Simulated { runs, excused, fingerprint: fingerprint.finish() })
}

fn replayed(schedule: Choices, world: &dyn Fn(Simulation)) -> Result<Ran, Failure> {
    let replay = schedule.replay();
    let ran = run(schedule, Limits::TOLD, world);
    if let Some(misfit) = ran.world.choices.misfit() {
        println!(
            "{SCHEDULE} does not fit: {misfit}; the world or the code has changed, search again"
        );
    }
    Failure::of(ran, 1, replay)
}

/// Shows a run, for the test that asked for it alone.
#[track_caller]
fn shown(ran: Result<Ran, Failure>) -> Simulated {
    let ran = ran.unwrap_or_else(|failure| failure.fail());
    report::record(&ran.world.trace);
    let fits = ran.world.choices.misfit().is_none();
    println!("{}{}", ran.world.trace.chart(), if fits { "nothing is wrong there" } else { "" });
    let (excused, fingerprint) = (u64::from(ran.world.is_excused), ran.world.fingerprint.finish());
    Simulated { runs: 1, excused, fingerprint }
}

/// Runs a world in every order of its events, up to a bound, for a test.
///
/// The search is depth first, and in rounds: every order of the first few steps, then of more. Once something fails,
/// only what is shorter is tried. A message of the peer is tried only just before it is read, because nobody sees the
/// difference. A cancel that crosses the response, and a stop that crosses the end, may be read at any time after
/// that.
///
/// In the environment, `SIM_SCHEDULE=0.2.1` runs that schedule alone and shows it.
///
/// # Panics
///
/// If a variable of [`simulate`] can't be read. At the failure with the fewest steps, with these, a sequence
/// chart, a recording in JSON Lines, and the line that replays it.
#[track_caller]
pub fn every_order(bound: Bound, world: impl Fn(Simulation)) -> Searched {
    if let Some(Asked::Schedule(schedule)) = Asked::read(&[SCHEDULE]) {
        let Simulated { excused, .. } = shown(replayed(schedule, &world));
        return Searched { schedules: 1, of: 1.0, is_exhausted: true, excused };
    }
    let searched = try_every_order(bound, world).unwrap_or_else(|failure| failure.fail());
    let Searched { schedules, of, is_exhausted, excused } = searched;
    Tally::report(schedules, excused);
    if !is_exhausted {
        println!("tried {schedules} orders of about {of:.0}, and not all");
    }
    searched
}

/// Runs a world once, as the schedule of a [`Failure`] says: `"0.2.1"`. Returns what happened.
///
/// A schedule that does not fit is said in the output and fails nothing: mended code may have fewer choices.
///
/// # Errors
///
/// The failure that it meets.
///
/// # Panics
///
/// If it is no schedule.
pub fn replay(schedule: &str, world: impl Fn(Simulation)) -> Result<Trace, Failure> {
    Ok(replayed(Choices::read(schedule), &world)?.world.trace)
}

/// Runs a world once, as the bytes of a fuzzer or of a property test decide. A property test then shortens the
/// bytes that fail.
///
/// # Panics
///
/// If that run fails, with a sequence chart and a recording in JSON Lines.
#[track_caller]
pub fn fuzz(bytes: &[u8], world: impl Fn(Simulation)) {
    let ran = run(Choices::bytes(bytes), Limits::WHOLE, &world);
    if let Err(first) = Failure::of(ran, 1, String::new()) {
        first.again(Choices::bytes(bytes), String::new(), &world).fail();
    }
}
