//! The judge finds our relay without fault, and the faults of relays that are wrong on purpose.

use std::time::Duration;

use rescind_interop::judge::{Protocol, Rule, Trial, Verdict};
use rescind_interop::peers::{CommandLine, line, relay, rescind};

fn judge(protocols: [Protocol; 2], relay: Vec<String>, patience: Duration) -> Verdict {
    let judge = env!("CARGO_BIN_EXE_judge").into();
    let [near, far] = protocols;
    let verdict = Trial { near, far, relay, judge, patience }.run();
    println!("{verdict}");
    verdict
}

fn judge_ours(protocols: [Protocol; 2], relay: CommandLine) {
    let verdict = judge(protocols, relay, Duration::from_secs(20));
    assert!(verdict.passed(), "\n{verdict}");
}

fn judge_wrong(fault: &str, patience: Duration) -> Verdict {
    let relay = line(&[env!("CARGO_BIN_EXE_wrong_relay"), fault]);
    judge([Protocol::ACP; 2], relay, patience)
}

#[test]
fn our_relay_acp() {
    judge_ours([Protocol::ACP; 2], relay("acp", &[]));
}

#[test]
fn our_relay_acp_three_hops() {
    judge_ours([Protocol::ACP; 2], relay("acp", &relay("acp", &relay("acp", &[]))));
}

#[test]
fn our_relay_lsp() {
    judge_ours([Protocol::LSP; 2], relay("lsp", &[]));
}

#[test]
fn our_relay_lsp_to_acp() {
    let relay = line(&[rescind(), "relay", "--up", "lsp", "--down", "acp", "--"]);
    judge_ours([Protocol::LSP, Protocol::ACP], relay);
}

#[test]
fn our_relay_mcp_2025() {
    judge_ours([Protocol::MCP_2025; 2], relay("mcp-2025-11-25", &[]));
}

#[test]
fn our_relay_mcp() {
    judge_ours([Protocol::MCP; 2], relay("mcp", &[]));
}

#[test]
fn our_relay_mcp_three_hops() {
    judge_ours([Protocol::MCP; 2], relay("mcp", &relay("mcp", &relay("mcp", &[]))));
}

/// Each way between a protocol that answers what was cancelled, and one that does not.
#[test]
fn our_relay_acp_to_mcp_and_back() {
    let names = ["acp", "mcp-2025-11-25"];
    for [up, down] in [names, [names[1], names[0]]] {
        let relay = line(&[rescind(), "relay", "--up", up, "--down", down, "--"]);
        judge_ours([up, down].map(|name| Protocol::named(name).expect("it is known")), relay);
    }
}

/// What the wrong relays have in common is not what their faults are found by.
#[test]
fn small_relay_keeps_the_rules_that_the_faults_break() {
    let broken = judge_wrong("none", Duration::from_secs(5)).broken();
    for rule in [Rule::CancelForwarded, Rule::CancelOfNothing, Rule::MalformedCancel, Rule::Batch] {
        assert!(!broken.contains(&rule), "{rule}");
    }
}

#[track_caller]
fn finds(fault: &str, rules: &[Rule]) {
    // What it finds lost too early is no fault that is looked for here.
    let broken = judge_wrong(fault, Duration::from_millis(300)).broken();
    for rule in rules {
        assert!(broken.contains(rule), "{fault}: {rule}");
    }
}

#[test]
fn relay_that_renames_ids_and_forwards_cancels_unrenamed_is_found() {
    let rules = [Rule::CancelForwarded, Rule::CancelOfNothing, Rule::MalformedCancel];
    finds("cancels-unrenamed", &rules);
}

#[test]
fn relay_that_tunnels_is_found() {
    finds("tunnels", &[Rule::CancelOfNothing, Rule::MalformedCancel, Rule::Batch, Rule::Form]);
}

/// What it does right elsewhere is wrong in MCP: it passes on what it is given.
#[test]
fn relay_that_answers_what_was_cancelled_is_found() {
    for protocol in [Protocol::MCP_2025, Protocol::MCP] {
        let relay = line(&[env!("CARGO_BIN_EXE_wrong_relay"), "none"]);
        let verdict = judge([protocol; 2], relay, Duration::from_millis(300));
        let said: String = verdict.findings.iter().map(|finding| finding.what.as_str()).collect();
        assert!(verdict.broken().contains(&Rule::Silence));
        let is_progress_too = said.contains("notifications/progress");
        assert_eq!(is_progress_too, protocol == Protocol::MCP, "{}", protocol.name);
    }
}

#[test]
fn relay_that_loses_cancels_is_found() {
    finds("loses-cancels", &[Rule::CancelForwarded]);
}

#[test]
fn relay_that_answers_twice_is_found() {
    finds("answers-twice", &[Rule::AnsweredOnce]);
}

#[test]
fn relay_that_changes_the_type_of_ids_is_found() {
    finds("ids-as-strings", &[Rule::AnsweredOnce]);
}
