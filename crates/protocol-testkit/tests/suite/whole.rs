//! A search leaves no order out, a run has an end, and what was not tested is no success.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{Either, select};
use futures_util::{SinkExt, StreamExt};
use protocol_async::{Incoming, KeepAlive, Way};
use protocol_core::{Config, Dialect};
use protocol_router::{LocalContext, LocalRouter};
use protocol_testkit::simulate::{
    Bound, Fault, PeerAnswer, Script, Simulation, Socket, every_order, simulate, try_every_order,
    try_simulate,
};
use serde_json::{Value, json};

const WORK: Duration = Duration::from_millis(5);

fn work(dialect: Dialect) -> Script {
    Script::new(Config::server(dialect)).request("work", json!({}))
}

/// Returns the panic of some work, in words.
fn panicked(work: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(work)).expect_err("it panics");
    *panic.downcast::<String>().expect("it has a text")
}

async fn send(socket: &mut Socket, message: Value) {
    // The peer may be gone.
    let _ = socket.send(message.to_string().into_bytes()).await;
}

/// Serves one request in a loop of its own, and trips over a cancel of what it has responded to.
fn trips_over_a_late_cancel(simulation: Simulation) {
    let script = work(Dialect::LSP_3_17).cancels(1);
    simulation.serve_messages(script, async move |mut socket: Socket| {
        let Some(Ok(request)) = socket.next().await else { return };
        let request: Value = serde_json::from_slice(&request).unwrap();
        let mut response = json!({ "jsonrpc": "2.0", "id": request["id"], "result": null });
        if let Either::Left((Some(_), _)) = select(socket.next(), simulation.sleep(WORK)).await {
            let cancelled = json!({ "code": -32800, "message": "cancelled" });
            response = json!({ "jsonrpc": "2.0", "id": request["id"], "error": cancelled });
        }
        send(&mut socket, response).await;
        assert!(socket.next().await.is_none(), "a late cancel");
    });
}

#[test]
fn every_order_has_the_cancel_that_crosses_the_response() {
    let failure = try_every_order(Bound::steps(60), trips_over_a_late_cancel).unwrap_err();
    assert!(failure.what.ends_with("a late cancel"), "{failure}");
    let crossing = "peer cancels request 1, before it reads the last messages".to_owned();
    assert!(failure.history.contains(&crossing), "{failure}");
}

#[test]
fn every_order_has_the_stop_that_crosses_the_end_of_a_turn() {
    let world = |simulation: Simulation| {
        let script = Script::new(Config::server(Dialect::ACP_V1))
            .request("session/prompt", json!({ "sessionId": "s" }))
            .stops(1);
        simulation.serve(script, async |incoming| {
            let prompt = async |_: Value, _: LocalContext| Ok(json!({ "stopReason": "end_turn" }));
            let stop = async |_: Value, _: LocalContext| Ok(());
            let router = LocalRouter::new().request("session/prompt", prompt);
            router.notification("session/cancel", stop).serve(&incoming).await
        });
        simulation.check(|trace| {
            let stop = trace.notifications(Way::Received, "session/cancel");
            let responses = trace.responses(Way::Sent);
            match (stop.first(), responses.first()) {
                (Some(stop), Some(response)) if stop.place > response.place => {
                    Err("a late stop".into())
                }
                _ => Ok(()),
            }
        });
    };
    assert_eq!(try_every_order(Bound::steps(60), world).unwrap_err().what, "a late stop");
}

/// Cancels a call of its own after some time, and trips over a response to it.
fn trips_over_a_late_response(simulation: Simulation) {
    let script = work(Dialect::MCP_2025_11_25);
    simulation.serve_messages(script, async move |mut socket: Socket| {
        let Some(Ok(_)) = socket.next().await else { return };
        send(&mut socket, json!({ "jsonrpc": "2.0", "id": "c", "method": "ask" })).await;
        if let Either::Right(_) = select(socket.next(), simulation.sleep(WORK)).await {
            let method = "notifications/cancelled";
            let params = json!({ "requestId": "c" });
            let cancel = json!({ "jsonrpc": "2.0", "method": method, "params": params });
            send(&mut socket, cancel).await;
            send(&mut socket, json!({ "jsonrpc": "2.0", "id": 1, "result": {} })).await;
            assert!(socket.next().await.is_none(), "a late response");
        } else {
            send(&mut socket, json!({ "jsonrpc": "2.0", "id": 1, "result": {} })).await;
        }
    });
}

