//! Each rule on records that are made by hand, one for each way in which it holds or is broken.

use std::time::Duration;

use protocol_core::Dialect;
use serde_json::Value;

use crate::client::facts::ClientFacts;
use crate::client::serve::{Held, Serving};
use crate::judge::rules::Rule;
use crate::options::ClientOptions;
use crate::play::Play;
use crate::session::{Session, What};
use crate::target::Link;
use crate::tests::{self as by_hand, hear, push};
use crate::wire::{Asked, Wire};

/// Returns the fault that a rule finds in a record.
///
/// The record is written in words, with `;` between its entries: `asked 7` is a request of the client's, `held 7` the one
/// that is left unanswered, `answer 7` our answer and `cancels 7` the client's cancel; `ask a 7` is our request `a`,
/// `crowd 7` one without a name, `next 7` a next request, `cancel 7` our cancel; `result 7` and `error 7 -32603`
/// are answers of the client; and what begins with a brace is what the client says.
fn broken(dialect: &str, rule: Rule, record: &str) -> Option<String> {
    let options = ClientOptions::new(Dialect::named(dialect).expect("there is such a dialect"));
    let facts = ClientFacts::unknown(&options);
    let link = Link::new(std::io::empty(), std::io::sink(), None);
    let wire = Wire::to_client(options.dialect.clone());
    let session = Session::new(link, wire, Duration::ZERO, Some(Serving::new(options)));
    let mut play = Play::with_client(session, &facts, 1, 1);
    for entry in record.split(';') {
        add(&mut play, entry.trim());
    }
    by_hand::broken(&play, &[rule])
}

