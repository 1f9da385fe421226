//! Clients that are wrong on purpose, one fault each: the checks find that, and only what follows from it.
//!
//! The clients are this program, started again. The right ones are tested by every check, the others by those that
//! find their fault, and of these a sample. With `RESCIND_EVERY_FAULT=1` all of these; with `RESCIND_EVERY_CHECK=1` all by every check.

mod client;

use std::env;
use std::time::Duration;

use libtest_mimic::{Failed, Trial};
use protocol_core::Dialect;
use rescind_conform::{
    CLIENT_CHECKS, ClientOptions, ClientProgram, Program, Report, Request, SERVER, bridge,
    run_client,
};
use serde_json::json;

use crate::{are_tried, fail};
use client::Fault::{self, *};

/// Returns each fault, the dialect in which it shows, and the checks that find it. It is planted for the first
/// check, and the others follow.
fn planted() -> Vec<(Fault, &'static str, Vec<&'static str>)> {
    vec![
        (None, "acp", vec![]),
        (None, "acp-v2", vec![]),
        (None, "acp-draft", vec![]),
        (None, "lsp", vec![]),
        (None, "mcp", vec![]),
        (None, "mcp-2025-06-18", vec![]),
        (None, "jsonrpc", vec![]),
        (CancelsTwice, "acp", vec!["client-cancel/once"]),
        (CancelsBeforeItsRequest, "acp", vec!["client-cancel/names-request"]),
        (CancelsUnknown, "acp", vec!["client-cancel/names-request"]),
        (CancelsUnknown, "mcp", vec!["client-cancel/names-request"]),
        (CancelsAsText, "acp", vec!["client-cancel/as-written"]),
        (CancelsAfterTheAnswer, "acp", vec!["client-cancel/after-answer", "client-cancel/once"]),
        (CancelsInitialize, "mcp", vec!["client-cancel/opening"]),
        (CancelsUndeclared, "acp-draft", vec!["client-cancel/undeclared"]),
        (WedgesOfCancelled, "acp", vec!["client-answer/cancelled"]),
        (DiesOfResults, "acp", vec!["client-answer/result"]),
        (DiesOfLateAnswers, "mcp", vec!["client-answer/late"]),
        (DiesOfSecondAnswers, "acp", vec!["client-answer/twice"]),
        (DiesOfUnknownAnswers, "acp", vec!["client-answer/unknown", "client-answer/other-type"]),
        (TakesTextForNumber, "acp", vec!["client-answer/other-type"]),
        (DiesOfUnaskedCancelled, "acp", vec!["client-answer/unasked-cancelled"]),
        (DiesOfContentModified, "lsp", vec!["client-answer/content-modified"]),
        (IgnoresUnknownRequests, "acp", vec!["client-asked/unknown-method"]),
        (AnswersNotifications, "acp", vec!["client-asked/notification"]),
        (EchoesZeroAsNull, "acp", vec!["client-asked/id-zero"]),
        (EchoesTextAsNumber, "acp", vec!["client-asked/id-text"]),
        (EchoesEmptyAsNull, "acp", vec!["client-asked/id-empty"]),
        (RoundsIds, "acp", vec!["client-asked/id-large"]),
        (MixesDirections, "acp", vec!["client-asked/both-directions"]),
        (
            NeverAnswersCancelled,
            "acp",
            vec!["client-asked/cancel-one-read", "client-asked/cancel-running"],
        ),
        (
            AnswersCancelled,
            "mcp",
            vec!["client-asked/cancel-one-read", "client-asked/cancel-running"],
        ),
        (LosesImmediateCancels, "mcp", vec!["client-asked/cancel-one-read"]),
        (IgnoresLaterCancels, "mcp", vec!["client-asked/cancel-running"]),
        (AnswersLateCancels, "acp", vec!["client-asked/cancel-late", "client-load/burst"]),
        (AnswersUnknownCancels, "acp", vec!["client-asked/cancel-unknown"]),
        (
            RefusesCancelsOfNothing,
            "acp",
            vec!["client-asked/cancel-late", "client-asked/cancel-unknown"],
        ),
        (DiesOfMalformedCancels, "acp", vec!["client-asked/cancel-malformed"]),
        (AnswersMalformedCancels, "acp", vec!["client-asked/cancel-malformed"]),
        (CancelsItsOwn, "acp", vec!["client-asked/cancel-theirs"]),
        (DiesOfManyCancels, "acp", vec!["client-load/burst"]),
        (DropsWhatDoesNotFit, "acp", vec!["client-load/output-full"]),
        (PrintsBanner, "acp", vec!["client-output/clean"]),
        (AnswersNobody, "acp", vec!["client-output/clean"]),
        (OmitsTheVersion, "acp", vec!["client-output/clean"]),
        (ReusesIds, "mcp", vec!["client-output/ids"]),
        (StaysAfterTheEnd, "acp", vec!["client-end/pending", "client-end/orphan"]),
        (LeavesAnOrphan, "acp", vec!["client-end/orphan"]),
    ]
}

