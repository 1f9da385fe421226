//! rescind against real peers.
//!
//! - [`peers`] finds the commands of the peers; `install` installs what cargo can't.
//! - [`sdk`] is the crate `agent-client-protocol` in both roles, [`own`] is ours on tokio; the
//!   agents of both have the methods of `rescind serve`.
//! - [`turns`] is an agent of ours in ACP, version 2.
//! - [`lifecycle`] is the script that any client runs against any such agent.
//! - [`mcp`] is the crate `rmcp` in both roles, and ours as a client.
//! - [`model`] is a model that never responds, for agents that have no account.
//! - [`tap`] checks that a side is silent about a request that the other has cancelled.
//! - [`browser`] is a page in Chromium.
//! - [`servers`] are small servers, with this library and with others, side by side.
//! - [`conform`] is `rescind conform` on real servers and relays.
//! - [`orphans`] kills programs, and counts the processes that they leave behind.

pub mod browser;
pub mod conform;
pub mod lifecycle;
pub mod mcp;
pub mod model;
pub mod orphans;
pub mod own;
pub mod peers;
pub mod probe;
pub mod sdk;
pub mod servers;
pub mod tap;
pub mod turns;

/// Returns all of these, or the part whose turn it is, one of so many. `.ci/run` sets `RESCIND_TURN`, so that each commit
/// has another one.
///
/// # Panics
///
/// If `RESCIND_TURN` is no number.
pub fn in_turn<T>(all: impl IntoIterator<Item = T>, parts: usize) -> Vec<T> {
    let turn = std::env::var("RESCIND_TURN").ok();
    let turn: Option<usize> = turn.map(|turn| turn.parse().expect("RESCIND_TURN is a number"));
    let is_its = |number: &usize| turn.is_none_or(|turn| number % parts == turn % parts);
    all.into_iter().enumerate().filter(|(number, _)| is_its(number)).map(|(_, it)| it).collect()
}
