//! A simulation that passes has checked something, and reports what it did not check.

use std::process::Command;
use std::time::Duration;

use protocol_async::{Way, hooks};
use protocol_core::{Config, Dialect};
use protocol_router::{LocalContext, LocalRouter};
use protocol_testkit::simulate::{
    Bound, Failure, Fault, Message, Script, Simulated, Simulation, Trace, replay, simulate,
    try_every_order, try_simulate,
};
use serde_json::{Value, json};

/// Serves a request that may be cancelled. Its handler waits, notes that it writes, and responds.
fn world(simulation: Simulation) {
    let peer = Script::new(Config::server(Dialect::LSP_3_17))
        .request("textDocument/rename", json!({}))
        .cancels(1);
    simulation.serve(peer, async move |incoming| {
        let rename = async move |_: Value, cx: LocalContext| {
            cx.cancellation().unless_cancelled(simulation.sleep(Duration::from_secs(1))).await?;
            simulation.note("writes");
            Ok("renamed")
        };
        LocalRouter::new().request("textDocument/rename", rename).serve(&incoming).await
    });
}

/// A check that looks for something and returns how often it was there.
type Look = fn(&Trace) -> usize;

/// Returns the failures of a world with this check, by seeds and in every order.
fn failures(look: Look) -> [Option<Failure>; 2] {
    let checked = |simulation: Simulation| {
        world(simulation);
        simulation.check(move |trace| {
            let _ = look(trace);
            Ok(())
        });
    };
    [try_simulate(0..50, checked).err(), try_every_order(Bound::steps(20), checked).err()]
}

#[test]
fn f123_a_check_that_looks_for_what_no_run_has_fails() {
    let wrong: [(Look, &str); 5] = [
        (|trace| trace.notes("write").len(), "note \"write\""),
        (|trace| trace.requests(Way::Received, "rename").len(), "request \"rename\""),
        (|trace| trace.notifications(Way::Received, "exit").len(), "notification \"exit\""),
        (|trace| trace.cancels(Way::Sent).len(), "cancel that the handler's side sent"),
        (|trace| trace.responses(Way::Received).len(), "response that the handler's side received"),
    ];
    for (look, named) in wrong {
        for failure in failures(look) {
            let failure = failure.expect(named);
            assert_eq!(failure.fault, Fault::Unmatched, "{failure}");
            assert!(failure.to_string().contains(named), "{failure}");
        }
    }
}

#[test]
fn f123_a_check_that_finds_something_in_one_run_passes() {
    let right: [Look; 5] = [
        |trace| trace.notes("writes").len(),
        |trace| trace.requests(Way::Received, "textDocument/rename").len(),
        |trace| trace.cancels(Way::Received).len(),
        |trace| trace.responses(Way::Sent).len(),
        |trace| trace.messages().iter().filter(|seen| seen.message == Message::Invalid).count(),
    ];
    for look in right {
        assert_eq!(failures(look), [None, None]);
    }
}

