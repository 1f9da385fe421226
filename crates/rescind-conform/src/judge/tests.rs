//! Each rule on records that are made by hand, one for each way in which it holds or is broken.

mod time;

use std::time::Duration;

use protocol_core::Dialect;
use serde_json::json;

use crate::facts::Facts;
use crate::judge::rules::Rule;
use crate::play::Play;
use crate::session::Session;
use crate::target::Link;
use crate::tests as by_hand;
use crate::wire::Wire;

/// Returns the fault that a rule finds in a record.
///
/// The record is written in words, with `;` between its entries: `ask a 7` is our request `a` under id 7, `crowd 7` one
/// without a name, `next 7` a next request, `cancel 7` its cancel; `work a 7 s` is work `s` that request 7 begins, `stop 8`
/// its stop; `result 7` and `error 7 -32603` are answers; and what begins with a brace is what the server says.
pub(super) fn broken(dialect: &str, rule: Rule, record: &str) -> Option<String> {
    any_broken(dialect, &[rule], record)
}

/// The same of some rules.
pub(super) fn any_broken(dialect: &str, rules: &[Rule], record: &str) -> Option<String> {
    let facts = Facts::unknown(Dialect::named(dialect).expect("there is such a dialect"));
    by_hand::broken(&played(&facts, record), rules)
}

fn played<'f>(facts: &'f Facts, record: &str) -> Play<'f> {
    played_for(facts, 1, record)
}

/// The same of requests that are asked to take so many milliseconds.
fn played_for<'f>(facts: &'f Facts, slow_ms: u64, record: &str) -> Play<'f> {
    let link = Link::new(std::io::empty(), std::io::sink(), None);
    let session = Session::new(link, Wire::new(facts.dialect.clone()), Duration::ZERO, None);
    let mut play = Play::new(session, facts, 1, slow_ms);
    for entry in record.split(';') {
        by_hand::add(&mut play, entry.trim());
    }
    play
}

#[track_caller]
fn holds(dialect: &str, rule: Rule, records: &[&str]) {
    by_hand::holds(|record| broken(dialect, rule, record), records);
}

/// Each record breaks the rule, and that is said in these words.
#[track_caller]
fn breaks(dialect: &str, rule: Rule, records: &[(&str, &str)]) {
    by_hand::breaks(|record| broken(dialect, rule, record), records);
}

const A: Rule = Rule::Ended('a');

#[test]
fn a_cancelled_request_ends_once_where_it_is_answered() {
    holds(
        "acp",
        A,
        &[
            "ask a 7; cancel 7; error 7 -32800",
            "ask a 7; cancel 7; result 7",
            "ask a 7; cancel 7; error 7 -32603; result 8",
        ],
    );
    breaks(
        "acp",
        A,
        &[
            ("ask b 7; result 7", "unclear: request a was not made"),
            (
                "ask a 7; cancel 7; result 8",
                "request 7 is never answered; there is an answer under id 8",
            ),
            ("ask a 7; cancel 7", "request 7 is never answered"),
            ("ask a 7; ask b 8; cancel 7; result 8", "request 7 is never answered"),
            (
                "ask a 7; cancel 7; result \"7\"",
                "request 7 is never answered; there is an answer under id \"7\"",
            ),
            (
                "ask a 7; ask b \"7\"; result 9; result \"7\"",
                "request 7 is never answered; there is an answer under id \"7\"",
            ),
            (
                "ask a 7; cancel 7; result 7; error 7 -32800",
                "request 7 is answered twice: a result, then error -32800",
            ),
        ],
    );
    breaks(
        "abp",
        A,
        &[(
            r#"ask a "7"; {"type":"capabilities/call-result","id":"7","payload":{"cancelled":true}}; {"type":"capabilities/call-result","id":"7","payload":{}}"#,
            "request \"7\" is answered twice: cancelled, then a result",
        )],
    );
}

#[test]
fn a_cancelled_request_ends_in_silence_where_the_protocol_wants_that() {
    holds("mcp", A, &["ask a 7; cancel 7", "ask a 7; cancel 7; next 9; result 9"]);
    breaks(
        "mcp",
        A,
        &[(
            "ask a 7; cancel 7; error 7 -32800",
            "request 7 was cancelled, and is answered: error -32800",
        )],
    );
}

