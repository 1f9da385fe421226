//! JSON torture: JSON is accepted and everything else is refused, wherever in an envelope it
//! stands.
//!
//! Each text is a whole message, the params of a request, the id of a request and the result of a
//! call. The cases cover those of nst/JSONTestSuite that can stand in an envelope; all are our own,
//! written in `torture/cases.rs` or made here.
//!
//! # Params that are passed through
//!
//! Params, results and the data of errors are checked to be JSON by its grammar, and handed over as
//! the peer wrote them. They are not decoded. So some of what is handed over can't be decoded by
//! everyone: lone surrogates (`"\ud800"`), numbers that no float holds (`1e400`), names that stand
//! twice, nesting up to `Limits::depth`. The host that decodes them decides, and answers -32602 if it
//! can't; a relay passes them on byte for byte. Only what the envelope itself says is decoded: a
//! method or an id that can't be is refused.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "torture/cases.rs"]
mod cases;

use cases::{JSON, NOT_JSON, NOT_UTF8, UNDECODABLE};
use protocol_core::{
    CallOptions, Config, Connection, Dialect, EnvelopeProblem, Event, Outcome, Response, Timestamp,
    Violation, WireId,
};
use protocol_relay::{Relay, Side};
use serde_json::Value;

const NOW: Timestamp = Timestamp::ZERO;

