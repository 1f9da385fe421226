//! G8: memory is bounded, and overflow is a response or an event. Each limit has its tests here, but
//! `batch_members` is in `batches.rs` and `abandoned_ids` in `g12_grace.rs`.

use crate::support;

use protocol_core::{
    CallOptions, CancelOutcome, Cause, Config, Dialect, Event, Framing, InputBuffer, Limits,
};
use protocol_core::{Refusal, Response, StreamConnection, Timestamp};
use support::{Host, acp, cancel, limited, millis, raw, request, result};

#[test]
fn every_limit_is_finite_by_default() {
    let limits = Limits::default();
    let expected = "Limits { message_bytes: 16777216, header_bytes: 8192, depth: 128, \
        id_bytes: 256, batch_members: 1000, calls: 16384, requests: 16384, \
        unsent_bytes: 67108864, unsent_messages: 262144, abandoned_ids: 4096, early_cancels: 1024, \
        works: 1024 }";
    assert_eq!(format!("{limits:?}"), expected);
}

// message_bytes

#[test]
fn g08_message_bytes_a_longer_message_is_answered_and_the_next_one_works() {
    let limit = cancel("7").len();
    let mut host = limited(|config| config.limits.message_bytes = limit);
    let fits = format!("{:limit$}", request("7", "m"));
    assert_eq!(host.receive(&fits), ["request r1 7 m"]);
    let longer = format!("{} ", fits.replace('7', "8"));
    assert_eq!(host.receive(&longer), ["violation invalid_request 8"]);
    let sent = host.sent();
    assert!(sent.len() == 1 && sent[0].contains(r#""id":8,"error":{"code":-32600,"#), "{sent:?}");
    assert_eq!(host.receive(&cancel("7")), ["cancelled r1 peer"]);
}

#[test]
fn g01_a_response_over_the_limit_settles_its_call_wherever_its_id_stands() {
    let long = "x".repeat(1_000);
    let (acp, abp, dap) = (Dialect::ACP_V1, Dialect::ABP, Dialect::DAP);
    for (dialect, response) in [
        (&acp, format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"id":2,"a":["{long}"]}}}}"#)),
        (&acp, format!(r#"{{"result":"{long}","jsonrpc":"2.0","id":1}}"#)),
        (&acp, format!(r#"{{"error":{{"code":1,"message":"{long}"}},"id":1,"jsonrpc":"2.0"}}"#)),
        (&abp, {
            let payload = format!(r#"{{"data":"{long}","success":true,"callId":"1"}}"#);
            format!(r#"{{"type":"capabilities/call-result","id":"7","payload":{payload}}}"#)
        }),
        (&dap, {
            let body = format!(r#""success":true,"command":"m","body":{{"a":["{long}"]}}"#);
            format!(r#"{{"seq":7,"type":"response","request_seq":1,{body}}}"#)
        }),
    ] {
        let mut config = Config::client(dialect.clone());
        (config.limits.message_bytes, config.dialect.framing) = (1_000, Framing::Newline);
        config.dialect.session = None;
        let mut stream: StreamConnection<String> = StreamConnection::new(config);
        let options = CallOptions::default();
        let call = stream.connection_mut().call("m", None, "it".into(), options, Timestamp::ZERO);
        call.expect("a call");
        stream.poll_transmit(&mut Vec::new()).expect("a request");
        let pieces = format!("{response}\n").into_bytes();
        let events = feed(stream, pieces.chunks(300).map(<[u8]>::to_vec), 1_001);
        assert_eq!(events.last().unwrap(), "settled it malformed", "{response:.30}: {events:?}");
        assert!(events[0].starts_with("violation malformed_response"), "{events:?}");
    }
}

#[test]
fn g10_a_message_over_the_limit_advances_the_clock() {
    let mut config = Config::server(Dialect::ABP);
    (config.limits.message_bytes, config.dialect.framing) = (100, Framing::Newline);
    let mut stream: StreamConnection<String> = StreamConnection::new(config);
    let payload = format!(r#"{{"capability":"m","params":"{}"}}"#, "x".repeat(100));
    let line = format!("{{\"type\":\"capabilities/call\",\"id\":\"7\",\"payload\":{payload}}}\n");
    let (_, events) = support::take(&mut stream, line.as_bytes(), Timestamp::ZERO + millis(70));
    assert_eq!(events, ["violation invalid_request \"7\""]);
    let mut sent = Vec::new();
    stream.poll_transmit(&mut sent).expect("a response");
    assert!(String::from_utf8(sent).unwrap().contains(r#""timestamp":70"#));
}

/// Feeds a stream in pieces, and returns its events. Asserts that the buffer stays small.
fn feed(
    mut stream: StreamConnection<String>,
    pieces: impl IntoIterator<Item = Vec<u8>>,
    bound: usize,
) -> Vec<String> {
    let (mut input, mut lines) = (InputBuffer::new(), Vec::new());
    for piece in pieces {
        input.extend_from_slice(&piece);
        loop {
            let (used, events) = support::take(&mut stream, input.unread(), Timestamp::ZERO);
            lines.extend(events);
            if used == 0 {
                break;
            }
            input.consume(used);
        }
        assert!(input.unread().len() <= bound, "{} bytes kept", input.unread().len());
    }
    lines
}

#[test]
fn b30_message_bytes_an_endless_line_is_skipped_in_bounded_memory() {
    let mut config = Config::client(Dialect::ACP_V1);
    config.limits.message_bytes = 1_000;
    let endless = std::iter::repeat_n(vec![b'x'; 999], 10_000);
    let next = [b"\n".to_vec(), request("7", "m").into_bytes(), b"\n".to_vec()];
    let events = feed(StreamConnection::new(config), endless.chain(next), 1_001);
    assert_eq!(events, ["violation invalid_request", "request r1 7 m"]);
}

#[test]
fn b30_message_bytes_a_gigabyte_of_content_length_is_skipped_in_bounded_memory() {
    let mut config = Config::client(Dialect::LSP_3_17);
    config.limits.message_bytes = 1_000;
    let head = b"Content-Length: 1073741824\r\n\r\n".to_vec();
    let body = std::iter::repeat_n(vec![b'x'; 1 << 20], 1 << 10);
    let message = request("7", "m");
    let next = format!("Content-Length: {}\r\n\r\n{message}", message.len()).into_bytes();
    let events =
        feed(StreamConnection::new(config), [head].into_iter().chain(body).chain([next]), 0);
    assert_eq!(events, ["violation invalid_request", "request r1 7 m"]);
}

#[test]
fn g08_a_limit_may_be_as_large_as_a_number() {
    for dialect in Dialect::PRESETS.iter().cloned() {
        let mut config = Config::client(dialect);
        config.limits.message_bytes = usize::MAX;
        config.limits.header_bytes = usize::MAX;
        config.limits.depth = usize::MAX;
        config.limits.id_bytes = usize::MAX;
        config.limits.batch_members = usize::MAX;
        config.limits.unsent_bytes = usize::MAX;
        config.limits.calls = usize::MAX;
        config.limits.requests = usize::MAX;
        config.limits.abandoned_ids = usize::MAX;
        feed(
            StreamConnection::new(config),
            [b"Content-Length: 2\r\n\r\n[]".to_vec(), b"\n[]\n".to_vec()],
            100,
        );
    }
}

// header_bytes

#[test]
fn b30_header_bytes_a_header_that_never_ends_ends_the_connection() {
    let mut config = Config::client(Dialect::LSP_3_17);
    config.limits.header_bytes = 100;
    let fits = format!("Content-Length: 2\r\nX: {}\r\n\r\n[]", "y".repeat(74));
    assert_eq!(fits.len(), 102);
    assert_eq!(
        feed(StreamConnection::new(config.clone()), [fits.into_bytes()], 0),
        ["violation batch_refused"]
    );
    let endless = b"X: y\r\n".repeat(1_000).into_iter().map(|byte| vec![byte]);
    let expected = ["violation header_too_long", "closed broken_framing"];
    assert_eq!(feed(StreamConnection::new(config), endless, 99), expected);
}

// depth

#[test]
fn g08_depth_a_deeper_message_is_answered_by_its_id() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let with = |levels: usize| {
        let params = nested(levels);
        format!(r#"{{"jsonrpc":"2.0","id":7,"method":"m","params":{params}}}"#)
    };
    let mut host = limited(|config| config.limits.depth = 10);
    assert_eq!(host.receive(&with(9)), [format!("request r1 7 m {}", nested(9))]);
    host.respond_ok(host.request(1));
    host.sent();
    assert_eq!(host.receive(&with(10)), ["violation invalid_request 7"]);
    let answer = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32600,"#;
    assert!(host.sent()[0].starts_with(answer));
    let brackets_in_strings = r#"{"jsonrpc":"2.0","id":7,"method":"\"[[[[[[[[[[[[\\"}"#;
    assert!(host.receive(brackets_in_strings)[0].starts_with("request r2 7 "));
    let deep_and_wide = format!(r#"{{"jsonrpc":"2.0","method":"m","params":[{},[]]}}"#, nested(8));
    assert!(host.receive(&deep_and_wide)[0].starts_with("notification m"));
    let wide = format!(r#"{{"jsonrpc":"2.0","method":"m","params":[{}[]]}}"#, "[],".repeat(50));
    assert!(host.receive(&wide)[0].starts_with("notification m"));
}

#[test]
fn g08_depth_a_response_that_is_too_deep_settles_its_call() {
    let mut host = limited(|config| config.limits.depth = 3);
    host.sent_call("slow");
    let events = host.receive(&result("1", "[[[1]]]"));
    assert_eq!(events, ["violation malformed_response 1", "settled slow malformed"]);
}

// id_bytes

#[test]
fn g08_id_bytes_a_longer_id_is_answered_with_null() {
    let mut host = limited(|config| config.limits.id_bytes = 12);
    assert_eq!(host.receive(&request("\"0123456789\"", "m")), ["request r1 \"0123456789\" m"]);
    assert_eq!(host.receive(&request("\"0123456789x\"", "m")), ["violation invalid_request"]);
    assert_eq!(host.receive(&request("1234567890123", "m")), ["violation invalid_request"]);
    for answer in host.sent() {
        assert!(answer.starts_with(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"#));
    }
    assert_eq!(host.in_flight(), (0, 1));
}

// calls

#[test]
fn g08_calls_one_more_is_refused_until_one_settles() {
    let mut host = limited(|config| config.limits.calls = 2);
    let first = host.sent_call("first");
    host.sent_call("second");
    let before = host.state();
    assert_eq!(host.try_call("m", CallOptions::default()), Err(Refusal::TooManyCalls));
    assert_eq!(host.state(), before);
    host.cancel(first);
    let refused = host.try_call("m", CallOptions::default());
    assert_eq!(refused, Err(Refusal::TooManyCalls), "a cancelled call counts until it settles");
    host.receive(&result("2", "1"));
    assert_eq!(host.call("third").number(), 3, "a refused call takes no number");
}

// requests

#[test]
fn g08_requests_one_more_is_answered_with_the_overload_code() {
    for (mut host, code) in [
        (limited(|config| config.limits.requests = 1), -32800),
        (
            limited(|config| {
                config.dialect = Dialect::LSP_3_17;
                config.limits.requests = 1;
            }),
            -32803,
        ),
    ] {
        let work = host.peer_requests("7");
        assert_eq!(host.receive(&request("8", "m")), ["violation too_many_requests 8"]);
        let start = format!(r#"{{"jsonrpc":"2.0","id":8,"error":{{"code":{code},"#);
        assert!(host.sent()[0].starts_with(&start));
        host.conn.cancel_request(work, protocol_core::Cause::Internal, host.now);
        host.events();
        let refused = host.receive(&request("8", "m"));
        assert_eq!(refused, ["violation too_many_requests 8"], "cancelled but unanswered counts");
        host.respond(work, Response::Cancelled).unwrap();
        assert_eq!(host.receive(&request("8", "m")), ["request r2 8 m"]);
    }
}

#[test]
fn g08_requests_over_the_limit_may_close_the_connection() {
    let mut host = limited(|config| {
        config.limits.requests = 1;
        config.close_over_limit = true;
    });
    let work = host.peer_requests("7");
    let events = host.receive(&request("8", "m"));
    let expected = ["violation too_many_requests 8", "cancelled r1 internal", "closed over_limit"];
    assert_eq!(events, expected);
    host.respond_ok(work);
    assert_eq!(host.sent().len(), 2, "both are answered");
    assert_eq!(host.receive(&request("9", "m")), [""; 0]);
}

// unsent_bytes

#[test]
fn g08_unsent_bytes_a_message_that_fits_exactly_is_taken() {
    let message = r#"{"jsonrpc":"2.0","method":"m"}"#;
    let mut host = limited(|config| config.limits.unsent_bytes = 2 * message.len());
    host.conn.notify("m", None).unwrap();
    host.conn.notify("m", None).unwrap();
    let before = host.state();
    assert_eq!(host.conn.notify("m", None), Err(Refusal::OutboxFull));
    assert_eq!(host.try_call("m", CallOptions::default()), Err(Refusal::OutboxFull));
    let long = raw(r#"["01234567890123456789012345678901234567890123456789"]"#);
    assert_eq!(host.conn.notify("m", Some(long)), Err(Refusal::TooLarge));
    assert_eq!(host.state(), before);
}

#[test]
fn g08_unsent_bytes_a_message_that_fits_alone_is_waited_for() {
    let message = r#"{"jsonrpc":"2.0","method":"m"}"#;
    let mut host = limited(|config| config.limits.unsent_bytes = message.len());
    host.conn.notify("a", None).unwrap();
    assert_eq!(host.conn.notify("m", None), Err(Refusal::OutboxFull));
    host.sent();
    assert_eq!(host.events(), ["ready"]);
    host.conn.notify("m", None).unwrap();
    assert_eq!(host.sent(), [message]);
}

#[test]
fn g08_unsent_bytes_one_wake_up_follows_a_refusal() {
    let mut host = limited(|config| config.limits.unsent_bytes = 95);
    for method in ["a", "b", "c"] {
        host.conn.notify(method, None).unwrap();
    }
    for _ in 0..5 {
        assert_eq!(host.conn.notify("d", None), Err(Refusal::OutboxFull));
        assert_eq!(host.try_call("d", CallOptions::default()), Err(Refusal::OutboxFull));
    }
    assert_eq!(host.events(), [""; 0]);
    host.send_one();
    assert_eq!(host.events(), ["ready"], "the smaller one of the two fits (F84)");
    assert_eq!(host.events(), [""; 0], "once");
    assert_eq!(host.try_call("d", CallOptions::default()), Err(Refusal::OutboxFull));
    host.send_one();
    assert_eq!(host.events(), ["ready"], "and now the larger one");
    host.sent();
    host.conn.notify("d", None).unwrap();
    host.sent();
    assert_eq!(host.events(), [""; 0]);
}

#[test]
fn g08_unsent_bytes_a_timer_that_makes_room_wakes_too() {
    let mut host = limited(|config| config.limits.unsent_bytes = 60);
    host.call_with("slow", CallOptions::default().timeout(millis(5)));
    assert_eq!(host.conn.notify("m", None), Err(Refusal::OutboxFull));
    assert_eq!(host.advance(5), ["settled slow timed_out deadline", "ready"]);
}

#[test]
fn g08_unsent_bytes_cancels_are_taken_above_it() {
    let mut host = limited(|config| config.limits.unsent_bytes = 60);
    let call = host.sent_call("slow");
    host.conn.notify("0123456789012345678901234567", None).unwrap();
    host.cancel(call);
    assert!(host.conn.unsent_bytes() > 60);
    assert_eq!(host.sent()[0], cancel("1"));
}

#[test]
fn g08_unsent_bytes_a_peer_that_sends_rubbish_and_does_not_read_is_told_of() {
    let mut host = limited(|config| config.limits.unsent_bytes = 300);
    let mut dropped = 0;
    for _ in 0..100 {
        let events = host.receive("rubbish");
        assert_eq!(events[0], "violation parse");
        dropped += usize::from(events.get(1).is_some_and(|e| e == "violation response_dropped"));
        assert!(host.conn.unsent_bytes() <= 300);
    }
    assert!(dropped > 90);
    host.sent();
    assert_eq!(host.receive("rubbish").len(), 1);
}

// The tables

#[test]
fn b20_thousands_of_calls_that_are_never_answered_leave_nothing_behind() {
    let mut host = acp();
    for number in 0..5_000_u64 {
        let call = host.sent_call_with("slow", CallOptions::default().idle_timeout(millis(60_000)));
        match number % 3 {
            0 => drop(host.cancel_for(call, protocol_core::Cause::Dropped)),
            1 => host.conn.detach(call, host.now),
            _ => drop(host.cancel(call)),
        }
    }
    assert_eq!(host.in_flight(), (5_000, 0), "they count until they are released");
    host.advance(30_000);
    assert_eq!(host.in_flight().0, 5_000 / 3, "only the calls that somebody waits for count");
    host.advance(30_000);
    host.sent();
    assert_eq!(host.in_flight(), (0, 0));
    assert_eq!((host.next_timer(), host.conn.unsent_bytes()), (None, 0));
}

#[test]
fn g08_sixty_thousand_in_flight_both_ways_are_no_slower_than_a_few() {
    let mut host = limited(|config| {
        config.dialect = Dialect::LSP_3_17;
        (config.limits.calls, config.limits.requests) = (60_000, 60_000);
    });
    let options = CallOptions::default().idle_timeout(millis(1_000)).timeout(millis(5_000));
    for number in 0..60_000 {
        let params = format!(r#"{{"workDoneToken":{number}}}"#);
        host.try_call_with("m", Some(raw(&params)), options).unwrap();
        support::all(&mut host.conn, request(&number.to_string(), "m").as_bytes(), host.now);
    }
    host.sent();
    for number in 0..60_000 {
        let params = format!(r#"{{"token":{number}}}"#);
        let progress = format!(r#"{{"jsonrpc":"2.0","method":"$/progress","params":{params}}}"#);
        support::all(&mut host.conn, progress.as_bytes(), host.now);
        let cancel =
            format!(r#"{{"jsonrpc":"2.0","method":"$/cancelRequest","params":{{"id":{number}}}}}"#);
        let events = support::all(&mut host.conn, cancel.as_bytes(), host.now);
        assert!(matches!(events[..], [Event::Cancelled { .. }]), "{events:?}");
    }
    for number in 1..=60_000 {
        support::all(&mut host.conn, result(&number.to_string(), "1").as_bytes(), host.now);
    }
    assert_eq!(host.in_flight(), (0, 60_000));
}

#[test]
fn g08_a_reason_that_does_not_fit_is_left_out() {
    let cancelled_with = |room: usize, why: &str| {
        let mut config = Config::client(Dialect::MCP);
        config.limits.unsent_bytes = room;
        let mut client = Host::new(config);
        let call = client.sent_call("work");
        let outcome = client.conn.cancel_because(call, Cause::Caller, Some(why), client.now);
        assert_eq!(outcome, CancelOutcome::Sent);
        client.sent().remove(0)
    };
    let plain = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    assert_eq!(cancelled_with(200, &"x".repeat(300)), plain);
    let explained = cancelled_with(200, "why");
    assert!(explained.contains(r#""reason":"why""#), "{explained}");
    assert_eq!(cancelled_with(explained.len(), "why"), explained, "there is just room for it");
    assert_eq!(cancelled_with(explained.len() - 1, "why"), plain);
}
