//! Batches, where the dialect has them: every member is taken, and their responses leave together.

use crate::support;

use protocol_core::{Config, Dialect, Refusal, Response, Shutdown};
use support::{Host, acp, jsonrpc, lsp, raw, request, result};

fn notification(method: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#)
}

fn batch(members: &[String]) -> String {
    format!("[{}]", members.join(","))
}

fn limited(change: impl FnOnce(&mut Config)) -> Host {
    let mut config = Config::server(Dialect::JSON_RPC);
    change(&mut config);
    Host::new(config)
}

#[test]
fn a_batch_is_answered_in_one_array_once_all_its_members_are() {
    let mut host = jsonrpc();
    let members = [request("1", "a"), notification("n"), request("\"x\"", "b")];
    let events = host.receive(&batch(&members));
    assert_eq!(events, ["request r1 1 a", "notification n", "request r2 \"x\" b"]);
    host.respond_ok(host.request(2));
    assert_eq!(host.sent(), [""; 0]);
    assert!(host.conn.unsent_bytes() > 0, "answers that wait count as unsent");
    host.respond_ok(host.request(1));
    assert_eq!(host.sent(), [batch(&[result("\"x\"", "null"), result("1", "null")])]);
    assert_eq!(host.conn.unsent_bytes(), 0);
}

#[test]
fn a_batch_of_notifications_is_not_answered() {
    let mut host = jsonrpc();
    let events = host.receive(&batch(&[notification("a"), notification("b")]));
    assert_eq!(events, ["notification a", "notification b"]);
    assert_eq!(host.sent(), [""; 0]);
}

#[test]
fn a_batch_of_responses_settles_calls() {
    let mut host = jsonrpc();
    host.sent_call("first");
    host.sent_call("second");
    let events = host.receive(&batch(&[result("2", "2"), result("1", "1"), result("2", "3")]));
    let expected =
        ["settled second result 2", "settled first result 1", "violation duplicate_response 2"];
    assert_eq!(events, expected);
    assert_eq!(host.sent(), [""; 0]);
}

