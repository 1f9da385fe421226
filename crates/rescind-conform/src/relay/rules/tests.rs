//! Each rule on conversations that are made by hand, one for each way in which it holds or is broken.

use std::time::Duration;

use protocol_core::{Dialect, Envelope};
use serde_json::json;

use super::{Checks, Rule, check};
use crate::relay::bench::{Entry, What};
use crate::relay::message::Message;
use crate::relay::target::Side;
use crate::relay::wire;
use crate::wire::Wire;

mod notes;

/// The rules that a conversation breaks.
///
/// It is written in words, with `;` between its entries. `c>` is what the client sends and `c<` what arrives there, `s>` and
/// `s<` the same of the server: `ask 7 1` is a request under id 7 with the tag and the token 1, and `ask 7 1 4` has the
/// token 4. `cancel 7` is its cancel; `answer 7`, `cancelled 7`, `refuse 7` and `internal 7` are answers; `note 1` is a
/// notification, `progress 1` one of the request with that token; anything else is the message itself. `c|` and `s|` hang
/// up, to `c.` and `s.` the relay does, and then it is `over`.
fn broken(dialects: [&str; 2], conversation: &str) -> Vec<Rule> {
    let protocols = dialects.map(|name| {
        wire(&Dialect::named(name).expect("there is such a dialect")).expect("it has checks")
    });
    let log: Vec<Entry> =
        conversation.split(';').map(str::trim).map(|entry| entry_of(entry, &protocols)).collect();
    let mut checks = Checks::default();
    check(&log, &protocols, &mut checks);
    let mut broken: Vec<Rule> = checks.broken.into_iter().map(|(rule, _)| rule).collect();
    broken.dedup();
    broken
}

fn entry_of(entry: &str, protocols: &[Wire; 2]) -> Entry {
    let (mark, words) = entry.split_once(' ').unwrap_or((entry, ""));
    let side = if mark.starts_with('s') { Side::Far } else { Side::Near };
    let what = match mark {
        "over" => What::Over,
        "c|" | "s|" => What::Closed,
        "c." | "s." => What::Ended(None),
        "c!" | "s!" => What::Ended(Some("not a frame".into())),
        _ => {
            let protocol = &protocols[side as usize];
            let text = text_of(words, protocol);
            let message = Message::read(protocol, text.as_bytes());
            match mark {
                "c>" | "s>" => What::Sent(message, text),
                "c<" | "s<" => What::Arrived(message, text),
                _ => panic!("{entry}"),
            }
        }
    };
    Entry { at: Duration::ZERO, side, what }
}

fn text_of(words: &str, protocol: &Wire) -> String {
    if protocol.dialect.envelope == Envelope::Dap {
        return text_of_dap(words);
    }
    let error = |id: &str, code: i64| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"no"}}}}"#)
    };
    match words.split(' ').collect::<Vec<_>>()[..] {
        ["ask", id, tag] => text_of(&format!("ask {id} {tag} {tag}"), protocol),
        ["ask", id, tag, token] => format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"work","params":{{"tag":{tag},"_meta":{{"progressToken":{token}}}}}}}"#
        ),
        ["ping", id] => format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#),
        ["cancel", id] => protocol.cancel(id, ""),
        ["answer", id] => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"done"}}"#),
        ["cancelled", id] => error(id, -32800),
        ["refuse", id] => error(id, -32600),
        ["internal", id] => error(id, -32603),
        ["note", number] => {
            json!({ "jsonrpc": "2.0", "method": "note", "params": number }).to_string()
        }
        ["progress", tag] => format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{tag}}}}}"#
        ),
        _ => words.into(),
    }
}

const ACP: [&str; 2] = ["acp"; 2];
/// A cancelled request gets no answer, but progress.
const MCP: [&str; 2] = ["mcp-2025-11-25"; 2];
/// Nor progress.
const MCP_2026: [&str; 2] = ["mcp"; 2];
const DAP: [&str; 2] = ["dap"; 2];

