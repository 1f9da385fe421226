//! Servers, clients and relays that are wrong on purpose, one fault each: the checks find that, and only what follows
//! from it. One program, since all of them mostly wait.

mod clients;
mod relays;
mod servers;

use std::env;
use std::process::exit;

use libtest_mimic::Arguments;

/// As many as cargo gives the other tests.
const AT_ONCE: usize = 8;

fn main() {
    let arguments: Vec<String> = env::args().collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if servers::plays(&words) || clients::plays(&words) {
        return;
    }
    // `.ci/run` sets it, so that another sample is tried after each commit.
    let turn = env::var("RESCIND_TURN").map_or(0, |turn| turn.parse::<usize>().expect("a number"));
    let mut trials = servers::trials(turn);
    trials.extend(clients::trials(turn));
    trials.extend(relays::trials());
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(AT_ONCE));
    let conclusion = libtest_mimic::run(&arguments, trials);
    if !servers::are_judged() {
        exit(1);
    }
    conclusion.exit();
}