#[test]
fn f123_messages_are_values_with_the_names_and_ids_of_the_wire() {
    let check = |simulation: Simulation| {
        world(simulation);
        simulation.check(|trace| {
            let requests = trace.requests(Way::Received, "textDocument/rename");
            for cancel in trace.cancels(Way::Received) {
                let Message::Cancel { id, params } = &cancel.message else { unreachable!() };
                let of = |message: &Message| {
                    matches!(message, Message::Request { id: other, .. } if other == id)
                };
                assert!(requests.iter().any(|request| of(&request.message)), "{cancel:?}");
                assert_eq!(params, &json!({ "id": id }));
            }
            let outcomes = trace.responses(Way::Sent).into_iter().map(|seen| match seen.message {
                Message::Response { outcome, .. } => outcome,
                other => panic!("{other:?}"),
            });
            let expected = [Ok(json!("renamed")), Err(-32800)];
            assert!(outcomes.into_iter().all(|outcome| expected.contains(&outcome)));
            Ok(())
        });
    };
    try_simulate(0..50, check).unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn f123_runs_that_are_excused_are_counted() {
    let some = |simulation: Simulation| {
        world(simulation);
        if simulation.choose(2) == 1 {
            simulation.excuse();
        }
    };
    let Simulated { runs, excused, .. } = try_simulate(0..40, some).unwrap();
    assert!(0 < excused && excused < runs, "{excused} of {runs}");
    let searched = try_every_order(Bound::steps(6), some).unwrap();
    assert!(0 < searched.excused && searched.excused < searched.schedules, "{searched:?}");
}

#[test]
fn f123_a_simulation_in_which_every_run_is_excused_fails() {
    let all = |simulation: Simulation| {
        world(simulation);
        simulation.excuse();
    };
    let failures = [try_simulate(0..5, all).err(), try_every_order(Bound::steps(6), all).err()];
    for failure in failures {
        let failure = failure.unwrap();
        assert_eq!(failure.fault, Fault::Unmatched);
        assert!(failure.what.ends_with("were excused"), "{failure}");
    }
}

/// Serves five requests that may be cancelled. The handler of the third one panics if it is cancelled.
fn trips(simulation: Simulation) {
    let script = Script::new(Config::server(Dialect::ACP_V1));
    let peer = (0..5).fold(script, |peer, of| peer.request("work", json!({ "of": of })));
    simulation.serve(peer.cancels(5), async move |incoming| {
        let work = async move |params: Value, cx: LocalContext| {
            let work = simulation.sleep(simulation.time_below(50));
            let is_cancelled = cx.cancellation().unless_cancelled(work).await.is_err();
            assert!(!is_cancelled || params["of"] != 2, "it trips");
            Ok("done")
        };
        LocalRouter::new().request("work", work).serve(&incoming).await
    });
}

#[test]
fn f123_the_schedule_of_a_seed_is_shortened_and_replays() {
    let failure = try_simulate(0..100, trips).expect_err("it trips");
    assert_eq!(failure.fault, Fault::Panicked, "{failure}");
    let schedule = failure.replay.strip_prefix("SIM_SCHEDULE=").expect("it is a schedule");
    let again = replay(schedule, trips).expect_err("it trips");
    assert_eq!((again.what, &again.history), (failure.what, &failure.history));
    // Nothing unusual in it can be left out.
    let choices: Vec<&str> = schedule.split('.').collect();
    let unusual: Vec<_> = (1..choices.len()).filter(|&at| choices[at] != "0").collect();
    assert!(unusual.len() <= 6, "{schedule}");
    for at in unusual {
        let mut less = choices.clone();
        less[at] = "0";
        if let Err(other) = replay(&less.join("."), trips) {
            let is_shorter = other.history.len() <= failure.history.len();
            assert!(other.fault != failure.fault || !is_shorter, "{at} of {schedule}: {other}");
        }
    }
}

/// Run by the next test as a program, with its output.
#[test]
fn noisy_handlers() {
    let noisy = |simulation: Simulation| {
        assert!(hooks::is_standard_error_muted());
        let peer = Script::new(Config::server(Dialect::ACP_V1)).request("work", json!({}));
        simulation.serve(peer, async |incoming| {
            let work = async |_: Value, _: LocalContext| {
                Err::<(), _>(protocol_async::Failure::internal("no"))
            };
            LocalRouter::new().request("work", work).serve(&incoming).await
        });
    };
    simulate(0..50, noisy);
    assert!(!hooks::is_standard_error_muted());
    assert!(try_simulate(0..100, trips).is_err());
}

#[test]
fn f123_a_simulation_is_quiet() {
    let program = std::env::current_exe().unwrap();
    let noisy = ["f123_truth::noisy_handlers", "--exact", "--nocapture"];
    let ran = Command::new(program).args(noisy).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    assert!(String::from_utf8_lossy(&ran.stdout).contains("1 passed"), "{ran:?}");
    // The run that failed is told once, with what the router says of it.
    let said = String::from_utf8(ran.stderr).unwrap();
    assert!(said.lines().count() <= 1, "{said}");
}
