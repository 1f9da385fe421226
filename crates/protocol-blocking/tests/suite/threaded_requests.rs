//! The peer's requests on threads, taken one by one.
#![cfg(unix)]

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use crate::support::{PATIENCE, Wire, acp, cancel, cancelled, notification, raw, request, result};
use protocol_blocking::threaded::{Arrival, Incoming, Options, Peer, Wait, serve, unix};
use protocol_blocking::{Answer, Request, Responder, block_on, block_on_for};
use protocol_core::{Cause, CloseReason, Violation};
use serde_json::{Value, json};

fn host(options: impl Into<Options>) -> (Wire, Peer, Incoming) {
    let (wire, stream) = Wire::pair();
    let (peer, incoming) = unix(stream, options).unwrap();
    (wire, peer, incoming)
}

fn next(incoming: &Incoming) -> Arrival {
    block_on(incoming.receive()).expect("it is open")
}

fn next_request(incoming: &Incoming) -> (Request, protocol_async::Responder) {
    let Arrival::Request(request, responder) = next(incoming) else { panic!("a request") };
    (request, responder)
}

#[test]
fn b09_the_mark_is_there_before_the_request_is_taken() {
    let (mut wire, _peer, incoming) = host(acp());
    for id in 1..=100 {
        wire.send([request(id, "work", &json!([])), cancel(id)]);
        let (_, responder) = next_request(&incoming);
        assert_eq!(responder.cancellation().cause(), Some(Cause::Peer));
    }
}

#[test]
fn g03_marks_are_set_though_nobody_takes_anything() {
    let (mut wire, _peer, incoming) = host(acp());
    wire.request(1, "work", &json!([]));
    let (_, responder) = next_request(&incoming);
    let marker = responder.cancellation();
    // All of it stays in the inbox, and the cancel comes last.
    let queued = (2..=1_000).map(|id| request(id, "work", &json!([])));
    wire.send(queued.chain([cancel(1)]));
    assert_eq!(block_on_for(&mut marker.cancelled(), PATIENCE), Some(Cause::Peer));
}

#[test]
fn g02_dropping_a_responder_answers() {
    let (mut wire, _peer, incoming) = host(acp());
    wire.send([request(1, "work", &json!([])), request(2, "work", &json!([])), cancel(2)]);
    drop(next_request(&incoming));
    let message = "no response from the handler of work";
    assert_eq!(wire.receive()["error"], json!({ "code": -32603, "message": message }));
    drop(next_request(&incoming));
    assert_eq!(wire.receive(), cancelled(2));
}

#[test]
fn g08_what_nobody_takes_is_counted() {
    let mut options = Options::new(acp());
    options.inbox_bytes = 1_000;
    let (mut wire, _peer, incoming) = host(options);
    let text = "x".repeat(600);
    let mut flood = vec![notification("flood", &json!([text])); 50];
    flood.push(request(1, "work", &json!([])));
    flood.push(notification("flood", &json!([text])));
    wire.send(flood);
    assert!(matches!(next(&incoming), Arrival::Notification(_)));
    // All of the flood was there before the first of it was taken, or some of it after: either
    // way every one is taken or counted, and the request is among them.
    let (mut taken, mut missed, mut requests) = (1, 0, vec![]);
    while taken + missed < 51 {
        match next(&incoming) {
            Arrival::Notification(_) => taken += 1,
            Arrival::Missed { count } => missed += count,
            Arrival::Request(_, responder) => requests.push(responder),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((taken + missed, requests.len()), (51, 1));
}

#[test]
fn g08_a_request_above_the_inbox_limit_is_refused() {
    let mut options = Options::new(acp());
    options.inbox_bytes = 1_000;
    let (mut wire, _peer, incoming) = host(options);
    let text = "x".repeat(600);
    wire.send((1..=3).map(|id| request(id, "work", &json!([text]))));
    let refused = [wire.receive(), wire.receive()];
    let code = acp().dialect.overload_code;
    for (answer, id) in refused.iter().zip(2..) {
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(id), &json!(code)));
    }
    drop(next_request(&incoming));
    assert_eq!(wire.receive()["id"], 1);
    wire.request(4, "work", &json!([text]));
    drop(next_request(&incoming));
}

