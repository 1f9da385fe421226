//! Servers that are wrong on purpose, one fault each: the checks find that, and only what follows from it.
//!
//! The servers are this program, started again. The right ones are tested by every check, the others by those that
//! find their fault, and of these a sample. With `RESCIND_EVERY_FAULT=1` all of these; with `RESCIND_EVERY_CHECK=1` all by every check.

mod server;

use std::env;
use std::time::Duration;

use libtest_mimic::{Failed, Trial};
use protocol_core::Dialect;
use rescind_conform::{CHECKS, Options, Program, Report, Request, run};
use serde_json::json;

use crate::{are_all, fail};
use server::Fault::{self, *};

/// The checks in which a request is cancelled and has no response, in a silent dialect.
const SILENT: [&str; 10] = [
    "cancel/one-read",
    "cancel/running",
    "cancel/twice",
    "cancel/more-members",
    "cancel/id-zero",
    "cancel/id-text",
    "cancel/id-empty",
    "cancel/id-unicode",
    "cancel/id-large",
    "progress/after-cancel",
];

/// Returns each fault, the dialect in which it shows, and the checks that find it. It is planted for the first
/// check, and the others follow.
fn planted() -> Vec<(Fault, &'static str, Vec<&'static str>)> {
    let ended = |more: &[&'static str]| -> Vec<&'static str> {
        let all = [
            "cancel/one-read",
            "cancel/running",
            "cancel/twice",
            "cancel/more-members",
            "cancel/answer",
            "cancel/alone",
            "cancel/waiting",
            "cancel/any-moment",
            "cancel/output-full",
            "cancel/id-zero",
            "cancel/id-text",
            "cancel/id-empty",
            "cancel/id-unicode",
            "cancel/id-large",
        ];
        all.iter().chain(more).copied().collect()
    };
    let ended_in_dap = |more: &[&'static str]| -> Vec<&'static str> {
        let all = ended(more).into_iter();
        all.filter(|id| !id.starts_with("cancel/id-")).collect()
    };
    vec![
        (None, "acp", vec![]),
        (None, "acp-draft", vec![]),
        (None, "mcp", vec![]),
        (AnswersOutOfOrder, "acp", vec![]),
        (HasAQuota, "acp", vec![]),
        (LosesImmediateCancels, "acp", vec!["honour/one-read"]),
        (LosesImmediateCancels, "mcp", SILENT.to_vec()),
        (NeverAnswersCancelled, "acp", ended(&["honour/one-read", "honour/running"])),
        (AnswersTwice, "acp", ended(&[])),
        (
            AnswersLateCancels,
            "acp",
            vec![
                "cancel/late",
                "cancel/twice",
                "cancel/before-request",
                "cancel/any-moment",
                "load/burst",
                "load/half-cancelled",
            ],
        ),
        (AnswersUnknownCancels, "acp", vec!["cancel/unknown"]),
        (RefusesCancelsOfNothing, "acp", vec!["cancel/late", "cancel/unknown"]),
        (OmitsTheVersion, "acp", vec!["output/clean"]),
        (DiesOfMalformedCancels, "acp", vec!["cancel/malformed"]),
        (AnswersMalformedCancels, "acp", vec!["cancel/malformed"]),
        (
            TakesTextForNumber,
            "mcp",
            vec!["cancel/other-type", "cancel/id-text", "cancel/id-empty", "cancel/id-unicode"],
        ),
        (
            CancelsAll,
            "acp",
            vec!["cancel/spares-others", "cancel/other-type", "id/both-directions"],
        ),
        (RemembersEarlyCancels, "acp", vec!["cancel/before-request"]),
        (KnowsAllMembers, "mcp", vec!["cancel/more-members"]),
        (AnswersAnotherError, "acp", vec!["cancel/answer", "honour/one-read", "honour/running"]),
        (DropsWhatDoesNotFit, "acp", vec!["cancel/output-full"]),
        (CannotCancelZero, "mcp", vec!["cancel/id-zero"]),
        (CannotCancelText, "mcp", vec!["cancel/id-text"]),
        (CannotCancelEmpty, "mcp", vec!["cancel/id-empty"]),
        (RoundsCancels, "mcp", vec!["cancel/id-large"]),
        (EchoesZeroAsNull, "acp", vec!["id/zero"]),
        (EchoesTextAsNumber, "acp", vec!["id/text"]),
        (EchoesEmptyAsNull, "acp", vec!["id/empty"]),
        (RoundsIds, "acp", vec!["id/large"]),
        (CancelsInitialize, "acp-draft", vec!["cancel/initialize"]),
        (ProgressGoesOn, "mcp", vec!["progress/after-cancel"]),
        (IgnoresCancels, "acp", vec!["honour/one-read", "honour/running", "cancel/nested"]),
        (IgnoresCancels, "mcp", SILENT.to_vec()),
        (IgnoresLaterCancels, "acp", vec!["honour/running"]),
        (IgnoresLaterCancels, "mcp", vec!["cancel/running", "progress/after-cancel"]),
        (WorksInLine, "acp", vec!["honour/one-read"]),
        (DiesOfManyCancels, "acp", vec!["load/burst"]),
        (AnswersManyCancels, "acp", vec!["load/burst"]),
        (DiesOfDuplicates, "acp", vec!["id/duplicate"]),
        (MixesDirections, "acp", vec!["id/both-directions"]),
        (ForgetsItsOwn, "acp", vec!["cancel/nested"]),
        (DiesOfWithdrawn, "acp", vec!["after/withdrawn"]),
        (DiesOfWithdrawn, "mcp", vec!["after/withdrawn"]),
        (AnswersWithdrawn, "lsp", vec!["after/withdrawn"]),
        (AnswersWithdrawn, "mcp", vec!["after/withdrawn"]),
        (CancelsByOurId, "mcp", vec!["after/nested", "cancel/nested"]),
        (ReusesItsIds, "mcp", vec!["after/withdrawn"]),
        (CountsCharacters, "lsp", vec!["id/unicode"]),
        (AnswersANull, "acp", vec!["output/clean"]),
        (HonoursSixty, "mcp", vec!["after/every"]),
        (AnswersNotifications, "acp", vec!["unknown/notification"]),
        (IgnoresUnknownRequests, "acp", vec!["unknown/request"]),
        (PrintsBanner, "acp", vec!["output/clean"]),
        (PrintsBanner, "lsp", vec!["output/clean"]),
        (AnswersNobody, "acp", vec!["output/clean"]),
        (WedgesAfterFour, "acp", vec!["call/next", "cancel/any-moment"]),
        (StaysAfterTheEnd, "acp", vec!["end/pending", "end/orphan"]),
        (LeavesAnOrphan, "acp", vec!["end/orphan"]),
        (AnswersAPart, "acp", vec!["honour/whole"]),
        (ReadsNoMoreWhileItAsks, "acp", vec!["load/asking"]),
        (KeepsLateCancels, "acp", vec!["after/slow"]),
        (KeepsLateCancels, "mcp", vec!["after/slow"]),
        (HonoursTheFirst, "acp", vec!["after/every"]),
        (AnswersEachEighth, "mcp", vec!["after/every"]),
        (KeepsPlaces, "mcp", vec!["after/every", "after/many", "cancel/any-moment"]),
        (LosesPlaces, "acp", vec!["after/many"]),
        (WorksInLineLater, "acp", vec!["after/many"]),
        (PausesAfterCancels, "acp", vec!["after/reads-on"]),
        (CancelsAllItAsked, "acp", vec!["after/nested"]),
        (AnswersBoth, "acp", vec!["cancel/answer", "output/clean"]),
        (ForgetsDuplicates, "acp", vec!["after/duplicate"]),
        (AnswersAgainIfNearlyDone, "acp", vec!["cancel/any-moment"]),
        (DiesOfUnreadableCancels, "acp", vec!["cancel/unreadable"]),
        (AnswersWithTheNext, "acp", vec!["cancel/alone"]),
        (AnswersAgainBehindAnother, "acp", vec!["cancel/waiting"]),
        (
            StopsWithAnError,
            "acp",
            vec!["stop/answer", "stop/early", "stop/running", "stop/twice", "stop/nested"],
        ),
        (FailsEarlyStops, "acp", vec!["stop/early"]),
        (HonoursTheLastStop, "acp", vec!["stop/both"]),
        (FailsAfterCancels, "mcp", vec!["after/slow"]),
        (HoldsItsLine, "mcp", vec!["after/running"]),
        (LeavesAPart, "acp", vec!["after/result"]),
        (HonoursOneOfMany, "acp", vec!["cancel/together"]),
        (HoldsItsSession, "acp", vec!["stop/request"]),
        (SkipsNumbers, "dap", vec!["output/seq"]),
        (SilencesOthers, "mcp", vec!["progress/others"]),
        (RemembersIds, "acp", vec!["id/reused"]),
        (NeverShutsDown, "lsp", vec!["after/shutdown"]),
        (HonoursOneStop, "acp", vec!["stop/again"]),
        (ForgetsTheOldest, "acp", vec!["after/every"]),
        (AcknowledgesOnce, "dap", vec!["cancel/acknowledged-each"]),
        (FailsLateStops, "acp", vec!["stop/any-moment"]),
        (LosesEarlyStops, "acp", vec!["stop/soon"]),
        (LosesReplacedStops, "acp", vec!["stop/replaced"]),
        (AnswersStopAndCancel, "acp", vec!["stop/and-cancel"]),
        (RollsBack, "lsp", vec!["after/edit"]),
        (NeverEndsProgress, "lsp", vec!["progress/ended"]),
        (WaitsForWhatWasCancelled, "dap", vec!["after/disconnect"]),
        (SaysNothingLater, "acp", vec!["stop/next"]),
        (GoesOnReporting, "acp", vec!["stop/request-quiet"]),
        (LosesWhatIsClosed, "lsp", vec!["cancel/closed"]),
        (FailsAfterFour, "mcp", vec!["after/every"]),
        (CancelsTheNewest, "mcp", vec!["after/slow", "cancel/spares-others", "cancel/other-type"]),
        (KeysByToken, "mcp", vec!["cancel/running"]),
        (StaysAfterCancels, "mcp", vec!["end/pending"]),
        (IsCancelledInTheEnd, "acp", vec!["honour/running", "honour/one-read"]),
        (IgnoresStops, "acp", vec!["stop/running", "stop/nested"]),
        (AnswersEachStop, "acp", vec!["stop/twice"]),
        (ReportsAfterStops, "acp", vec!["stop/quiet"]),
        (KeepsStops, "acp", vec!["stop/next", "stop/before"]),
        (StopsAllSessions, "acp", vec!["stop/spares-others"]),
        (WaitsAfterStops, "acp", vec!["stop/nested", "stop/answer", "stop/running", "stop/twice"]),
        (None, "acp-v2", vec![]),
        (
            StopsWithAnError,
            "acp-v2",
            vec!["stop/answer", "stop/running", "stop/twice", "stop/nested"],
        ),
        (IgnoresStops, "acp-v2", vec!["stop/running", "stop/nested", "stop/permissions"]),
        (AnswersEachStop, "acp-v2", vec!["stop/twice", "stop/answer", "stop/nested"]),
        (ReportsAfterStops, "acp-v2", vec!["stop/quiet"]),
        (KeepsStops, "acp-v2", vec!["stop/next", "stop/before"]),
        (StopsAllSessions, "acp-v2", vec!["stop/spares-others"]),
        (
            WaitsAfterStops,
            "acp-v2",
            vec!["stop/nested", "stop/answer", "stop/running", "stop/twice"],
        ),
        (ForgetsItsOwn, "acp-v2", vec!["stop/permissions"]),
        (RefusesHeldPrompts, "acp-v2", vec!["stop/uninserted"]),
        (IgnoresStops, "mcp", vec!["stop/answer", "stop/twice"]),
        (AnswersEachStop, "mcp", vec!["stop/twice"]),
        (ReportsAfterStops, "mcp", vec!["stop/quiet"]),
        (KeepsStops, "mcp", vec!["stop/next", "stop/before"]),
        (StopsAllSessions, "mcp", vec!["stop/spares-others"]),
        (WaitsAfterStops, "mcp", vec!["stop/answer", "stop/twice"]),
        (None, "lsp", vec![]),
        (IgnoresStops, "lsp", vec!["stop/sooner"]),
        (AnswersEachStop, "lsp", vec!["stop/twice"]),
        (ReportsAfterStops, "lsp", vec!["stop/quiet"]),
        (KeepsStops, "lsp", vec!["stop/before", "stop/next"]),
        (StopsAllSessions, "lsp", vec!["stop/spares-others"]),
        (WaitsAfterStops, "lsp", vec!["stop/sooner", "stop/answer", "stop/twice"]),
        (ProgressGoesOn, "lsp", vec!["stop/own-token"]),
        (None, "dap", vec![]),
        (NeverAnswersCancelled, "dap", ended_in_dap(&["honour/one-read", "honour/running"])),
        (AnswersTwice, "dap", ended_in_dap(&[])),
        (
            NeverAcknowledges,
            "dap",
            vec!["cancel/acknowledged", "cancel/acknowledged-each", "cancel/acknowledged-late"],
        ),
        (AnswersAnotherError, "dap", vec!["cancel/answer", "honour/one-read", "honour/running"]),
        (AnswersAPart, "dap", vec!["honour/whole"]),
        (CancelsAll, "dap", vec!["cancel/spares-others"]),
        (NeverEndsProgress, "dap", vec!["progress/ended", "cancel/progress"]),
        (DiesOfMalformedCancels, "dap", vec!["cancel/malformed"]),
        (DiesOfManyCancels, "dap", vec!["load/burst"]),
        (None, "mcp-2025-11-25-http", vec![]),
        (None, "mcp-2026-07-28-http", vec![]),
        (IgnoresCancels, "mcp-2026-07-28-http", vec!["http/closed"]),
        (IgnoresCancels, "mcp-2025-11-25-http", vec!["http/cancel"]),
        (CancelsWhatIsLost, "mcp-2025-11-25-http", vec!["http/lost"]),
    ]
}

fn test(fault: Fault, dialect: &str, expected: &[&str], adjust: fn(&mut Options)) -> Report {
    let own = env::current_exe().expect("this is a program");
    let command = vec![own.into(), "serve".into(), format!("{fault:?}").into(), dialect.into()];
    let mut options = Options::new(Dialect::named(dialect).expect("there is such a dialect"));
    if !dialect.starts_with("mcp") {
        let method = if dialect == "lsp" { "textDocument/slow" } else { "slow" };
        options.slow = Some(Request::new(method, json!({ "ms": "$MS" })));
    }
    options.reverse = Some(match dialect {
        mcp if mcp.starts_with("mcp") => {
            Request::new("tools/call", json!({ "name": "ask", "arguments": {} }))
        }
        _ => Request::new("ask", json!({})),
    });
    let outcome = json!({ "name": "outcome", "arguments": { "token": "$TOKEN" } });
    options.witness = Some(Request::new("tools/call", outcome));
    if env::var_os("RESCIND_EVERY_CHECK").is_none() {
        // None of them means all: those of a right server.
        options.suite.only = expected.iter().map(|id| (*id).into()).collect();
    }
    options.slow_ms = 300;
    options.suite.jobs = 8;
    options.suite.patience = Duration::from_secs(5);
    adjust(&mut options);
    run(&Program::new(command), &options, |_| {}).expect("a session is opened")
}

/// Returns whether the machine's pace decides if a fault shows in a check. A quick request may have its
/// response before its cancel is read.
fn depends_on_pace(fault: Fault, check: &str) -> bool {
    let paced = ["cancel/any-moment", "load/burst", "load/half-cancelled"];
    fault == AnswersLateCancels && paced.contains(&check)
}

fn finds(fault: Fault, dialect: &'static str, expected: &[&str]) -> Result<(), Failed> {
    let mut report = test(fault, dialect, expected, |_| {});
    report.outcomes.retain(|outcome| !depends_on_pace(fault, outcome.id));
    if fault == IgnoresCancels && !dialect.ends_with("-http") {
        let judged = report.outcomes.iter().filter(|outcome| outcome.is_failure());
        let judged: Vec<&str> = judged.map(|outcome| outcome.id).collect();
        assert!(judged.is_empty(), "the protocol lets it ignore cancels: {judged:?}");
    }
    let certain = expected.iter().copied().filter(|id| !depends_on_pace(fault, id));
    fail(&report, &certain.collect::<Vec<_>>())
}

/// Asserts that each check is the reason for a planted fault.
fn every_check_has_a_fault() -> Result<(), Failed> {
    let planted = planted();
    let without = (CHECKS.iter().map(|check| check.id))
        .filter(|id| !planted.iter().any(|(_, _, finds)| finds.contains(id)));
    match without.collect::<Vec<_>>() {
        none if none.is_empty() => Ok(()),
        some => Err(format!("no fault is planted for {some:?}").into()),
    }
}

/// A request may take longer than the patience, and all the longer in later runs.
fn work_may_take_longer_than_the_patience() -> Result<(), Failed> {
    let expected = ["cancel/one-read", "cancel/running"];
    let report = test(NeverAnswersCancelled, "acp", &expected, |options| {
        options.slow_ms = 1200;
        options.suite.patience = Duration::from_secs(1);
    });
    are_all(&report, "fail")
}

/// A message that is no response and no progress of ours says nothing about what is waited for.
fn a_heartbeat_excuses_nothing() -> Result<(), Failed> {
    let report = test(BeatsInSilence, "acp", &["honour/running"], |options| {
        options.suite.patience = Duration::from_secs(1);
    });
    are_all(&report, "fail")
}

/// An agent may say nothing of a turn, and end it if it may not do what it wants.
fn a_question_shows_that_a_turn_goes_on() -> Result<(), Failed> {
    const ONLY: [&str; 7] = [
        "stop/answer",
        "stop/both",
        "stop/spares-others",
        "stop/running",
        "stop/quiet",
        "stop/next",
        "stop/nested",
    ];
    are_all(&test(AsksFirst, "acp", &ONLY, |_| {}), "pass")
}

/// Without --reverse, a turn in which an agent asks something is what makes it ask. Its control turns have responses.
fn a_turn_in_which_an_agent_asks_is_what_makes_it_ask() -> Result<(), Failed> {
    let report = test(None, "acp", &["id/both-directions"], |options| {
        (options.slow, options.reverse) = (Option::None, Option::None);
    });
    are_all(&report, "pass")
}

fn a_request_that_makes_nobody_ask_is_told_with_its_response() -> Result<(), Failed> {
    let report = test(None, "acp", &["id/both-directions"], |options| {
        options.reverse = Some(Request::new("nobody/asks", json!({})));
    });
    match report.outcomes[0].verdict.why() {
        Some(why) if why.ends_with("is answered with error -32601 (no)") => Ok(()),
        other => Err(format!("{other:?}").into()),
    }
}

/// Is a server with a fault, if the arguments say so.
pub(crate) fn plays(arguments: &[&str]) -> bool {
    let [_, "serve", fault, dialect] = *arguments else { return false };
    let all = planted().into_iter().map(|(it, ..)| it).chain([BeatsInSilence, AsksFirst]);
    let fault = all.into_iter().find(|it| format!("{it:?}") == fault);
    server::serve(fault.expect("it is planted"), dialect);
    true
}

/// Returns the servers whose turn it is, those first that are tested the longest: the right ones, and one that is slow.
pub(crate) fn trials(turn: usize) -> Vec<Trial> {
    // Each starts some processes, and with every check some hundred: by itself it tries a sample.
    let wants_all = ["RESCIND_EVERY_CHECK", "RESCIND_EVERY_FAULT"];
    let step = if wants_all.iter().any(|name| env::var_os(name).is_some()) { 1 } else { 8 };
    let mut chosen: Vec<_> = planted().into_iter().skip(turn % step).step_by(step).collect();
    chosen.sort_by_key(|(fault, ..)| ![None, WorksInLineLater].contains(fault));
    let trial = |(fault, dialect, expected): (Fault, &'static str, Vec<_>)| {
        let name = format!("{fault:?} in {dialect}");
        Trial::test(name, move || finds(fault, dialect, &expected)).with_kind("server")
    };
    let others = [
        Trial::test("every_check_has_a_fault", every_check_has_a_fault),
        Trial::test("a_heartbeat_excuses_nothing", a_heartbeat_excuses_nothing),
        Trial::test("a_question_shows_that_a_turn_goes_on", a_question_shows_that_a_turn_goes_on),
        Trial::test(
            "a_turn_in_which_an_agent_asks_is_what_makes_it_ask",
            a_turn_in_which_an_agent_asks_is_what_makes_it_ask,
        ),
        Trial::test(
            "a_request_that_makes_nobody_ask_is_told_with_its_response",
            a_request_that_makes_nobody_ask_is_told_with_its_response,
        ),
        Trial::test(
            "work_may_take_longer_than_the_patience",
            work_may_take_longer_than_the_patience,
        ),
    ];
    let others = others.map(|trial| trial.with_kind("server"));
    chosen.into_iter().map(trial).chain(others).collect()
}
