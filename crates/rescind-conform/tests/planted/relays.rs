//! Relays that are wrong on purpose, one fault each: the checks find that, and only what follows from it.
//!
//! Those of some dialects that are right are tested by every check but the longest, the others by those that find
//! their fault. With `RESCIND_EVERY_CHECK=1` all of them by every check.

mod dap;
mod relay;
mod tamper;

use std::env;
use std::net::TcpStream;
use std::time::Duration;

use libtest_mimic::{Failed, Trial};
use protocol_core::Dialect;
use rescind_conform::{
    InProcessRelay, RELAY_CHECKS, RelayOptions, Report, Unreached, Whole, run_relay,
};

use crate::{are_tried, fail};
use tamper::Fault::{self, *};

/// Returns each fault, the dialects of both sides in which it shows, and the checks that find it. It is planted
/// for the first check, and the others follow.
fn planted() -> Vec<(Fault, [&'static str; 2], Vec<&'static str>)> {
    const ACP: [&str; 2] = ["acp"; 2];
    const LOST_CANCELS: [&str; 5] = [
        "relay-cancel/live",
        "relay-cancel/one-write",
        "relay-cancel/twice",
        "relay-form/spelling",
        "relay-load/many",
    ];
    const DAP: [&str; 2] = ["dap"; 2];
    const MCP: [&str; 2] = ["mcp"; 2];
    const MCP_2025: [&str; 2] = ["mcp-2025-11-25"; 2];
    vec![
        (Nothing, ACP, vec![]),
        (Nothing, ["acp-draft"; 2], vec![]),
        (Nothing, ["lsp"; 2], vec![]),
        (Nothing, MCP_2025, vec![]),
        (Nothing, MCP, vec![]),
        (Nothing, DAP, vec![]),
        (Nothing, ["lsp", "acp"], vec![]),
        (Nothing, ["acp", "mcp-2025-11-25"], vec![]),
        (Nothing, ["mcp-2025-11-25", "acp"], vec![]),
        (Pings, MCP_2025, vec![]),
        (ListsTools, MCP_2025, vec![]),
        (RenamesTokens, MCP_2025, vec![]),
        (RenamesTokens, MCP, vec![]),
        (WritesContentType, ["lsp"; 2], vec![]),
        (PassesDuplicates, ACP, vec![]),
        (
            Tunnels,
            ACP,
            vec![
                "relay-answer/malformed",
                "relay-answer/other-type",
                "relay-answer/stray",
                "relay-cancel/before-request",
                "relay-cancel/late",
                "relay-cancel/malformed",
                "relay-cancel/twice",
                "relay-cancel/unknown",
                "relay-end/callee",
                "relay-form/batches",
                "relay-form/garbage",
                "relay-form/ids",
                "relay-id/duplicate",
                "relay-id/reused-at-once",
            ],
        ),
        (
            CancelsUnrenamed,
            ACP,
            vec![
                "relay-cancel/live",
                "relay-cancel/before-request",
                "relay-cancel/late",
                "relay-cancel/malformed",
                "relay-cancel/one-write",
                "relay-cancel/twice",
                "relay-cancel/unknown",
                "relay-form/spelling",
                "relay-load/many",
            ],
        ),
        (AnswersTwice, ACP, all_in_acp("relay-answer/error", [])),
        (
            IdsAsTexts,
            ACP,
            all_in_acp("relay-id/kinds", ["relay-answer/error", "relay-form/byte-by-byte"]),
        ),
        (
            TextsAsNumbers,
            ACP,
            vec!["relay-id/kinds", "relay-form/ids", "relay-cancel/live", "relay-answer/error"],
        ),
        (RoundsIds, ACP, vec!["relay-id/large"]),
        (RefusesUsedIds, ACP, vec!["relay-id/reused"]),
        (DropsReusedIds, ACP, vec!["relay-id/reused-at-once"]),
        (DropsDuplicates, ACP, vec!["relay-id/duplicate"]),
        (LosesCancels, ACP, LOST_CANCELS.to_vec()),
        (LosesImmediateCancels, ACP, vec!["relay-cancel/one-write"]),
        (RepeatsCancels, ACP, vec!["relay-cancel/twice"]),
        (CancelsTheirsToo, ACP, vec!["relay-cancel/both-directions"]),
        (
            TrustsTheirIds,
            ACP,
            vec!["relay-cancel/wrong-side", "relay-cancel/late", "relay-cancel/unknown"],
        ),
        (HidesResults, ACP, vec!["relay-cancel/result"]),
        (DropsNotesAfterCancel, ACP, vec!["relay-cancel/notified"]),
        (
            DropsCrossingAnswers,
            ACP,
            vec![
                "relay-cancel/crossing",
                "relay-cancel/late",
                "relay-cancel/result",
                "relay-form/spelling",
                "relay-form/unchanged",
            ],
        ),
        (PassesLateCancels, ACP, vec!["relay-cancel/late"]),
        (
            PassesUnknownCancels,
            ACP,
            vec!["relay-cancel/unknown", "relay-cancel/late", "relay-cancel/before-request"],
        ),
        (RemembersEarlyCancels, ACP, vec!["relay-cancel/before-request"]),
        (PassesMalformedCancels, ACP, vec!["relay-cancel/malformed"]),
        (CancelsInitialize, MCP_2025, vec!["relay-cancel/uncancellable"]),
        (PassesProgress, MCP, vec!["relay-silence/progress", "relay-silence/many"]),
        (
            PassesLateAnswers,
            MCP_2025,
            vec!["relay-silence/many", "relay-silence/progress", "relay-cancel/uncancellable"],
        ),
        (LosesProgress, MCP, vec!["relay-silence/spares-others"]),
        (PassesStrayAnswers, ACP, vec!["relay-answer/stray", "relay-answer/other-type"]),
        (TakesTextForNumber, ACP, vec!["relay-answer/other-type"]),
        (RewordsErrors, ACP, vec!["relay-answer/error", "relay-end/caller"]),
        (DropsMalformedAnswers, ACP, vec!["relay-answer/malformed"]),
        (SwapsNotes, ACP, vec!["relay-notification/order"]),
        (AddsToParams, ACP, vec!["relay-form/unchanged"]),
        (LargeIds, ACP, vec!["relay-form/ids", "relay-form/garbage"]),
        (MissesOddCancels, ACP, vec!["relay-form/spelling"]),
        (
            ReadsBytesAsText,
            ACP,
            all_in_acp("relay-form/byte-by-byte", ["relay-end/caller", "relay-end/callee"]),
        ),
        (UnpacksBatches, ACP, vec!["relay-form/batches"]),
        (DiesOfGarbage, ACP, vec!["relay-form/garbage"]),
        (DiesOfBlankLines, ACP, vec!["relay-form/blank-lines"]),
        (WritesSmallHeaders, ["lsp"; 2], vec!["relay-form/ids", "relay-form/garbage"]),
        (KnowsOneSpelling, ["lsp"; 2], vec!["relay-form/headers"]),
        (DropsLargeMessages, ACP, vec!["relay-form/large-message"]),
        (LosesBeyondHundred, ACP, vec!["relay-load/many"]),
        (OutlivesItsCaller, ACP, vec!["relay-end/caller", "relay-end/callee"]),
        (ForgetsTheDeserted, ACP, vec!["relay-end/callee"]),
        (LosesAcknowledgements, DAP, vec!["relay-cancel/acknowledged", "relay-cancel/progress"]),
        (
            AcknowledgesOnly,
            DAP,
            vec![
                "relay-cancel/acknowledged",
                "relay-cancel/live",
                "relay-cancel/notified",
                "relay-cancel/one-write",
                "relay-cancel/twice",
                "relay-form/spelling",
                "relay-form/unchanged",
                "relay-load/many",
            ],
        ),
        (LosesCancels, DAP, LOST_CANCELS.to_vec()),
        (LosesProgressCancels, DAP, vec!["relay-cancel/progress"]),
        (MisnamesRequests, DAP, vec!["relay-notification/request"]),
        (ForgetsCommands, DAP, vec!["relay-answer/error", "relay-end/caller"]),
    ]
}

/// Returns all checks that apply to a relay of ACP, the first one first. The largest message and the checks of
/// `without` are left out.
fn all_in_acp<const N: usize>(
    first: &'static str,
    without: [&'static str; N],
) -> Vec<&'static str> {
    const OTHERS: [&str; 9] = [
        "relay-cancel/uncancellable",
        "relay-cancel/acknowledged",
        "relay-cancel/progress",
        "relay-notification/request",
        "relay-silence/progress",
        "relay-silence/many",
        "relay-silence/spares-others",
        "relay-form/headers",
        LARGEST,
    ];
    let all = RELAY_CHECKS.iter().map(|check| check.id);
    let others = all.filter(|id| !OTHERS.contains(id) && !without.contains(id) && *id != first);
    [first].into_iter().chain(others).collect()
}

/// Returns whether nothing is wrong with it.
const fn is_right(fault: Fault) -> bool {
    matches!(
        fault,
        Nothing | Pings | ListsTools | RenamesTokens | WritesContentType | PassesDuplicates
    )
}

/// The near dialects of the right relays that are always tested.
const SAMPLE: [&str; 3] = ["lsp", "mcp", "dap"];

/// The check that takes longer than the wait for a message that a wrong relay loses.
const LARGEST: &str = "relay-form/large-message";

fn every_check() -> bool {
    env::var_os("RESCIND_EVERY_CHECK").is_some()
}

fn test(fault: Fault, names: [&str; 2], expected: &[&str]) -> Result<Report, Unreached> {
    let dialects = names.map(|name| Dialect::named(name).expect("there is such a dialect"));
    let [near, far] = dialects.clone();
    let mut options = RelayOptions::new(near, far);
    let is_tried = |id: &&str| match () {
        () if is_right(fault) => every_check() || *id != LARGEST,
        () if !every_check() || fault == BeatsOn => expected.contains(id),
        () => *id != LARGEST || expected.contains(id),
    };
    let ids = RELAY_CHECKS.iter().map(|check| check.id).filter(is_tried);
    options.suite.only = ids.map(Into::into).collect();
    // What a fault loses is waited for; what only is late is not to be found.
    let patience = match fault {
        // They get six times as long.
        OnlyBeats | NeverOpens => 1,
        right if is_right(right) => 20,
        _ => 2,
    };
    options.suite.patience = Duration::from_secs(patience);
    options.suite.jobs = 8;
    let wrong = move |near: TcpStream, far: TcpStream| {
        relay::relay(fault, dialects.clone(), near, far);
    };
    run_relay(&InProcessRelay(wrong), &options, |_| {})
}

fn finds(fault: Fault, dialects: [&str; 2], expected: &[&str]) -> Result<(), Failed> {
    let report = test(fault, dialects, expected)?;
    fail(&report, expected)?;
    if is_right(fault) { are_tried(&report) } else { Ok(()) }
}

/// Asserts that each check is the reason for a planted fault.
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

/// Asserts that a relay is tested by the methods that it passes on. Some pass on only those of their protocol,
/// or only others.
fn what_is_passed_on_is_asked() -> Result<(), Failed> {
    let checks = ["relay-id/kinds", "relay-cancel/live", "relay-form/spelling"];
    for fault in [RefusesUnknown, RefusesKnown] {
        for dialect in ["acp", "lsp", "mcp-2025-11-25"] {
            let report = test(fault, [dialect; 2], &checks)?;
            if report.whole() != Whole::Pass || report.count("pass") < checks.len() {
                let told: Vec<_> = report.outcomes.iter().map(|it| (it.id, &it.verdict)).collect();
                return Err(format!("{fault:?} in {dialect}: {told:?}").into());
            }
        }
    }
    Ok(())
}

/// Asserts that a relay through which nothing can be asked gets no verdict, and that the reason is reported.
fn is_unreached(fault: Fault, reason: &str) -> Result<(), Failed> {
    match test(fault, ["acp"; 2], &["relay-id/kinds"]) {
        Err(why) if why.to_string().contains(reason) => Ok(()),
        found => Err(format!("{found:?}").into()),
    }
}

/// Asserts that a relay which does not pass the requests of one side on gets no verdict.
fn what_is_not_passed_on_is_no_verdict() -> Result<(), Failed> {
    let checks = ["relay-id/kinds", "relay-cancel/both-directions"];
    let report = test(LosesTheirRequests, ["acp"; 2], &checks)?;
    match (report.whole(), report.count("pass")) {
        (Whole::Incomplete, 0) => Ok(()),
        found => Err(format!("{found:?}").into()),
    }
}

/// Asserts that nobody waits for the end of a relay that goes on after both sides have hung up.
fn what_outlives_both_sides_is_left_alone() -> Result<(), Failed> {
    let report = test(BeatsOn, ["acp"; 2], &["relay-id/kinds"])?;
    fail(&report, &[]).and_then(|()| are_tried(&report))
}

/// Returns all relays, but for a sample of those that are right.
pub(crate) fn trials() -> Vec<Trial> {
    let mut trials: Vec<Trial> = planted()
        .into_iter()
        .filter(|(fault, dialects, _)| {
            *fault != Nothing || every_check() || SAMPLE.contains(&dialects[0])
        })
        .map(|(fault, dialects, expected)| {
            let name = format!("{fault:?} in {}", dialects.join(" to "));
            Trial::test(name, move || finds(fault, dialects, &expected))
        })
        .collect();
    trials.push(Trial::test("every_check_has_a_fault", every_check_has_a_fault));
    trials.push(Trial::test("what_is_passed_on_is_asked", what_is_passed_on_is_asked));
    let told = "what_is_not_passed_on_is_no_verdict";
    trials.push(Trial::test(told, what_is_not_passed_on_is_no_verdict));
    let outlives = "what_outlives_both_sides_is_left_alone";
    trials.push(Trial::test(outlives, what_outlives_both_sides_is_left_alone));
    for (fault, reason) in [
        (RefusesAll, "the relay does not pass a request on"),
        (OnlyBeats, "the relay does not pass a request on"),
        (NeverOpens, "initialize is not answered"),
    ] {
        let name = format!("{fault:?}, so {reason}");
        trials.push(Trial::test(name, move || is_unreached(fault, reason)));
    }
    trials.into_iter().map(|trial| trial.with_kind("relay")).collect()
}