/// In the Debug Adapter Protocol `cancel 7 8` has a number of its own, and `acknowledged 8` is its answer; `begun 7` is the
/// progress of a request.
fn text_of_dap(words: &str) -> String {
    let response = |to: &str, command: &str, said: &str| {
        format!(
            r#"{{"seq":5,"type":"response","request_seq":{to},"command":"{command}","success":{said}}}"#
        )
    };
    let request = |seq: &str, command: &str, arguments: &str| {
        format!(
            r#"{{"seq":{seq},"type":"request","command":"{command}","arguments":{{{arguments}}}}}"#
        )
    };
    match words.split(' ').collect::<Vec<_>>()[..] {
        ["ask", id, tag] => request(id, "work", &format!(r#""tag":{tag}"#)),
        ["cancel", id, own] => request(own, "cancel", &format!(r#""requestId":{id}"#)),
        ["stop", own, progress] => request(own, "cancel", &format!(r#""progressId":"{progress}""#)),
        ["acknowledged", own] => response(own, "cancel", "true"),
        ["refused", own] => response(own, "cancel", r#"false,"message":"too late""#),
        ["answer", id] => response(id, "work", "true"),
        ["cancelled", id] => response(id, "work", r#"false,"message":"cancelled""#),
        ["begun", id] => format!(
            r#"{{"seq":5,"type":"event","event":"progressStart","body":{{"progressId":"p","requestId":{id}}}}}"#
        ),
        _ => words.into(),
    }
}

#[track_caller]
fn holds(dialects: [&str; 2], conversations: &[&str]) {
    for conversation in conversations {
        assert_eq!(broken(dialects, conversation), [], "{conversation}");
    }
}

#[track_caller]
fn breaks(dialects: [&str; 2], rules: &[Rule], conversations: &[&str]) {
    for conversation in conversations {
        assert_eq!(broken(dialects, conversation), rules, "{conversation}");
    }
}

/// A call that goes through, to the server's 1.
const ASKED: &str = "c> ask 7 1; s< ask 1 1";
const DONE: &str = "s> answer 1; c< answer 7";

fn asked(then: &str) -> String {
    format!("{ASKED}; {then}")
}

#[test]
fn a_request_is_forwarded_once_and_answered_once() {
    holds(
        ACP,
        &[
            &asked(DONE),
            "s> ask 7 1; c< ask 1 1; c> answer 1; s< answer 7",
            "c> ask 7 1; s< ask 1 1; s> ask 7 2; c< ask 1 2; s> answer 1; c< answer 7; c> answer 1; s< answer 7",
        ],
    );
    breaks(ACP, &[Rule::ForwardedOnce, Rule::AnswerUnchanged], &["c> ask 7 1; c< answer 7"]);
    breaks(ACP, &[Rule::OwnIds, Rule::ForwardedOnce], &[&asked(&format!("s< ask 1 1; {DONE}"))]);
    breaks(
        ACP,
        &[Rule::ForwardedOnce],
        &[
            &asked(&format!("s< ask 2 1; {DONE}")),
            &asked(&format!("s< ask 2 5; {DONE}")),
            "c> ask 7 1; c< internal 7",
        ],
    );
    breaks(
        ACP,
        &[Rule::AnsweredOnce],
        &[
            ASKED,
            &asked("s> answer 1; over"),
            &asked("s> answer 1; over; c< answer 7"),
            &asked(&format!("{DONE}; c< answer 7")),
            &asked(&format!("{DONE}; c< answer 8")),
        ],
    );
    breaks(ACP, &[Rule::AnsweredOnce], &[&asked("s> answer 1; c< answer \"7\"")]);
}

#[test]
fn what_goes_through_is_as_it_was() {
    let other = |member: &str| {
        format!(r#"s< {{"jsonrpc":"2.0","id":1,"method":"{member}","params":{{"tag":1}}}}"#)
    };
    breaks(ACP, &[Rule::RequestUnchanged], &[&format!("c> ask 7 1; {}; {DONE}", other("play"))]);
    breaks(
        ACP,
        &[Rule::RequestUnchanged],
        &[&format!(
            r#"c> ask 7 1; s< {{"jsonrpc":"2.0","id":1,"method":"work","params":{{"tag":1,"a":1}}}}; {DONE}"#
        )],
    );
    breaks(
        ACP,
        &[Rule::AnswerUnchanged],
        &[
            &asked("s> answer 1; c< internal 7"),
            &asked("s> internal 1; c< refuse 7"),
            &asked("s> internal 1; c< answer 7"),
            &asked(r#"s> {"jsonrpc":"2.0","id":1,"result":1}; c< answer 7"#),
            &asked(
                r#"s> {"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"a"}}; c< {"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"b"}}"#,
            ),
            &asked("c< answer 7"),
        ],
    );
    holds(
        ACP,
        &[
            &asked("s> internal 1; c< internal 7"),
            &asked("c< internal 7"),
            // Data may be added to an error.
            &asked(
                r#"s> internal 1; c< {"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"no","data":1}}"#,
            ),
        ],
    );
}

#[test]
fn what_is_no_answer_is_answered_with_an_error() {
    for malformed in [
        r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{"code":1,"message":"a"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":"1","message":"a"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":1}}"#,
    ] {
        holds(ACP, &[&asked(&format!("s> {malformed}; c< internal 7"))]);
        let passed = malformed.replace("\"id\":1", "\"id\":7");
        breaks(ACP, &[Rule::AnswerUnchanged], &[&asked(&format!("s> {malformed}; c< {passed}"))]);
    }
}

#[test]
fn the_ids_of_requests_in_flight_are_their_own() {
    let two = "c> ask 7 1; s< ask 1 1; c> ask 8 2; s< ask 1 2";
    let answers = "s> answer 1; c< answer 7; c< internal 8";
    assert!(broken(ACP, &format!("{two}; {answers}")).contains(&Rule::OwnIds));
    // One that was answered may be used again.
    holds(ACP, &[&asked(&format!("{DONE}; c> ask 8 2; s< ask 1 2; s> answer 1; c< answer 8"))]);
}

#[test]
fn each_request_with_an_id_that_is_in_flight_is_answered_or_refused() {
    holds(
        ACP,
        &[
            &asked(&format!("c> ask 7 2; c< refuse 7; {DONE}")),
            &asked(&format!("c> ask 7 2; {DONE}; c< refuse 7")),
            // After its cancel it may be either.
            &asked(
                "c> cancel 7; c> ask 7 2; s< cancel 1; s> cancelled 1; c< cancelled 7; c< refuse 7",
            ),
            &asked(
                "c> cancel 7; c> ask 7 2; s< cancel 1; s< ask 2 2; s> cancelled 1; c< cancelled 7; s> answer 2; c< answer 7",
            ),
        ],
    );
    // No protocol says that it is refused: it may be a request of its own.
    let both = "c> ask 7 2; s< ask 2 2; s> answer 1; s> internal 2";
    holds(
        ACP,
        &[
            &asked(&format!("{both}; c< answer 7; c< internal 7")),
            &asked(&format!("{both}; c< internal 7; c< answer 7")),
        ],
    );
    let twice = asked(&format!("c> ask 7 2; s< ask 2 2; s< ask 3 2; {DONE}; c< refuse 7"));
    breaks(ACP, &[Rule::ForwardedOnce], &[&twice]);
    let one = asked(&format!("{both}; c< answer 7"));
    breaks(ACP, &[Rule::AnsweredOnce], &[&asked(&format!("c> ask 7 2; {DONE}")), &one]);
}

#[test]
fn a_relay_may_ask_for_itself_what_each_peer_may_at_any_time() {
    let pinged = "s< ping 5; s> answer 5; c< ping 6; c> answer 6";
    holds(MCP, &[pinged, &asked(&format!("{pinged}; {DONE}"))]);
    let untagged = r#"s< {"jsonrpc":"2.0","id":5,"method":"work"}"#;
    let tagged = r#"s< {"jsonrpc":"2.0","id":5,"method":"ping","params":{"tag":5}}"#;
    breaks(MCP, &[Rule::ForwardedOnce], &[untagged, tagged]);
    breaks(MCP, &[Rule::Form], &["s< ping 0"]);
    breaks(MCP, &[Rule::AnsweredOnce], &["s< ping 5; s> answer 5; c< answer 5"]);
}

#[test]
fn a_cancel_arrives_once_with_the_id_that_its_request_has_there() {
    let end = "s> cancelled 1; c< cancelled 7";
    holds(
        ACP,
        &[
            &asked(&format!("c> cancel 7; s< cancel 1; {end}")),
            &asked("c> cancel 7; s< cancel 1; s> answer 1; c< answer 7"),
            // The answer was under way; or the cancel came before the request had left.
            &asked("s> answer 1; c> cancel 7; c< answer 7"),
            &asked("s> answer 1; c> cancel 7; s< cancel 1; c< answer 7"),
            "c> ask 7 1; c> cancel 7; c< cancelled 7",
        ],
    );
    breaks(
        ACP,
        &[Rule::CancelForwarded],
        &[
            &asked(&format!("c> cancel 7; {end}")),
            &asked(&format!("c> cancel 7; s< cancel 1; s< cancel 1; {end}")),
            &asked("s> answer 1; c> cancel 7; s< cancel 1; s< cancel 1; c< answer 7"),
            "c> ask 7 1; c> cancel 7; s< ask 1 1; s> cancelled 1; c< cancelled 7",
        ],
    );
    breaks(ACP, &[Rule::CancelOfAnother], &[&asked(&format!("s< cancel 1; {DONE}"))]);
    breaks(
        ACP,
        &[Rule::CancelOfNothing],
        &[
            &asked(&format!("s< cancel 2; {DONE}")),
            &asked("s> answer 1; s< cancel 1; c< answer 7"),
            &asked(&format!("c> cancel 8; s< cancel 8; {DONE}")),
            "c> cancel 7; s< cancel 7",
        ],
    );
}

#[test]
fn a_cancel_of_what_is_answered_or_can_not_be_cancelled_does_not_arrive() {
    holds(ACP, &[&asked(&format!("{DONE}; c> cancel 7"))]);
    breaks(ACP, &[Rule::CancelOfNothing], &[&asked(&format!("{DONE}; c> cancel 7; s< cancel 1"))]);
    let opening = r#"c> {"jsonrpc":"2.0","id":7,"method":"initialize","params":{"tag":1}}; s< {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"tag":1}}; c> cancel 7"#;
    holds(["acp-draft"; 2], &[&format!("{opening}; {DONE}")]);
    breaks(
        ["acp-draft"; 2],
        &[Rule::CancelOfAnother],
        &[&format!("{opening}; s< cancel 1; {DONE}")],
    );
}

#[test]
fn the_answer_to_a_cancelled_request_is_the_other_sides() {
    let cancelled = "c> cancel 7; s< cancel 1";
    breaks(
        ACP,
        &[Rule::CancelledAnswer],
        &[
            &asked(&format!("{cancelled}; s> answer 1; c< cancelled 7")),
            &asked(&format!("{cancelled}; s> cancelled 1; c< internal 7")),
            &asked(&format!("{cancelled}; c< internal 7")),
            "c> ask 7 1; c> cancel 7; c< internal 7",
        ],
    );
    // The relay responds if the other side is silent.
    holds(["acp", "mcp-2025-11-25"], &[&asked(&format!("{cancelled}; c< cancelled 7"))]);
    holds(
        ["acp", "mcp-2025-11-25"],
        &[&asked(&format!("{cancelled}; s> answer 1; c< cancelled 7"))],
    );
    breaks(
        ["acp", "mcp-2025-11-25"],
        &[Rule::CancelledAnswer],
        &[
            &asked(&format!("{cancelled}; c< internal 7")),
            &asked(&format!("{cancelled}; s> answer 1; c< internal 7")),
        ],
    );
    breaks(
        ["acp", "mcp-2025-11-25"],
        &[Rule::AnswerUnchanged],
        &[&asked("s> answer 1; c< cancelled 7")],
    );
}

#[test]
fn nothing_is_said_about_a_cancelled_request_where_the_protocol_wants_that() {
    let cancelled = "c> cancel 7; s< cancel 1";
    holds(MCP, &[&asked(cancelled), &asked(&format!("{cancelled}; s> progress 1; c< progress 1"))]);
    holds(MCP, &[&asked("s> answer 1; c> cancel 7; c< answer 7")]);
    breaks(MCP, &[Rule::Silence], &[&asked(&format!("{cancelled}; s> answer 1; c< answer 7"))]);
    let again = asked("s> answer 1; c> cancel 7; c< answer 7; c< answer 7");
    breaks(MCP, &[Rule::AnsweredOnce], &[&again]);
    // Its progress names a request that is not active any more.
    holds(MCP, &[&asked(&format!("{cancelled}; s> progress 1"))]);
    breaks(MCP, &[Rule::Notifications], &[&asked(&format!("{cancelled}; s> progress 2"))]);
    // In the newest revision what comes after the cancel has arrived goes no further.
    holds(
        MCP_2026,
        &[
            &asked(&format!("{cancelled}; s> progress 1")),
            &asked("s> progress 1; c< progress 1; c> cancel 7; s< cancel 1; s> note 1; c< note 1"),
            &asked(&format!("{cancelled}; s> progress 2; c< progress 2")),
        ],
    );
    breaks(
        MCP_2026,
        &[Rule::Silence],
        &[&asked(&format!("{cancelled}; s> progress 1; c< progress 1"))],
    );
    breaks(MCP_2026, &[Rule::Notifications], &[&asked(&format!("{cancelled}; s> progress 2"))]);
}

#[test]
fn the_answer_is_that_of_whoever_may_get_one() {
    // Of two with one id the cancelled one gets none.
    holds(
        MCP,
        &[
            "c> ask 7 1; s< ask 1 1; c> cancel 7; s< cancel 1; c> ask 7 2; s< ask 2 2; s> answer 2; c< answer 7",
        ],
    );
}

#[test]
fn malformed_cancels_and_batches_do_not_arrive() {
    let malformed = r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{}}"#;
    holds(ACP, &[&format!("c> {malformed}"), &format!("c> {malformed}; c< refuse null")]);
    breaks(ACP, &[Rule::MalformedCancel], &[&format!("c> {malformed}; s< {malformed}")]);
    let batch = r#"[{"jsonrpc":"2.0","id":7,"method":"work","params":{"tag":1}}]"#;
    holds(ACP, &[&format!("c> {batch}"), &format!("c> {batch}; c< refuse null")]);
    breaks(
        ACP,
        &[Rule::Batch],
        &[&format!("c> {batch}; s< ask 1 1"), &format!("c> {batch}; s< {batch}")],
    );
}

#[test]
fn what_can_not_be_answered_is_so_once_under_no_id() {
    for message in [
        "hello",
        "[]",
        r#"{"jsonrpc":"2.0","id":5,"result":1}"#,
        r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{}}"#,
    ] {
        holds(ACP, &[&format!("c> {message}"), &format!("c> {message}; c< refuse null")]);
        breaks(
            ACP,
            &[Rule::AnsweredOnce],
            &[
                &format!("c> {message}; c< refuse null; c< refuse null"),
                &format!("c> {message}; c< answer null"),
                &format!("c> {message}; c< refuse 5"),
            ],
        );
    }
    breaks(ACP, &[Rule::AnsweredOnce], &["c< refuse null", "c> note 1; s< note 1; c< refuse null"]);
}

#[test]
fn what_was_judged_is_counted_where_it_holds_too() {
    let made = |conversation: &str, rule: Rule| {
        let protocols = ACP.map(|name| {
            wire(&Dialect::named(name).expect("there is such a dialect")).expect("has checks")
        });
        let log: Vec<Entry> =
            conversation.split("; ").map(|entry| entry_of(entry, &protocols)).collect();
        let mut checks = Checks::default();
        check(&log, &protocols, &mut checks);
        checks.made(rule)
    };
    let malformed = r#"c> {"jsonrpc":"2.0","method":"$/cancel_request","params":{}}"#;
    assert_eq!(made(&format!("{malformed}; {malformed}"), Rule::MalformedCancel), 2);
    let batch = r#"c> [{"jsonrpc":"2.0","id":7,"method":"work","params":{"_meta":{"tag":1}}}]"#;
    assert_eq!(made(batch, Rule::Batch), 1);
    assert_eq!(made("c> note 1; s< note 1", Rule::Notifications), 1);
    assert_eq!(made("c> note 1; s< note 1", Rule::Batch), 0);
    assert_eq!(made("c> note 1; s< note 1", Rule::MalformedCancel), 0);
    let asked = "c> ask 7 1; s< ask 1 1; s> answer 1; c< answer 7";
    assert_eq!(made(asked, Rule::Notifications), 0);
    assert_eq!(
        [Rule::CancelOfNothing, Rule::CancelForwarded].map(|rule| made(asked, rule)),
        [1, 0]
    );
}

#[test]
fn what_arrives_has_the_form_that_everybody_reads() {
    let with_id = |id: &str| format!("c> ask 7 1; s< ask {id} 1; s> answer {id}; c< answer 7");
    for id in ["1", "2147483647", "\"a\""] {
        holds(ACP, &[&with_id(id)]);
    }
    for id in ["0", "-1", "2147483648", "1.5", "\"\"", "\"é\"", "null", "[1]"] {
        breaks(ACP, &[Rule::Form], &[&with_id(id)]);
    }
    breaks(
        ACP,
        &[Rule::Form],
        &[
            r#"c> {"method":"note"}; s< {"method":"note"}"#,
            r#"c> {"jsonrpc":"2.0","method":"note","params":null}; s< {"jsonrpc":"2.0","method":"note","params":null}"#,
            "s< hello",
            "s!",
            "c!",
            r#"s> {"jsonrpc":"2.0","id":1,"result":1}; c< content-length: 7 {"jsonrpc":"2.0"}"#,
        ],
    );
    holds(ACP, &["s.", "c."]);
}

#[test]
fn the_end_of_one_side_settles_the_requests_of_the_other() {
    holds(
        ACP,
        &[
            &asked("c|; s< cancel 1"),
            &asked("c|; s."),
            &asked("c|; s< cancel 1; over; s."),
            &asked("s|; c< internal 7"),
            &asked("s|; c> ask 8 2; c< internal 7; c< internal 8"),
            &asked(&format!("{DONE}; c|; s|")),
            // The second to go has nobody left to respond to.
            &asked("c|; s|; s."),
        ],
    );
    breaks(
        ACP,
        &[Rule::Ends],
        &[
            &asked("c|"),
            &asked("c|; over; s."),
            &asked("c|; s< cancel 1; s< cancel 1"),
            &asked("c|; c."),
            &asked("s|"),
            &asked("s|; c< internal 7; c< internal 7"),
        ],
    );
    // Of what was never forwarded nobody has to be told.
    breaks(ACP, &[Rule::ForwardedOnce], &["c> ask 7 1; c|"]);
    breaks(ACP, &[Rule::AnswerUnchanged], &[&asked("s|; c< answer 7")]);
}

#[test]
fn a_cancel_that_is_a_request_is_answered_once_and_what_it_names_too() {
    let cancelled = "c> cancel 7 8; s< cancel 1 2; s> acknowledged 2";
    let ended = "s> cancelled 1; c< cancelled 7";
    holds(
        DAP,
        &[
            &asked(&format!("{cancelled}; c< acknowledged 8; {ended}")),
            &asked(&format!("{cancelled}; {ended}; c< refused 8")),
            &asked(&format!("{DONE}; c> cancel 7 8; c< refused 8")),
            "c> cancel 7 8; c< refused 8",
        ],
    );
    breaks(
        DAP,
        &[Rule::Acknowledged],
        &[
            &asked(&format!("{cancelled}; {ended}")),
            &asked(&format!("{cancelled}; c< acknowledged 8; {ended}; c< acknowledged 8")),
            &asked(&format!("{DONE}; c> cancel 7 8")),
        ],
    );
    let acknowledged = asked(&format!("{cancelled}; c< acknowledged 8; s> cancelled 1"));
    breaks(DAP, &[Rule::AnsweredOnce], &[&acknowledged]);
    let as_it_came = asked(&format!("c> cancel 7 8; s< cancel 7 2; c< acknowledged 8; {ended}"));
    breaks(DAP, &[Rule::CancelOfNothing, Rule::CancelForwarded], &[&as_it_came]);
}

#[test]
fn a_progress_names_its_request_as_who_reads_it_does() {
    holds(DAP, &[&asked(&format!("s> begun 1; c< begun 7; {DONE}"))]);
    breaks(
        DAP,
        &[Rule::Notifications],
        &[
            &asked(&format!("s> begun 1; c< begun 1; {DONE}")),
            &asked(&format!("s> begun 1; c< begun 8; {DONE}")),
            &asked(&format!("s> begun 1; {DONE}")),
        ],
    );
}

#[test]
fn a_cancel_of_a_progress_is_a_request_as_any_other() {
    let stopped = "c> stop 8 p; s< stop 2 p; s> acknowledged 2; c< acknowledged 8";
    holds(DAP, &[&asked(&format!("{stopped}; {DONE}"))]);
    let other = asked(&format!("{}; {DONE}", stopped.replace("s< stop 2 p", "s< stop 2 q")));
    breaks(DAP, &[Rule::RequestUnchanged], &[&other]);
    let lost = asked(&format!("c> stop 8 p; c< acknowledged 8; {DONE}"));
    breaks(DAP, &[Rule::ForwardedOnce, Rule::AnswerUnchanged], &[&lost]);
}

#[test]
fn a_response_repeats_the_command_and_has_a_number() {
    let said = |seq: u64, command: &str| {
        asked(&format!(
            r#"s> answer 1; c< {{"seq":{seq},"type":"response","request_seq":7,"command":"{command}","success":true}}"#
        ))
    };
    holds(DAP, &[&said(5, "work")]);
    breaks(DAP, &[Rule::AnswerUnchanged], &[&said(5, "play")]);
    breaks(DAP, &[Rule::Form], &[&said(0, "work")]);
}
