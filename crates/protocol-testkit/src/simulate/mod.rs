//! Your own async handlers, in every order: what [`protocol_async`] serves, on a virtual clock and a
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
//! - [`simulate`] runs a world once a seed. The seed chooses what happens next: which task goes on, what
//!   the peer does, when time passes; and what the network does to the bytes. It is late, narrow, in
//!   pieces, and cut at any byte.
//! - [`every_order`] runs it in every order, up to a [`Bound`]: of deliveries, of cancels, of timers, of
//!   the wake-ups of tasks, and of the peer's answers. Each run begins anew, so nothing need be `Clone`.
//!   It stops at the failure with the fewest steps.
//! - [`fuzz`] runs it as the bytes of a fuzzer, or of proptest, say.
//!
//! Tasks take no time; the network and the peer take any. Time passes only when no task can go on.
//!
//! # What is checked
//!
//! Without a line of yours, in every run, each a [`Fault`]:
//!
//! - every request is answered once, or not at all where the dialect wants silence, and nothing is
//!   answered twice;
//! - a request that was cancelled ends within [`Script::cancel_within`], unless the peer keeps it waiting
//!   for the answer to a call that was cancelled too;
//! - a call that was made while a request was served is cancelled with it;
//! - when nothing happens any more the peer hangs up: then every task ends, nothing is in flight, and
//!   nothing of the connection is left in memory;
//! - nobody spins, and nobody panics, also where the panic is caught and answered.
//!
//! What you add: [`Simulation::always`] looks at something after every step, [`Simulation::check`] at all
//! messages and notes in the end, and [`Script::reference`] says what answers must be.
//!
//! # What a handler must do
//!
//! Take its time from the simulation, which is a [`Timer`](protocol_async::Timer), and spawn by
//! [`Simulation::spawn`]: both can be had from anywhere, as `Simulation` is a value without anything
//! in it. No other clock, no other thread, no other randomness. With the feature `tokio`,
//! `Simulation::tokio` lets it use those of tokio.

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
mod serve;
mod socket;
#[cfg(feature = "tokio")]
mod tokio;
mod trace;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

pub use executor::{Simulation, Sleep};
pub use fault::Fault;
pub use network::{Reader, Writer};
pub use report::Failure;
pub use script::{PeerAnswer, Script};
pub use search::{Bound, Searched, try_every_order};
pub use socket::Socket;
pub use trace::{Happening, Trace};

use choices::{Choices, Path};
use report::{SCHEDULE, SEED, asked, show};
use run::{Limits, run};

/// What a failure that is not met again means.
const REPEATED: &str = "the same choices lead to the same failure; they do not, so something in this world is \
    left to chance: another clock, another thread, or `tokio::select!` without `biased`";
const WHOLE: Limits = Limits { open: usize::MAX, most: usize::MAX, is_told: false };

/// What runs without a failure did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Simulated {
    /// How many there were.
    pub runs: u64,
    /// A hash of everything that happened in the runs.
    ///
    /// The same seeds give the same hash (G10).
    pub fingerprint: u64,
}

/// Runs a world once a seed, for a test.
///
/// In the environment, `SIM_SEED=17` runs that seed alone and shows it, and `SIM_SEEDS=100000` so many
/// instead of those asked for.
///
/// # Panics
///
/// At the first seed that fails, with a sequence chart, a recording in JSON Lines, and the line that
/// replays it.
#[track_caller]
pub fn simulate(seeds: Range<u64>, world: impl Fn(Simulation)) -> Simulated {
    let number = |variable| {
        let value = asked(variable)?;
        Some(value.parse().unwrap_or_else(|_| panic!("{variable} is a number, not {value:?}")))
    };
    if let Some(seed) = number(SEED) {
        if let Some(failure) = Failure::of_seed(seed, 1, &world) {
            failure.fail();
        }
        show(&run(Choices::seed(seed), WHOLE, &world).trace);
        return try_simulate(seed..seed + 1, world).unwrap_or_else(|failure| failure.fail());
    }
    let end = number("SIM_SEEDS").map_or(seeds.end, |seeds_asked: u64| seeds.start + seeds_asked);
    try_simulate(seeds.start..end, world).unwrap_or_else(|failure| failure.fail())
}

/// As [`simulate`], whatever the environment says.
///
/// # Errors
///
/// The first seed that fails.
pub fn try_simulate(seeds: Range<u64>, world: impl Fn(Simulation)) -> Result<Simulated, Failure> {
    let (mut fingerprint, mut runs) = (DefaultHasher::new(), 0);
    for seed in seeds {
        let ran = run(Choices::seed(seed), WHOLE, &world);
        runs += 1;
        if ran.problem.is_some() {
            return Err(Failure::of_seed(seed, runs, &world).expect(REPEATED));
        }
        ran.fingerprint.hash(&mut fingerprint);
    }
    Ok(Simulated { runs, fingerprint: fingerprint.finish() })
}

/// Runs a world in every order of its events, up to a bound, for a test.
///
/// Depth first, and in rounds: every order of the first few steps, then of more. Once something fails,
/// only what is shorter is tried. What the peer says is tried only just before it is read, because
/// nobody sees the difference; no other order is left out.
///
/// In the environment, `SIM_SCHEDULE=0.2.1` runs that schedule alone and shows it.
///
/// # Panics
///
/// At the failure with the fewest steps, with these, a sequence chart, a recording in JSON Lines, and the
/// line that replays it.
#[track_caller]
pub fn every_order(bound: Bound, world: impl Fn(Simulation)) -> Searched {
    if let Some(schedule) = asked(SCHEDULE) {
        match replay(&schedule, &world) {
            Ok(trace) => show(&trace),
            Err(failure) => failure.fail(),
        }
        return Searched { schedules: 1, of: 1.0, is_exhausted: false };
    }
    try_every_order(bound, world).unwrap_or_else(|failure| failure.fail())
}

/// Runs a world once, as the schedule of a [`Failure`] says: `"0.2.1"`. Gives what happened.
///
/// # Errors
///
/// The failure that it meets.
///
/// # Panics
///
/// If it is no schedule.
pub fn replay(schedule: &str, world: impl Fn(Simulation)) -> Result<Trace, Failure> {
    let given = report::schedule(schedule);
    let failure = Failure::of_schedule(&given, 1, &world);
    failure.map_or_else(|| Ok(run(Choices::Path(Path::only(given)), WHOLE, &world).trace), Err)
}

/// Runs a world once, as bytes say: those of a fuzzer, or of a property test, which makes the ones that
/// fail as few as it can.
///
/// # Panics
///
/// If that run fails, with a sequence chart and a recording in JSON Lines.
#[track_caller]
pub fn fuzz(bytes: &[u8], world: impl Fn(Simulation)) {
    if run(Choices::Bytes(bytes.iter().copied().collect()), WHOLE, &world).problem.is_some() {
        Failure::of_bytes(bytes, &world).expect(REPEATED).fail();
    }
}
