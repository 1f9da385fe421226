//! F111: work that is stopped by its name, such as a prompt turn of ACP.

use std::time::Duration;

use protocol_core::{Config, Dialect};
use protocol_relay::Side;

use crate::bench::Bench;

const PROMPT: &str =
    r#"{"jsonrpc":"2.0","id":7,"method":"session/prompt","params":{"sessionId":"s"}}"#;
const PERMISSION: &str =
    r#"{"jsonrpc":"2.0","id":3,"method":"session/request_permission","params":{"sessionId":"s"}}"#;
const STOP: &str = r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#;

/// Makes a relay through which a turn runs that has asked for permission.
fn turn() -> Bench {
    let configs = [Dialect::ACP_V1, Dialect::ACP_V1].map(Config::client);
    let mut bench = Bench::new(Side::Up, configs);
    bench.receive(Side::Up, PROMPT);
    assert_eq!(bench.sent(Side::Down), [PROMPT.replace(r#""id":7"#, r#""id":1"#)]);
    bench.receive(Side::Down, PERMISSION);
    assert_eq!(bench.sent(Side::Up), [PERMISSION.replace(r#""id":3"#, r#""id":1"#)]);
    bench
}

#[test]
fn f111_a_stop_passes_as_it_came_and_cancels_no_request_beside() {
    let mut bench = turn();
    bench.receive(Side::Up, STOP);
    assert_eq!(bench.sent(Side::Down), [STOP]);
    assert_eq!(bench.events(), ["up: id 7: was stopped by the name of its work"]);
    bench.receive(Side::Down, r#"{"jsonrpc":"2.0","id":1,"result":{"stopReason":"cancelled"}}"#);
    let sent = bench.sent(Side::Up);
    let response = r#"{"jsonrpc":"2.0","id":7,"result":{"stopReason":"cancelled"}}"#;
    assert!(sent.contains(&response.to_owned()), "{sent:?}");
}

#[test]
fn f111_the_clients_own_response_to_an_open_permission_request_counts() {
    let mut bench = turn();
    bench.receive(Side::Up, STOP);
    let cancel = r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}"#;
    assert_eq!(bench.sent(Side::Up), [cancel]);
    let outcome = r#"{"outcome":{"outcome":"cancelled"}}"#;
    bench.receive(Side::Up, &format!(r#"{{"jsonrpc":"2.0","id":1,"result":{outcome}}}"#));
    let responses = bench.sent(Side::Down);
    assert_eq!(responses[1..], [format!(r#"{{"jsonrpc":"2.0","id":3,"result":{outcome}}}"#)]);
}

#[test]
fn f111_a_permission_request_that_the_client_leaves_open_ends_as_cancelled() {
    let mut bench = turn();
    bench.receive(Side::Up, STOP);
    bench.sent(Side::Down);
    bench.advance(Duration::from_millis(999));
    assert_eq!(bench.sent(Side::Down), [""; 0]);
    bench.advance(Duration::from_millis(1));
    let response = r#"{"jsonrpc":"2.0","id":3,"result":{"outcome":{"outcome":"cancelled"}}}"#;
    assert_eq!(bench.sent(Side::Down), [response]);
}

#[test]
fn f111_a_turn_whose_agent_ends_after_the_stop_ends_as_stopped() {
    let mut bench = turn();
    bench.receive(Side::Up, STOP);
    bench.hang_up(Side::Down);
    let sent = bench.sent(Side::Up);
    let response = r#"{"jsonrpc":"2.0","id":7,"result":{"stopReason":"cancelled"}}"#;
    assert!(sent.contains(&response.to_owned()), "{sent:?}");
}

#[test]
fn f111_a_stop_of_a_turn_that_is_over_passes_and_hits_nothing() {
    let mut bench = turn();
    bench.receive(Side::Down, r#"{"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn"}}"#);
    bench.receive(Side::Up, STOP);
    bench.receive(Side::Up, &PROMPT.replace(r#""id":7"#, r#""id":8"#));
    let sent = bench.sent(Side::Down);
    assert_eq!(sent, [STOP.to_owned(), PROMPT.replace(r#""id":7"#, r#""id":2"#)]);
    assert_eq!(bench.events(), [""; 0]);
}

#[test]
fn f111_a_stop_without_room_cancels_the_turn_at_once_and_follows_when_there_is_room() {
    let configs = [Dialect::ACP_V1, Dialect::ACP_V1].map(|dialect| {
        let mut config = Config::client(dialect);
        config.limits.unsent_messages = 2;
        config
    });
    let mut bench = Bench::new(Side::Up, configs);
    bench.receive(Side::Up, PROMPT);
    bench.sent(Side::Down);
    for _ in 0..2 {
        bench.receive(Side::Up, r#"{"jsonrpc":"2.0","method":"log"}"#);
    }
    bench.receive(Side::Up, STOP);
    let sent = bench.sent(Side::Down);
    let cancel = r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}"#;
    assert_eq!(sent.first().map(String::as_str), Some(cancel), "{sent:?}");
    assert_eq!(sent.last().map(String::as_str), Some(STOP), "{sent:?}");
    assert_eq!(sent.len(), 4, "{sent:?}");
    // The agent knows the cancel alone. The client has asked for a stop.
    let error = r#"{"code":-32800,"message":"Request cancelled"}"#;
    bench.receive(Side::Down, &format!(r#"{{"jsonrpc":"2.0","id":1,"error":{error}}}"#));
    let response = r#"{"jsonrpc":"2.0","id":7,"result":{"stopReason":"cancelled"}}"#;
    assert_eq!(bench.sent(Side::Up), [response]);
}

/// Makes a relay with room for two messages to each side.
fn small(dialects: [Dialect; 2]) -> Bench {
    let configs = dialects.map(|dialect| {
        let mut config = Config::client(dialect);
        config.limits.unsent_messages = 2;
        config
    });
    Bench::new(Side::Up, configs)
}

/// Sends this stop while the server does not read, and returns what the server reads later.
fn stopped_without_room(bench: &mut Bench, stop: &str) -> Vec<String> {
    for _ in 0..2 {
        bench.receive(Side::Up, LOG);
    }
    bench.receive(Side::Up, stop);
    assert!(bench.events().concat().contains("was not forwarded: the outbox is full"));
    bench.sent(Side::Down)
}

/// Returns a relay whose agent has accepted a prompt, and works on.
fn accepted() -> Bench {
    let mut bench = small([Dialect::ACP_V2, Dialect::ACP_V2]);
    bench.receive(Side::Up, PROMPT);
    bench.sent(Side::Down);
    bench.receive(Side::Down, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    bench
}

const LOG: &str = r#"{"jsonrpc":"2.0","method":"log"}"#;

#[test]
fn f111_a_stop_without_room_of_a_turn_that_goes_on_after_its_response_follows_when_there_is_room() {
    let mut bench = accepted();
    bench.sent(Side::Up);
    assert_eq!(stopped_without_room(&mut bench, STOP), [LOG, LOG, STOP]);
    assert_eq!(bench.sent(Side::Down), [""; 0], "it is sent once");
}

#[test]
fn f111_a_stop_without_room_of_what_a_notification_began_follows_when_there_is_room() {
    let mut bench = small([Dialect::LSP_3_17, Dialect::LSP_3_17]);
    for token in ["1", "2"] {
        let value = r#"{"kind":"begin","title":"t"}"#;
        let params = format!(r#"{{"token":{token},"value":{value}}}"#);
        let begun = format!(r#"{{"jsonrpc":"2.0","method":"$/progress","params":{params}}}"#);
        bench.receive(Side::Down, &begun);
        assert_eq!(bench.sent(Side::Up), [begun]);
    }
    let method = "window/workDoneProgress/cancel";
    let stop = format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"token":2}}}}"#);
    assert_eq!(stopped_without_room(&mut bench, &stop), [LOG, LOG, &stop]);
}

#[test]
fn f111_a_stop_without_room_of_a_turn_that_ended_meanwhile_is_not_sent() {
    let mut bench = accepted();
    for message in [LOG, LOG, STOP] {
        bench.receive(Side::Up, message);
    }
    let update = r#"{"sessionId":"s","update":{"state":"idle"}}"#;
    let idle = format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{update}}}"#);
    bench.receive(Side::Down, &idle);
    assert_eq!(bench.sent(Side::Down), [LOG, LOG]);
}

#[test]
fn f111_a_stop_without_room_of_one_session_stops_no_new_turn_of_another() {
    let mut bench = small([Dialect::ACP_V2, Dialect::ACP_V2]);
    let other = |message: &str| message.replace(r#""s""#, r#""t""#);
    let (prompt, stop) = (other(PROMPT), other(STOP));
    // A turn that is stopping, a turn of the same session that began since, and one of the other session.
    for (call, message) in [(1, PROMPT), (0, STOP), (2, PROMPT), (3, &prompt)] {
        bench.receive(Side::Up, message);
        bench.sent(Side::Down);
        if call > 0 {
            let response = format!(r#"{{"jsonrpc":"2.0","id":{call},"result":{{}}}}"#);
            bench.receive(Side::Down, &response);
            bench.sent(Side::Up);
        }
    }
    assert_eq!(stopped_without_room(&mut bench, &stop), [LOG, LOG, &stop]);
    assert_eq!(bench.sent(Side::Down), [""; 0]);
}

#[test]
fn f111_a_stop_that_waits_is_not_lost_when_another_one_finds_no_room() {
    let mut bench = small([Dialect::ACP_V2, Dialect::ACP_V2]);
    let other = |message: &str| message.replace(r#""s""#, r#""t""#);
    for (call, prompt) in [(1, PROMPT), (2, &other(PROMPT))] {
        bench.receive(Side::Up, prompt);
        bench.sent(Side::Down);
        bench.receive(Side::Down, &format!(r#"{{"jsonrpc":"2.0","id":{call},"result":{{}}}}"#));
        bench.sent(Side::Up);
    }
    // The client does not read, so that a new turn that is refused still counts there.
    for (side, message) in [(Side::Down, LOG), (Side::Down, LOG), (Side::Up, LOG), (Side::Up, LOG)]
    {
        bench.receive(side, message);
    }
    for message in [STOP, PROMPT, &other(STOP)] {
        bench.receive(Side::Up, message);
    }
    assert_eq!(bench.sent(Side::Down), [LOG, LOG, STOP, &other(STOP)]);
}

#[test]
fn f111_a_turn_that_is_cancelled_as_a_request_and_then_stopped_gets_the_stop_reason() {
    let mut bench = turn();
    let cancel = r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":7}}"#;
    bench.receive(Side::Up, cancel);
    bench.receive(Side::Up, STOP);
    let error = r#"{"code":-32800,"message":"Request cancelled"}"#;
    bench.receive(Side::Down, &format!(r#"{{"jsonrpc":"2.0","id":1,"error":{error}}}"#));
    let sent = bench.sent(Side::Up);
    let response = r#"{"jsonrpc":"2.0","id":7,"result":{"stopReason":"cancelled"}}"#;
    assert!(sent.contains(&response.to_owned()), "{sent:?}");
}

#[test]
fn f111_a_permission_request_that_can_not_be_cancelled_ends_as_cancelled_too() {
    let configs = [Dialect::ACP_DRAFT, Dialect::ACP_V1].map(Config::client);
    let mut bench = Bench::new(Side::Up, configs);
    let opening = r#"{"jsonrpc":"2.0","id":6,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}"#;
    bench.receive(Side::Up, opening);
    bench.sent(Side::Down);
    bench.receive(Side::Down, r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}"#);
    bench.sent(Side::Up);
    bench.receive(Side::Up, PROMPT);
    bench.sent(Side::Down);
    bench.receive(Side::Down, PERMISSION);
    bench.sent(Side::Up);
    bench.receive(Side::Up, STOP);
    bench.sent(Side::Down);
    assert_eq!(bench.sent(Side::Up), [""; 0], "the client knows no cancels");
    bench.advance(Duration::from_secs(1));
    let response = r#"{"jsonrpc":"2.0","id":3,"result":{"outcome":{"outcome":"cancelled"}}}"#;
    assert_eq!(bench.sent(Side::Down), [response]);
    assert_eq!(bench.events(), ["up: id 7: was stopped by the name of its work"]);
}
