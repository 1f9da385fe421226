//! G7: the end of input settles every call and marks every request. `Closed` is reported once, after all of it.

use crate::support;

use protocol_core::{CallOptions, Event, Refusal, Shutdown, StreamConnection};
use protocol_core::{Config, Dialect, Framing, Timestamp};
use support::{acp, cancel, error, jsonrpc, line, lsp, request, result};

#[test]
fn b16_b17_every_call_settles_and_every_request_is_marked() {
    for mut host in [acp(), lsp(), jsonrpc()] {
        host.sent_call("sent");
        host.call("queued");
        host.peer_requests("7");
        let events = host.eof();
        let expected = [
            "settled sent connection_lost peer_gone",
            "settled queued connection_lost peer_gone",
            "cancelled r1 peer_gone",
            "closed peer_gone",
        ];
        assert_eq!(events, expected);
        assert_eq!(host.sent(), [""; 0], "the unsent messages are withdrawn");
    }
}

#[test]
fn g07_a_cancelled_call_is_lost_all_the_same() {
    let mut host = acp();
    let call = host.sent_call("slow");
    host.cancel(call);
    let expected = ["settled slow connection_lost peer_gone", "closed peer_gone"];
    assert_eq!(host.eof(), expected);
}

#[test]
fn g07_a_request_that_was_cancelled_is_not_marked_again() {
    let mut host = acp();
    host.peer_requests("7");
    host.receive(&cancel("7"));
    assert_eq!(host.eof(), ["closed peer_gone"]);
}

#[test]
fn g07_closed_comes_exactly_once_and_nothing_after_it() {
    let mut host = acp();
    let work = host.peer_requests("7");
    let call = host.sent_call_with("child", CallOptions::default().parent(work));
    host.eof();
    assert_eq!(host.eof(), [""; 0]);
    for message in [request("9", "m"), cancel("7"), result("1", "1"), "garbage".into(), "[]".into()]
    {
        assert_eq!(host.receive(&message), [""; 0]);
    }
    for how in [Shutdown::Drain, Shutdown::CancelAll] {
        assert_eq!(host.shutdown(how), [""; 0]);
    }
    host.cancel(call);
    host.conn.detach(call, host.now);
    host.conn.progress(call, host.now);
    host.conn.cancel_request(work, protocol_core::Cause::Internal, host.now);
    assert_eq!(host.advance(1_000_000), [""; 0]);
    host.respond_ok(work);
    assert_eq!(host.events(), [""; 0], "not even that the tree has settled");
    assert_eq!(host.sent(), [result("7", "null")]);
}

#[test]
fn g07_commands_on_a_closed_connection_are_refused_and_change_nothing() {
    let mut host = acp();
    let work = host.peer_requests("7");
    host.eof();
    let before = host.state();
    assert_eq!(host.try_call("m", CallOptions::default()), Err(Refusal::Closed));
    let child = CallOptions::default().parent(work);
    assert_eq!(host.try_call("m", child), Err(Refusal::Closed));
    assert_eq!(host.conn.notify("m", None), Err(Refusal::Closed));
    assert_eq!(host.state(), before);
}

#[test]
fn g07_a_local_close_ends_with_closed_too() {
    for how in [Shutdown::Drain, Shutdown::CancelAll, Shutdown::Abandon] {
        let mut host = acp();
        assert_eq!(host.shutdown(how), ["closed shutdown"]);
        assert_eq!((host.eof(), host.shutdown(how)), (vec![], vec![]));
    }
}

#[test]
fn g07_the_end_of_input_while_draining_is_told_as_such() {
    let mut host = acp();
    host.sent_call("slow");
    host.shutdown(Shutdown::Drain);
    let expected = ["settled slow connection_lost peer_gone", "closed peer_gone"];
    assert_eq!(host.eof(), expected);
}

