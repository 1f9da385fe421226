//! Relays that are wrong on purpose, one fault each: the checks find that, and only what follows from it.
//!
//! The right ones are tested by every check, the others by those that find their fault. With
//! `RESCIND_EVERY_CHECK=1`, as in `.ci/run`, all of them by every check.

#[path = "planted_relay/relay.rs"]
mod relay;
#[path = "planted_relay/tamper.rs"]
mod tamper;

use std::collections::BTreeSet;
use std::env;
use std::net::TcpStream;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use protocol_core::Dialect;
use rescind_conform::{
    InProcessRelay, Outcome, RELAY_CHECKS, RelayOptions, Report, Verdict, run_relay,
};

use tamper::Fault::{self, *};

/// Each fault, the dialects of both sides in which it shows, and the checks that find it. The first one is what
/// it is planted for; the others follow.
fn planted() -> Vec<(Fault, [&'static str; 2], Vec<&'static str>)> {
    const ACP: [&str; 2] = ["acp"; 2];
    const MCP: [&str; 2] = ["mcp"; 2];
    const MCP_2025: [&str; 2] = ["mcp-2025-11-25"; 2];
    vec![
        (Nothing, ACP, vec![]),
        (Nothing, ["acp-draft"; 2], vec![]),
        (Nothing, ["lsp"; 2], vec![]),
        (Nothing, MCP_2025, vec![]),
        (Nothing, MCP, vec![]),
        (Nothing, ["lsp", "acp"], vec![]),
        (Nothing, ["acp", "mcp-2025-11-25"], vec![]),
        (Nothing, ["mcp-2025-11-25", "acp"], vec![]),
        (Tunnels, ACP, vec![]),
        (CancelsUnrenamed, ACP, vec![]),
        (AnswersTwice, ACP, vec![]),
        (IdsAsTexts, ACP, vec![]),
        (TextsAsNumbers, ACP, vec!["relay-id/kinds"]),
        (RoundsIds, ACP, vec!["relay-id/large"]),
        (RefusesUsedIds, ACP, vec!["relay-id/reused"]),
        (DropsReusedIds, ACP, vec!["relay-id/reused-at-once"]),
        (DropsDuplicates, ACP, vec!["relay-id/duplicate"]),
        (LosesCancels, ACP, vec!["relay-cancel/live"]),
        (LosesImmediateCancels, ACP, vec!["relay-cancel/one-write"]),
        (RepeatsCancels, ACP, vec!["relay-cancel/twice"]),
        (CancelsTheirsToo, ACP, vec!["relay-cancel/both-directions"]),
        (TrustsTheirIds, ACP, vec!["relay-cancel/wrong-side"]),
        (AnswersForItself, ACP, vec!["relay-cancel/result"]),
        (DropsNotesAfterCancel, ACP, vec!["relay-cancel/notified"]),
        (AnswersLateCancels, ACP, vec!["relay-cancel/crossing"]),
        (PassesLateCancels, ACP, vec!["relay-cancel/late"]),
        (PassesUnknownCancels, ACP, vec!["relay-cancel/unknown"]),
        (RemembersEarlyCancels, ACP, vec!["relay-cancel/before-request"]),
        (PassesMalformedCancels, ACP, vec!["relay-cancel/malformed"]),
        (CancelsInitialize, MCP_2025, vec!["relay-cancel/uncancellable"]),
        (PassesProgress, MCP, vec!["relay-silence/progress"]),
        (PassesLateAnswers, MCP_2025, vec!["relay-silence/many"]),
        (LosesProgress, MCP, vec!["relay-silence/spares-others"]),
        (PassesStrayAnswers, ACP, vec!["relay-answer/stray"]),
        (TakesTextForNumber, ACP, vec!["relay-answer/other-type"]),
        (RewordsErrors, ACP, vec!["relay-answer/error"]),
        (DropsMalformedAnswers, ACP, vec!["relay-answer/malformed"]),
        (SwapsNotes, ACP, vec!["relay-notification/order"]),
        (AddsToParams, ACP, vec!["relay-form/unchanged"]),
        (LargeIds, ACP, vec!["relay-form/ids"]),
        (MissesOddCancels, ACP, vec!["relay-form/spelling"]),
        (ReadsBytesAsText, ACP, vec!["relay-form/byte-by-byte"]),
        (UnpacksBatches, ACP, vec!["relay-form/batches"]),
        (DiesOfGarbage, ACP, vec!["relay-form/garbage"]),
        (DiesOfBlankLines, ACP, vec!["relay-form/blank-lines"]),
        (KnowsOneSpelling, ["lsp"; 2], vec!["relay-form/headers"]),
        (DropsLargeMessages, ACP, vec!["relay-form/large-message"]),
        (LosesBeyondHundred, ACP, vec!["relay-load/many"]),
        (OutlivesItsCaller, ACP, vec!["relay-end/caller"]),
        (ForgetsTheDeserted, ACP, vec!["relay-end/callee"]),
    ]
}

fn every_check() -> bool {
    env::var_os("RESCIND_EVERY_CHECK").is_some()
}

fn test(fault: Fault, names: [&str; 2], expected: &[&str]) -> Report {
    let dialects = names.map(|name| Dialect::named(name).expect("there is such a dialect"));
    let [near, far] = dialects.clone();
    let mut options = RelayOptions::new(near, far);
    if !every_check() {
        // None of them means all: those of a right relay.
        options.only = expected.iter().map(|id| (*id).into()).collect();
    }
    // What a fault loses is waited for; what only is late is not to be found.
    options.patience = Duration::from_secs(if fault == Nothing { 20 } else { 2 });
    options.jobs = 8;
    let wrong = move |near: TcpStream, far: TcpStream| {
        relay::relay(fault, dialects.clone(), near, far);
    };
    run_relay(&InProcessRelay(wrong), &options, |_| {}).expect("a session is opened")
}

fn finds(fault: Fault, dialects: [&str; 2], expected: &[&str]) -> Result<(), Failed> {
    let report = test(fault, dialects, expected);
    let is_wrong = |outcome: &&Outcome| match outcome.verdict {
        Verdict::Fail { .. } => true,
        Verdict::NotExercised { .. } => fault == Nothing,
        Verdict::Pass | Verdict::NotApplicable => false,
    };
    let found: BTreeSet<&str> =
        report.outcomes.iter().filter(is_wrong).map(|outcome| outcome.id).collect();
    let expected: BTreeSet<&str> = expected.iter().copied().collect();
    if found == expected {
        return Ok(());
    }
    let differs = |outcome: &&Outcome| found.contains(outcome.id) != expected.contains(outcome.id);
    let why: Vec<String> = (report.outcomes.iter().filter(differs))
        .map(|outcome| format!("{}: {:?}", outcome.id, outcome.verdict))
        .collect();
    Err(format!("expected {expected:?}\nfound {found:?}\n{}", why.join("\n")).into())
}

/// Each check is the reason for a planted fault.
fn every_check_has_a_fault() -> Result<(), Failed> {
    let planted = planted();
    let without = RELAY_CHECKS
        .iter()
        .map(|check| check.id)
        .filter(|id| !planted.iter().any(|(_, _, finds)| finds.first() == Some(id)));
    match without.collect::<Vec<_>>() {
        none if none.is_empty() => Ok(()),
        some => Err(format!("no fault is planted for {some:?}").into()),
    }
}

fn main() {
    let mut trials: Vec<Trial> = planted()
        .into_iter()
        .map(|(fault, dialects, expected)| {
            let name = format!("{fault:?} in {}", dialects.join(" to "));
            Trial::test(name, move || finds(fault, dialects, &expected))
        })
        .collect();
    trials.push(Trial::test("every_check_has_a_fault", every_check_has_a_fault));
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(2));
    libtest_mimic::run(&arguments, trials).exit();
}
