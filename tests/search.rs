//! Every ordering of small worlds, in every preset: two real connections, and three peers with a
//! real relay, each operation judged by the reference model of `protocol-testkit`.
//!
//! Each preset is a test, but for those that differ from another in their name only. `tests/search/counts.txt`
//! records how many states there are: a search that was cut short, or that reaches other states than it did, fails.
//! `BLESS=1` rewrites it, in release mode. Debug builds search the small worlds only; `SEARCH=large` searches larger
//! ones as well, which are compared as far as their counts were ever recorded. A failure ends with the line that
//! replays it: `REPLAY` is its scenario and its ordering. A replay only draws the way to a circle of fair choices (G1) and
//! to a choice that does something else the second time (G10): a search alone finds these.

#[path = "search/counts.rs"]
mod counts;
#[path = "search/scenarios.rs"]
mod scenarios;
#[path = "search/turns.rs"]
mod turns;

use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use libtest_mimic::{Arguments, Failed, Trial};
use protocol_core::{CancelRule, Config, Dialect};
use protocol_testkit::both_roles;
use protocol_testkit::explore::{
    Failure, Orderings, Relayed, Report, Scenario, System, replay, search,
};

use counts::{Count, Counts};
use scenarios::{
    ACKNOWLEDGED, LARGE, NEGOTIATED, OPERATIONS, RELAYED, RELAYED_NEGOTIATED, RELAYED_OPERATIONS,
    SCENARIOS, TURNS,
};
use turns::Turns;

/// The number of states at which a search is given up: nothing recorded comes near it.
const MOST: usize = 20_000_000;

/// In debug builds, searches with more states are left to release builds.
const SMALL: usize = 670;

/// Searches with more states take turns, if `RESCIND_TURN` is set: each is searched in one turn of so many.
const HEAVY: usize = 5_000;
const TURNS_OF_HEAVY: usize = 4;

fn main() -> ExitCode {
    let replayed = std::env::var("REPLAY").ok();
    let is_large = replayed.is_some() || std::env::var("SEARCH").is_ok_and(|size| size == "large");
    let blesses = std::env::var_os("BLESS").is_some() && !cfg!(debug_assertions);
    let turn = std::env::var("RESCIND_TURN").ok().map(|it| it.parse().expect("a number"));
    let recorded = Arc::new(Counts::read());
    let found = Arc::new(Mutex::new(Counts::default()));
    let mut trials = Vec::new();
    for dialect in different(Dialect::PRESETS) {
        let (recorded, found, replayed) = (recorded.clone(), found.clone(), replayed.clone());
        trials.push(Trial::test(&*dialect.name, move || {
            let has_turn = |scenario: &str| {
                let place = recorded.place(&dialect.name, scenario, HEAVY);
                place.zip(turn).is_none_or(|(place, turn): (_, usize)| {
                    place % TURNS_OF_HEAVY == turn % TURNS_OF_HEAVY
                })
            };
            let scenarios = scenarios_of(dialect, is_large);
            if let Some(replayed) = replayed {
                return replay_in(dialect, scenarios, &replayed);
            }
            let scenarios = scenarios.filter(|(_, it)| has_turn(it.name));
            search_all(dialect, scenarios, &recorded, blesses, &mut |name, count| {
                found.lock().expect("no test panics with it").insert(&dialect.name, name, count);
            })
        }));
    }
    let conclusion = libtest_mimic::run(&Arguments::from_args(), trials);
    let found = found.lock().expect("no test panics with it");
    println!("{found}");
    if blesses {
        found.merged_into(&recorded).write();
    }
    conclusion.exit_code()
}

