//! F122: faults that the fuzz target `endpoint` found, in words.

use std::time::Duration;

use protocol_core::{
    CallOptions, Cause, Config, Dialect, Refusal, RequestHandle, Response, Shutdown, Timestamp,
};
use protocol_endpoint::{
    Arrived, Effect, Effects, Endpoint, Line, Messages, OperationEnd, Options, Output, Request,
    Shown,
};
use serde_json::value::RawValue;

const NOW: Timestamp = Timestamp::ZERO;

struct Side {
    endpoint: Endpoint<&'static str, &'static str>,
    effects: Effects<&'static str, &'static str>,
    out: Messages,
}

impl Side {
    fn new(dialect: Dialect, change: impl FnOnce(&mut Options)) -> Self {
        let mut options = Options::new(Config::server(dialect));
        change(&mut options);
        Self { endpoint: Endpoint::new(options), effects: Effects::new(), out: Messages::default() }
    }

    fn request(&mut self, id: u32, method: &str) {
        let message = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#);
        self.endpoint.receive_message(message.as_bytes(), NOW, &mut self.effects);
    }

    fn take(&mut self) -> Option<RequestHandle> {
        match self.endpoint.take(&mut self.effects)? {
            Arrived::Request(request, _) => Some(request),
            arrived => panic!("{arrived:?}"),
        }
    }

    fn respond(&mut self, request: RequestHandle) {
        let response = Response::Result(RawValue::TRUE);
        self.endpoint.respond(request, response, &mut self.effects);
    }

    fn wait(&mut self, waiter: &'static str) {
        self.endpoint.wait(Line::Arrival, &mut None, &mut Some(waiter), &mut self.effects);
    }

    /// Carries out all effects. Returns the waiters that are woken.
    fn woken(&mut self) -> Vec<&'static str> {
        let waiters = self.effects.drain().filter_map(|effect| match effect {
            Effect::Wake(waiter) => Some(waiter),
            _ => None,
        });
        waiters.collect()
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
}

#[test]
fn f122_a_request_that_is_refused_in_its_turn_wakes_the_writer() {
    let mut side = Side::new(Dialect::ACP_V1, |options| options.work_requests = 1);
    side.request(1, "m");
    side.request(2, "m");
    assert!(side.take().is_some());
    assert_eq!(side.written(), "");
    side.endpoint.wait_for_output(&mut Some("writer"));
    assert!(side.take().is_none(), "two may not be at work");
    assert_eq!(side.woken(), ["writer"]);
    assert!(side.written().contains("too many are being served"));
}

/// Receives a request that starts an operation, and a second one that waits behind it.
fn behind_an_operation(change: impl FnOnce(&mut Options)) -> (Side, RequestHandle) {
    let mut side = Side::new(Dialect::ERLMCP, change);
    side.request(1, "tool/call");
    let Some(Effect::BeginOperation(request, _)) = side.effects.pop() else { panic!() };
    side.wait("server");
    side.request(2, "m");
    assert_eq!(side.woken(), ["server"]);
    assert!(side.take().is_none(), "its operation is still to begin");
    side.wait("server");
    (side, request)
}

#[test]
fn f122_an_operation_that_its_host_refuses_holds_back_nobody() {
    let (mut side, request) = behind_an_operation(|_| {});
    side.respond(request);
    assert_eq!(side.woken(), ["server"]);
    let next = side.take().unwrap();
    assert_ne!(next, request);
}

#[test]
fn f122_an_operation_that_can_not_begin_holds_back_nobody() {
    // A token that is in use.
    let mut side = Side::new(Dialect::ERLMCP, |_| {});
    for id in [1, 2] {
        side.request(id, "tool/call");
    }
    side.request(3, "m");
    let begins: Vec<_> = side.effects.drain().collect();
    let [Effect::BeginOperation(one, _), Effect::BeginOperation(two, _)] = &begins[..] else {
        panic!("{begins:?}")
    };
    side.endpoint.begin_operation(*one, [7; 16], &mut side.effects).unwrap();
    assert_eq!(side.take(), Some(*one));
    assert!(side.take().is_none());
    side.wait("server");
    assert!(side.endpoint.begin_operation(*two, [7; 16], &mut side.effects).is_err());
    assert_eq!(side.woken(), ["server"]);
    assert!(side.take().is_some_and(|next| next != *two));
}