#[test]
fn g07_answers_that_had_not_left_still_leave() {
    let mut host = acp();
    let work = host.peer_requests("7");
    host.respond_ok(work);
    host.conn.notify("bye", None).unwrap();
    host.eof();
    assert_eq!(host.sent(), [result("7", "null"), r#"{"jsonrpc":"2.0","method":"bye"}"#.into()]);
}

#[test]
fn g07_events_from_before_the_end_come_first() {
    let mut host = acp();
    host.call_with("queued", CallOptions::default().timeout(support::millis(1)));
    host.now = Timestamp::from_millis(1);
    host.conn.handle_timeout(host.now);
    host.conn.handle_eof(host.now);
    assert_eq!(host.events(), ["settled queued timed_out deadline", "closed peer_gone"]);
}

fn lines(events: impl IntoIterator<Item = Event<'static, String>>) -> Vec<String> {
    events.into_iter().map(|event| line(&event)).collect()
}

fn finish(stream: &mut StreamConnection<String>, unread: &[u8]) -> Vec<String> {
    stream.handle_eof(unread, Timestamp::ZERO);
    lines(std::iter::from_fn(|| stream.connection_mut().poll_event()))
}

#[test]
fn g07_a_last_line_without_its_end_is_taken_before_the_end() {
    let mut stream = StreamConnection::new(Config::client(Dialect::ACP_V1));
    let found = finish(&mut stream, error("1", -1).as_bytes());
    assert_eq!(found, ["violation unknown_response 1", "closed peer_gone"]);
    assert_eq!(finish(&mut stream, b"1"), [""; 0]);
}

#[test]
fn g07_input_that_ends_inside_a_message_is_reported() {
    let mut stream = StreamConnection::new(Config::client(Dialect::LSP_3_17));
    let received = stream.receive(b"Content-Length: 9\r\n\r\n{}", Timestamp::ZERO);
    assert_eq!(received.consumed, 21);
    assert_eq!(finish(&mut stream, b"{}"), ["violation truncated", "closed peer_gone"]);
}

#[test]
fn f16_what_is_whole_is_taken_before_the_end() {
    let requests = [request("1", "a"), request("2", "b")];
    let blocks = requests.each_ref().map(|it| format!("Content-Length: {}\r\n\r\n{it}", it.len()));
    let both = ["request r1 1 a", "request r2 2 b"];
    let ended = ["cancelled r1 peer_gone", "cancelled r2 peer_gone", "closed peer_gone"];
    let truncated = ["violation truncated"];
    for (dialect, input, expected) in [
        (Dialect::ACP_V1, requests.join("\n"), [&both[..], &ended].concat()),
        (Dialect::ACP_V1, format!("\n{}\r\n\n", requests.join("\n")), [&both[..], &ended].concat()),
        (Dialect::LSP_3_17, blocks.concat(), [&both[..], &ended].concat()),
        (Dialect::LSP_3_17, format!("{}\r\n", blocks.concat()), [&both[..], &ended].concat()),
        (Dialect::LSP_3_17, blocks.concat() + "Content-", [&both[..], &truncated, &ended].concat()),
        (
            Dialect::LSP_3_17,
            blocks.concat() + &blocks[0][..30],
            [&both[..], &truncated, &ended].concat(),
        ),
    ] {
        let mut stream = StreamConnection::new(Config::server(dialect));
        assert_eq!(finish(&mut stream, input.as_bytes()), expected, "{input:?}");
    }
    let mut dialect = Dialect::JSON_RPC;
    dialect.framing = Framing::Whole;
    let mut stream = StreamConnection::new(Config::server(dialect));
    let expected = ["request r1 1 a", "cancelled r1 peer_gone", "closed peer_gone"];
    assert_eq!(finish(&mut stream, requests[0].as_bytes()), expected);
}

#[test]
fn g07_broken_framing_ends_the_connection() {
    let mut stream: StreamConnection<String> =
        StreamConnection::new(Config::client(Dialect::LSP_3_17));
    let conn = stream.connection_mut();
    conn.call("slow", None, "slow".into(), CallOptions::default(), Timestamp::ZERO).unwrap();
    let input = b"Content-Length: x\r\n\r\n{}";
    let (used, events) = support::take(&mut stream, input, Timestamp::ZERO);
    let expected = [
        "violation invalid_header",
        "settled slow connection_lost peer_gone",
        "closed broken_framing",
    ];
    assert_eq!((used, events), (input.len(), expected.map(String::from).to_vec()));
    assert_eq!(stream.receive(b"anything", Timestamp::ZERO).consumed, 8, "unread");
    assert_eq!(finish(&mut stream, b"more"), [""; 0]);
}
