//! The environment decides what a search runs, and what it can't do is said.

use std::path::Path;
use std::process::Command;

use protocol_testkit::simulate::{Bound, Simulation, every_order, simulate};

fn chooses(simulation: Simulation) {
    let _ = simulation.choose(3);
}

/// Run by the tests below as a program, and so are the next two.
#[test]
fn in_every_order() {
    assert!(every_order(Bound::steps(9), chooses).is_exhausted);
}

#[test]
fn by_seeds() {
    simulate(0..9, chooses);
}

#[test]
#[should_panic(expected = "it fails")]
fn failing() {
    let _ = every_order(Bound::steps(9), |_| panic!("it fails"));
}

/// Returns all that a test of this program prints with these variables, if it passes as `passes` says.
fn printed(test: &str, variables: &[(&str, &str)], passes: bool) -> String {
    let mut program = Command::new(std::env::current_exe().unwrap());
    let name = format!("environment::{test}");
    program.args([&*name, "--exact", "--nocapture"]).envs(variables.iter().copied());
    let ran = program.output().unwrap();
    let text = String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned();
    assert_eq!(ran.status.success(), passes, "{text}");
    text
}

#[test]
fn a_replay_without_a_failure_is_exhausted() {
    let text = printed("in_every_order", &[("SIM_SCHEDULE", "2")], true);
    assert!(text.contains("nothing is wrong there") && !text.contains("does not fit"), "{text}");
}

#[test]
fn a_schedule_that_does_not_fit_its_world_says_so() {
    let tests = [
        ("in_every_order", "9.9", "does not fit: choice 1 is 9, and the greatest is 2"),
        ("by_seeds", "1.1", "does not fit: the run ended before choice 2"),
        ("failing", "1", "does not fit: the run ended before choice 1"),
    ];
    for (test, schedule, misfit) in tests {
        let text = printed(test, &[("SIM_SCHEDULE", schedule)], true);
        assert!(text.contains(misfit) && !text.contains("nothing is wrong"), "{text}");
    }
}

#[test]
fn a_variable_that_cannot_be_read_fails_every_search() {
    for test in ["in_every_order", "by_seeds"] {
        for variable in ["SIM_SEED", "SIM_SEEDS"] {
            let text = printed(test, &[("SIM_SCHEDULE", "1"), (variable, "abc")], false);
            assert!(text.contains(&format!("{variable} is a number, not \"abc\"")), "{text}");
        }
        let text = printed(test, &[("SIM_SCHEDULE", "abc")], false);
        assert!(text.contains("SIM_SCHEDULE is numbers with dots, not \"abc\""), "{text}");
    }
}

#[test]
fn a_variable_that_a_search_does_not_use_is_said() {
    let text = printed("in_every_order", &[("SIM_SEED", "17"), ("SIM_SEEDS", "5")], true);
    assert!(text.contains("SIM_SEED is not used"), "{text}");
    assert!(text.contains("SIM_SEEDS is not used"), "{text}");
    let text = printed("by_seeds", &[("SIM_SCHEDULE", "1"), ("SIM_SEED", "17")], true);
    assert!(text.contains("SIM_SEED is not used") && !text.contains("SCHEDULE is not"), "{text}");
}

#[test]
fn a_recording_is_written_in_a_replay_or_the_output_says_why_not() {
    let folder = std::env::temp_dir().join(format!("rescind-testkit-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let (file, missing) = (folder.join("run.jsonl"), folder.join("none/run.jsonl"));
    for (test, variable) in [
        ("in_every_order", ("SIM_SCHEDULE", "1")),
        ("by_seeds", ("SIM_SEED", "1")),
        ("failing", ("SIM_SCHEDULE", "")),
    ] {
        let recorded = |path: &Path| {
            printed(test, &[variable, ("SIM_RECORDING", path.to_str().unwrap())], true)
        };
        assert!(recorded(&file).contains(&format!("recorded in {}", file.display())));
        assert!(std::fs::read_to_string(&file).unwrap().contains("protocol-testkit"));
        std::fs::remove_file(&file).unwrap();
        let text = recorded(&missing);
        assert!(text.contains(&format!("not recorded in {}: ", missing.display())), "{text}");
    }
    std::fs::remove_dir(&folder).unwrap();
}
