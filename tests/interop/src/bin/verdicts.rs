//! Tests real servers and relays again and again, and prints the verdicts that are not always the same: `verdicts
//! [--rounds N] [--width N] [NAME...]`. It tests each peer N times, or each whose name begins with one of the names. As
//! many run at the same time as there are processors, or WIDTH. A verdict that differs from those before is reported at
//! once, and all of them at the end. Exits 1 if any differed.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use std::{env, thread};

use rescind_conform::{Expected, Report};
use rescind_interop::conform::{Peer, peers, run_all};

const USAGE: u8 = 2;

/// The runs of a peer so far, and their verdicts.
#[derive(Debug, Default)]
struct Seen {
    runs: usize,
    longest: Duration,
    /// By its check, how often there was each verdict, and what was said of it last.
    verdicts: BTreeMap<&'static str, BTreeMap<&'static str, (usize, String)>>,
}

impl Seen {
    /// Counts a run; gives the checks that had other verdicts only.
    fn add(&mut self, report: &Report) -> Vec<(&'static str, String)> {
        let mut new = Vec::new();
        self.runs += 1;
        self.longest = self.longest.max(report.took);
        let certain = report.outcomes.iter().filter(|outcome| outcome.known != Expected::Flaky);
        for outcome in certain {
            let verdicts = self.verdicts.entry(outcome.id).or_default();
            let word = outcome.verdict.as_str();
            let why: String = outcome.verdict.why().unwrap_or_default().chars().take(200).collect();
            if !verdicts.is_empty() && !verdicts.contains_key(word) {
                new.push((outcome.id, format!("{word} ({why})")));
            }
            let (times, last) = verdicts.entry(word).or_default();
            *times += 1;
            *last = why;
        }
        new
    }

    fn differing(&self) -> impl Iterator<Item = (&'static str, String)> {
        let differing = self.verdicts.iter().filter(|(_, verdicts)| verdicts.len() > 1);
        differing.map(|(id, verdicts)| {
            let said = verdicts.iter().map(|(word, (times, why))| match &**why {
                "" => format!("{times} {word}"),
                why => format!("{times} {word} ({why})"),
            });
            (*id, said.collect::<Vec<_>>().join("; "))
        })
    }
}

fn main() -> ExitCode {
    let mut arguments = env::args().skip(1);
    let mut width = thread::available_parallelism().map_or(1, usize::from);
    let (mut rounds, mut names) = (20_usize, Vec::new());
    while let Some(argument) = arguments.next() {
        let number = match &*argument {
            "--rounds" => &mut rounds,
            "--width" => &mut width,
            name if !name.starts_with("--") => {
                names.push(argument);
                continue;
            }
            _ => return usage(),
        };
        match arguments.next().map(|value| value.parse()) {
            Some(Ok(value)) => *number = value,
            _ => return usage(),
        }
    }
    let is_named =
        |peer: &Peer| names.is_empty() || names.iter().any(|name| peer.name.starts_with(name));
    let peers: Vec<Peer> = peers().into_iter().filter(is_named).collect();
    let every_round: Vec<Peer> = peers.iter().cycle().take(peers.len() * rounds).cloned().collect();

    let all = Mutex::new(BTreeMap::<&str, Seen>::new());
    run_all(&every_round, width, |number, report| {
        let peer = &every_round[number];
        let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
        println!("{}: {}, {:.1} s", peer.name, report.summary(), report.took.as_secs_f64());
        for (id, said) in all.entry(peer.name).or_default().add(&report) {
            println!("    {id} differs: {said}");
        }
    });
    let all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!();
    for (name, seen) in &all {
        let differing: Vec<_> = seen.differing().collect();
        let longest = seen.longest.as_secs_f64();
        println!(
            "{name}: {} runs, the longest {longest:.1} s, {} checks differ",
            seen.runs,
            differing.len()
        );
        for (id, said) in differing {
            println!("    {id}: {said}");
        }
    }
    match all.values().all(|seen| seen.differing().next().is_none()) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn usage() -> ExitCode {
    eprintln!("usage: verdicts [--rounds N] [--width N] [NAME...]");
    ExitCode::from(USAGE)
}