#[test]
fn an_answer_to_a_cancelled_request_says_so_or_is_its_result() {
    let rule = Rule::AnsweredAsCancelled('a');
    holds("acp", rule, &["ask a 7; error 7 -32800", "ask a 7; result 7"]);
    // The document is changed for the work that is done once more.
    holds("lsp", rule, &["ask a 7; error 7 -32801", "ask a 7; error 7 -32802"]);
    breaks(
        "acp",
        rule,
        &[
            ("ask a 7", "request 7 is never answered"),
            ("ask a 7; error 7 -32801", "request 7 was cancelled, and is answered: error -32801"),
            ("ask a 7; error 7 -32802", "request 7 was cancelled, and is answered: error -32802"),
            ("ask a 7; error 7 -32603", "request 7 was cancelled, and is answered: error -32603"),
        ],
    );
}

#[test]
fn what_was_not_cancelled_is_answered_once_and_not_as_cancelled() {
    let rule = Rule::Undisturbed('a');
    holds("acp", rule, &["ask a 7; result 7", "ask a 7; error 7 -32603"]);
    let as_cancelled = "request 7 was not cancelled, and is answered as cancelled";
    breaks(
        "acp",
        rule,
        &[
            ("ask a 7; error 7 -32800", as_cancelled),
            ("ask a 7", "request 7 is never answered"),
            ("ask a 7; result 7; result 7", "request 7 is answered twice: a result, then a result"),
        ],
    );
    let rule = Rule::AnsweredOnce('a');
    holds("acp", rule, &["ask a 7; error 7 -32800"]);
    breaks("acp", rule, &[("ask a 7", "request 7 is never answered")]);
    let rule = Rule::OthersUndisturbed;
    holds("acp", rule, &["crowd 7; crowd 8; cancel 8; result 7; error 8 -32800", "ask a 9"]);
    breaks("acp", rule, &[("crowd 7; crowd 8; cancel 8; error 7 -32800", as_cancelled)]);
}

#[test]
fn honoured_is_what_says_so_or_comes_before_what_was_asked_first() {
    let rule = Rule::Honoured('a', 'b');
    holds(
        "acp",
        rule,
        &[
            "ask b 8; ask a 7; error 7 -32800",
            "ask b 8; ask a 7; result 8; error 7 -32800",
            "ask b 8; ask a 7; result 7; result 8",
        ],
    );
    holds("lsp", rule, &["ask b 8; ask a 7; result 8; error 7 -32801"]);
    let other = |code: &str| {
        format!(
            "request 7 is answered with error {code}, which does not say that it was cancelled: whether the work was stopped can't be told (no protocol makes that a MUST)"
        )
    };
    breaks(
        "acp",
        rule,
        &[
            ("ask b 8; ask a 7; error 7 -32801; result 8", &other("-32801")),
            (
                "ask b 8; ask a 7; result 8; result 7",
                "request 7 is answered with a result, after request 8 that was asked first",
            ),
            (
                "ask b 8; ask a 7; result 7",
                "request 7 is answered with a result, after request 8 that was asked first",
            ),
            ("ask b 8; ask a 7; result 8", "request 7 is never answered"),
            ("ask a 7; error 7 -32800", "unclear: request b was not made"),
            ("ask b 8; error 8 -32800", "unclear: request a was not made"),
        ],
    );
    breaks("lsp", rule, &[("ask b 8; ask a 7; error 7 -32603; result 8", &other("-32603"))]);
}

#[test]
fn a_result_is_whole_if_it_is_at_least_half_of_one_without_a_cancel() {
    let rule = Rule::Whole('a', 'b');
    // With its quotes a result of eight letters has ten bytes.
    holds(
        "acp",
        rule,
        &[
            "ask a 7; ask b 8; result 7 xxx; result 8 xxxxxxxx",
            "ask a 7; ask b 8; error 7 -32800; result 8 xxxxxxxx",
            "ask a 7; ask b 8; result 7 xx",
            "ask a 7; ask b 8; result 7 xxxxxxxx; result 8 xxx",
        ],
    );
    breaks(
        "acp",
        rule,
        &[(
            "ask a 7; ask b 8; result 7 xx; result 8 xxxxxxxx",
            "request 7 is answered with a result of 4 bytes; without a cancel there are 10",
        )],
    );
}

