//! The promises of an endpoint to its host, each seen in its effects and in its output.

use std::time::Duration;

use protocol_core::{CallOptions, Config, Dialect, Refusal, RequestHandle, Response, Timestamp};
use protocol_endpoint::{
    Arrived, Budget, CallError, Effect, Effects, Endpoint, Grant, KeepAlive, Line, Messages,
    Options, Output, Shown,
};
use serde_json::value::RawValue;

const NOW: Timestamp = Timestamp::ZERO;

struct Side {
    endpoint: Endpoint<&'static str, &'static str>,
    effects: Effects<&'static str, &'static str>,
    out: Messages,
}

impl Side {
    fn new(change: impl FnOnce(&mut Options)) -> Self {
        let mut options = Options::new(Config::server(Dialect::ACP_V1));
        change(&mut options);
        Self { endpoint: Endpoint::new(options), effects: Effects::new(), out: Messages::default() }
    }

    fn receive(&mut self, message: &str) {
        self.endpoint.receive_message(message.as_bytes(), NOW, &mut self.effects);
    }

    fn request(&mut self, id: u32, params: &str) {
        self.receive(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"m","params":["{params}"]}}"#
        ));
    }

    fn cancel(&mut self, id: u32) {
        self.receive(&format!(
            r#"{{"jsonrpc":"2.0","method":"$/cancel_request","params":{{"requestId":{id}}}}}"#
        ));
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

    fn wait(&mut self, line: Line, waiter: &'static str) {
        self.endpoint.wait(line, &mut None, &mut Some(waiter), &mut self.effects);
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

    /// Makes an outbox with room for one message, which a notification takes.
    fn full(change: impl FnOnce(&mut Options)) -> Self {
        let mut side = Self::new(|options| {
            options.config.limits.unsent_messages = 1;
            change(options);
        });
        side.endpoint.try_notify("n", None, &mut side.effects).unwrap();
        side
    }
}

/// Returns the ids of responses, in the order in which they were written.
fn ids(written: &str) -> Vec<u32> {
    let id = |line: &str| {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        value["id"].as_u64().and_then(|id| u32::try_from(id).ok())
    };
    written.lines().filter_map(id).collect()
}

#[test]
fn whoever_waits_for_a_call_is_woken_by_its_response() {
    let mut side = Side::new(|_| {});
    let options = CallOptions::default();
    let call = side.endpoint.call("ask", None, options, NOW, &mut side.effects).unwrap();
    assert!(side.endpoint.poll_outcome(call, &mut Some("caller")).is_none());
    side.written();
    side.receive(r#"{"jsonrpc":"2.0","id":1,"result":7}"#);
    assert_eq!(side.woken(), ["caller"]);
    assert!(side.endpoint.poll_outcome(call, &mut None).is_some_and(|outcome| outcome.is_ok()));
}

#[test]
fn the_latest_waiter_of_a_place_is_woken() {
    let mut side = Side::new(|_| {});
    let mut place = None;
    side.endpoint.wait(Line::Arrival, &mut place, &mut Some("before"), &mut side.effects);
    side.endpoint.wait(Line::Arrival, &mut place, &mut Some("now"), &mut side.effects);
    side.request(1, "");
    assert_eq!(side.woken(), ["now"]);
}

#[test]
fn nothing_waits_where_nothing_is_served() {
    let mut side = Side::new(|_| {});
    side.request(1, "");
    side.endpoint.stop_serving(&mut side.effects);
    side.request(2, "");
    assert_eq!(side.endpoint.arrivals(), 0);
    let written = side.written();
    assert_eq!(ids(&written), [1, 2]);
    assert_eq!(written.matches("nobody serves requests here").count(), 2, "{written}");
}

#[test]
fn g08_the_inbox_takes_no_more_than_its_limit_and_always_one() {
    let mut side = Side::new(|options| options.inbox_bytes = 1);
    side.request(1, "first");
    side.request(2, "second");
    assert_eq!(side.endpoint.arrivals(), 1);
    assert!(side.written().contains("too much waits to be served"));
}

#[test]
fn g08_one_request_is_always_at_work_and_its_bytes_are_released() {
    let mut side = Side::new(|options| options.work_bytes = 40);
    for id in 1..=5 {
        side.request(id, "thirty bytes of params or more");
        let request = side.take().expect("nothing else is at work");
        side.respond(request);
    }
    assert!(!side.written().contains("error"));
}

#[test]
fn responses_that_wait_for_room_leave_in_their_order() {
    let mut side = Side::full(|_| {});
    for id in 1..=4 {
        side.request(id, "");
        let request = side.take().unwrap();
        side.respond(request);
    }
    assert_eq!(ids(&side.written()), [1, 2, 3, 4]);
}

#[test]
fn g02_an_error_of_another_peer_that_waits_for_room_stays_as_it_is() {
    let mut side = Side::full(|options| options.shows.responses = true);
    side.request(1, "");
    let request = side.take().unwrap();
    let error = RawValue::from_string(r#"{"code":-5,"message":"no","more":1}"#.into()).unwrap();
    side.endpoint.respond(request, Response::ErrorRaw(&error), &mut side.effects);
    assert!(side.endpoint.owes_response());
    assert!(side.written().contains(error.get()));
    let shown = side.effects.take_shown();
    let is_error = |it: &Shown| matches!(it, Shown::Responded { outcome: "error", .. });
    assert!(shown.iter().any(is_error), "{shown:?}");
}

#[test]
fn g08_requests_are_refused_while_responses_fill_their_room_and_no_longer() {
    let mut side = Side::full(|options| options.response_bytes = 4);
    for id in 1..=2 {
        side.request(id, "");
        let request = side.take().unwrap();
        side.respond(request);
    }
    // The second response did not fit beside the first.
    side.request(3, "");
    assert!(side.take().is_none());
    let written = side.written();
    assert_eq!(written.matches("too many responses wait to be read").count(), 2, "{written}");
    for id in 4..=6 {
        side.request(id, "");
        let request = side.take().expect("there is room again");
        side.respond(request);
        assert!(!side.written().contains("error"));
    }
}

#[test]
fn a_cancelled_request_whose_worker_is_gone_is_cancelled() {
    let mut side = Side::new(|_| {});
    side.request(1, "");
    let request = side.take().unwrap();
    side.cancel(1);
    side.endpoint.respond_for_worker(request, &mut side.effects);
    assert!(side.written().contains("-32800"));
}

#[test]
fn g07_the_close_wakes_whoever_waits_in_any_line() {
    let mut side = Side::full(|_| {});
    for (line, waiter) in [
        (Line::Arrival, "arrival"),
        (Line::Room, "room"),
        (Line::Room, "room behind it"),
        (Line::Ready, "ready"),
        (Line::Flushed, "flushed"),
        (Line::End, "end"),
    ] {
        side.wait(line, waiter);
    }
    side.endpoint.handle_eof(b"", None, NOW, &mut side.effects);
    let mut woken = side.woken();
    woken.sort_unstable();
    woken.dedup();
    // The responses that wait may still be read, so nobody knows yet whether everything will be written.
    assert_eq!(woken, ["arrival", "end", "ready", "room", "room behind it"]);
}

#[test]
fn a_peer_over_its_budget_is_lost_and_the_reason_says_so() {
    let budget = Budget::Limited { per_second: 1, burst: 1 };
    let mut side = Side::new(|options| options.budgets.violations = budget);
    let options = CallOptions::default();
    let call = side.endpoint.call("ask", None, options, NOW, &mut side.effects).unwrap();
    side.receive("{");
    assert!(!side.endpoint.core().is_closed(), "one is in the budget");
    side.receive("{");
    assert!(side.endpoint.core().is_closed());
    let outcome = side.endpoint.poll_outcome(call, &mut None).unwrap().unwrap_err();
    assert!(matches!(&*outcome, CallError::ConnectionLost { how: Some(_), .. }), "{outcome:?}");
}

/// Returns the reason that a call is lost for, after these ends in their order.
fn lost(ends: &[(&str, &str)]) -> String {
    let mut side = Side::new(|_| {});
    let options = CallOptions::default();
    let call = side.endpoint.call("ask", None, options, NOW, &mut side.effects).unwrap();
    for (of, error) in ends {
        match *of {
            "writing" => side.endpoint.stop_writing(error, NOW, &mut side.effects),
            _ => side.endpoint.handle_eof(b"", Some(error), NOW, &mut side.effects),
        }
    }
    side.endpoint.poll_outcome(call, &mut None).unwrap().unwrap_err().to_string()
}

#[test]
fn the_error_of_reading_says_more_than_the_error_of_writing() {
    for ends in [
        [("writing", "a broken pipe"), ("reading", "the process ended")],
        [("writing", "a broken pipe"), ("reading", "a reset")],
    ] {
        assert!(lost(&ends).contains(ends[1].1), "{}", lost(&ends));
    }
}

#[test]
fn a_peer_that_can_not_be_written_to_has_a_second_for_its_last_words() {
    let mut side = Side::new(|_| {});
    let second = Duration::from_secs(1);
    side.endpoint.stop_writing("a broken pipe", NOW, &mut side.effects);
    side.endpoint.stop_writing("a broken pipe", NOW + second / 2, &mut side.effects);
    assert_eq!(side.endpoint.due(), Some(NOW + second));
    side.endpoint.handle_timeout(NOW + second, &mut side.effects);
    assert!(side.endpoint.core().is_closed());
    assert_eq!(side.endpoint.due(), None);
}

#[test]
fn g08_results_that_fit_exactly_are_kept_and_room_comes_back() {
    let mut side = Side::new(|options| options.result_bytes = 8);
    for round in 0..3 {
        let options = CallOptions::default();
        let calls: Vec<_> = (0..2)
            .map(|_| side.endpoint.call("ask", None, options, NOW, &mut side.effects).unwrap())
            .collect();
        side.written();
        for number in 1..=2 {
            let id = 2 * round + number;
            side.receive(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":1234}}"#));
        }
        for call in calls {
            let outcome = side.endpoint.poll_outcome(call, &mut None);
            assert!(outcome.is_some_and(|outcome| outcome.is_ok()), "round {round}");
        }
    }
}

/// A refused message lets out what a cork or a batch kept back, which is room at once.
#[test]
fn g11_who_waits_for_room_that_came_with_the_refusal_is_woken() {
    let mut side = Side::full(|_| {});
    side.endpoint.cork();
    let refused = side.endpoint.notify_at(None, "n", None, &mut side.effects);
    assert_eq!(refused, Err(Refusal::OutboxFull));
    side.wait(Line::Room, "behind a cork");
    assert_eq!(side.woken(), ["behind a cork"]);

    let mut side = Side::new(|options| {
        *options = Options::new(Config::server(Dialect::JSON_RPC));
        options.config.limits.unsent_bytes = 400;
    });
    side.receive(
        r#"[{"jsonrpc":"2.0","id":1,"method":"m"},{"jsonrpc":"2.0","id":2,"method":"m"}]"#,
    );
    let request = side.take().unwrap();
    let text = |zeros| RawValue::from_string(format!("[{}0]", "0,".repeat(zeros))).unwrap();
    let [most, more] = [50, 135].map(text);
    side.endpoint.respond(request, Response::Result(&most), &mut side.effects);
    side.endpoint.cork();
    let refused = side.endpoint.notify_at(None, "n", Some(&more), &mut side.effects);
    assert_eq!(refused, Err(Refusal::OutboxFull));
    side.wait(Line::Room, "behind a batch");
    assert_eq!(side.woken(), ["behind a batch"]);
}

#[test]
fn g11_the_end_is_for_all_who_wait_for_arrivals_though_an_operation_comes_after_it() {
    let mut side = Side::new(|options| *options = Options::new(Config::server(Dialect::ERLMCP)));
    side.receive(r#"{"jsonrpc":"2.0","id":1,"method":"tool/call"}"#);
    let begin = side.effects.drain().find_map(|effect| match effect {
        Effect::BeginOperation(request, _) => Some(request),
        _ => None,
    });
    side.endpoint.handle_eof(&[], None, NOW, &mut side.effects);
    // Both have looked: the request has no token yet.
    let mut places = [None, None];
    for (place, waiter) in places.iter_mut().zip(["first", "second"]) {
        assert!(side.endpoint.take(&mut side.effects).is_none());
        side.endpoint.wait(Line::Arrival, place, &mut Some(waiter), &mut side.effects);
    }
    let request = begin.unwrap();
    let _ = side.woken();
    side.endpoint.begin_operation(request, [7; 16], &mut side.effects).unwrap();
    assert_eq!(side.woken(), ["first"]);
    assert_eq!(side.take(), Some(request));
    let first = places[0].take().unwrap();
    side.endpoint.leave(Line::Arrival, &first, &mut side.effects);
    assert_eq!(side.woken(), ["second"], "there is nothing more to wait for");
}

#[test]
fn g09_a_connection_that_has_ended_keeps_its_reason() {
    let seconds = |seconds| NOW + Duration::from_secs(seconds);
    let mut side = Side::new(|options| {
        options.keep_alive = Some(KeepAlive::by("ping", Duration::from_secs(10)));
        options.config.limits.unsent_messages = 1;
    });
    side.request(1, "");
    let request = side.take().unwrap();
    side.endpoint.try_notify("n", None, &mut side.effects).unwrap();
    for now in [0, 10] {
        side.endpoint.handle_timeout(seconds(now), &mut side.effects);
    }
    // It would ask, and there is no room. Something else is due when it would give the peer up.
    side.endpoint.set_alarm(seconds(60), "alarm", &mut side.effects);
    side.endpoint.handle_eof(&[], None, seconds(11), &mut side.effects);
    side.endpoint.handle_timeout(seconds(60), &mut side.effects);
    assert!(side.endpoint.end_reason().is_none(), "{:?}", side.endpoint.end_reason());
    side.endpoint.set_grant(Grant::Revoked, &mut side.effects);
    assert!(side.endpoint.end_reason().is_none(), "{:?}", side.endpoint.end_reason());
    side.respond(request);
}