#[test]
fn every_order_has_the_response_that_crosses_a_cancel_which_wants_silence() {
    let failure = try_every_order(Bound::steps(60), trips_over_a_late_response).unwrap_err();
    assert!(failure.what.ends_with("a late response"), "{failure}");
}

#[test]
fn a_keep_alive_does_not_keep_a_run_from_its_end() {
    let pings = Rc::new(Cell::new(0));
    let counted = pings.clone();
    let world = move |simulation: Simulation| {
        let counted = counted.clone();
        simulation.serve(
            work(Dialect::ACP_V1).calls_by_itself(),
            async move |incoming: Incoming| {
                let peer = incoming.peer().clone();
                simulation.spawn("keep-alive", async move {
                    loop {
                        simulation.sleep(Duration::from_secs(1)).await;
                        counted.set(counted.get() + 1);
                        let is_over = peer.call::<Value>("ping", json!({})).await.is_err();
                        if is_over || counted.get() > 10_000 {
                            break;
                        }
                    }
                });
                let work = async |_: Value, _: LocalContext| Ok("done");
                LocalRouter::new().request("work", work).serve(&incoming).await
            },
        );
    };
    try_simulate(0..1, world).unwrap();
    assert!((1_000..5_000).contains(&pings.get()), "{pings:?}");
}

#[test]
fn a_handler_that_calls_for_ever_is_a_fault_that_names_the_call() {
    let world = |simulation: Simulation| {
        let answers = [PeerAnswer::Error(-1), PeerAnswer::Result(json!(true))];
        simulation.serve(work(Dialect::ACP_V1).answers(answers), async |incoming: Incoming| {
            let work = async |_: Value, cx: LocalContext| {
                for _ in 0..20_000 {
                    if let Ok(locked) = cx.call::<Value>("lock", json!({})).await {
                        return Ok(locked);
                    }
                }
                panic!("it gave up")
            };
            LocalRouter::new().request("work", work).serve(&incoming).await
        });
    };
    let failure = try_every_order(Bound::steps(2), world).unwrap_err();
    assert_eq!(failure.fault, Fault::BusyLoop, "{}", failure.what);
    assert!(failure.what.contains("lock"), "{}", failure.what);
}

/// Serves a request beside a call that is not cancelled with it, in a dialect that declares cancellation.
fn declared(simulation: Simulation, dialect: Dialect, cancels: usize, is_declared: bool) {
    let declaration = json!({ "cancellation": { "request": is_declared } });
    let peer = Script::new(Config::server(dialect))
        .opening("initialize", json!({ "clientCapabilities": declaration }))
        .request("work", json!({}))
        .cancels(cancels);
    simulation.serve(peer, async move |incoming| {
        let declaration =
            json!({ "agentCapabilities": declaration, "supportsCancelRequest": is_declared });
        let initialize = async move |_: Value, _: LocalContext| Ok(declaration.clone());
        let work = async |_: Value, cx: LocalContext| {
            Ok(cx.peer().call::<Value>("ask", json!({})).await?)
        };
        let router = LocalRouter::new().request("initialize", initialize);
        router.request("work", work).serve(&incoming).await
    });
}

#[test]
fn an_orphaned_call_is_found_where_cancellation_was_declared() {
    let world = |simulation| declared(simulation, Dialect::ACP_DRAFT, 1, true);
    assert_eq!(try_every_order(Bound::steps(30), world).unwrap_err().fault, Fault::OrphanedCall);
    assert_eq!(try_simulate(0..100, world).unwrap_err().fault, Fault::OrphanedCall);
}