#[test]
fn f122_a_request_whose_refusal_waits_for_room_is_not_served() {
    let (mut side, request) = behind_an_operation(|options| {
        options.config.limits.unsent_messages = 1;
    });
    side.endpoint.try_notify("n", None, &mut side.effects).unwrap();
    side.respond(request);
    assert!(side.take().is_some_and(|next| next != request));
    assert!(side.take().is_none());
    assert!(side.written().contains(r#""id":1,"result":true"#));
}

#[test]
fn f122_an_operation_of_a_request_that_has_its_response_does_not_begin() {
    for is_full in [false, true] {
        let (mut side, request) = behind_an_operation(|options| {
            options.config.limits.unsent_messages = 1;
        });
        if is_full {
            side.endpoint.try_notify("n", None, &mut side.effects).unwrap();
        }
        side.respond(request);
        let begun = side.endpoint.begin_operation(request, [7; 16], &mut side.effects);
        assert_eq!(begun, Err(Refusal::AlreadyResponded), "full: {is_full}");
        let written = side.written();
        assert_eq!(written.matches(r#""id":1"#).count(), 1, "{written}");
    }
}

#[test]
fn f122_a_second_response_to_a_request_does_nothing() {
    let mut side = Side::new(Dialect::ACP_V1, |options| {
        options.config.limits.unsent_messages = 1;
        options.response_bytes = 4;
    });
    side.request(1, "m");
    side.request(2, "m");
    let requests = [(); 2].map(|()| side.take().unwrap());
    side.endpoint.try_notify("n", None, &mut side.effects).unwrap();
    side.respond(requests[0]);
    side.respond(requests[0]);
    // It takes no room from the other one.
    side.respond(requests[1]);
    let error = Response::Error { code: 1, message: "", data: None };
    assert!(side.endpoint.respond(requests[1], error, &mut side.effects).is_none());
    let written = side.written();
    assert_eq!(written.matches(r#""result":true"#).count(), 1, "{written}");
    assert_eq!(written.matches(r#""id":1"#).count(), 1, "{written}");
    assert_eq!(written.matches(r#""id":2"#).count(), 1, "{written}");
}

#[test]
fn f122_a_request_that_gets_no_response_is_shown_to_be_over() {
    let mut side = Side::new(Dialect::ACP_V1, |options| options.config.limits.unsent_bytes = 10);
    side.request(1, "m");
    let request = side.take().unwrap();
    side.endpoint.show_responses(true);
    side.respond(request);
    assert_eq!(side.endpoint.core().requests_in_flight(), 0, "no response fits");
    let shown = side.effects.take_shown();
    let [Shown::Responded { request: over, outcome: "unsent", code: None, .. }] = &shown[..] else {
        panic!("{shown:?}")
    };
    assert_eq!(*over, request);
}

#[test]
fn f122_a_cork_over_full_output_lets_it_out() {
    let mut side = Side::new(Dialect::ACP_V1, |options| options.config.limits.unsent_bytes = 80);
    side.request(1, "m");
    let request = side.take().unwrap();
    side.endpoint.try_notify("n", None, &mut side.effects).unwrap();
    side.respond(request);
    side.endpoint.cork();
    let written = side.written();
    side.endpoint.wait_for_output(&mut Some("writer"));
    // Nothing is held back that the limit lets out.
    let before = written.len();
    side.endpoint.uncork(&mut side.effects);
    let woken = side.woken();
    let written = written + &side.written();
    assert_eq!(woken.len(), usize::from(written.len() > before));
    assert!(written.contains(r#""id":1"#));
}

#[test]
fn f122_a_request_that_outlives_the_input_can_be_cancelled() {
    // There a closed stream is no cancel.
    for how in ["one", "all"] {
        let mut side = Side::new(Dialect::MCP_2025_11_25_HTTP, |_| {});
        side.request(1, "m");
        let request = side.take().unwrap();
        side.endpoint.watch(request, "mark").unwrap();
        side.endpoint.handle_eof(&[], None, NOW, &mut side.effects);
        side.effects.drain().for_each(drop);
        let Side { endpoint, effects, .. } = &mut side;
        match how {
            "one" => endpoint.cancel_request(request, Cause::Internal, NOW, effects),
            _ => endpoint.shutdown(Shutdown::CancelAll, NOW, effects),
        }
        assert!(endpoint.cause(request).is_some());
        let marks: Vec<_> = effects.drain().collect();
        assert!(matches!(&marks[..], [Effect::Cancel("mark", _)]), "{how}: {marks:?}");
    }
}

#[test]
fn f122_a_request_that_starts_no_operation_leaves_those_at_work() {
    let mut side = Side::new(Dialect::ERLMCP, |options| {
        options.work_requests = 2;
        options.work_bytes = 4 * size_of::<Request>();
    });
    for id in 1..9 {
        side.request(id, "m");
        let request = side.take().expect("nothing else is at work");
        assert!(side.endpoint.begin_operation(request, [7; 16], &mut side.effects).is_err());
    }
}

/// Begins an operation, whose request was taken.
fn operation(change: impl FnOnce(&mut Options)) -> (Side, RequestHandle) {
    let mut side = Side::new(Dialect::ERLMCP, change);
    side.request(1, "tool/call");
    let Some(Effect::BeginOperation(request, _)) = side.effects.pop() else { panic!() };
    side.endpoint.begin_operation(request, [7; 16], &mut side.effects).unwrap();
    assert_eq!(side.take(), Some(request));
    side.effects.drain().for_each(drop);
    (side, request)
}

#[test]
fn f122_the_end_of_an_operation_is_reported_once() {
    for (is_worker_gone, is_full) in [(false, false), (false, true), (true, false), (true, true)] {
        let (mut side, request) = operation(|options| {
            options.config.limits.unsent_messages = 1;
        });
        side.written();
        if is_full {
            side.endpoint.try_notify("n", None, &mut side.effects).unwrap();
        }
        if is_worker_gone {
            side.endpoint.respond_for_worker(request, &mut side.effects);
        } else {
            side.respond(request);
        }
        side.respond(request);
        side.endpoint.respond_for_worker(request, &mut side.effects);
        // Its response leaves once there is room for it.
        side.written();
        side.endpoint.stop_serving(&mut side.effects);
        let ends: Vec<bool> = (side.effects.drain())
            .filter_map(|effect| match effect {
                Effect::EndOperation(token, end) => {
                    assert_eq!(token, [7; 16]);
                    Some(matches!(end, OperationEnd::WorkerGone))
                }
                _ => None,
            })
            .collect();
        assert_eq!(ends, [is_worker_gone], "full: {is_full}");
    }
}

#[test]
fn f122_an_operation_that_nobody_serves_ends_once() {
    let mut side = Side::new(Dialect::ERLMCP, |_| {});
    side.request(1, "tool/call");
    let Some(Effect::BeginOperation(request, _)) = side.effects.pop() else { panic!() };
    side.endpoint.begin_operation(request, [7; 16], &mut side.effects).unwrap();
    side.endpoint.stop_serving(&mut side.effects);
    side.endpoint.respond_for_worker(request, &mut side.effects);
    let is_end = |effect: &Effect<_, _>| matches!(effect, Effect::EndOperation([7, ..], _));
    assert_eq!(side.effects.drain().filter(is_end).count(), 1);
}

#[test]
fn g05_whoever_waits_for_output_is_woken_for_a_timer_that_nobody_else_waits_for() {
    let mut side = Side::new(Dialect::ACP_V1, |_| {});
    assert_eq!(side.endpoint.arm_timer(None), None);
    side.endpoint.wait_for_output(&mut Some("driver"));
    // The cork holds the call back, so there is no output.
    side.endpoint.cork();
    let options = CallOptions::default().timeout(Duration::from_secs(1));
    side.endpoint.call("slow", None, options, NOW, &mut side.effects).unwrap();
    assert_eq!(side.woken(), ["driver"]);
    assert_eq!(side.endpoint.due(), Some(NOW + Duration::from_secs(1)));
    // A waiter for timers goes before.
    side.endpoint.wait_for_output(&mut Some("writer"));
    side.endpoint.wait_for_timer(&mut Some("timer"));
    let options = CallOptions::default().timeout(Duration::from_millis(1));
    side.endpoint.call("soon", None, options, NOW, &mut side.effects).unwrap();
    assert_eq!(side.woken(), ["timer"]);
}

#[test]
fn g08_the_patience_begins_however_late_the_timer_is_waited_for() {
    let mut side = Side::new(Dialect::ACP_V1, |options| options.patience = Duration::from_secs(7));
    side.endpoint.try_notify("n", None, &mut side.effects).unwrap();
    assert_eq!(side.endpoint.poll_output(&mut side.out, &mut side.effects), Output::Write);
    // Nobody waits for a timer, so the shutdown wakes nobody.
    side.endpoint.shutdown(Shutdown::CancelAll, NOW, &mut side.effects);
    assert_eq!(side.woken(), [""; 0]);
    let due = side.endpoint.wait_for_timer(&mut Some("timer"));
    assert_eq!(due, Some(NOW), "the clock is to be looked at");
    let due = side.endpoint.handle_timeout(NOW, &mut side.effects);
    assert_eq!(due, Some(NOW + Duration::from_secs(7)));
}
