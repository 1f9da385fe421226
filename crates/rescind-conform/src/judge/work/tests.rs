//! The rules about work on records that are made by hand.

use crate::check::WorkEnd;
use crate::checks::CHECKS;
use crate::judge::rules::Rule;
use crate::judge::tests::any_broken;
use crate::tests::{breaks, holds};

const ASKED: &str = "ask a 7; work a 7 s; ";

fn judged(dialect: &str, rule: Rule) -> impl Fn(&str) -> Option<String> {
    judged_by(dialect, vec![rule])
}

/// By all rules of a check.
fn checked(dialect: &str, id: &str) -> impl Fn(&str) -> Option<String> {
    let check = CHECKS.iter().find(|check| check.id == id).expect(id);
    judged_by(dialect, check.rules.to_vec())
}

fn judged_by(dialect: &str, rules: Vec<Rule>) -> impl Fn(&str) -> Option<String> {
    move |record| {
        let state = |state: &str, more: &str| {
            format!(
                r#"{{"method":"session/update","params":{{"sessionId":"s","update":{{"state":"{state}"{more}}}}}}}"#
            )
        };
        let kind = |kind: &str| {
            format!(
                r#"{{"method":"$/progress","params":{{"token":"s","value":{{"kind":"{kind}"}}}}}}"#
            )
        };
        let task =
            |id: &str, status: &str| format!(r#"{{"id":{id},"result":{{"status":"{status}"}}}}"#);
        let words =
            record.split("; ").map(|entry| match entry.split(' ').collect::<Vec<_>>()[..] {
                ["running"] => state("running", ""),
                ["idle"] => state("idle", ""),
                ["idle", reason] => state("idle", &format!(r#","stopReason":"{reason}""#)),
                ["task", id, status] => task(id, status),
                [word @ ("begin" | "report" | "end")] => kind(word),
                _ => entry.to_owned(),
            });
        any_broken(dialect, &rules, &words.collect::<Vec<_>>().join(";"))
    }
}

#[test]
fn a_turn_of_version_2_ends_when_its_session_is_idle_and_not_by_the_response() {
    let [answered, honoured] = [Rule::StopAnswered('a'), Rule::StopHonoured('a')];
    let stopped = format!("{ASKED}running; result 7; stop 8; idle cancelled");
    holds(judged("acp-v2", answered), &[&stopped]);
    holds(judged("acp-v2", honoured), &[&stopped]);
    breaks(
        judged("acp-v2", answered),
        &[
            (&format!("{ASKED}running; result 7; stop 8"), "turn 7 was stopped, and never ends"),
            // It was idle before the turn began.
            (
                &format!("{ASKED}idle cancelled; running; result 7; stop 8"),
                "turn 7 was stopped, and never ends",
            ),
            (
                &format!("{ASKED}running; result 7; idle error"),
                "turn 7 was stopped, and ends with an error",
            ),
            (&format!("{ASKED}running; idle cancelled"), "request 7 is never answered"),
        ],
    );
    let finished = judged("acp-v2", Rule::WorkFinished('a'));
    assert_eq!(finished(&format!("{ASKED}running; result 7; idle end_turn")), None);
    let why = finished(&format!("{ASKED}running; result 7; idle cancelled"));
    assert_eq!(why.as_deref(), Some("work 7 was not stopped, and ends with a result"));
}

#[test]
fn a_task_is_cancelled_by_the_first_stop_and_each_later_one_is_refused() {
    let answered = Rule::StopAnswered('a');
    // It may have ended before the stop was read, whatever comes first.
    let late = ["result 7; error 8 -32602", "error 8 -32602; result 7"]
        .map(|it| format!("{ASKED}stop 8; {it}"));
    let unclear = "unclear: work 7 may have been over when the stop was read";
    let [first, second] = &late;
    let each = [(first.as_str(), unclear), (second.as_str(), unclear)];
    breaks(checked("mcp-2025-11-25", "stop/answer"), &each);
    holds(
        judged("mcp-2025-11-25", answered),
        &[
            first,
            second,
            &format!("{ASKED}stop 8; task 8 cancelled; error 7 -32603; stop 9; error 9 -32602"),
            // Two at once: either may be the first.
            &format!("{ASKED}stop 8; stop 9; error 8 -32602; task 9 cancelled; error 7 -32603"),
        ],
    );
    let stop = "tasks/cancel 8 of a task that runs is answered with";
    breaks(
        judged("mcp-2025-11-25", answered),
        &[
            (&format!("{ASKED}stop 8; task 8 working; result 7"), &format!("{stop} a result")),
            (&format!("{ASKED}stop 8; error 8 -32601; result 7"), &format!("{stop} error -32601")),
            (&format!("{ASKED}stop 8; result 7"), "tasks/cancel 8 is never answered"),
            (&format!("{ASKED}stop 8; task 8 cancelled"), "request 7 is never answered"),
            (
                &format!("{ASKED}stop 8; task 8 cancelled; error 7 -1; stop 9; task 9 cancelled"),
                "tasks/cancel 9 of what does not run is answered with a result",
            ),
        ],
    );
    let quiet = judged("mcp-2025-11-25", Rule::QuietAfter('a'));
    let cancelled = format!("{ASKED}stop 8; task 8 cancelled; error 7 -32603; status 9; ");
    assert_eq!(quiet(&format!("{cancelled}task 9 cancelled")), None);
    assert_eq!(quiet(&format!("{cancelled}error 9 -32602")), None);
    let why = quiet(&format!("{cancelled}task 9 completed"));
    assert_eq!(why.as_deref(), Some("the stopped task \"s\" has status \"completed\""));
}

#[test]
fn a_progress_ends_once_and_nothing_is_reported_after_that() {
    let progress = format!("{ASKED}begin; report; stop 8; end");
    for rule in [Rule::StopAnswered('a'), Rule::QuietAfter('a'), Rule::WorkFinished('a')] {
        assert_eq!(judged("lsp", rule)(&progress), None, "{rule:?}");
    }
    // Its other work, `b`, is the one of request 9.
    let sooner = judged("lsp", Rule::StoppedBefore('a', 'b'));
    let other = |kind| {
        format!(r#"{{"method":"$/progress","params":{{"token":"o","value":{{"kind":"{kind}"}}}}}}"#)
    };
    let both = format!("ask b 9; work b 9 o; {}; {ASKED}begin; ", other("begin"));
    let [begun, over] =
        [format!("{both}cancel 7; "), format!("{both}{}; cancel 7; ", other("end"))];
    assert_eq!(sooner(&format!("{begun}end; {}", other("end"))), None);
    let why = sooner(&format!("{begun}{}; end", other("end")));
    assert_eq!(why.as_deref(), Some("unclear: the other work was about to end"));
    let reports = vec![other("report"); 3].join("; ");
    let seen = format!("next 20; result 20; {reports}; {}; end", other("end"));
    let why = sooner(&format!("{begun}{seen}"));
    assert_eq!(why.as_deref(), Some("unclear: the stopped work was not seen at work"));
    let why = sooner(&format!("{begun}report; {seen}"));
    assert_eq!(why.as_deref(), Some("the stopped work ends after work that was begun before it"));
    let why = sooner(&format!("{over}end"));
    assert_eq!(why.as_deref(), Some("unclear: the other work ended before the stop was sent"));
    let twice = judged("lsp", Rule::StopAnswered('a'))(&format!("{progress}; end"));
    assert_eq!(twice.as_deref(), Some("progress \"s\" was stopped, and ends 2 times"));
    let after = judged("lsp", Rule::QuietAfter('a'))(&format!("{progress}; report"));
    assert_eq!(after.as_deref(), Some("after the end of work 7 there are 1 reports of it"));
    let own = judged("lsp", Rule::QuietAfterResponse('a'));
    assert_eq!(own(&format!("{ASKED}begin; end; result 7")), None);
    let why = own(&format!("{ASKED}begin; result 7; report"));
    assert_eq!(why.as_deref(), Some("after the response to request 7 there are 1 reports of it"));
}

#[test]
fn a_stop_shows_nothing_of_work_that_may_have_been_over_when_it_was_read() {
    let late = "unclear: work 7 may have been over when the stop was read";
    let turn = format!("{ASKED}stop 8; cancel 7; next 9; ");
    let end = |reason: &str| format!(r#"{{"id":7,"result":{{"stopReason":"{reason}"}}}}"#);
    for id in ["stop/answer", "stop/twice", "stop/quiet"] {
        let judged = checked("acp", id);
        let quick = format!("{turn}{}; result 9", end("end_turn"));
        assert_eq!(judged(&quick).as_deref(), Some(late), "{id}");
        assert_eq!(judged(&format!("{turn}result 9; {}", end("end_turn"))), None, "{id}");
        assert_eq!(judged(&format!("{turn}{}; result 9", end("cancelled"))), None, "{id}");
    }
    let session = format!("{ASKED}running; result 7; stop 8; cancel 7; next 9; ");
    for id in ["stop/answer", "stop/twice", "stop/quiet", "stop/uninserted"] {
        let judged = checked("acp-v2", id);
        let more = format!("ask b 10; result 10; {session}");
        assert_eq!(
            judged(&format!("{more}idle end_turn; result 9")).as_deref(),
            Some(late),
            "{id}"
        );
        assert_eq!(judged(&format!("{more}result 9; idle end_turn")), None, "{id}");
        assert_eq!(judged(&format!("{more}idle cancelled; result 9")), None, "{id}");
    }
    let task = format!("{ASKED}stop 8; cancel 7; next 9; error 8 -32602; result 9; result 7");
    assert_eq!(checked("mcp-2025-11-25", "stop/quiet")(&task).as_deref(), Some(late));
}

#[test]
fn other_work_is_spared_only_by_a_stop_that_was_read_while_it_ran() {
    let spares = checked("acp", "stop/spares-others");
    let both = format!("{ASKED}ask b 10; work b 10 t; stop 8; cancel 7; next 9; ");
    let cancelled = r#"{"id":7,"result":{"stopReason":"cancelled"}}"#;
    let late = "unclear: work 10 may have been over when the stop was read";
    assert_eq!(spares(&format!("{both}result 10; {cancelled}; result 9")).as_deref(), Some(late));
    assert_eq!(spares(&format!("{both}result 7; result 10; result 9")).as_deref(), Some(late));
    assert_eq!(spares(&format!("{both}{cancelled}; result 10; result 9")), None);
    assert_eq!(spares(&format!("{both}result 7; result 9; result 10")), None);
    let read =
        |left| format!("barely late; {both}wait 9; result 9; wait {left}; result 10; {cancelled}");
    let ending = "unclear: work 10 was not seen to go on after the stop";
    assert_eq!(spares(&read(8)).as_deref(), Some(ending));
    assert_eq!(spares(&read(9)), None);
}

#[test]
fn other_progress_is_spared_if_it_is_seen_to_go_on() {
    let spares = checked("lsp", "stop/spares-others");
    let other = |kind: &str| {
        format!(r#"{{"method":"$/progress","params":{{"token":"o","value":{{"kind":"{kind}"}}}}}}"#)
    };
    let (begin, report, end) = (other("begin"), other("report"), other("end"));
    let both = format!("{ASKED}ask b 10; work b 10 o; begin; {begin}; {report}; {report}");
    let read = format!("{both}; stop 8; cancel 7; next 9; result 9; end; {report}; {report}; ");
    let ending = "unclear: work 10 was not seen to go on after the stop";
    assert_eq!(spares(&format!("{read}{end}")).as_deref(), Some(ending));
    assert_eq!(spares(&format!("{read}{report}; {end}")), None);
}

#[test]
fn a_progress_that_is_cut_short_shows_that_its_stop_was_read() {
    let late = "unclear: work 7 may have been over when the stop was read";
    let other = |kind: &str| {
        format!(r#"{{"method":"$/progress","params":{{"token":"o","value":{{"kind":"{kind}"}}}}}}"#)
    };
    let whole = format!(
        "ask t 11; work t 11 o; {}",
        ["begin", "report", "report", "report", "end"].map(other).join("; ")
    );
    for id in ["stop/answer", "stop/twice", "stop/quiet"] {
        let judged = checked("lsp", id);
        let stopped = format!("{ASKED}begin; stop 8; cancel 7; next 9; ");
        assert_eq!(judged(&format!("{stopped}end; result 9; {whole}")), None, "{id}");
        assert_eq!(judged(&format!("{stopped}report; result 9; end")), None, "{id}");
        let quick = format!("{stopped}report; end; result 9; {whole}");
        assert_eq!(judged(&quick).as_deref(), Some(late), "{id}");
    }
    let own = checked("lsp", "stop/own-token");
    let asked = format!("{ASKED}begin; cancel 7; next 9; ");
    let late = "unclear: request 7 was answered before its cancel was seen to be read";
    assert_eq!(own(&format!("{asked}end; result 7; result 9")).as_deref(), Some(late));
    assert_eq!(own(&format!("{asked}end; result 9; result 7")), None);
    assert_eq!(own(&format!("{asked}end; error 7 -32800; result 9")), None);
}

#[test]
fn work_has_ended_as_the_witness_tells_and_without_one_nobody_knows() {
    let (cancelled, finished) = ("ask a 7; told cancelled", "ask a 7; told finished");
    let goes_on = || judged("mcp-2025-11-25-http", Rule::EndedAs('a', WorkEnd::Finished));
    let is_cancelled = || judged("mcp-2026-07-28-http", Rule::EndedAs('a', WorkEnd::Cancelled));
    holds(goes_on(), &[finished]);
    holds(is_cancelled(), &[cancelled, "ask a 7; told at once cancelled"]);
    let unknown = ("ask a 7", "unclear: nobody knows how the work of request 7 ended");
    let over =
        ("ask a 7; told at once finished", "unclear: the work of request 7 may have been over");
    let lost = (cancelled, "the work of request 7 was cancelled");
    breaks(goes_on(), &[lost, unknown, over]);
    let ignored = (finished, "the work of request 7 went on to its end");
    breaks(is_cancelled(), &[ignored, unknown, over]);
}