fn tests_all() -> bool {
    env::var_os("RESCIND_EVERY_CHECK").is_some()
}

fn test(fault: Fault, dialect: &str, expected: &[&str]) -> Report {
    let own = env::current_exe().expect("this is a program");
    let words = ["client", &format!("{fault:?}"), dialect].map(Into::into);
    let command = [vec![own.into()], words.to_vec()].concat();
    let mut options = ClientOptions::new(Dialect::named(dialect).expect("there is such a dialect"));
    options.ask = Some(Request::new("sleep", json!({ "ms": "$MS" })));
    options.ask_ms = 1000;
    options.trigger = Some(Request::new("stop", json!({})));
    options.suite.jobs = 8;
    // Longer than the grace of what a client leaves behind.
    options.suite.patience = Duration::from_secs(12);
    if !tests_all() {
        // None of them means all: those of a right client.
        options.suite.only = expected.iter().map(|id| (*id).into()).collect();
    }
    let target = ClientProgram::new(Program::new(command), vec![]);
    run_client(&target, &options, |_| {}).expect("it makes a request")
}

/// Asserts that no cancel is blamed for a request of ours that the client does not know.
fn a_request_of_ours_may_be_unknown() -> Result<(), Failed> {
    let own = env::current_exe()?;
    let command = vec![own.into(), "client".into(), format!("{None:?}").into(), "acp".into()];
    let mut options = ClientOptions::new(Dialect::ACP_V1);
    options.ask = Some(Request::new("conformance/unknown", json!({ "ms": "$MS" })));
    options.trigger = Some(Request::new("stop", json!({})));
    options.suite.only = vec!["client-asked".into()];
    fail(&run_client(&ClientProgram::new(Program::new(command), vec![]), &options, |_| {})?, &[])
}

/// Asserts that a client which has answered a flood may be busy for longer than the tester is patient.
fn a_client_may_work_after_many_requests() -> Result<(), Failed> {
    let own = env::current_exe()?;
    let words = ["client", &format!("{WorksAfterMany:?}"), "acp"].map(Into::into);
    let mut options = ClientOptions::new(Dialect::ACP_V1);
    options.trigger = Some(Request::new("stop", json!({})));
    options.suite.only = vec!["client-load/output-full".into()];
    // What is at work gets six times as long.
    options.suite.patience = Duration::from_secs(1);
    let command = [vec![own.into()], words.to_vec()].concat();
    let report = run_client(&ClientProgram::new(Program::new(command), vec![]), &options, |_| {})?;
    fail(&report, &[])?;
    are_tried(&report)
}

fn finds(fault: Fault, dialect: &'static str, expected: &[&str]) -> Result<(), Failed> {
    let report = test(fault, dialect, expected);
    fail(&report, expected)?;
    // Of a right client everything is seen that applies: none of its passes is for want of a chance to fail.
    if fault == None { are_tried(&report) } else { Ok(()) }
}

/// Asserts that each check is the reason for a planted fault.
fn every_check_has_a_fault() -> Result<(), Failed> {
    let planted = planted();
    let without: Vec<&str> = (CLIENT_CHECKS.iter().map(|check| check.id))
        .filter(|id| !planted.iter().any(|(_, _, finds)| finds.first() == Some(id)))
        .collect();
    match without[..] {
        [] => Ok(()),
        _ => Err(format!("no fault is planted for {without:?}").into()),
    }
}

