//! Whole adapters on a virtual clock and a simulated network, in worlds that are drawn from seeds.
//!
//! A world is two peers, perhaps with a relay between them, that call each other in every way and
//! are interrupted in every way. The seed decides the order of tasks, the network's effect on the
//! bytes, and the actions of everybody. Nothing else is random, and no time passes but the
//! simulated. So a seed is a world: `SIM_SEED=17` replays one, `SIM_SEEDS=100000` tries more.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "simulation/history.rs"]
mod history;
#[path = "simulation/wire.rs"]
mod wire;
#[path = "simulation/workload.rs"]
mod workload;
#[path = "simulation/world.rs"]
mod world;

use protocol_testkit::simulate::{simulate, try_simulate};
use world::world;

#[test]
fn every_guarantee_holds_in_every_world() {
    simulate(0..400, world);
}

#[test]
fn g10_a_seed_is_a_world() {
    for seed in 0..50 {
        assert_eq!(try_simulate(seed..seed + 1, world), try_simulate(seed..seed + 1, world));
    }
}
