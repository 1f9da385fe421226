//! The simulated line: deterministic, and as bad as its weather.

use std::time::Duration;

use protocol_core::{Config, Dialect, Event, Response, Role, Timestamp};
use protocol_testkit::{Pair, Weather, both_roles};
use serde_json::value::RawValue;

/// Returns the outcomes of ten calls in the order in which they settled, and the hash of the run's trace.
fn ten_calls(dialect: Dialect, weather: Weather, seed: u64) -> (Vec<(u32, &'static str)>, u64) {
    let mut pair: Pair<u32> = Pair::new(both_roles(Config::client(dialect)), weather, seed);
    for number in 1..=10 {
        let now = pair.now();
        let client = pair.connection_mut(Role::Client);
        let call = client.call("work", None, number, Default::default(), now);
        assert!(call.is_ok(), "it is open");
    }
    let result: Box<RawValue> = serde_json::from_str("1").expect("it is JSON");
    let mut settled = Vec::new();
    pair.run(|_, event, connection| match event {
        Event::Request { request, .. } => {
            connection.respond(request, Response::Result(&result)).expect("it is unanswered");
        }
        Event::Settled { outcome, data, .. } => settled.push((data, outcome.settlement().as_str())),
        _ => {}
    });
    (settled, pair.trace_hash())
}

#[test]
fn g10_a_seed_is_a_run() {
    for dialect in Dialect::PRESETS.iter().cloned() {
        let run = |seed| ten_calls(dialect.clone(), Weather::default(), seed);
        assert_eq!(run(1), run(1), "{}", dialect.name);
        assert_ne!(run(1).1, run(2).1, "{}: another seed, another run", dialect.name);
    }
}

#[test]
fn streams_overtake_each_other_only_where_the_transport_lets_them() {
    let order = |dialect| {
        let (settled, _) = ten_calls(dialect, Weather::default(), 3);
        settled.into_iter().map(|(number, _)| number).collect::<Vec<_>>()
    };
    assert_eq!(order(Dialect::LSP_3_17), (1..=10).collect::<Vec<_>>());
    assert_ne!(order(Dialect::MCP_HTTP), (1..=10).collect::<Vec<_>>());
}

#[test]
fn back_pressure_delays_and_loses_nothing() {
    let narrow = Weather { capacity: 1, ..Weather::default() };
    let (settled, narrow) = ten_calls(Dialect::ACP_V1, narrow, 5);
    assert_eq!(settled, (1..=10).map(|number| (number, "result")).collect::<Vec<_>>());
    assert_ne!(narrow, ten_calls(Dialect::ACP_V1, Weather::default(), 5).1);
}

#[test]
fn g07_a_cut_line_settles_every_call() {
    for cut_at in (0..40).map(Timestamp::from_millis) {
        let weather = Weather {
            most_latency: Duration::from_millis(30),
            cut_at: Some(cut_at),
            ..Weather::default()
        };
        let (settled, _) = ten_calls(Dialect::ACP_V1, weather, 9);
        assert_eq!(settled.len(), 10, "cut at {cut_at:?}");
    }
    let at_once = Weather { cut_at: Some(Timestamp::ZERO), ..Weather::default() };
    let (settled, _) = ten_calls(Dialect::ACP_V1, at_once, 9);
    assert!(settled.iter().all(|(_, how)| *how == "connection_lost"));
}