/// Asserts that a client program which starts its server gets the tester for one. The output of the program
/// itself holds none of its messages.
fn a_client_that_starts_its_server() -> Result<(), Failed> {
    let report = of_starting(None, &["client-cancel", "client-output", "client-end"])?;
    fail(&report, &[])?;
    are_tried(&report)
}

/// Asserts that what is between such a client and the tester is filled, though that are sockets too.
fn a_client_that_starts_its_server_and_drops_what_does_not_fit() -> Result<(), Failed> {
    let id = "client-load/output-full";
    fail(&of_starting(DropsWhatDoesNotFit, &[id])?, &[id])
}

/// Returns the report on a client with a fault that starts its server.
fn of_starting(fault: Fault, only: &[&str]) -> Result<Report, Failed> {
    let own = env::current_exe()?;
    let bridged = vec![own.clone().into(), "bridge".into()];
    let starts = ["starts", &format!("{fault:?}"), "acp", SERVER].map(Into::into);
    let target =
        ClientProgram::new(Program::new([vec![own.into()], starts.to_vec()].concat()), bridged);
    let mut options = ClientOptions::new(Dialect::ACP_V1);
    options.trigger = Some(Request::new("stop", json!({})));
    options.suite.only = only.iter().map(|id| (*id).into()).collect();
    options.suite.patience = Duration::from_secs(5);
    Ok(run_client(&target, &options, |_| {})?)
}

/// Starts a server, and joins it with the planted client, as a client does that starts its server.
fn start_server(fault: &str, dialect: &str, server: &[&str]) {
    use std::process::{Command, Stdio};
    println!("this is what a program says that is a client, not what a client says");
    let own = env::current_exe().expect("this is a program");
    let mut server = Command::new(server[0])
        .args(&server[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the server can be started");
    let status = Command::new(own)
        .args(["client", fault, dialect])
        .stdin(server.stdout.take().expect("it is piped"))
        .stdout(server.stdin.take().expect("it is piped"))
        .status()
        .expect("it is this program");
    // It has lost its client, and ends.
    let _ = server.wait();
    std::process::exit(status.code().unwrap_or(1));
}

/// Is a client with a fault, or one that starts its server, or its bridge, if the arguments say so.
pub(crate) fn plays(arguments: &[&str]) -> bool {
    match *arguments {
        [_, "client", fault, dialect] => {
            let mut faults = planted().into_iter().map(|(fault, ..)| fault).chain([WorksAfterMany]);
            let fault = faults.find(|it| format!("{it:?}") == fault);
            client::run(fault.expect("it is planted"), dialect);
        }
        [_, "starts", fault, dialect, ref server @ ..] => start_server(fault, dialect, server),
        [_, "bridge", address] => bridge(address).expect("the tester listens"),
        _ => return false,
    }
    true
}

/// Returns the clients whose turn it is.
pub(crate) fn trials(turn: usize) -> Vec<Trial> {
    // Each starts some processes, and with every check some hundred: by itself it tries a sample.
    let tests_every_fault = tests_all() || env::var_os("RESCIND_EVERY_FAULT").is_some();
    let step = if tests_every_fault { 1 } else { 6 };
    let chosen = planted().into_iter().skip(turn % step).step_by(step);
    let mut trials: Vec<Trial> = chosen
        .map(|(fault, dialect, expected)| {
            Trial::test(format!("{fault:?} in {dialect}"), move || finds(fault, dialect, &expected))
        })
        .collect();
    trials.insert(
        0,
        Trial::test(
            "a_client_that_starts_its_server_and_drops_what_does_not_fit",
            a_client_that_starts_its_server_and_drops_what_does_not_fit,
        ),
    );
    trials.push(Trial::test("every_check_has_a_fault", every_check_has_a_fault));
    trials.push(Trial::test("a_client_that_starts_its_server", a_client_that_starts_its_server));
    trials.push(Trial::test("a_request_of_ours_may_be_unknown", a_request_of_ours_may_be_unknown));
    trials.push(Trial::test(
        "a_client_may_work_after_many_requests",
        a_client_may_work_after_many_requests,
    ));
    trials.into_iter().map(|trial| trial.with_kind("client")).collect()
}
