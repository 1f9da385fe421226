//! Nothing is left of a real server behind a wrapper, however and whenever `rescind relay` or `rescind call` is killed.
//!
//! `--bin orphans` runs every server behind every wrapper, more often, and published relays beside.

#![cfg(target_os = "linux")]

use rescind_interop::orphans::{Case, WRAPPERS, ours, servers, torture};

#[test]
fn f60_nothing_is_left_of_a_real_server_behind_a_wrapper() {
    let mut cases = Vec::new();
    for program in ours() {
        // Each server, and each wrapper at least once.
        for (server, wrapper) in servers().into_iter().zip(WRAPPERS.into_iter().cycle()) {
            cases.push(Case { program: program.clone(), server, wrapper });
        }
    }
    let seed = fastrand::u64(..);
    let table = torture(&cases, 1, seed);
    println!("seed {seed}\n{table}");
    for (program, signal, tally) in table.0 {
        assert_eq!((tally.left, tally.not_up), (0, 0), "{program} {signal:?}: {tally:?}");
    }
}
