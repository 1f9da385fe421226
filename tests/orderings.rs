//! Random operations on two real connections against the reference model, in every preset.
//!
//! `PROPTEST_CASES=100000` tries more; what fails is shrunk. The fuzz target `operations` has the
//! same generator and the same oracle.

use proptest::collection::vec;
use proptest::prelude::any;
use proptest::test_runner::{Config as Proptest, TestCaseError, TestError, TestRunner};
use protocol_core::{Config, Dialect};
use protocol_testkit::{Broken, Operation, Random, World, both_roles, operations, small, tight};

/// Does them from the very beginning, and in a session, where the dialect has sessions.
fn run(config: &Config, operations: &[Operation]) -> Result<(), Broken> {
    // Two messages fill the line: every host meets back-pressure.
    let world = || World::on_a_line_of(both_roles(config.clone()), 300);
    if config.dialect.session.is_some() {
        run_in(world(), operations)?;
    }
    run_in(world().in_session()?, operations)
}

fn run_in(mut world: World, operations: &[Operation]) -> Result<(), Broken> {
    operations.iter().try_for_each(|operation| world.apply(operation))?;
    world.finish()
}

#[test]
fn connections_do_what_the_reference_model_does() {
    with_random_operations(small);
}

#[test]
fn connections_with_little_room_do_what_the_reference_model_does() {
    with_random_operations(tight);
}

#[test]
fn connections_of_other_choices_do_what_the_reference_model_does() {
    with_random_operations(|dialect| {
        let mut config = small(dialect);
        config.limits.requests = 2;
        config.close_over_limit = true;
        config.show_raw_cancels = true;
        config.deliver_unknown_operations = true;
        config
    });
}

fn with_random_operations(config: fn(Dialect) -> Config) {
    // Not `cases: …`, which would override PROPTEST_CASES.
    for dialect in Dialect::PRESETS {
        let config = config(dialect.clone());
        let mut runner =
            TestRunner::new(Proptest { failure_persistence: None, ..Proptest::default() });
        let outcome = runner.run(&vec(any::<u8>(), 0..400), |bytes| {
            run(&config, &operations(&bytes))
                .map_err(|broken| TestCaseError::fail(broken.to_string()))
        });
        if let Err(TestError::Fail(reason, bytes)) = &outcome {
            let history: Vec<_> = operations(bytes).iter().map(Operation::to_string).collect();
            panic!("{}: {reason}\nbytes: {bytes:?}\n{}", dialect.name, history.join("; "));
        }
        outcome.unwrap_or_else(|error| panic!("{}: {error}", dialect.name));
    }
}

#[test]
fn g10_the_same_bytes_give_the_same_world() {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let print = |dialect: &Dialect, seed| {
        let mut world = World::new(both_roles(small(dialect.clone())));
        for operation in operations(&Random::new(seed).bytes(300)) {
            world.apply(&operation).unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        }
        let mut state = DefaultHasher::new();
        world.hash(&mut state);
        state.finish()
    };
    for dialect in Dialect::PRESETS {
        let prints: Vec<_> = (0..20).map(|seed| print(dialect, seed)).collect();
        assert_eq!(prints, (0..20).map(|seed| print(dialect, seed)).collect::<Vec<_>>());
    }
}

/// An oracle that is never asked proves nothing.
#[test]
fn the_generator_meets_everything() {
    let mut met = std::collections::BTreeSet::new();
    for seed in 0..2_000 {
        for operation in operations(&Random::new(seed).bytes(200)) {
            let text = operation.to_string();
            // The kind, without the end and its numbers.
            let kind = text.split(' ').nth(1).unwrap_or(&text).to_owned();
            met.insert(kind);
        }
    }
    for kind in [
        "call", "cancel", "detach", "respond", "begin", "send", "end", "give", "notify",
        "progress", "drain", "read", "to", "hang", "cut", "shutdown",
    ] {
        assert!(met.contains(kind), "{kind} is never made: {met:?}");
    }
}