#[test]
fn requests_that_are_alike_have_results_of_one_form() {
    let rule = Rule::SameResult(&['a'], 'b');
    holds(
        "acp",
        rule,
        &[
            "ask a 7; ask b 8; result 7 500; result 8 501",
            "ask a 7; ask b 8; result 7 more; error 8 -32603",
        ],
    );
    breaks(
        "acp",
        rule,
        &[(
            "ask a 7; ask b 8; result 7 more; result 8 less",
            "request 7 and request 8 ask for the same, and have the results \"more\" and \"less\"",
        )],
    );
}

#[test]
fn of_many_none_is_answered_twice_and_those_once_that_are_owed() {
    holds("acp", Rule::AllEnded, &["crowd 7; crowd 8; cancel 8; result 7; error 8 -32800"]);
    holds(
        "mcp",
        Rule::AllEnded,
        &["crowd 7; crowd 8; cancel 8; result 7", "crowd 7; cancel 7; result 7"],
    );
    let unanswered = "request 7 is never answered";
    breaks(
        "acp",
        Rule::AllEnded,
        &[
            ("crowd 7; cancel 7", unanswered),
            ("crowd 7", unanswered),
            ("ask a 7", unanswered),
            (
                "crowd 7; result \"7\"",
                "request 7 is never answered; there is an answer under id \"7\"",
            ),
            ("crowd 7; result 7; result 7", "request 7 is answered 2 times"),
        ],
    );
    breaks(
        "mcp",
        Rule::AllEnded,
        &[
            ("crowd 7", unanswered),
            ("crowd 7; cancel 7; result 7; result 7", "request 7 is answered 2 times"),
        ],
    );
}

#[test]
fn each_next_request_is_answered_once() {
    holds("acp", Rule::NextAnswered, &["next 7; next 8; result 8; error 7 -32800", "ask a 7"]);
    breaks(
        "acp",
        Rule::NextAnswered,
        &[
            ("next 7; result 7; next 8", "the next request, 8, is never answered"),
            ("next 7; result 7; result 7", "the next request, 7, is answered 2 times"),
        ],
    );
}

