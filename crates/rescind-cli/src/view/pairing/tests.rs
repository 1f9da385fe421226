use super::*;

/// Returns the requests of these lines, each in few words, and their counts.
fn rows(lines: &[&str]) -> (Vec<String>, Counts) {
    let mut pairing = Pairing::new(REMEMBERED);
    for line in lines {
        pairing.take(&serde_json::from_str(line).unwrap());
    }
    let rows = pairing.rest();
    (rows.values().map(described).collect(), pairing.counts)
}

fn described(row: &Row) -> String {
    let mut words = vec![row.method.clone(), row.outcome.as_str().into()];
    let mut add = |name: &str, value: Option<String>| {
        words.extend(value.map(|value| format!("{name} {value}")));
    };
    add("took", row.duration().map(|it| it.to_string()));
    add("settled", row.settling().map(|it| it.to_string()));
    add("code", row.code.map(|it| it.to_string()));
    add("cause", row.cause.clone());
    add("cancelled", row.cancelled.map(|it| it.to_string()));
    add("late", row.late.map(|it| it.to_string()));
    add("duplicates", Some(row.duplicates).filter(|it| *it > 0).map(|it| it.to_string()));
    add("", row.refused.clone());
    words.join(", ")
}

macro_rules! message {
    ($t:literal, $dir:literal, $part:literal) => {
        concat!(
            r#"{"message":{"hop":"a","bytes":9,"t":"#,
            $t,
            r#","dir":""#,
            $dir,
            r#"","parts":["#,
            $part,
            "]}}"
        )
    };
}

