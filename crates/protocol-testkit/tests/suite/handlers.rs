//! Async handlers as people write them. The search finds each wrong one with its shortest schedule. In the same
//! handler with that one mistake mended, it finds nothing.

#[path = "handlers/by_hand.rs"]
mod by_hand;
#[path = "handlers/routed.rs"]
mod routed;

use std::time::{Duration, Instant};

use protocol_async::{Peer, SentRequest};
use protocol_core::{CapabilityRule, Config, Dialect};
use protocol_router::{LocalContext, LocalRouter};
use protocol_testkit::Random;
use protocol_testkit::simulate::{
    Bound, Fault, Script, Simulation, fuzz, try_every_order, try_simulate,
};
use serde::Deserialize;
use serde_json::{Value, json};

/// The time that work takes.
const WORK: Duration = Duration::from_millis(10);

/// Returns a peer that asks for some work, so many times.
fn work(requests: usize) -> Script {
    let script = Script::new(Config::server(Dialect::ACP_V1));
    (1..=requests).fold(script, |script, of| script.request("work", json!({ "of": of })))
}

/// The params of work.
#[derive(Deserialize)]
struct Number {
    of: usize,
}

/// Makes a call on behalf of nobody.
fn confirm(peer: &Peer) -> SentRequest<Value> {
    peer.call("confirm", json!({}))
}

/// A handler, wrong or not.
type World = fn(Simulation, bool);

/// Each mistake, its kind, and the least number of steps in which it can be seen.
const PLANTED: [(&str, World, Fault, usize); 24] = [
    ("swallows", by_hand::swallows, Fault::IgnoredCancel, 7),
    ("forgets_in_a_call", by_hand::forgets_in_a_call, Fault::IgnoredCancel, 6),
    ("answers_twice", by_hand::answers_twice, Fault::Wire, 5),
    ("answers_cancelled", by_hand::answers_cancelled, Fault::Wire, 3),
    ("cancels_twice", by_hand::cancels_twice, Fault::Wire, 3),
    ("outlives_its_peer", by_hand::outlives_its_peer, Fault::WaitsForEver, 4008),
    ("forgets_its_call", routed::forgets_its_call, Fault::OrphanedCall, 6),
    ("leaves_its_call", routed::leaves_its_call, Fault::OrphanedCall, 7),
    ("ignores_its_cancel", routed::ignores_its_cancel, Fault::IgnoredCancel, 5),
    ("leaves_its_question", routed::leaves_its_question, Fault::OrphanedCall, 6),
    ("ignores_its_stop", routed::ignores_its_stop, Fault::IgnoredCancel, 5),
    ("looks_once", routed::looks_once, Fault::IgnoredCancel, 36),
    ("loses_a_wake_up", routed::loses_a_wake_up, Fault::Unanswered, 9),
    ("deadlocks", routed::deadlocks, Fault::Unanswered, 10),
    ("waits_for_nobody", routed::waits_for_nobody, Fault::Unanswered, 11),
    ("waits_for_a_lock", routed::waits_for_a_lock, Fault::IgnoredCancel, 7),
    ("loses_an_update", routed::loses_an_update, Fault::Check, 13),
    ("cancels_its_sibling", routed::cancels_its_sibling, Fault::Difference, 6),
    ("mixes_up_answers", routed::mixes_up_answers, Fault::Difference, 11),
    ("leaks_a_task", routed::leaks_a_task, Fault::WaitsForEver, 11),
    ("spins", routed::spins, Fault::BusyLoop, 6),
    ("panics", routed::panics, Fault::Panicked, 4),
    ("keeps_its_peer", routed::keeps_its_peer, Fault::Leak, 7),
    ("writes_when_cancelled", routed::writes_when_cancelled, Fault::Check, 8),
];

#[test]
fn f51_each_planted_mistake_is_found_with_its_shortest_schedule() {
    for (name, world, fault, steps) in PLANTED {
        let wrong = |simulation| world(simulation, true);
        let Err(failure) = try_every_order(Bound::steps(60), wrong) else {
            panic!("{name} is not found");
        };
        assert_eq!((failure.fault, failure.history.len()), (fault, steps), "{name}: {failure}");
    }
}

