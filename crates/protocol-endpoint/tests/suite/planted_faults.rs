//! Faults that were planted once, and that no test noticed then.

use protocol_core::{
    CallOptions, Cause, Config, Dialect, Refusal, RequestHandle, Response, Shutdown, Timestamp,
    code,
};
use protocol_endpoint::{
    Arrived, CallError, Effect, Effects, Endpoint, Failure, Line, Messages, Options, Output,
    RpcError,
};
use serde_json::value::{RawValue, to_raw_value};

const NOW: Timestamp = Timestamp::ZERO;

struct Side {
    endpoint: Endpoint<&'static str, ()>,
    effects: Effects<&'static str, ()>,
    out: Messages,
}

impl Side {
    fn new(config: Config, change: impl FnOnce(&mut Options)) -> Self {
        let mut options = Options::new(config);
        change(&mut options);
        Self { endpoint: Endpoint::new(options), effects: Effects::new(), out: Messages::default() }
    }

    fn server(change: impl FnOnce(&mut Options)) -> Self {
        Self::new(Config::server(Dialect::ACP_V1), change)
    }

    fn client(change: impl FnOnce(&mut Options)) -> Self {
        Self::new(Config::client(Dialect::ACP_V1), change)
    }

    fn receive(&mut self, message: &str) {
        self.endpoint.receive_message(message.as_bytes(), NOW, &mut self.effects);
    }

    fn request(&mut self, id: u32, method: &str) -> RequestHandle {
        self.receive(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#));
        match self.endpoint.take(&mut self.effects) {
            Some(Arrived::Request(request, _)) => request,
            arrived => panic!("{arrived:?} is no request"),
        }
    }

    fn written(&mut self) -> String {
        let mut all = String::new();
        loop {
            self.out.clear();
            if self.endpoint.poll_output(&mut self.out, &mut self.effects) != Output::Write {
                return all;
            }
            all.push_str(std::str::from_utf8(self.out.bytes()).unwrap());
        }
    }

    fn woken(&mut self) -> Vec<&'static str> {
        let waiters = self.effects.drain().filter_map(|effect| match effect {
            Effect::Wake(waiter) => Some(waiter),
            _ => None,
        });
        waiters.collect()
    }
}

#[test]
fn g07_the_end_wakes_whoever_waits_for_room_for_an_arrival_or_for_the_end() {
    let mut side = Side::server(|options| options.config.limits.unsent_messages = 1);
    side.endpoint.try_notify("n", None, &mut side.effects).unwrap();
    let refused = side.endpoint.try_notify("n", None, &mut side.effects);
    assert_eq!(refused, Err(Refusal::OutboxFull));
    for (line, waiter) in [(Line::Arrival, "arrival"), (Line::Room, "room"), (Line::End, "end")] {
        side.endpoint.wait(line, &mut None, &mut Some(waiter), &mut side.effects);
    }
    side.endpoint.handle_eof(&[], None, NOW, &mut side.effects);
    assert_eq!(side.woken(), ["arrival", "room", "end"]);
}

#[test]
fn g02_a_response_that_is_too_large_is_replaced_once_there_is_room_for_the_error() {
    let mut side = Side::server(|options| options.config.limits.unsent_bytes = 300);
    let request = side.request(1, "m");
    let text = to_raw_value(&"x".repeat(200)).unwrap();
    side.endpoint.try_notify("n", Some(&text), &mut side.effects).unwrap_err();
    let text = to_raw_value(&["x".repeat(180)]).unwrap();
    side.endpoint.try_notify("n", Some(&text), &mut side.effects).unwrap();
    let large = to_raw_value(&"x".repeat(1_000)).unwrap();
    side.endpoint.respond(request, Response::Result(&large), &mut side.effects);
    assert!(side.endpoint.owes_response(), "neither it nor the error fits beside the notification");
    let written = side.written();
    assert!(written.contains("the response is too large"), "{written}");
    assert_eq!(side.endpoint.core().requests_in_flight(), 0);
}

