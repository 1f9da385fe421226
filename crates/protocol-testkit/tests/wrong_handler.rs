//! The example finds the bug of its handler, in as few steps as there can be.

#[path = "../examples/wrong_handler.rs"]
#[expect(dead_code, reason = "its main is for people")]
mod example;

use protocol_testkit::Guarantee;
use protocol_testkit::explore::replay;

const SHORTEST: &str = "client call Work 1; client drain 1; handler read 0; client cancel 0 caller; \
     client drain 1; handler read 0; handler finishes 1";

#[test]
fn g02_a_second_answer_is_found_with_its_shortest_history() {
    let failure = example::explore().failure.expect("the handler is wrong");
    assert_eq!(failure.broken.guarantee, Guarantee::G2);
    assert_eq!(failure.line(), SHORTEST);
    assert_eq!(failure.chart, CHART);
}

const CHART: &str = "\
client                              handler
  |  call Work 1                      |
  |  request 1 work leaves            |
  |----- request 1 work ------------->|
  |  cancel 0 caller                  |
  |  cancelRequest 1 leaves           |
  |----- cancelRequest 1 ------------>|
  |                                   |  answer 1 error -32800 leaves
  |                                   |  finishes 1
  |                                   |  answer 1 result leaves
";

#[test]
fn a_failure_is_replayed_from_its_line() {
    let failure = replay(&example::start(), SHORTEST).expect_err("the handler is wrong");
    assert_eq!(Some(failure), example::explore().failure);
    let (begins, _) = SHORTEST.rsplit_once(';').expect("there are many steps");
    assert!(replay(&example::start(), begins).is_ok(), "without its last step nothing is wrong");
    let failure = replay(&example::start(), "client fly").expect_err("there is no such choice");
    assert_eq!(failure.broken.guarantee, Guarantee::G10);
}