#[test]
fn f51_each_planted_mistake_is_found_by_some_seed() {
    for (name, world, fault, _) in PLANTED {
        let Err(failure) = try_simulate(0..100, |simulation| world(simulation, true)) else {
            panic!("{name} is not found");
        };
        assert_eq!(failure.fault, fault, "{name}: {failure}");
    }
}

/// With `CALM_SECONDS=600` all of them are searched to 100,000 schedules. Then seeds run for so long, and their
/// number is printed.
#[test]
fn f50_f51_nothing_is_found_in_the_same_handlers_without_the_mistake() {
    let calm = std::env::var("CALM_SECONDS").map(|seconds| seconds.parse().unwrap());
    let end = Instant::now() + Duration::from_secs(calm.as_ref().copied().unwrap_or(0));
    let (schedules, seeds) = if calm.is_ok() { (100_000, 1_000) } else { (400, 20) };
    let mut searched = 0;
    for (name, world, ..) in PLANTED {
        let bound = Bound::steps(60).schedules(schedules);
        let ran = try_every_order(bound, |simulation| world(simulation, false));
        searched += ran.unwrap_or_else(|failure| panic!("{name}: {failure}")).schedules;
    }
    let mut first = 0;
    loop {
        for (name, world, ..) in PLANTED {
            let ran = try_simulate(first..first + seeds, |simulation| world(simulation, false));
            ran.unwrap_or_else(|failure| panic!("{name}: {failure}"));
        }
        first += seeds;
        if Instant::now() >= end {
            break;
        }
    }
    println!("no alarm in {searched} schedules, and in {first} seeds of each handler");
}

/// Serves a correct handler with a call of its own. The peer may do anything that the dialect allows, and this
/// many things that it does not.
fn nested(dialect: &Dialect, hostile: usize, simulation: Simulation) {
    let mut script = Script::new(Config::server(dialect.clone()));
    let is_declared = dialect.capability != CapabilityRule::NotNeeded;
    let declared = json!({ "cancellation": { "request": true } });
    if is_declared || dialect.session.is_some() {
        script = script.opening("initialize", json!({ "clientCapabilities": &declared }));
    }
    let declared = json!({ "agentCapabilities": declared, "supportsCancelRequest": true });
    let script = script.request("work", json!({})).anything().hostile(hostile);
    simulation.serve(script, async move |incoming| {
        let router = LocalRouter::new()
            .request("initialize", async move |_: Value, _| Ok(declared.clone()))
            .request("work", async |_: Value, cx: LocalContext| {
                Ok(cx.call::<Value>("confirm", json!({})).await?)
            });
        router.on_trouble(|_| {}).serve(&incoming).await
    });
}

#[test]
fn f50_a_nested_call_is_no_fault_in_any_dialect() {
    for dialect in Dialect::PRESETS {
        let world = |simulation| nested(dialect, 0, simulation);
        if let Err(failure) = try_every_order(Bound::steps(12).schedules(200), world) {
            panic!("{}: {failure}", dialect.name);
        }
        if let Err(failure) = try_simulate(0..20, world) {
            panic!("{}: {failure}", dialect.name);
        }
    }
}

#[test]
fn f51_a_hostile_peer_is_no_fault_of_the_handler_in_any_dialect() {
    for dialect in Dialect::PRESETS {
        let world = |simulation| nested(dialect, 6, simulation);
        if let Err(failure) = try_simulate(0..30, world) {
            panic!("{}: {failure}", dialect.name);
        }
        // As a fuzzer does it.
        for seed in 0..10 {
            fuzz(&Random::new(seed).bytes(200), world);
        }
    }
}

/// The first failure that is met takes a choice in the first step, and 21 steps. The shortest takes a choice in
/// the thirteenth step, which the first rounds leave as it usually is.
#[test]
fn f51_the_shortest_failure_may_need_a_choice_further_on() {
    let failure = try_every_order(Bound::steps(60), |simulation| {
        simulation.spawn("a walker", async move {
            let limps = simulation.choose(2) == 1;
            for step in 0..20 {
                simulation.sleep(WORK).await;
                assert!(!limps || step < 9, "limps too far");
                assert!(step != 5 || simulation.choose(2) == 0, "falls");
            }
        });
    });
    let failure = failure.expect_err("it falls");
    assert!(failure.what.ends_with("falls"), "{failure}");
    assert_eq!(failure.history.len(), 13, "{failure}");
}