/// The effect of a message, and the responses to it.
#[derive(Debug)]
struct Seen {
    what: Result<Taken, (&'static str, Option<EnvelopeProblem>)>,
    answers: Vec<String>,
}

#[derive(Debug, PartialEq)]
enum Taken {
    Request { id: String, params: Option<String> },
    Result(String),
}

/// Gives a message to a connection whose call 1 is in flight, and responds to its request.
fn receive(dialect: Dialect, message: &[u8]) -> Seen {
    let mut conn: Connection<()> = Connection::new(Config::server(dialect));
    conn.call("work", None, (), CallOptions::default(), NOW).unwrap();
    conn.poll_transmit(&mut Vec::new());
    let event = conn.receive(message, NOW).unwrap();
    let more = conn.poll_event();
    assert!(more.is_none(), "{event:?}, {more:?} from {:?}", String::from_utf8_lossy(message));
    let what = match event {
        Event::Request { request, id, params, .. } => {
            let params = params.map(|params| params.get().into());
            conn.respond(request, Response::Cancelled).unwrap();
            Ok(Taken::Request { id: id.into(), params })
        }
        Event::Settled { outcome: Outcome::Result(result), .. } => {
            Ok(Taken::Result(result.get().into()))
        }
        Event::Violation { violation, .. } => Err(match violation {
            Violation::InvalidRequest { problem } => (violation.as_str(), Some(problem)),
            violation => (violation.as_str(), None),
        }),
        other => panic!("{other:?} from {:?}", String::from_utf8_lossy(message)),
    };
    let mut answers = Vec::new();
    loop {
        let mut out = Vec::new();
        if conn.poll_transmit(&mut out).is_none() {
            break;
        }
        answers.push(String::from_utf8(out).unwrap());
    }
    Seen { what, answers }
}

fn around(before: &str, text: &[u8], after: &str) -> Vec<u8> {
    [before.as_bytes(), text, after.as_bytes()].concat()
}

fn as_params(text: &[u8]) -> Vec<u8> {
    around(r#"{"jsonrpc":"2.0","id":7,"method":"m","params":"#, text, "}")
}

fn as_id(text: &[u8]) -> Vec<u8> {
    around(r#"{"jsonrpc":"2.0","method":"m","id":"#, text, "}")
}

fn as_result(text: &[u8]) -> Vec<u8> {
    around(r#"{"jsonrpc":"2.0","id":1,"result":"#, text, "}")
}

/// In each place the text is taken as the JSON that it is.
fn assert_json(text: &str) {
    let token = text.trim_matches([' ', '\t', '\r', '\n']);
    let invalid = |problem| Err(("invalid_request", Some(problem)));

    let whole = receive(Dialect::ACP_V1, text.as_bytes()).what;
    let expected = match token.as_bytes()[0] {
        b'{' => invalid(EnvelopeProblem::Version),
        b'[' => Err(("batch_refused", None)),
        _ => invalid(EnvelopeProblem::NotAnObject),
    };
    assert_eq!(whole, expected, "as a message: {text}");

    let params = receive(Dialect::JSON_RPC, &as_params(text.as_bytes())).what;
    let taken = |params| Ok(Taken::Request { id: "7".into(), params });
    let expected = match token.as_bytes()[0] {
        b'{' | b'[' => taken(Some(token.into())),
        b'n' => taken(None),
        _ => invalid(EnvelopeProblem::Params),
    };
    assert_eq!(params, expected, "as params: {text}");

    let id = receive(Dialect::JSON_RPC, &as_id(text.as_bytes()));
    let is_number = token.starts_with(['-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']);
    let is_text = token.starts_with('"') && serde_json::from_str::<String>(token).is_ok();
    let (expected, echoed) = if is_number || is_text {
        (Ok(Taken::Request { id: token.into(), params: None }), token)
    } else {
        (invalid(EnvelopeProblem::Id), "null")
    };
    assert_eq!(id.what, expected, "as an id: {text}");
    let answer = format!(r#"{{"jsonrpc":"2.0","id":{echoed},"#);
    assert!(id.answers[0].starts_with(&answer), "as an id: {text}: {:?}", id.answers);

    let result = receive(Dialect::JSON_RPC, &as_result(text.as_bytes()));
    assert_eq!(result.what, Ok(Taken::Result(token.into())), "as a result: {text}");
}

/// In each place the text makes the message unreadable, by that rule, and the call waits on.
fn assert_refused(text: &[u8], rule: &'static str) {
    for message in [text.to_vec(), as_params(text), as_id(text), as_result(text)] {
        let printed = String::from_utf8_lossy(&message);
        let seen = receive(Dialect::JSON_RPC, &message);
        assert_eq!(seen.what, Err((rule, None)), "{printed}");
        let answer = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"#;
        assert!(seen.answers[0].starts_with(answer), "{printed}: {:?}", seen.answers);
        assert_eq!(seen.answers.len(), 1, "{printed}");
    }
}

#[test]
fn g09_json_is_taken() {
    for text in JSON {
        assert!(serde_json::from_str::<Value>(text).is_ok(), "{text}");
        assert_json(text);
    }
}

#[test]
fn g09_what_nobody_can_decode_is_taken_too() {
    for text in UNDECODABLE {
        assert!(serde_json::from_str::<Value>(text).is_err(), "{text}");
        assert_json(text);
    }
}

#[test]
fn g09_what_is_no_json_is_refused() {
    for text in NOT_JSON {
        assert!(serde_json::from_str::<Value>(text).is_err(), "{text}");
        assert_refused(text.as_bytes(), "parse");
    }
}

#[test]
fn g09_what_is_not_utf8_is_refused() {
    for text in NOT_UTF8 {
        assert_refused(text, "invalid_utf8");
    }
}

// Generated

fn assert_is(is_json: bool, text: &str) {
    if is_json { assert_json(text) } else { assert_refused(text.as_bytes(), "parse") }
}

/// The grammar of RFC 8259: `-? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)?`
fn is_number(text: &str) -> bool {
    let digits =
        |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let mut rest = text.strip_prefix('-').unwrap_or(text);
    let whole = digits(rest);
    if whole == 0 || whole > 1 && rest.starts_with('0') {
        return false;
    }
    rest = &rest[whole..];
    if let Some(fraction) = rest.strip_prefix('.') {
        let len = digits(fraction);
        if len == 0 {
            return false;
        }
        rest = &fraction[len..];
    }
    let Some(exponent) = rest.strip_prefix(['e', 'E']) else { return rest.is_empty() };
    let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    !exponent.is_empty() && digits(exponent) == exponent.len()
}

#[test]
fn g09_every_text_of_four_signs_of_numbers() {
    let mut texts = vec![String::new()];
    for _ in 0..4 {
        let longer =
            |text: &String| ["0", "1", "-", "+", ".", "e", "E"].map(|sign| format!("{text}{sign}"));
        texts = texts.iter().flat_map(longer).collect();
        texts.iter().for_each(|text| assert_is(is_number(text), text));
    }
}

#[test]
fn g09_every_ascii_sign_after_a_backslash_between_tokens_and_in_a_string() {
    for sign in (0..0x80_u8).map(char::from) {
        assert_is("\"\\/bfnrt".contains(sign), &format!("\"\\{sign}\""));
        assert_is(" \t\r\n".contains(sign), &format!("{{\"a\"{sign}:1}}"));
        assert_is(sign >= ' ' && !"\"\\".contains(sign), &format!("\"{sign}\""));
        for place in 0..4 {
            let mut digits = [b'0'; 4].map(char::from);
            digits[place] = sign;
            let escape = String::from_iter(digits);
            assert_is(sign.is_ascii_hexdigit(), &format!("\"\\u{escape}\""));
        }
    }
}

#[test]
fn g09_every_part_of_a_text_is_none() {
    let text = r#"{"a":[-1.5e+3,"\u00e9\\",{"b":null}],"c":true,"":{"d":[[false]]}}"#;
    assert_json(text);
    for end in 0..text.len() {
        assert_refused(&text.as_bytes()[..end], "parse");
        assert_refused(&text.as_bytes()[end + 1..], "parse");
    }
    for message in [as_params(text.as_bytes()), as_result(text.as_bytes())] {
        for end in 0..message.len() {
            assert_eq!(receive(Dialect::JSON_RPC, &message[..end]).what, Err(("parse", None)));
        }
    }
}

/// Strings are read many bytes at a time, so what ends them is put in every place.
#[test]
fn g09_every_place_in_a_long_string() {
    for place in 0..80 {
        let text = |sign: &str| {
            format!("\"{}{sign}{}\"", "a".repeat(place), "a".repeat(79 - place)).into_bytes()
        };
        for sign in ["\\n", "\\\"", "\\\\", "\\u0041", "\u{7f}", "\u{e9}", "!", "#", "]"] {
            assert_json(std::str::from_utf8(&text(sign)).unwrap());
        }
        for sign in ["\"", "\\", "\0", "\n", "\u{1f}"] {
            assert_refused(&text(sign), "parse");
        }
    }
}

#[test]
fn g09_space_between_any_two_tokens_of_an_envelope() {
    let tokens =
        ["{", "\"jsonrpc\"", ":", "\"2.0\"", ",", "\"id\"", ":", "7", ",", "\"method\"", ":"];
    let tokens = [&tokens[..], &["\"m\"", "}"]].concat();
    for place in 0..=tokens.len() {
        for space in [" ", "\t", "\r", "\n", " \r\n\t "] {
            let (before, behind) = tokens.split_at(place);
            let message = [before.concat(), space.to_owned(), behind.concat()].concat();
            for message in [message.clone(), format!("[{message}]")] {
                let seen = receive(Dialect::JSON_RPC, message.as_bytes());
                let request = Taken::Request { id: "7".into(), params: None };
                assert_eq!(seen.what, Ok(request), "{message:?}");
            }
        }
    }
}

#[test]
fn g09_each_bracket_is_closed_by_its_own() {
    let (most, swap) = (127, |bracket| if bracket == b']' { b'}' } else { b']' });
    for pattern in [0_u128, u128::MAX, 0x5555 << 60, 0x1234_5678_9abc_def0_0fed_cba9_8765_4321] {
        let is_object = |level: usize| pattern >> level & 1 == 1;
        let mut text = Vec::new();
        for level in 0..most {
            text.extend_from_slice(if is_object(level) { b"{\"\":" } else { b"[" });
        }
        text.push(b'1');
        let closing = text.len();
        text.extend((0..most).rev().map(|level| if is_object(level) { b'}' } else { b']' }));
        let taken = receive(Dialect::JSON_RPC, &as_params(&text)).what;
        let params = Some(String::from_utf8(text.clone()).unwrap());
        assert_eq!(taken, Ok(Taken::Request { id: "7".into(), params }));
        for place in closing..text.len() {
            text[place] = swap(text[place]);
            assert_refused(&text, "parse");
            text[place] = swap(text[place]);
        }
    }
}

#[test]
fn g09_one_byte_is_no_message() {
    for byte in 0..=u8::MAX {
        let rule = match byte {
            b'0'..=b'9' => ("invalid_request", Some(EnvelopeProblem::NotAnObject)),
            0x80.. => ("invalid_utf8", None),
            _ => ("parse", None),
        };
        assert_eq!(receive(Dialect::JSON_RPC, &[byte]).what, Err(rule), "{byte:#x}");
    }
}

#[test]
fn g09_long_tokens_are_taken_and_long_ids_refused() {
    let text = format!("\"{}\"", "é\\n".repeat(100_000));
    let number =
        format!("-{}.{}e-{}", "1".repeat(100_000), "2".repeat(100_000), "3".repeat(100_000));
    for token in [&text, &number] {
        let result = receive(Dialect::JSON_RPC, &as_result(token.as_bytes())).what;
        assert_eq!(result, Ok(Taken::Result(token.clone())));
        let id = receive(Dialect::JSON_RPC, &as_id(token.as_bytes()));
        assert_eq!(id.what, Err(("invalid_request", Some(EnvelopeProblem::Id))));
        assert!(id.answers[0].starts_with(r#"{"jsonrpc":"2.0","id":null,"#));
    }
}

#[test]
fn g09_nesting_is_taken_to_its_limit_and_never_overflows() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("[{\"a\":[", "]}]")] {
        let levels = open.matches(['[', '{']).count();
        let nested = |depth: usize| {
            let times = depth / levels;
            format!("{}1{}", open.repeat(times), close.repeat(times)).into_bytes()
        };
        // The envelope is the first level of 128.
        let most = nested(127);
        let taken = receive(Dialect::JSON_RPC, &as_params(&most)).what;
        let params = Some(String::from_utf8(most).unwrap());
        assert_eq!(taken, Ok(Taken::Request { id: "7".into(), params }));
        for depth in [127 + levels, 500, 300_000] {
            let params = receive(Dialect::JSON_RPC, &as_params(&nested(depth)));
            let too_deep = Err(("invalid_request", Some(EnvelopeProblem::TooDeep)));
            assert_eq!(params.what, too_deep, "{depth}");
            let answer = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32600,"#;
            assert!(params.answers[0].starts_with(answer), "B2");
            // One that never ends, and one that never began.
            assert_refused(open.repeat(depth).as_bytes(), "parse");
            assert_refused(close.repeat(depth).as_bytes(), "parse");
        }
    }
}

// The envelope's own members

#[test]
fn g09_members_of_the_envelope_that_stand_twice() {
    let members = [r#""jsonrpc":"2.0""#, r#""id":7"#, r#""method":"m""#, r#""params":[]"#];
    for twice in members {
        for again in [twice.to_owned(), twice.replacen(':', " :", 1), escaped(twice)] {
            let message = format!("{{{},{again}}}", members.join(","));
            let seen = receive(Dialect::JSON_RPC, message.as_bytes());
            let repeated = Err(("invalid_request", Some(EnvelopeProblem::DuplicateMember)));
            assert_eq!(seen.what, repeated, "{message}");
            let id = if twice.contains("id") { "null" } else { "7" };
            assert!(seen.answers[0].contains(&format!(r#""id":{id},"#)), "{:?}", seen.answers);
        }
    }
    // One that nobody reads may.
    let message = format!(r#"{{{},"x":1,"x":2}}"#, members.join(","));
    assert!(receive(Dialect::JSON_RPC, message.as_bytes()).what.is_ok());
}

/// The same member, its name with an escape.
fn escaped(member: &str) -> String {
    let first = member.as_bytes()[1];
    member.replacen(char::from(first), &format!("\\u{first:04x}"), 1)
}

#[test]
fn g09_members_of_the_envelope_are_read_decoded() {
    let members = [r#""jsonrpc":"\u0032.0""#, r#""id":7"#, r#""method":"m""#, r#""params":[]"#];
    let message = format!("{{{}}}", members.map(escaped).join(" ,\n"));
    let taken = Taken::Request { id: "7".into(), params: Some("[]".into()) };
    assert_eq!(receive(Dialect::JSON_RPC, message.as_bytes()).what, Ok(taken));
}

#[test]
fn g09_lone_surrogates_in_the_envelope() {
    for (message, problem) in [
        (r#"{"jsonrpc":"2.0","id":7,"method":"\ud800"}"#, Some(EnvelopeProblem::Method)),
        (r#"{"jsonrpc":"\ud800","id":7,"method":"m"}"#, Some(EnvelopeProblem::Version)),
        (r#"{"jsonrpc":"2.0","id":"\ud800","method":"m"}"#, Some(EnvelopeProblem::Id)),
        (r#"{"jsonrpc":"2.0","id":7,"method":"m","\ud800":1}"#, None),
        (r#"{"jsonrpc":"2.0","id":7,"method":"m","x":"\ud800"}"#, None),
    ] {
        let problem = problem.map(|problem| ("invalid_request", Some(problem)));
        assert_eq!(receive(Dialect::JSON_RPC, message.as_bytes()).what.err(), problem, "{message}");
    }
}

#[test]
fn b14_ids_are_echoed_as_they_were_written() {
    for id in ["1e400", "-0", "1.0", "9007199254740993", r#""\u0031\/""#, "\"\u{1f4a9}\"", "\"\""] {
        assert_eq!(WireId::from_json(id).unwrap().as_json(), id);
        let answer = &receive(Dialect::JSON_RPC, &as_id(id.as_bytes())).answers[0];
        assert!(answer.starts_with(&format!(r#"{{"jsonrpc":"2.0","id":{id},"#)), "{answer}");
    }
}

// Passing through

/// Line ends become spaces, for the next hop may have one message a line.
#[test]
fn b25_a_relay_passes_params_and_results_on_byte_for_byte() {
    let structured = |text: &&&str| text.trim_start().starts_with(['{', '[']);
    for text in JSON.iter().chain(UNDECODABLE).filter(structured) {
        let config = Config::server(Dialect::JSON_RPC);
        let mut relay = Relay::new(config.clone(), config);
        // The relay's input is lines too.
        let text = text.replace(['\r', '\n'], " ");
        let token = text.trim_ascii();

        let _ = relay.receive(Side::Up, &[&as_params(text.as_bytes())[..], b"\n"].concat(), NOW);
        let asked = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{token}}}"#);
        assert_eq!(next(&mut relay, Side::Down), asked + "\n");

        let _ = relay.receive(Side::Down, &[&as_result(text.as_bytes())[..], b"\n"].concat(), NOW);
        let answer = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{token}}}"#);
        assert_eq!(next(&mut relay, Side::Up), answer + "\n");
    }
}

fn next(relay: &mut Relay, side: Side) -> String {
    let mut out = Vec::new();
    relay.poll_transmit(side, &mut out).expect("something is passed on");
    String::from_utf8(out).unwrap()
}
