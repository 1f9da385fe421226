//! The example finds the bug of its handler, in as few steps as there can be.

#[path = "../../examples/wrong_handler.rs"]
#[expect(dead_code, reason = "its main is for people")]
mod example;

use protocol_async::Way;
use protocol_testkit::simulate::{Fault, Message, Seen, replay};

const SHORTEST: [&str; 6] = [
    "peer sends request 1 rename",
    "driver goes on",
    "handler goes on",
    "handler goes on",
    "peer cancels request 1",
    "driver goes on",
];

const CHART: &str = "\
peer                                handler
  |----- request 1 rename ----------->|
  |----- cancelRequest 1 ------------>|
  |<---- request 1 window/showMessa---|
";

#[test]
fn f51_a_call_that_is_not_cancelled_is_found_with_its_shortest_schedule() {
    let failure = example::search().expect_err("the handler is wrong");
    assert_eq!(failure.fault, Fault::OrphanedCall, "{failure}");
    assert_eq!(failure.history, SHORTEST, "{failure}");
    assert_eq!(failure.trace.chart(), CHART);
}

#[test]
fn f51_a_failure_is_replayed_from_its_line() {
    let failure = example::search().expect_err("the handler is wrong");
    let schedule = failure.replay.strip_prefix("SIM_SCHEDULE=").expect("it is a schedule");
    let again = replay(schedule, example::world).expect_err("the handler is wrong");
    assert_eq!((again.what, again.history), (failure.what, failure.history));
    let usual = replay("", example::world).expect("the usual schedule has no failure");
    let responses = usual.responses(Way::Sent);
    let [Seen { message: Message::Response { id, outcome }, .. }] = &responses[..] else {
        panic!("there is one response: {responses:?}")
    };
    assert!(id == 1 && outcome.is_ok(), "{responses:?}");
}