#[test]
fn an_empty_batch_is_answered_by_one_error() {
    for message in ["[]", " [ ] "] {
        let mut host = jsonrpc();
        assert_eq!(host.receive(message), ["violation batch_size"]);
        let sent = host.sent();
        assert!(
            sent.len() == 1
                && sent[0].starts_with(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"#)
        );
    }
}

#[test]
fn bad_members_are_answered_one_by_one() {
    let mut host = jsonrpc();
    let members = [
        "1".into(),
        "[[[]]]".into(),
        r#"{"foo":1}"#.into(),
        r#"{"id":5}"#.into(),
        request("6", "m"),
    ];
    let events = host.receive(&batch(&members));
    let invalid = "violation invalid_request";
    assert_eq!(
        events,
        [invalid, invalid, invalid, "violation invalid_request 5", "request r1 6 m"]
    );
    host.respond_ok(host.request(1));
    let sent = host.sent();
    let answers: Vec<serde_json::Value> = serde_json::from_str(&sent[0]).unwrap();
    let ids: Vec<_> = answers.iter().map(|answer| answer["id"].to_string()).collect();
    assert_eq!(
        (sent.len(), ids),
        (1, ["null", "null", "null", "5", "6"].map(String::from).to_vec())
    );
}

#[test]
fn b05_a_duplicate_within_a_batch_is_refused_within_it() {
    let mut host = jsonrpc();
    let events = host.receive(&batch(&[request("1", "a"), request("1", "b")]));
    assert_eq!(events, ["request r1 1 a", "violation duplicate_id 1"]);
    host.respond_ok(host.request(1));
    let sent = host.sent();
    assert!(sent.len() == 1 && sent[0].ends_with(&format!(",{}]", result("1", "null"))));
}

#[test]
fn g09_a_member_with_a_key_that_cannot_be_decoded_is_no_panic() {
    let mut host = jsonrpc();
    let events =
        host.receive(r#"[{"\ud800":1},{"jsonrpc":"2.0","id":1,"method":"m","\udfff":[]}]"#);
    assert_eq!(events, ["violation invalid_request", "request r1 1 m"]);
}

#[test]
fn g08_batch_members_one_more_is_answered_by_one_error() {
    let mut host = limited(|config| config.limits.batch_members = 3);
    let members = [notification("a"), notification("b"), notification("c"), notification("d")];
    assert_eq!(host.receive(&batch(&members[..3])).len(), 3);
    assert_eq!(host.receive(&batch(&members)), ["violation batch_size"]);
    assert_eq!(host.sent().len(), 1);
    let million = format!("[{}0]", "0,".repeat(1_000_000));
    assert_eq!(host.receive(&million), ["violation batch_size"]);
    assert_eq!(host.receive("[1,2,3,4,5"), ["violation parse"]);
    assert_eq!(host.receive("[1,2,3]x"), ["violation parse"]);
}

#[test]
fn a_dialect_without_batches_answers_one_error() {
    for mut host in [acp(), lsp()] {
        for message in ["[]", "[1]", &batch(&[request("1", "a")])] {
            assert_eq!(host.receive(message), ["violation batch_refused"]);
            let sent = host.sent();
            assert!(sent.len() == 1 && sent[0].contains(r#""id":null,"error":{"code":-32600,"#));
        }
        assert_eq!(host.in_flight(), (0, 0));
    }
}

/// Returns a host whose dialect has both batches and a cancel on the wire.
fn cancelling() -> Host {
    limited(|config| config.dialect.cancel = Dialect::ACP_V1.cancel)
}

#[test]
fn b32_a_batch_that_cancels_its_own_member_ends() {
    let mut host = cancelling();
    let events = host.receive(&batch(&[request("1", "a"), support::cancel("1")]));
    assert_eq!(events, ["request r1 1 a", "cancelled r1 peer"]);
    host.respond(host.request(1), Response::Cancelled).unwrap();
    let sent = host.sent();
    assert!(sent.len() == 1 && sent[0].starts_with(r#"[{"jsonrpc":"2.0","id":1,"error":"#));
}

#[test]
fn b32_a_batch_whose_members_are_met_with_silence_ends_in_silence() {
    let mut host = limited(|config| {
        config.dialect.cancel = Dialect::ACP_V1.cancel;
        config.dialect.response = protocol_core::ResponseRule::Silent;
    });
    host.receive(&batch(&[request("1", "a"), request("2", "b"), support::cancel("1")]));
    host.respond_ok(host.request(2));
    host.respond_ok(host.request(1));
    assert_eq!(host.sent(), [format!("[{}]", result("2", "null"))]);
    host.receive(&batch(&[request("3", "a"), support::cancel("3")]));
    host.respond_ok(host.request(3));
    assert_eq!((host.sent(), host.conn.unsent_bytes()), (vec![], 0));
}

#[test]
fn g07_a_batch_that_was_open_at_the_end_of_input_is_still_answered() {
    let mut host = jsonrpc();
    host.receive(&batch(&[request("1", "a"), request("2", "b")]));
    host.respond_ok(host.request(1));
    assert_eq!(host.eof(), ["cancelled r2 peer_gone", "closed peer_gone"]);
    host.respond_ok(host.request(2));
    assert_eq!(host.sent(), [batch(&[result("1", "null"), result("2", "null")])]);
}

#[test]
fn g05_abandon_forgets_the_answers_of_open_batches() {
    let mut host = jsonrpc();
    host.receive(&batch(&[request("1", "a"), request("2", "b")]));
    host.respond_ok(host.request(1));
    host.shutdown(Shutdown::Abandon);
    assert_eq!(host.conn.unsent_bytes(), 0);
    host.respond_ok(host.request(2));
    assert_eq!((host.sent(), host.conn.unsent_bytes()), (vec![], 0));
}

#[test]
fn g08_requests_over_the_limit_within_a_batch_are_answered_within_it() {
    for over_limit in [false, true] {
        let mut host = limited(|config| {
            config.limits.requests = 1;
            config.close_over_limit = over_limit;
        });
        let events =
            host.receive(&batch(&[request("1", "a"), request("2", "b"), request("3", "c")]));
        assert_eq!(events[..2], ["request r1 1 a", "violation too_many_requests 2"]);
        host.respond_ok(host.request(1));
        let sent = host.sent();
        let answers: Vec<serde_json::Value> = serde_json::from_str(&sent[0]).unwrap();
        assert_eq!((sent.len(), answers.len()), (1, 3));
    }
}

#[test]
fn g08_answers_that_a_batch_keeps_back_count_as_unsent_and_never_block_it_for_ever() {
    let mut host = limited(|config| config.limits.unsent_bytes = 1_000);
    let members: Vec<_> = (1..=20).map(|id| request(&id.to_string(), "m")).collect();
    host.receive(&batch(&members));
    let value = format!("\"{}\"", "x".repeat(200));
    let mut sent = Vec::new();
    for number in 1..=20 {
        let request = host.request(number);
        while let Err(refused) = host.respond(request, Response::Result(raw(&value))) {
            assert_eq!(refused, Refusal::OutboxFull);
            let left = host.sent();
            assert!(!left.is_empty(), "room can be made");
            assert_eq!(host.events(), ["ready"]);
            sent.extend(left);
        }
        assert!(host.conn.unsent_bytes() <= 1_000);
    }
    sent.extend(host.sent());
    let answers =
        sent.iter().map(|array| serde_json::from_str::<Vec<serde_json::Value>>(array).unwrap());
    let ids: Vec<_> = answers.flatten().map(|answer| answer["id"].clone()).collect();
    assert_eq!(ids, (1..=20).collect::<Vec<_>>());
    assert_eq!(host.conn.unsent_bytes(), 0);
}

#[test]
fn g08_answers_leave_early_only_over_half_of_the_outbox() {
    let kept = format!("[{}", result("1", "null")).len();
    for (room, leaving) in [(2 * kept, 0), (2 * kept - 1, 1)] {
        let mut host = limited(|config| config.limits.unsent_bytes = room);
        host.receive(&batch(&[request("1", "a"), request("2", "b")]));
        host.respond_ok(host.request(1));
        assert_eq!(host.sent().len(), leaving);
    }
}

#[test]
fn f04_an_answer_is_too_large_only_if_it_can_never_fit() {
    let large = |len: usize| format!("\"{}\"", "x".repeat(len));
    let mut host = limited(|config| config.limits.unsent_bytes = 1_000);
    host.receive(&batch(&[request("1", "a"), request("2", "b")]));
    host.receive(&batch(&[request("3", "c"), request("4", "d")]));
    for member in [1, 3] {
        host.respond(host.request(member), Response::Result(raw(&large(150)))).unwrap();
    }
    // What two batches keep back leaves no room, and nothing of it would leave by itself.
    let too_large = large(1_000);
    let reply = Response::Result(raw(&too_large));
    assert_eq!(host.respond(host.request(2), reply), Err(Refusal::TooLarge));
    assert_eq!(host.conn.next_transmit_len(), None, "nothing was promised");
    let fits = large(900);
    let reply = Response::Result(raw(&fits));
    assert_eq!(host.respond(host.request(2), reply), Err(Refusal::OutboxFull));
    assert_eq!(host.sent().len(), 2, "the answers kept back leave early");
    assert_eq!(host.events(), ["ready"]);
    host.respond(host.request(2), reply).unwrap();
    host.respond_ok(host.request(4));
    assert_eq!(host.sent(), [batch(&[result("2", &fits)]), batch(&[result("4", "null")])]);
}

#[test]
fn f19_a_cancelled_member_that_stays_silent_holds_nothing_back() {
    let mut host = Host::new(Config::server(Dialect::MCP_2025_03_26));
    host.receive(&batch(&[request("1", "a"), request("2", "b")]));
    host.respond_ok(host.request(1));
    assert_eq!(host.sent(), [""; 0], "the other member is at work");
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#;
    assert_eq!(host.receive(cancel), ["cancelled r2 peer"]);
    assert_eq!(host.sent(), [batch(&[result("1", "null")])], "it will never be answered");
    host.respond_ok(host.request(2));
    assert_eq!((host.sent().len(), host.in_flight()), (0, (0, 0)));
    // A batch of nothing but silence is answered with nothing.
    host.receive(&batch(&[request("1", "a")]));
    host.receive(&cancel.replace(":2}", ":1}"));
    host.respond_ok(host.request(3));
    assert_eq!((host.sent().len(), host.conn.unsent_bytes()), (0, 0));
}

#[test]
fn g08_an_answer_that_fits_beside_those_of_its_batch_is_waited_for() {
    let long = format!("\"{}\"", "x".repeat(100));
    let kept = format!("[{}", result("1", "null")).len();
    let room = kept + result("2", &long).len();
    let mut host = limited(|config| config.limits.unsent_bytes = room);
    host.receive(&batch(&[request("1", "a"), request("2", "b")]));
    host.respond_ok(host.request(1));
    assert_eq!(host.conn.unsent_bytes(), kept);
    host.conn.notify("n", None).unwrap();
    let reply = Response::Result(raw(&long));
    assert_eq!(host.respond(host.request(2), reply), Err(Refusal::OutboxFull));
    host.sent();
    assert_eq!(host.events(), ["ready"]);
    host.respond(host.request(2), reply).unwrap();
    assert_eq!(host.sent(), [batch(&[result("1", "null"), result("2", &long)])]);
}

#[test]
fn g07_a_drain_ends_after_the_batch_that_settles_the_last_call() {
    let mut host = jsonrpc();
    host.sent_call("m");
    host.conn.shutdown(Shutdown::Drain, host.now);
    let events =
        host.receive(&batch(&[result("1", "1"), notification("note"), result("\"b\"", "1")]));
    let call = "settled m result 1";
    let expected =
        [call, "notification note", "violation unknown_response \"b\"", "closed shutdown"];
    assert_eq!(events, expected);
}
