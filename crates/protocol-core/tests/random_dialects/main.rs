//! G1, G2, G5, G6, G7, G9, G10 in random programs, for each preset and for dialects that nobody speaks.
//!
//! `N` programs run, from the seed `FROM` on:
//!
//! ```sh
//! N=1000000 FROM=1 cargo test --release -p rescind-core --test random_dialects
//! ```

mod program;

use std::env;
use std::panic::catch_unwind;

/// The programs that run without a number from outside.
const DEFAULT: u64 = 4_000;

/// The failures after which there is nothing more to learn.
const MOST_FAILURES: usize = 8;

#[test]
fn g10_random_programs_keep_the_guarantees() {
    let (from, n) = (number("FROM").unwrap_or(0), number("N").unwrap_or(DEFAULT));
    let fails = |seed: &u64| catch_unwind(|| program::run(*seed)).is_err();
    let failed: Vec<u64> = (from..from + n).filter(fails).take(MOST_FAILURES).collect();
    assert!(failed.is_empty(), "the programs of these seeds fail: {failed:?}");
}

#[expect(
    clippy::disallowed_methods,
    reason = "the numbers choose what is tested, not what happens"
)]
fn number(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}
