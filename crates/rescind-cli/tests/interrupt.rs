//! Ctrl-C cancels the call; a second one gives it up.

use std::time::Duration;

use rustix::process::Signal;

use crate::support::{Running, signal};

const HOUR: &str = r#"{"ms":3600000}"#;

fn interrupt(running: &Running) {
    signal(running.id(), Signal::INT);
}

#[test]
fn g05_the_first_cancels_and_waits_for_the_answer() {
    let mut running = Running::start(["call", "--trace", "sleep", HOUR], &[]);
    running.says(&["-->", r#""method":"sleep""#]);
    interrupt(&running);
    running.says(&["-->", "$/cancel_request"]);
    let said = running.end();
    assert_eq!(said.code, Some(3), "{said:?}");
    assert!(said.stderr.contains("cancelled sleep after"), "{said:?}");
    assert!(said.stderr.contains(r#"answered with -32800 "Request cancelled""#), "{said:?}");
}

#[test]
fn g05_the_second_gives_up() {
    let mut running = Running::start(["call", "--trace", "stubborn", HOUR], &[]);
    running.says(&["-->", r#""method":"stubborn""#]);
    interrupt(&running);
    running.says(&["-->", "$/cancel_request"]);
    interrupt(&running);
    let said = running.end();
    assert_eq!(said.code, Some(3), "{said:?}");
    assert!(said.stderr.contains("given up without an answer"), "{said:?}");
    assert!(said.took < Duration::from_secs(20), "{said:?}");
}

#[test]
fn g04_there_is_one_cancel_however_often_it_is_asked_for() {
    // It opens, swallows call and cancel, and goes after the time at which we cancel.
    let server =
        r#"read line; echo '{"jsonrpc":"2.0","id":1,"result":{}}'; read line; read line; sleep 3"#;
    let arguments = ["call", "--trace", "--cancel-after", "2s", "work", "--", "sh", "-c", server];
    let mut running = Running::start(arguments, &[]);
    running.says(&["-->", r#""method":"work""#]);
    interrupt(&running);
    let said = running.end();
    assert_eq!(said.stderr.matches("$/cancel_request").count(), 1, "{said:?}");
    // The timer came second, and to ask again is not to give up: the connection was lost.
    assert_eq!(said.code, Some(5), "{said:?}");
}