/// Without those that have nothing of their own but a name: they have the same states.
fn different(presets: &'static [Dialect]) -> impl Iterator<Item = &'static Dialect> {
    presets.iter().enumerate().filter_map(|(index, preset)| {
        let is_alike = |other: &Dialect| {
            let mut other = other.clone();
            other.name = preset.name.clone();
            other == *preset
        };
        (!presets[..index].iter().any(is_alike)).then_some(preset)
    })
}

fn search_all(
    dialect: &Dialect,
    scenarios: impl Iterator<Item = (Search, &'static Scenario)>,
    recorded: &Counts,
    blesses: bool,
    found: &mut dyn FnMut(&'static str, Count),
) -> Result<(), Failed> {
    for (searches, scenario) in scenarios {
        let name = scenario.name;
        let known = recorded.of(&dialect.name, name);
        if cfg!(debug_assertions) && known.is_none_or(|count| count.states > SMALL) {
            continue;
        }
        let Report { states, transitions, exhausted, failure } = searches(dialect, scenario, None);
        if let Some(failure) = failure {
            return Err(failed(dialect, name, &failure));
        }
        if !exhausted {
            return Err(format!("{name}: there are more than {MOST} states").into());
        }
        let count = Count { states, transitions };
        // The larger set is compared as far as it was ever recorded.
        let is_expected = known.is_some() || !LARGE.iter().any(|large| large.name == name);
        if !blesses && is_expected && known != Some(count) {
            return Err(format!("{name}: {count}, recorded is {known:?}").into());
        }
        found(name, count);
    }
    Ok(())
}

/// Replays one ordering: a scenario of this name, a colon, and the line of a failure in it.
fn replay_in(
    dialect: &Dialect,
    mut scenarios: impl Iterator<Item = (Search, &'static Scenario)>,
    replayed: &str,
) -> Result<(), Failed> {
    let (name, line) = replayed.rsplit_once(": ").ok_or("REPLAY is no scenario and ordering")?;
    let found = scenarios.find(|(_, scenario)| scenario.name == name);
    let (searches, scenario) = found.ok_or("this preset has no such scenario")?;
    let failure = searches(dialect, scenario, Some(line)).failure;
    failure.map_or(Ok(()), |failure| Err(failed(dialect, name, &failure)))
}

fn failed(dialect: &Dialect, name: &str, failure: &Failure) -> Failed {
    let (Failure { chart, broken, .. }, line) = (failure, failure.line());
    let again = "cargo test -p rescind-tests --test search -- --exact";
    format!("{name}\n{chart}{broken}\nagain:\n  REPLAY=\"{name}: {line}\" {again} {}", dialect.name)
        .into()
}

/// Searches a scenario, or replays one ordering of it.
type Search = fn(&Dialect, &Scenario, Option<&str>) -> Report;

/// Returns the scenarios for a dialect, each with the search that runs it.
fn scenarios_of(
    dialect: &Dialect,
    is_large: bool,
) -> impl Iterator<Item = (Search, &'static Scenario)> {
    let is_acknowledged =
        matches!(dialect.cancel, CancelRule::Request { .. } | CancelRule::Operation { .. });
    let has_operations = dialect.has_operations();
    let is_negotiated = !dialect.revisions.is_empty();
    let has_turns = dialect.work.iter().any(|rule| rule.kind == "turn") && dialect.name != "acp-v2";
    let lists: [(bool, Search, &[Scenario]); 9] = [
        (true, direct, SCENARIOS),
        (is_acknowledged, direct, ACKNOWLEDGED),
        (is_negotiated, direct, NEGOTIATED),
        (has_operations, direct, OPERATIONS),
        (is_large, direct, LARGE),
        (has_turns, turns, TURNS),
        (true, relayed, RELAYED),
        (is_negotiated, relayed, RELAYED_NEGOTIATED),
        (has_operations, relayed, RELAYED_OPERATIONS),
    ];
    let chosen = lists.into_iter().filter(|(is_chosen, ..)| *is_chosen);
    chosen.flat_map(|(_, search, list)| list.iter().map(move |scenario| (search, scenario)))
}

fn run(start: &impl System, line: Option<&str>) -> Report {
    let Some(line) = line else { return search(start, MOST) };
    let chart = replay(start, line);
    let failure =
        chart.map(|chart| println!("{chart}nothing that a replay can find is wrong there")).err();
    Report { states: 0, transitions: 0, exhausted: false, failure }
}

fn direct(dialect: &Dialect, scenario: &Scenario, line: Option<&str>) -> Report {
    let configs = both_roles(Config::client(dialect.clone()));
    run(&Orderings::new(configs, *scenario), line)
}

/// Has a model of its own, which knows what a stop means.
fn turns(dialect: &Dialect, _: &Scenario, line: Option<&str>) -> Report {
    run(&Turns::new(dialect), line)
}

fn relayed(dialect: &Dialect, scenario: &Scenario, line: Option<&str>) -> Report {
    let config = Config::client(dialect.clone());
    run(&Relayed::new(config.clone(), config, *scenario), line)
}
