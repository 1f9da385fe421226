//! `rescind conform` on real servers and relays: its verdicts are in `recorded`. docs/conformance.md says how more peers
//! than those of `tests/interop/install` are installed.
//!
//! With `RESCIND_TURN` a third of them is tested. `BLESS=1` rewrites the pages of all that are there. The
//! program `verdicts` reports whether the verdicts are always the same.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::{env, thread};

use rescind_conform::{Report, column};
use rescind_interop::conform::{Peer, pages, peers, run_all, truths};
use rescind_interop::in_turn;

fn told(peer: &Peer, report: &Report) {
    println!("{}: {}, {:.1} s", peer.name, report.summary(), report.took.as_secs_f64());
    let mut slowest: Vec<_> = report.outcomes.iter().map(|it| (it.took, it.id)).collect();
    slowest.sort();
    for (took, id) in slowest.iter().rev().take(3) {
        println!("    {id}: {:.1} s", took.as_secs_f64());
    }
}

/// Returns the verdicts that differ from the page, also when they are tested again.
fn differing(peer: &Peer, report: &Report) -> Vec<String> {
    let recorded = pages::recorded(peer).unwrap();
    let differing = |report: &Report| -> Vec<String> {
        let seen = column(report);
        let ids = report.outcomes.iter().map(|outcome| outcome.id.to_owned());
        ids.filter(|id| seen.get(id) != recorded.get(id)).collect()
    };
    let first = differing(report);
    if first.is_empty() {
        return first;
    }
    println!("{}: once more: {first:?}", peer.name);
    let again = peer.test(&first).unwrap().unwrap();
    let say = |id: &String| {
        let seen = column(&again);
        let outcome = again.outcomes.iter().find(|outcome| outcome.id == *id);
        let why = outcome.and_then(|outcome| outcome.verdict.why()).unwrap_or_default();
        let (seen, recorded) = (seen.get(id), recorded.get(id));
        format!("{}: {id} is {seen:?}, and on the page {recorded:?}: {why}", peer.name)
    };
    differing(&again).iter().map(say).collect()
}

#[test]
fn what_is_seen_of_real_peers_is_what_the_pages_say() {
    let is_blessed = env::var_os("BLESS").is_some();
    let peers = if is_blessed { peers() } else { in_turn(peers(), 3) };
    // They mostly wait.
    let width = 2 * thread::available_parallelism().map_or(1, usize::from);
    let tested = Mutex::new(BTreeMap::new());
    run_all(&peers, width, |number, report| {
        told(&peers[number], &report);
        tested.lock().unwrap().insert(number, (&peers[number], report));
    });
    let tested: Vec<(&Peer, Report)> = tested.into_inner().unwrap().into_values().collect();
    let missed: Vec<String> =
        tested.iter().flat_map(|(peer, report)| truths(peer.name, report)).collect();
    assert!(missed.is_empty(), "{}", missed.join("\n"));
    if is_blessed {
        return pages::write(&peers, &tested).unwrap();
    }
    let differing: Vec<String> =
        tested.iter().flat_map(|(peer, report)| differing(peer, report)).collect();
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}