#[test]
fn a_cancel_that_would_not_be_sent_is_no_move_of_the_peer() {
    for dialect in [Dialect::DAP, Dialect::ACP_DRAFT] {
        let schedules = |cancels| {
            let world =
                |simulation: Simulation| declared(simulation, dialect.clone(), cancels, false);
            try_every_order(Bound::steps(30), world).unwrap().schedules
        };
        assert_eq!(schedules(1), schedules(0), "{}", dialect.name);
    }
}

#[test]
fn a_simulation_or_a_search_without_a_run_fails() {
    let world = |_: Simulation| {};
    #[expect(clippy::reversed_empty_ranges, reason = "it is what somebody wrote by mistake")]
    let simulated = [try_simulate(5..5, world), try_simulate(5..2, world)];
    let none = Bound::steps(9).schedules(0);
    let failures = simulated.map(Result::unwrap_err).into_iter();
    for failure in failures.chain([try_every_order(none, world).unwrap_err()]) {
        assert_eq!((failure.fault, &*failure.what), (Fault::Unmatched, "nothing was run"));
    }
}

/// Serves work where another method is asked for, or where the session was never opened.
fn asks(simulation: Simulation, script: Script) {
    simulation.serve(script, async |incoming| {
        let work = async |_: Value, _: LocalContext| Ok("done");
        LocalRouter::new().request("work", work).serve(&incoming).await
    });
}

#[test]
fn a_request_that_is_refused_in_every_run_fails() {
    let misspelt = work(Dialect::LSP_3_17).request("wrok", json!({})).cancels(1);
    for (script, method) in [(misspelt, "wrok"), (work(Dialect::DAP), "work")] {
        let world = |simulation: Simulation| asks(simulation, script.clone());
        let failures = [
            try_every_order(Bound::steps(20), world).unwrap_err(),
            try_simulate(0..20, world).unwrap_err(),
        ];
        for failure in failures {
            assert_eq!(failure.fault, Fault::Unmatched, "{failure}");
            assert!(failure.what.contains(method), "{failure}");
        }
    }
}

#[test]
fn a_refusal_that_the_reference_knows_is_no_failure() {
    let script = work(Dialect::LSP_3_17)
        .request("gone", json!({}))
        .reference(|method, _| if method == "work" { Ok(json!("done")) } else { Err(-32601) });
    try_simulate(0..20, |simulation| asks(simulation, script.clone())).unwrap();
}

#[test]
fn a_failure_that_only_the_estimate_meets_is_returned() {
    let world = |simulation: Simulation| {
        simulation.spawn("drawer", async move {
            let mut drawn = 0;
            for _ in 0..4 {
                drawn += simulation.choose(2);
                simulation.sleep(WORK).await;
            }
            assert!(drawn < 4, "all ones");
        });
    };
    let failure = try_every_order(Bound::steps(40).schedules(5), world).unwrap_err();
    assert!(failure.what.ends_with("all ones"), "{failure}");
    assert_eq!(failure.replay, "SIM_SCHEDULE=1.1.1.1");
}

/// A world whose seventh run fails, and no other.
fn chance() -> impl Fn(Simulation) {
    let runs = Cell::new(0);
    move |simulation: Simulation| {
        runs.set(runs.get() + 1);
        let is_seventh = runs.get() == 7;
        let _ = simulation.choose(20);
        simulation.spawn("chance", async move { assert!(!is_seventh, "the rare one") });
    }
}

#[test]
fn a_failure_that_chance_decides_is_shown_though_it_does_not_come_again() {
    let by_seeds = panicked(|| drop(try_simulate(0..20, chance())));
    assert!(by_seeds.contains("the rare one") && by_seeds.contains("SIM_SEED=6"), "{by_seeds}");
    let in_order = panicked(|| drop(try_every_order(Bound::steps(9), chance())));
    assert!(in_order.contains("the rare one"), "{in_order}");
    assert!(in_order.contains("SIM_SCHEDULE=6") && in_order.contains("HashMap"), "{in_order}");
}

