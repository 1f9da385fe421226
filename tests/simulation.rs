//! Whole adapters on a virtual clock and a simulated network, in worlds that are drawn from seeds.
//!
//! A world is two peers, perhaps with a relay between them, that call each other in every way and
//! are interrupted in every way. Which task runs next, what the network does to the bytes and what
//! everybody does is drawn from the seed; nothing else is random, and no time passes but the
//! simulated. So a seed is a world: `SIM_SEED=17` replays one, `SIM_SEEDS=100000` tries more.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "simulation/executor.rs"]
mod executor;
#[path = "simulation/history.rs"]
mod history;
#[path = "simulation/network.rs"]
mod network;
#[path = "simulation/socket.rs"]
mod socket;
#[path = "simulation/wire.rs"]
mod wire;
#[path = "simulation/workload.rs"]
mod workload;
#[path = "simulation/world.rs"]
mod world;

use std::env;
use std::panic::catch_unwind;

/// Worlds that are tried unless `SIM_SEEDS` says how many.
const SEEDS: u64 = 400;

fn number_in(variable: &str) -> Option<u64> {
    let value = env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable} is a number, not {value:?}")))
}

/// Runs one world; a panic is a problem like any other.
fn simulate(seed: u64) -> Result<u64, String> {
    catch_unwind(|| world::simulate(seed)).unwrap_or_else(|_| Err("a panic, see above".into()))
}

#[test]
fn every_guarantee_holds_in_every_world() {
    let seeds = match number_in("SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number_in("SIM_SEEDS").unwrap_or(SEEDS),
    };
    let worlds = seeds.end - seeds.start;
    let failed: Vec<_> = seeds.filter_map(|seed| Some((seed, simulate(seed).err()?))).collect();
    let report = |(seed, problems): &(u64, String)| {
        format!("{problems}\n  SIM_SEED={seed} cargo test -p rescind-tests --test simulation\n")
    };
    let first: String = failed.iter().take(5).map(report).collect();
    assert!(failed.is_empty(), "{} of {worlds} worlds fail:\n{first}", failed.len());
}

#[test]
fn g10_a_seed_is_a_world() {
    let first = number_in("SIM_SEED").unwrap_or(0);
    for seed in first..first + 50 {
        assert_eq!(simulate(seed), simulate(seed), "SIM_SEED={seed}");
    }
}