macro_rules! verdict {
    ($t:literal, $rest:literal) => {
        concat!(r#"{"verdict":{"hop":"a","t":"#, $t, ",", $rest, "}}")
    };
}

const ASKED: &str = message!(10, "sent", r#"{"kind":"request","id":1,"method":"m"}"#);
const CANCEL: &str = message!(20, "sent", r#"{"kind":"cancel","cancels":1,"method":"c"}"#);
const RESULT: &str = message!(50, "received", r#"{"kind":"result","id":1}"#);
const REFUSED: &str = message!(50, "received", r#"{"kind":"error","id":1,"code":-32800}"#);

#[test]
fn an_answer_belongs_to_the_request_of_the_other_direction() {
    assert_eq!(rows(&[ASKED, RESULT]).0, ["m, result, took 40"]);
    let theirs = message!(11, "received", r#"{"kind":"request","id":1,"method":"theirs"}"#);
    assert_eq!(rows(&[ASKED, theirs, RESULT]).0, ["m, result, took 40", "theirs, unanswered"]);
}

#[test]
fn b14_ids_are_compared_as_tokens() {
    let text = message!(50, "received", r#"{"kind":"result","id":"1"}"#);
    assert_eq!(rows(&[ASKED, text]).0, ["m, unanswered"]);
}

#[test]
fn a_cancelled_request_says_how_long_it_went_on() {
    let cancelled = "m, cancelled, took 40, settled 30, code -32800, cancelled 20";
    assert_eq!(rows(&[ASKED, CANCEL, REFUSED]).0, [cancelled]);
    assert_eq!(rows(&[ASKED, CANCEL, RESULT]).0, ["m, result, took 40, settled 30, cancelled 20"]);
    // Nobody cancelled it: a server that is overloaded may answer so.
    assert_eq!(rows(&[ASKED, REFUSED]).0, ["m, error, took 40, code -32800"]);
}

#[test]
fn a_cancel_that_is_a_request_is_a_row_too() {
    let cancel = message!(20, "sent", r#"{"kind":"cancel","id":2,"cancels":1,"method":"c"}"#);
    let answer = message!(30, "received", r#"{"kind":"result","id":2}"#);
    let cancelled = "m, cancelled, took 40, settled 30, code -32800, cancelled 20";
    assert_eq!(rows(&[ASKED, cancel, answer, REFUSED]).0, [cancelled, "c, result, took 10"]);
}

#[test]
fn a_verdict_says_what_messages_do_not() {
    let settled =
        verdict!(30, r#""verdict":"settled","id":1,"outcome":"timed_out","cause":"deadline""#);
    let late = verdict!(50, r#""verdict":"violation","id":1,"why":"late_response""#);
    let (rows, counts) = rows(&[ASKED, settled, RESULT, late]);
    assert_eq!(rows, ["m, timed_out, took 20, cause deadline, late 50"]);
    assert_eq!(counts.late, 1);
}

#[test]
fn in_a_relay_a_late_answer_is_no_end() {
    let late = verdict!(50, r#""verdict":"violation","id":1,"why":"late_response""#);
    for response in [RESULT, REFUSED] {
        let rows = rows(&[ASKED, CANCEL, response, late]).0;
        assert_eq!(rows, ["m, cancelled, cancelled 20, late 50"], "{response}");
    }
}

#[test]
fn a_call_that_is_given_up_was_cancelled_with_or_without_a_message() {
    let settled =
        verdict!(15, r#""verdict":"settled","id":1,"outcome":"cancelled","cause":"caller""#);
    let timed_out =
        verdict!(15, r#""verdict":"settled","id":1,"outcome":"timed_out","cause":"deadline""#);
    for (lines, said) in [
        (&[ASKED, settled][..], "cancelled, took 5, settled 0, cause caller, cancelled 15"),
        (&[ASKED, settled, CANCEL], "cancelled, took 5, settled 0, cause caller, cancelled 15"),
        (&[ASKED, timed_out, CANCEL], "timed_out, took 5, settled 0, cause deadline, cancelled 15"),
        (&[ASKED, timed_out], "timed_out, took 5, cause deadline"),
    ] {
        let (rows, counts) = rows(lines);
        assert_eq!((rows, counts.stray_cancels), (vec![format!("m, {said}")], 0));
    }
}

#[test]
fn a_response_that_is_none_is_the_end_in_a_relay() {
    let unreadable = message!(30, "received", r#"{"kind":"unreadable"}"#);
    let malformed = verdict!(31, r#""verdict":"violation","id":1,"why":"malformed_response""#);
    let (said, counts) = rows(&[ASKED, unreadable, malformed]);
    assert_eq!((said, counts.violations), (vec!["m, malformed, took 21".to_owned()], 1));
    // Its form may be that of a result.
    let result = message!(30, "received", r#"{"kind":"result","id":1}"#);
    assert_eq!(rows(&[ASKED, result, malformed]).0, ["m, malformed, took 20"]);
}

#[test]
fn a_second_cancel_of_a_request_that_is_over_is_one_of_nothing() {
    let asked = message!(10, "received", r#"{"kind":"request","id":1,"method":"m"}"#);
    let cancel = message!(20, "received", r#"{"kind":"cancel","cancels":1,"method":"c"}"#);
    let refused = message!(50, "sent", r#"{"kind":"error","id":1,"code":-32800}"#);
    assert_eq!(rows(&[asked, cancel, refused, cancel]).1.stray_cancels, 1);
}

#[test]
fn a_fault_belongs_to_the_request_of_the_message_before_it() {
    let theirs = message!(5, "received", r#"{"kind":"request","id":1,"method":"theirs"}"#);
    let answer = message!(20, "sent", r#"{"kind":"result","id":1}"#);
    let fault = verdict!(20, r#""verdict":"fault","id":1,"why":"drop message""#);
    let said = rows(&[theirs, ASKED, fault]).0;
    assert_eq!(said, ["theirs, unanswered", "m, unanswered,  fault: drop message"]);
    let said = rows(&[theirs, ASKED, answer, fault]).0;
    assert_eq!(said, ["theirs, result, took 15,  fault: drop message", "m, unanswered"]);
}

#[test]
fn a_count_of_lines_that_are_missing_ends_at_the_largest_number() {
    let dropped = format!(r#"{{"dropped":{{"t":1,"until":2,"lines":{},"bytes":9}}}}"#, u64::MAX);
    assert_eq!(rows(&[&dropped, &dropped]).1.dropped, u64::MAX);
}

#[test]
fn second_and_unknown_answers_are_counted() {
    let second = verdict!(60, r#""verdict":"violation","id":1,"why":"duplicate_response""#);
    let stray = verdict!(60, r#""verdict":"violation","id":9,"why":"unknown_response""#);
    let parse = verdict!(60, r#""verdict":"violation","why":"parse""#);
    let (rows, counts) = rows(&[ASKED, RESULT, second, stray, parse, CANCEL]);
    assert_eq!(rows, ["m, result, took 40, duplicates 1"]);
    let expected = (counts.duplicates, counts.strays, counts.violations, counts.stray_cancels);
    assert_eq!(expected, (1, 1, 1, 1));
}

#[test]
fn b05_a_request_with_the_id_of_one_in_flight_is_another() {
    let rows = rows(&[ASKED, ASKED, RESULT, ASKED]).0;
    assert_eq!(rows, ["m, result, took 40", "m, duplicate_id, took 0", "m, unanswered"]);
}

#[test]
fn the_id_of_a_cancelled_request_is_free_where_silence_follows() {
    let opened = r#"{"opened":{"t":0,"hop":"a","role":"client","dialect":"mcp-2025-11-25"}}"#;
    let rows = rows(&[opened, ASKED, CANCEL, ASKED, RESULT]).0;
    assert_eq!(rows, ["m, cancelled, cancelled 20", "m, result, took 40"]);
}

#[test]
fn a_connection_of_the_same_name_is_another() {
    let opened = r#"{"opened":{"t":40,"hop":"a","role":"client","dialect":"acp"}}"#;
    assert_eq!(rows(&[ASKED, opened, RESULT]).0, ["m, unanswered"]);
    let mut pairing = Pairing::new(10);
    for _ in 0..1_000 {
        for line in [opened, ASKED, PROMPT] {
            pairing.take(&serde_json::from_str(line).unwrap());
        }
        pairing.forget();
    }
    assert_eq!((pairing.hops.len(), pairing.dialects.len()), (1, 1));
    assert!(pairing.named.len() <= pairing.rows.len(), "no name outlives its request");
}

#[test]
fn a_cancel_that_came_too_late_is_none_of_the_other_side_s_request_with_that_id() {
    let opened = |dialect: &str| {
        format!(r#"{{"opened":{{"t":0,"hop":"a","role":"client","dialect":"{dialect}"}}}}"#)
    };
    let theirs = message!(15, "received", r#"{"kind":"request","id":1,"method":"theirs"}"#);
    let (shown, counts) = rows(&[&opened("lsp"), theirs, CANCEL]);
    assert_eq!(shown, ["theirs, unanswered"]);
    assert_eq!(counts.stray_cancels, 1);
    // A server may end what its client listens to, and nothing else.
    let ended = message!(20, "received", r#"{"kind":"cancel","cancels":1,"method":"c"}"#);
    let listens =
        message!(10, "sent", r#"{"kind":"request","id":1,"method":"subscriptions/listen"}"#);
    let shown = rows(&[&opened("mcp-2026-07-28"), listens, ended]).0;
    assert_eq!(shown, ["subscriptions/listen, cancelled, cancelled 20"]);
    assert_eq!(rows(&[&opened("mcp-2026-07-28"), ASKED, ended]).0, ["m, unanswered"]);
}

#[test]
fn a_request_that_did_not_pass_says_why() {
    let theirs = message!(11, "received", r#"{"kind":"request","id":1,"method":"m"}"#);
    let refused = verdict!(12, r#""verdict":"request_refused","id":1,"why":"the outbox is full""#);
    let rows = rows(&[theirs, refused]).0;
    assert_eq!(rows, ["m, unanswered,  request_refused: the outbox is full"]);
}

#[test]
fn g08_only_so_many_requests_are_remembered_and_those_in_flight_longest() {
    let mut pairing = Pairing::new(2);
    let mut take = |line: &str| {
        pairing.take(&serde_json::from_str(line).unwrap());
        let forgotten = pairing.forget().into_iter();
        forgotten.map(|(number, row)| (number, row.outcome)).collect::<Vec<_>>()
    };
    let ask = |id: u32| {
        let part = format!(r#"{{"kind":"request","id":{id},"method":"m"}}"#);
        format!(r#"{{"message":{{"hop":"a","bytes":9,"t":1,"dir":"sent","parts":[{part}]}}}}"#)
    };
    for id in 1..=4 {
        assert_eq!(take(&ask(id)), []);
    }
    assert_eq!(take(&ask(5)), [(0, Outcome::Unanswered)]);
    assert_eq!(take(message!(2, "received", r#"{"kind":"result","id":3}"#)), []);
    assert_eq!(take(&ask(6)), [(2, Outcome::Result)]);
}

const PROMPT: &str = message!(
    10,
    "sent",
    r#"{"kind":"request","id":1,"method":"session/prompt","work":{"kind":"turn","name":"ab","news":"request"}}"#
);
const PERMISSION: &str = message!(
    15,
    "received",
    r#"{"kind":"request","id":1,"method":"ask","work":{"kind":"turn","name":"ab","news":"nested"}}"#
);
const STOP: &str = message!(
    20,
    "sent",
    r#"{"kind":"notification","method":"session/cancel","work":{"kind":"turn","name":"ab","news":"stop"}}"#
);
const STOPPED: &str =
    message!(50, "received", r#"{"kind":"result","id":1,"work":{"kind":"turn","news":"stopped"}}"#);

#[test]
fn w01_a_stopped_turn_is_cancelled_and_what_was_asked_within_stands_below_it() {
    let said = "session/prompt, cancelled, took 40, settled 30, cause stopped, cancelled 20";
    assert_eq!(rows(&[PROMPT, STOP, STOPPED]).0, [said]);
    let said = "session/prompt, result, took 40, settled 30, cause stopped, cancelled 20";
    assert_eq!(rows(&[PROMPT, STOP, RESULT]).0, [said], "the agent went on to the end");
    let mut pairing = Pairing::new(REMEMBERED);
    let other = message!(12, "sent", r#"{"kind":"request","id":2,"method":"other"}"#);
    for line in [PROMPT, other, PERMISSION] {
        pairing.take(&serde_json::from_str(line).unwrap());
    }
    let parents: Vec<_> = pairing.rest().values().map(|row| row.parent).collect();
    assert_eq!(parents, [None, None, Some(0)]);
}

#[test]
fn w01_a_stop_after_the_end_is_one_of_nothing() {
    let (said, counts) = rows(&[PROMPT, RESULT, STOP]);
    assert_eq!(said, ["session/prompt, result, took 40"]);
    assert_eq!(counts.stray_cancels, 1);
}

#[test]
fn w01_work_without_a_request_of_its_own_is_a_row() {
    let begun = message!(
        5,
        "received",
        r#"{"kind":"notification","work":{"kind":"progress","name":"cd","news":"began"}}"#
    );
    let stop = message!(
        9,
        "sent",
        r#"{"kind":"notification","work":{"kind":"progress","name":"cd","news":"stop"}}"#
    );
    let ended = message!(
        15,
        "received",
        r#"{"kind":"notification","work":{"kind":"progress","name":"cd","news":"ended"}}"#
    );
    assert_eq!(rows(&[begun, ended]).0, ["progress, result, took 10"]);
    let said = "progress, result, took 10, settled 6, cause stopped, cancelled 9";
    assert_eq!(rows(&[begun, stop, ended]).0, [said]);
}

#[test]
fn w01_a_result_begins_work_if_its_request_asked_for_that() {
    let asked = message!(
        10,
        "sent",
        r#"{"kind":"request","id":1,"method":"tools/call","work":{"kind":"task","news":"asked"}}"#
    );
    let begun = message!(
        50,
        "received",
        r#"{"kind":"result","id":1,"work":{"kind":"task","name":"ef","news":"began"}}"#
    );
    assert_eq!(rows(&[asked, begun]).0, ["tools/call, result, took 40", "task, unanswered"]);
    assert_eq!(rows(&[ASKED, begun]).0, ["m, result, took 40"]);
}