#[test]
fn the_line_that_replays_a_failure_runs_this_test_alone_and_shows_it() {
    let failure = try_every_order(Bound::steps(60), trips_over_a_late_cancel).unwrap_err();
    let name = "whole::the_line_that_replays_a_failure_runs_this_test_alone_and_shows_it";
    assert!(failure.to_string().ends_with(&format!("{name} -- --exact --nocapture")), "{failure}");
}

#[test]
fn the_recording_of_a_failure_is_beside_the_program_of_its_test() {
    let failed = panicked(|| _ = simulate(0..9, |_| panic!("it fails")));
    let (_, path) = failed.rsplit_once("recorded in ").unwrap();
    assert_eq!(Path::new(path).parent(), std::env::current_exe().unwrap().parent());
    std::fs::remove_file(path).unwrap();
}

/// Run by the next test as a program, with its output.
#[test]
fn truncated() {
    let world = |simulation: Simulation| _ = simulation.choose(100);
    assert!(!every_order(Bound::steps(9).schedules(10), world).is_exhausted);
}

#[test]
fn a_search_that_is_not_exhausted_prints_so() {
    let truncated = ["whole::truncated", "--exact", "--nocapture"];
    let ran = Command::new(std::env::current_exe().unwrap()).args(truncated).output().unwrap();
    let printed = String::from_utf8_lossy(&ran.stdout);
    assert!(printed.contains("tried 10 orders of about 100, and not all"), "{printed}");
}

#[test]
fn the_limits_of_the_handlers_side_are_not_those_of_the_peer() {
    let world = |simulation: Simulation| {
        let mut config = Config::server(Dialect::LSP_3_17);
        config.limits.calls = 2;
        let script = (0..3).fold(Script::new(config), |it, _| it.request("work", json!({})));
        asks(simulation, script);
    };
    try_simulate(0..5, world).unwrap();
}

#[test]
#[should_panic(expected = "`PeerAnswer::Never`")]
fn a_peer_without_any_response_is_refused() {
    let _ = work(Dialect::LSP_3_17).answers([]);
}

#[test]
fn no_more_runs_are_excused_than_there_are() {
    let world = |simulation: Simulation| {
        simulation.spawn("excused", async move {
            for _ in 0..9 {
                simulation.sleep(WORK).await;
                if simulation.choose(2) == 1 {
                    simulation.excuse();
                }
            }
        });
    };
    let searched = try_every_order(Bound::steps(60), world).unwrap();
    assert!(searched.is_exhausted && searched.excused + 1 == searched.schedules, "{searched:?}");
}

#[test]
fn a_shortened_failure_is_the_one_that_was_met() {
    let met = Rc::new(RefCell::new(None));
    for seed in 0..8 {
        met.take();
        let kept = met.clone();
        let world = move |simulation: Simulation| {
            let drawn = simulation.choose(9);
            let what = match drawn {
                3.. => "a great number",
                1 | 2 => "a small number",
                _ => return,
            };
            kept.borrow_mut().get_or_insert(what);
            panic!("{drawn} is {what}");
        };
        if let Err(failure) = try_simulate(seed..seed + 1, world) {
            assert!(failure.what.ends_with(met.borrow().unwrap()), "{}", failure.what);
        }
    }
}

#[test]
fn a_handlers_connection_has_the_options_of_its_script() {
    let dialect = Dialect::MCP_2025_11_25;
    let keep_alive = KeepAlive::every(Duration::from_secs(1), &dialect).unwrap();
    let script = work(dialect).options(move |options| {
        options.endpoint.keep_alive = Some(keep_alive.clone());
    });
    let world = |simulation: Simulation| {
        simulation.serve(script.clone(), async move |incoming| {
            let work = async move |_: Value, _: LocalContext| {
                simulation.sleep(Duration::from_secs(9)).await;
                Ok("done")
            };
            LocalRouter::new().request("work", work).serve(&incoming).await
        });
        simulation.check(|trace| {
            let _ = trace.requests(Way::Sent, "ping");
            Ok(())
        });
    };
    try_simulate(0..5, world).unwrap();
}