#[test]
fn g08_a_notification_that_is_taken_ahead_of_its_turn_makes_room() {
    let mut side = Side::server(|options| options.inbox_bytes = 400);
    for _ in 0..100 {
        side.receive(r#"{"jsonrpc":"2.0","method":"n","params":[1]}"#);
        assert!(side.endpoint.take_notification("n").is_some());
    }
    side.receive(r#"{"jsonrpc":"2.0","method":"n","params":[1]}"#);
    let arrived = side.endpoint.take(&mut side.effects);
    assert!(matches!(arrived, Some(Arrived::Notification(_))), "{arrived:?}");
}

#[test]
fn g08_outcomes_that_fit_exactly_are_kept() {
    let mut side = Side::client(|options| options.result_bytes = 8);
    let calls: Vec<_> = (0..3)
        .map(|_| {
            let options = CallOptions::default();
            side.endpoint.call("m", None, options, NOW, &mut side.effects).unwrap()
        })
        .collect();
    side.written();
    for call in &calls {
        let number = call.id.number();
        side.receive(&format!(r#"{{"jsonrpc":"2.0","id":{number},"result":true}}"#));
    }
    let outcomes = calls.into_iter().map(|call| side.endpoint.poll_outcome(call, &mut None));
    let kept: Vec<bool> = outcomes.map(|outcome| outcome.unwrap().is_ok()).collect();
    assert_eq!(kept, [true, true, false]);
}

#[test]
fn g05_a_call_that_is_dropped_is_cancelled_with_that_cause() {
    let mut side = Side::client(|_| {});
    let options = CallOptions::default();
    let call = side.endpoint.call("m", None, options, NOW, &mut side.effects).unwrap();
    side.written();
    side.endpoint.drop_call(call, NOW, &mut side.effects);
    assert_eq!(side.endpoint.core().machine().call_cause(call.id), Some(Cause::Dropped));
}

#[test]
fn g06_a_call_that_is_detached_outlives_its_parent() {
    let mut side = Side::server(|_| {});
    let request = side.request(1, "m");
    let calls = [(); 2].map(|()| {
        let options = CallOptions::default().parent(request);
        side.endpoint.call("m", None, options, NOW, &mut side.effects).unwrap()
    });
    side.written();
    side.endpoint.detach(calls[0], NOW, &mut side.effects);
    side.endpoint.cancel_request(request, Cause::Internal, NOW, &mut side.effects);
    let machine = side.endpoint.core().machine();
    assert_eq!(calls.map(|call| machine.call_cause(call.id).is_some()), [false, true]);
}

#[test]
fn g08_a_request_that_ends_without_a_response_leaves_those_at_work() {
    let config = Config::server(Dialect::MCP_2026_07_28);
    let mut side = Side::new(config, |options| options.work_requests = 1);
    for id in 0..5 {
        let request = side.request(id, "subscriptions/listen");
        side.endpoint.end_request(request, None, &mut side.effects).unwrap();
        side.written();
    }
}

#[test]
fn g02_nothing_is_flushed_while_a_response_waits_for_room() {
    let mut side = Side::server(|options| options.config.limits.unsent_messages = 1);
    let requests: Vec<_> = (0..3).map(|id| side.request(id, "m")).collect();
    side.endpoint.try_notify("n", None, &mut side.effects).unwrap();
    side.endpoint.wait(Line::Flushed, &mut None, &mut Some("flushed"), &mut side.effects);
    for request in requests {
        side.endpoint.respond(request, Response::Result(RawValue::TRUE), &mut side.effects);
    }
    side.endpoint.shutdown(Shutdown::Drain, NOW, &mut side.effects);
    while side.endpoint.owes_response() {
        assert!(!side.endpoint.is_flushed() && !side.endpoint.is_over());
        assert!(!side.woken().contains(&"flushed"));
        side.out.clear();
        assert_eq!(side.endpoint.poll_output(&mut side.out, &mut side.effects), Output::Write);
    }
    side.written();
    assert!(side.woken().contains(&"flushed") && side.endpoint.is_over());
}

/// In ACP a stopped prompt ends with a stop reason. The error of a nested call that was cancelled with it does not.
#[test]
fn w18_a_nested_call_that_was_cancelled_is_a_cancellation_though_the_peer_says_so_too() {
    let error = RpcError::new(code::REQUEST_CANCELLED, "cancelled");
    for error in [None, Some(error)] {
        let cancelled = CallError::Cancelled { cause: Cause::Parent, error };
        assert!(matches!(Failure::from(cancelled), Failure::Cancelled));
    }
}
