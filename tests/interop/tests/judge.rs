//! `rescind conform relay` finds chains of our relay without fault, and the faults of relays that are wrong on purpose, as
//! programs. `crates/rescind-cli/tests/conform.rs` judges a single relay, and `crates/rescind-conform` has a wrong relay for
//! each check.

use std::time::Duration;

use protocol_core::Dialect;
use rescind_conform::{
    Level, Program, RelayOptions, RelayProgram, Report, Verdict, Whole, run_relay,
};
use rescind_interop::in_turn;
use rescind_interop::peers::{CommandLine, line, relay, rescind};

fn judge([near, far]: [&str; 2], relay: &[String], patience: u64) -> Report {
    let [near, far] = [near, far].map(|name| Dialect::named(name).expect("it is known"));
    let words = |words: &[String]| words.iter().map(Into::into).collect();
    let relay = RelayProgram::new(
        Program::new(words(relay)),
        words(&line(&[rescind(), "conform", "bridge"])),
    );
    let mut options = RelayOptions::new(near, far);
    options.suite.patience = Duration::from_secs(patience);
    run_relay(&relay, &options, |_| {}).expect("a session is opened")
}

/// Returns the checks that failed, with their levels.
fn failures(report: &Report) -> Vec<(Level, &'static str)> {
    let failed = report.outcomes.iter().filter(|it| matches!(it.verdict, Verdict::Fail { .. }));
    failed.map(|outcome| (outcome.level, outcome.id)).collect()
}

fn judge_ours(dialects: [&str; 2], relay: &[String]) {
    let report = judge(dialects, relay, 20);
    assert_eq!(report.whole(), Whole::Pass, "{:#?}", failures(&report));
}

#[test]
fn our_relay_three_hops() {
    for name in in_turn(["acp", "mcp"], 2) {
        judge_ours([name; 2], &relay(name, &relay(name, &relay(name, &[]))));
    }
}

/// LSP has another framing, and MCP does not answer what was cancelled.
#[test]
fn our_relay_between_dialects() {
    let pairs = [["lsp", "acp"], ["acp", "mcp-2025-11-25"], ["mcp-2025-11-25", "acp"]];
    for [up, down] in in_turn(pairs, 3) {
        judge_ours([up, down], &line(&[rescind(), "relay", "--up", up, "--down", down, "--"]));
    }
}

fn wrong(fault: &str) -> CommandLine {
    line(&[rescind(), "relay", "--fault", fault, "--"])
}

#[test]
fn relay_that_loses_cancels_is_found() {
    let found: Vec<&str> =
        failures(&judge(["acp"; 2], &wrong("drop cancel"), 10)).iter().map(|it| it.1).collect();
    let cancels = ["relay-cancel/live", "relay-cancel/twice", "relay-form/spelling"];
    assert!(cancels.iter().all(|id| found.contains(id)), "{found:?}");
    // In one write, the request may be withdrawn with its cancel, and neither arrives.
    let others = ["relay-cancel/one-write", "relay-load/many", "relay-end/caller"];
    let is_expected = |id: &&str| cancels.contains(id) || others.contains(id);
    assert!(found.iter().all(is_expected), "{found:?}");
}

#[test]
fn relay_that_answers_twice_is_found() {
    let found = failures(&judge(["acp"; 2], &wrong("duplicate response"), 10));
    assert!(found.contains(&(Level::Must, "relay-id/kinds")), "{found:?}");
}

/// It breaks no protocol where nobody does.
#[test]
fn what_only_carries_bytes_fails_no_must() {
    let found = failures(&judge(["acp"; 2], &line(&["env"]), 5));
    let musts = found.iter().filter(|(level, _)| *level == Level::Must);
    assert!(musts.count() == 0, "{found:?}");
    for id in ["relay-cancel/unknown", "relay-cancel/malformed", "relay-form/batches"] {
        assert!(found.contains(&(Level::Should, id)), "{found:?}");
    }
}