#[test]
fn numbers_of_messages_count_up_and_the_largest_is_no_panic() {
    let [one, two, largest] =
        [1, 2, i64::MAX].map(|seq| format!(r#"{{"seq":{seq},"type":"event","event":"output"}}"#));
    holds("dap", Rule::SeqCounts, &[&format!("{one}; {two}")]);
    let why = format!("after message {0} comes {0}", i64::MAX);
    breaks("dap", Rule::SeqCounts, &[(&format!("{largest}; {largest}"), &why)]);
}

#[test]
fn under_an_id_of_no_request_there_is_nothing() {
    holds("acp", Rule::NothingUnder("5"), &["ask a 7; result 7; result \"5\""]);
    holds("acp", Rule::NothingUnder("5"), &["error 5 -32600; sent"]);
    breaks(
        "acp",
        Rule::NothingUnder("5"),
        &[
            ("result 5", "under id 5 there is an answer: a result"),
            ("error 5 -32600", "under id 5 there is an answer: error -32600"),
        ],
    );
    let is_text = r#"{"type":"capabilities/call-result","id":"5","payload":{}}"#;
    breaks(
        "abp",
        Rule::NothingUnder("5"),
        &[(is_text, "under id \"5\" there is an answer: a result")],
    );
}

#[test]
fn what_merely_names_nothing_is_not_answered() {
    let rule = Rule::MalformedUnanswered;
    holds(
        "acp",
        rule,
        &[
            "quiet; next 7; result 7; loud",
            "quiet; loud; error null -32600",
            "error null -32600; quiet; loud",
        ],
    );
    let stray = "under id (none), of no request, there is an answer: error -32600";
    breaks(
        "acp",
        rule,
        &[("quiet; error null -32600; loud", stray), ("quiet; error null -32600", stray)],
    );
}

#[test]
fn everything_that_is_written_is_a_message_and_every_answer_one_to_a_request() {
    holds("acp", Rule::Clean, &[r#"ask a 7; result 7; {"method":"hello"}"#]);
    breaks(
        "acp",
        Rule::Clean,
        &[
            (
                "ask a 7; broken; result 7",
                "what it wrote is no message that it may write: not JSON, at byte 0",
            ),
            ("result 7", "under id 7, of no request, there is an answer: a result"),
        ],
    );
}

#[test]
fn an_answer_that_is_no_response_of_the_protocol_is_not_clean() {
    let no_response = |dialect: &str, message: &str| {
        let why = format!("the answer to request 7 is no response: {message}");
        breaks(dialect, Rule::Clean, &[(&format!("ask a 7; {message}"), &why)]);
    };
    for members in [
        r#""id":7,"result":{}"#,
        r#""jsonrpc":"1.0","id":7,"result":{}"#,
        r#""jsonrpc":"2.0","id":7,"error":"no""#,
        r#""jsonrpc":"2.0","id":7,"error":{"code":-32603}"#,
        r#""jsonrpc":"2.0","id":7,"error":{"code":"no","message":"no"}"#,
        r#""jsonrpc":"2.0","id":7,"result":{},"error":{"code":-32603,"message":"no"}"#,
        r#""jsonrpc":"2.0","id":7,"result":{},"error":null"#,
    ] {
        no_response("acp", &format!("{{{members}}}"));
    }
    let response = r#""type":"response","seq":1,"request_seq":7"#;
    for members in [r#""success":true"#, r#""command":"a""#] {
        no_response("dap", &format!("{{{response},{members}}}"));
    }
    let whole = format!(r#"ask a 7; {{{response},"command":"a","success":false}}"#);
    holds("dap", Rule::Clean, &[&whole]);
    // Each kind of message has a form of its own.
    let answered = r#"ask a "7"; {"type":"capabilities/call-result","id":"7","payload":{}}"#;
    holds("abp", Rule::Clean, &[answered]);
}

#[test]
fn no_progress_comes_after_the_cancel_was_read() {
    let rule = Rule::NoProgressAfter('a');
    holds(
        "mcp",
        rule,
        &[
            "ask a 7; next 8; result 8; progress 7; cancel 7; progress 7; next 9; progress 7; result 9; progress 8",
        ],
    );
    breaks(
        "mcp",
        rule,
        &[
            (
                "ask a 7; cancel 7; next 9; result 9; progress 7; progress 7",
                "after the cancel of request 7 was read there is progress of it, 2 times",
            ),
            (
                "ask a 7; next 9; cancel 7; result 9; progress 7",
                "no request after the cancel was answered",
            ),
        ],
    );
}

#[test]
fn an_unknown_method_is_refused_as_one() {
    let rule = Rule::UnknownMethod('a');
    holds("acp", rule, &["ask a 7; error 7 -32601"]);
    breaks(
        "acp",
        rule,
        &[
            ("ask a 7; error 7 -32603", "it is answered: error -32603"),
            ("ask a 7; result 7", "it is answered: a result"),
            ("ask a 7", "request 7 is never answered"),
        ],
    );
}

#[test]
fn the_servers_own_request_is_cancelled_by_its_id_or_with_what_had_asked_for_it() {
    let cancels = |id: u8| {
        format!(
            r#"ask a 7; theirs 5; {{"method":"$/cancel_request","params":{{"requestId":{id}}}}}"#
        )
    };
    let as_cancelled = "ask a 7; theirs 5; error 7 -32800";
    holds("acp", Rule::TheirsCancelled, &[&cancels(5), as_cancelled]);
    let taken = "the server has taken it for a cancel of its own request";
    breaks("acp", Rule::TheirsUndisturbed, &[(&cancels(5), taken), (as_cancelled, taken)]);
    let untouched =
        [&cancels(6), "ask a 7; theirs 5; cancel 7; error 7 -32800", "ask a 7; theirs 5; result 7"];
    holds("acp", Rule::TheirsUndisturbed, &untouched);
    for record in untouched {
        breaks(
            "acp",
            Rule::TheirsCancelled,
            &[(record, "the server does not cancel its own request 5")],
        );
    }
    breaks("acp", Rule::TheirsCancelled, &[("ask a 7", "the server asked nothing of us")]);
}

#[test]
fn a_server_ends_by_itself_and_leaves_nothing() {
    holds("acp", Rule::Exited, &["ended cleanly", "ended pushed"]);
    holds("acp", Rule::NoOrphan, &["ended cleanly"]);
    let left = "something that the server had started was left, and had to be ended";
    breaks(
        "acp",
        Rule::NoOrphan,
        &[("ended pushed", left), ("next 7", "the server has not ended")],
    );
    breaks("acp", Rule::Exited, &[("next 7", "the server has not ended")]);
}

#[test]
fn a_cancel_is_acknowledged_once_with_what_it_found() {
    let said = |id: &str, cancelled: bool| {
        let kind = "capabilities/cancel-result";
        json!({ "type": kind, "id": "c", "payload": { "callId": id, "cancelled": cancelled } })
            .to_string()
    };
    let (found, nothing, another) = (said("7", true), said("7", false), said("8", true));
    let asked = r#"ask a "7"; cancel "7""#;
    let rule = Rule::Acknowledged('a', true);
    holds("abp", rule, &[&format!("{asked}; {found}; {another}")]);
    holds("abp", Rule::Acknowledged('a', false), &[&format!("{asked}; {nothing}")]);
    breaks(
        "abp",
        rule,
        &[
            (
                &format!("{asked}; {nothing}"),
                "the cancel of \"7\" is answered with cancelled: false",
            ),
            (&format!("{asked}; {another}"), "the cancel of \"7\" is never answered"),
            (&format!("{asked}; {found}; {nothing}"), "the cancel of \"7\" is answered 2 times"),
        ],
    );
    // In DAP the cancel, which is number 99 here, has an answer of its own, which does not say what it has found.
    let answer =
        r#"{"type":"response","seq":1,"request_seq":99,"command":"cancel","success":true}"#;
    holds("dap", rule, &[&format!("ask a 7; cancel 7; {answer}")]);
    breaks(
        "dap",
        rule,
        &[
            ("ask a 7", "nothing was cancelled"),
            ("ask a 7; cancel 7", "the cancel of 7 is never answered"),
            (
                &format!("ask a 7; cancel 7; {answer}; {answer}"),
                "the cancel of 7 is answered 2 times",
            ),
        ],
    );
}

#[test]
fn f118_a_response_that_came_before_its_cancel_was_read_says_nothing() {
    let unclear = "unclear: request 7 was answered before its cancel was seen to be read";
    // A request that was sent after the cancel and is answered is the witness.
    let answered = "request 7 was cancelled, and is answered: a result";
    breaks(
        "mcp",
        A,
        &[
            ("ask a 7; cancel 7; result 7; next 8; result 8", unclear),
            ("ask a 7; next 8; cancel 7; result 8; result 7", unclear),
            ("ask a 7; cancel 7; next 8; result 8; result 7", answered),
        ],
    );
    // A server that was not seen to read on is always done first.
    holds("acp", A, &["ask a 7; cancel 7; result 7; next 8; result 8"]);
}

#[test]
fn f115_a_turn_that_was_cancelled_may_say_so_in_its_result() {
    let result = r#"ask a 7; cancel 7; {"id":7,"result":{"stopReason":"cancelled"}}"#;
    holds("acp", Rule::AnsweredAsCancelled('a'), &[result]);
    let why = "request 7 was not cancelled, and is answered as cancelled";
    breaks("acp", Rule::Undisturbed('a'), &[(result, why)]);
}

#[test]
fn f117_ids_are_compared_by_their_value() {
    holds(
        "acp",
        A,
        &[r#"ask a "réq"; cancel "réq"; error "r\u00e9q" -32800"#, "ask a 7; result 7.0"],
    );
    breaks(
        "acp",
        A,
        &[(
            r#"ask a 7; result "7""#,
            r#"request 7 is never answered; there is an answer under id "7""#,
        )],
    );
}