fn add(play: &mut Play<'_>, entry: &str) {
    let at = play.session.record.len();
    match entry.split(' ').collect::<Vec<_>>()[..] {
        ["asked" | "held", id] => {
            let asked = Asked::new(id, "work", Value::Null);
            let serving = play.session.serving.as_mut().expect("we are its server");
            if entry.starts_with("held") {
                serving.held = Some(Held { asked: asked.clone(), answered_at: None });
            }
            serving.asked.push((at, asked));
            hear(&mut play.session, &format!(r#"{{"id":{id},"method":"work"}}"#));
        }
        ["answer", id] => {
            let serving = play.session.serving.iter_mut();
            let held = serving.filter_map(|it| it.held.as_mut()).filter(|held| held.asked.id == id);
            held.for_each(|held| held.answered_at = Some(at));
            push(&mut play.session, What::Sent(format!(r#"{{"id":{id},"result":{{}}}}"#)));
        }
        ["cancels", id] => {
            let cancel = play.session.wire.cancel(id, "\"c\"");
            hear(&mut play.session, &cancel);
        }
        _ => by_hand::add(play, entry),
    }
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

#[test]
fn no_request_is_cancelled_twice() {
    let rule = Rule::CancelledOnce;
    holds("acp", rule, &["held 7", "held 7; cancels 7", "held 7; asked 8; cancels 7; cancels 8"]);
    breaks(
        "acp",
        rule,
        &[("held 7; cancels 7; cancels 8; cancels 7", "request 7 is cancelled a second time")],
    );
}

#[test]
fn a_cancel_names_a_request_that_came_before_it() {
    let rule = Rule::NamesRequest;
    holds(
        "acp",
        rule,
        &[
            "held 7; cancels 7",
            "asked 6; held 7; cancels 6",
            "held 7; cancels \"7\"",
            "held \"7\"; cancels 7",
        ],
    );
    let none = "a cancel names 8, which was never the id of a request";
    breaks(
        "acp",
        rule,
        &[
            ("cancels 7; held 7", "the cancel of request 7 comes before the request"),
            ("held 7; cancels 7; cancels 8", none),
            (r#"held 7; {"method":"$/cancel_request"}"#, "a cancel names nothing"),
            ("cancels 8", none),
        ],
    );
}

#[test]
fn a_cancel_names_its_request_as_that_was_written() {
    let rule = Rule::NamedAsWritten;
    // Of what was never an id another rule tells.
    holds(
        "acp",
        rule,
        &["held 7; cancels 7", "held 7; asked \"7\"; cancels \"7\"", "held 7; cancels 8"],
    );
    breaks(
        "acp",
        rule,
        &[
            ("held 7; cancels \"7\"", "request 7 is cancelled as \"7\""),
            ("held \"7\"; cancels 7", "request \"7\" is cancelled as 7"),
        ],
    );
}

#[test]
fn the_held_request_is_not_cancelled_where_nothing_asks_for_it() {
    let rule = Rule::NotCancelled;
    holds("acp", rule, &["held 7", "held 7; asked 8; cancels 8"]);
    breaks(
        "acp",
        rule,
        &[
            ("held 7; cancels 7", "request 7 is cancelled"),
            ("cancels 7; held 7", "request 7 is cancelled"),
        ],
    );
}

#[test]
fn an_answered_request_is_not_cancelled_once_the_answer_was_read() {
    let rule = Rule::NotCancelledAfterAnswer;
    holds(
        "acp",
        rule,
        &[
            "held 7; answer 7; next 9; cancels 7; result 9",
            "held 7; cancels 7; answer 7",
            "held 7; answer 7",
            "held 7; next 8; result 8; answer 7; cancels 7; next 9; result 9",
            "held 7; answer 7; next 9; result 9; cancels 8",
        ],
    );
    breaks(
        "acp",
        rule,
        &[
            ("held 7; answer 7; next 9; result 9; cancels 7", "request 7 is cancelled"),
            (
                "held 7; next 8; answer 7; next 9; result 8; result 9; cancels 7",
                "request 7 is cancelled",
            ),
            (
                "held 7; answer 7; next 9; result 9; next 10; cancels 7; result 10",
                "request 7 is cancelled",
            ),
        ],
    );
    let unclear = "unclear: the client may not have read the answer";
    let unread = ["held 7; answer 7; cancels 7", "held 7; answer 7; next 9; cancels 7"];
    breaks("acp", rule, &unread.map(|record| (record, unclear)));
}

#[test]
fn a_request_that_is_in_flight_can_still_be_cancelled() {
    let rule = Rule::StillInFlight;
    holds("acp", rule, &["held 7; cancels 7"]);
    let never = "request 7 is not cancelled, as it usually is: something was taken for its end";
    breaks("acp", rule, &[("held 7", never), ("held 7; asked 8; cancels 8", never)]);
    let none = "request (none) is not cancelled, as it usually is: something was taken for its end";
    breaks("acp", rule, &[("next 7", none)]);
}

#[test]
fn no_two_requests_in_flight_have_one_id() {
    let rule = Rule::IdsUnique;
    let twice = "two requests have the id 7";
    holds("acp", rule, &["asked 7; asked 8; asked \"7\"", "asked 7; answer 7; asked 7"]);
    breaks(
        "acp",
        rule,
        &[
            ("asked 7; asked 7", twice),
            ("asked 7; asked 7; answer 7", twice),
            ("asked 7; answer 8; asked 7", twice),
            ("asked 7; result 7; asked 7", twice),
        ],
    );
    for dialect in ["mcp", "mcp-2025-11-25"] {
        holds(dialect, rule, &["asked 7; answer 7; asked 8"]);
        breaks(dialect, rule, &[("asked 7; answer 7; asked 7", twice)]);
    }
}

#[test]
fn a_cancelled_request_of_ours_ends_as_the_protocol_wants() {
    let rule = Rule::Ended('a');
    holds("acp", rule, &["ask a 7; cancel 7; error 7 -32800", "ask a 7; cancel 7; result 7"]);
    breaks(
        "acp",
        rule,
        &[
            ("next 7", "unclear: request a was not made"),
            ("ask a 7; cancel 7", "our request 7 is never answered"),
            (
                "ask a 7; result 7; error 7 -32800",
                "our request 7 is answered twice: a result, then error -32800",
            ),
        ],
    );
    holds("mcp", rule, &["ask a 7; cancel 7"]);
    breaks(
        "mcp",
        rule,
        &[(
            "ask a 7; cancel 7; next 8; result 8; result 7",
            "our request 7 was cancelled, and is answered: a result",
        )],
    );
    let unclear = "unclear: our request 7 was answered before its cancel was seen to be read";
    breaks("mcp", rule, &[("ask a 7; cancel 7; result 7; next 8; result 8", unclear)]);
    let cancelled = r#"{"type":"capabilities/call-result","id":"7","payload":{"cancelled":true}}"#;
    breaks(
        "abp",
        rule,
        &[(
            &format!(r#"ask a "7"; {cancelled}; {cancelled}"#),
            "our request \"7\" is answered twice: cancelled, then cancelled",
        )],
    );
}

#[test]
fn what_we_do_not_cancel_is_answered_once_and_not_as_cancelled() {
    let rule = Rule::Undisturbed('a');
    holds("acp", rule, &["ask a 7; result 7", "ask a 7; error 7 -32601"]);
    breaks(
        "acp",
        rule,
        &[
            (
                "ask a 7; error 7 -32800",
                "our request 7 was not cancelled, and is answered as cancelled",
            ),
            ("ask a 7", "our request 7 is never answered"),
        ],
    );
    let rule = Rule::AnsweredOnce('a');
    holds("acp", rule, &["ask a 7; error 7 -32800"]);
    let why = "our request 7 is never answered; there is an answer under id 8";
    breaks("acp", rule, &[("ask a 7; result 8", why)]);
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
            ("ask a 7", "our request 7 is never answered"),
        ],
    );
}

#[test]
fn of_many_none_is_answered_twice_and_those_once_that_are_owed() {
    let rule = Rule::AllEnded;
    holds("acp", rule, &["crowd 7; crowd 8; cancel 8; result 7; error 8 -32800"]);
    holds("mcp", rule, &["crowd 7; crowd 8; cancel 8; result 7", "crowd 7; cancel 7; result 7"]);
    let (unanswered, twice) =
        ("our request 7 is never answered", "our request 7 is answered 2 times");
    breaks(
        "acp",
        rule,
        &[
            ("crowd 7; cancel 7", unanswered),
            ("crowd 7", unanswered),
            ("ask a 7", unanswered),
            ("crowd 7; result 7; result 7", twice),
        ],
    );
    breaks(
        "mcp",
        rule,
        &[("crowd 7", unanswered), ("crowd 7; cancel 7; result 7; result 7", twice)],
    );
}

#[test]
fn each_next_request_is_answered_once() {
    let rule = Rule::NextAnswered;
    holds("acp", rule, &["next 7; next 8; result 8; error 7 -32601"]);
    breaks(
        "acp",
        rule,
        &[
            ("next 7; result 7; next 8", "the next request, 8, is never answered"),
            ("next 7; result 7; result 7", "the next request, 7, is answered 2 times"),
        ],
    );
}

#[test]
fn only_requests_of_ours_are_answered() {
    let stray = "under id (none), of no request, there is an answer: error -32600";
    let rule = Rule::MalformedUnanswered;
    holds(
        "acp",
        rule,
        &["quiet; next 7; result 7; loud; error null -32600", "error null -32600; quiet"],
    );
    breaks("acp", rule, &[("quiet; error null -32600; loud", stray)]);
    holds("acp", Rule::NothingUnder("5"), &["next 7; result 7; result \"5\""]);
    breaks(
        "acp",
        Rule::NothingUnder("5"),
        &[("result 5", "under id 5 there is an answer: a result")],
    );
    holds("acp", Rule::Clean, &["held 7; cancels 7; next 8; result 8"]);
    breaks(
        "acp",
        Rule::Clean,
        &[
            ("next 8; error null -32600", stray),
            (
                "next 8; broken; result 8",
                "what it wrote is no message that it may write: not JSON, at byte 0",
            ),
        ],
    );
}

#[test]
fn a_client_ends_by_itself_and_leaves_nothing() {
    holds("acp", Rule::Exited, &["ended cleanly", "ended pushed"]);
    holds("acp", Rule::NoOrphan, &["ended cleanly"]);
    let left = "something that the client had started was left, and had to be ended";
    let stays = "the client has not ended";
    breaks("acp", Rule::NoOrphan, &[("ended pushed", left), ("next 7", stays)]);
    breaks("acp", Rule::Exited, &[("next 7", stays)]);
}

#[test]
fn f117_a_cancel_names_its_request_by_value() {
    let record = r#"asked "r\u00e9q"; cancels "réq""#;
    holds("acp", Rule::NamesRequest, &[record]);
    holds("acp", Rule::NamedAsWritten, &[record]);
    holds("acp", Rule::NamesRequest, &[r#"asked "réq"; cancels "r\u00e9q""#]);
}