#[test]
fn b12_requests_that_nobody_can_take_are_answered() {
    let (mut wire, _peer, incoming) = host(acp());
    wire.request(1, "work", &json!([]));
    let taken = next_request(&incoming);
    wire.send([request(2, "work", &json!([])), notification("lost", &json!([]))]);
    drop(incoming);
    assert_eq!(wire.receive()["error"]["code"], -32601);
    wire.request(3, "work", &json!([]));
    assert_eq!(wire.receive()["error"]["code"], -32601);
    taken.1.respond(raw(&json!("as ever")));
    assert_eq!(wire.receive()["result"], "as ever");
}

#[test]
fn g09_violations_arrive_in_their_place() {
    let (mut wire, _peer, incoming) = host(acp());
    wire.send([result(77, &json!(1)), notification("after", &json!([]))]);
    let Arrival::Violation { violation, id } = next(&incoming) else { panic!("a violation") };
    assert_eq!(violation, Violation::UnknownResponse);
    assert_eq!(id.unwrap().to_string(), "77");
    assert!(matches!(next(&incoming), Arrival::Notification(_)));
}

#[test]
fn g07_what_arrived_before_the_end_is_taken_marked() {
    let (mut wire, _peer, incoming) = host(acp());
    wire.send([request(1, "work", &json!([])), notification("last", &json!([]))]);
    wire.hang_up();
    let (_, responder) = next_request(&incoming);
    let marker = responder.cancellation();
    assert_eq!(block_on_for(&mut marker.cancelled(), PATIENCE), Some(Cause::PeerGone));
    responder.respond(raw(&json!("all the same")));
    assert!(matches!(next(&incoming), Arrival::Notification(_)));
    assert_eq!(block_on(incoming.receive()).unwrap_err(), CloseReason::PeerGone);
    assert_eq!(wire.receive()["result"], "all the same");
}

#[test]
fn workers_serve_at_the_same_time() {
    let (mut wire, _peer, incoming) = host(acp());
    wire.send((1..=3).map(|id| request(id, "meet", &json!([]))));
    let meeting = Barrier::new(3);
    let meet = |_: &Request, _: &mut dyn Responder| -> Answer {
        meeting.wait();
        Ok(raw(&Value::Null))
    };
    thread::scope(|scope| {
        scope.spawn(|| serve(&incoming, 3, &meet));
        // Nobody answers before all three have met.
        assert!(wire.answers(3).iter().all(|answer| answer["result"].is_null()));
        wire.hang_up();
    });
}

#[test]
fn b13_a_peers_cancel_never_hits_our_own_call_of_that_id() {
    let (mut wire, peer, incoming) = host(acp());
    let mut sent = peer.call::<Value>("ours", json!([]));
    assert_eq!(wire.receive()["id"], 1);
    wire.send([request(1, "theirs", &json!([])), cancel(1)]);
    let (_, responder) = next_request(&incoming);
    assert!(responder.is_cancelled());
    assert!(sent.wait_timeout(Duration::ZERO).is_none());
    wire.send([result(1, &json!("ours"))]);
    assert_eq!(sent.wait().unwrap(), "ours");
}

#[test]
fn g06_a_cancel_crosses_two_hops() {
    // near -> middle -> far, whose `sleep` is what the cancel has to reach.
    let relay = |request: &Request, responder: &mut dyn Responder, onward: &Peer| -> Answer {
        let sent: protocol_blocking::threaded::SentRequest =
            onward.call_raw(&request.method, None, protocol_core::CallOptions::default());
        let handle = sent.cancellation_handle();
        thread::scope(|scope| {
            let outcome = scope.spawn(|| sent.wait());
            if responder.sleep(PATIENCE).is_err() {
                handle.cancel();
            }
            Ok(outcome.join().unwrap()?)
        })
    };
    let (mut far, onward, _unserved) = host(acp());
    let (mut near, _peer, incoming) = host(acp());
    let server = thread::spawn(move || {
        serve(&incoming, 1, &|request: &Request, responder: &mut dyn Responder| {
            relay(request, responder, &onward)
        })
    });
    near.request(40, "sleep", &json!([]));
    assert_eq!(far.receive()["id"], 1);
    near.send([cancel(40)]);
    assert_eq!(far.receive()["params"], json!({ "requestId": 1 }), "the next hop's own id");
    far.send([cancelled(1).to_string()]);
    assert_eq!(near.receive(), cancelled(40));
    near.hang_up();
    server.join().unwrap();
}
