//! The tasks that every peer's process can run.

use std::time::Duration;

use crate::clock;
use crate::floor::Floor;
use crate::heap;
use crate::payload::{Payload, Size};
use crate::report::{self, number};
use crate::subject::{Cancelling, Hanging, Laps, Subject};
use crate::wire;

/// Requests in flight, in W1.
const WIDTHS: [usize; 3] = [1, 64, 1024];
/// Cancelled at once, in W2.
const MANY: usize = 1024;

/// The `main` of a peer: does what the command line asks for.
///
/// - `speed MILLISECONDS`: W1 and W2, with so much time for each figure, beside the floor
/// - `heap COUNT`: W3
/// - `echo WIDTH TIMES`, `cancel TIMES`, `floor TIMES`: work of a fixed size, for callgrind
/// - `count` and one of those: the allocations of that work
/// - `sample`: what goes over the wire
///
/// `skip` arguments before that are the peer's own.
///
/// # Panics
///
/// If it is asked for something else, and if an answer is wrong.
pub fn measure<S: Subject>(skip: usize) {
    let arguments: Vec<String> = std::env::args().skip(1 + skip).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["speed", milliseconds] => {
            speed::<S>(Duration::from_millis(number(milliseconds) as u64));
        }
        ["heap", count] => hold::<S>(number(count)),
        ["sample"] => sample::<S>(),
        ["count", ref work @ ..] => {
            println!("{}", heap::count(|| fixed::<S>(work)).allocations);
        }
        ref work => fixed::<S>(work),
    }
    // Handlers may still hang.
    std::process::exit(0);
}

/// Work of a fixed size.
fn fixed<S: Subject>(work: &[&str]) {
    match *work {
        ["echo", width, times] => {
            S::join(MANY).echo(number(width), number(times), &Size::Small.payload());
        }
        ["cancel", times] if S::CANCELLING != Cancelling::Impossible => {
            S::join(MANY).cancel(1, &mut Laps::new(number(times), || 0));
        }
        ["cancel", _] => {}
        ["floor", times] => Floor::default().echo(number(times), &Size::Small.payload()),
        _ => panic!("asked for {work:?}; see bench_harness::measure for what there is to ask for"),
    }
}

fn speed<S: Subject>(budget: Duration) {
    let report = |metric: &str, value| report::figure(S::NAME, metric, value);
    let mut subject = S::join(4 * MANY);
    check(&mut subject);
    let mut floor = Floor::default();
    for size in Size::ALL {
        let (payload, name) = (size.payload(), size.as_str());
        let mut floor_cost = || clock::cpu_per_step(budget / 2, 1, |n| floor.echo(n, &payload));
        // Before and after: the least disturbed of both.
        let before = floor_cost();
        let widths = if size == Size::Small { &WIDTHS[..] } else { &WIDTHS[..1] };
        for &width in widths {
            let cost = clock::cpu_per_step(budget, width, |n| subject.echo(width, n, &payload));
            report(&format!("w1.{name}.{width}.cpu_ns"), cost);
        }
        report(&format!("floor.{name}.cpu_ns"), floor_cost().min(before));
    }
    counts(&mut subject);
    let mut latencies = subject.latencies(10_000, &Size::Small.payload());
    report("w1.small.1.p50_ns", clock::percentile(&mut latencies, 0.5));
    report("w1.small.1.p99_ns", clock::percentile(&mut latencies, 0.99));
    if S::CANCELLING != Cancelling::Impossible {
        cancels::<S>(budget);
    }
}

/// Texts that differ and have to be escaped, many in flight: before anything is measured.
fn check<S: Subject>(subject: &mut S) {
    for round in 0..50 {
        let text = format!("hello \"{round}\"\n\u{e9}");
        subject.echo(64, 128, &Payload { text, nodes: Vec::new() });
    }
}

/// Counts allocations, and the traffic on the wire, exactly. Reports the difference of two sizes,
/// so that work which is done once does not count.
fn counts<S: Subject>(subject: &mut S) {
    const TIMES: usize = 8 * MANY;
    let payload = Size::Small.payload();
    for width in WIDTHS {
        let count = |times| {
            let before = wire::traffic();
            let taken = heap::count(|| subject.echo(width, times, &payload));
            let after = wire::traffic();
            [
                ("allocations", taken.allocations),
                ("allocated_bytes", taken.bytes),
                ("writes", after.writes - before.writes),
                ("reads", after.reads - before.reads),
                ("wire_bytes", after.bytes - before.bytes),
            ]
        };
        // The first makes room, which is kept.
        let [_, few, more] = [TIMES, TIMES, 2 * TIMES].map(count);
        let has_wire = few[4].1 > 0;
        for ((metric, few), (_, more)) in
            few.into_iter().zip(more).take(if has_wire { 5 } else { 2 })
        {
            let metric = format!("w1.small.{width}.{metric}");
            report::figure(S::NAME, &metric, (more as f64 - few as f64) / TIMES as f64);
        }
    }
    let taken = heap::count(|| Floor::default().echo(TIMES, &payload));
    report::figure(S::NAME, "floor.small.allocations", taken.allocations as f64 / TIMES as f64);
}

fn cancels<S: Subject>(budget: Duration) {
    let report = |metric: &str, value| report::figure(S::NAME, metric, value);
    let mut subject = S::join(4 * MANY);
    subject.cancel(1, &mut Laps::new(1_000, clock::wall));
    let cycle = clock::cpu_per_step(budget, 1, |n| subject.cancel(1, &mut Laps::new(n, || 0)));
    report("w2.1.cycle_cpu_ns", cycle);
    let mut laps = Laps::new(10_000, clock::wall);
    subject.cancel(1, &mut laps);
    report("w2.1.p50_ns", clock::percentile(&mut laps.cancels, 0.5));
    report("w2.1.p99_ns", clock::percentile(&mut laps.cancels, 0.99));

    let mut laps = Laps::new(1_000, || 0);
    let taken = heap::count(|| subject.cancel(1, &mut laps));
    report("w2.1.allocations", taken.allocations as f64 / 1_000.0);

    subject.cancel(MANY, &mut Laps::new(2, clock::cpu));
    let rounds = (budget.as_nanos() as f64 / (cycle * MANY as f64)) as usize;
    let mut laps = Laps::new(rounds.max(5), clock::cpu);
    subject.cancel(MANY, &mut laps);
    // The least disturbed ones, as in W1.
    let per_request = |times: &mut [u64]| clock::percentile(times, 0.1) / MANY as f64;
    report("w2.1024.cancel_cpu_ns", per_request(&mut laps.cancels));
    report("w2.1024.cycle_cpu_ns", per_request(&mut laps.cycles));
    assert_eq!(Hanging::begun(), Hanging::ended(), "every handler was told");
}

fn hold<S: Subject>(count: usize) {
    let held = S::hold(count);
    let report = |side: &str, bytes: i64| {
        let metric = format!("w3.{count}.{side}_bytes");
        report::figure(S::NAME, &metric, bytes as f64 / count as f64);
    };
    report("caller", held.caller);
    report("callee", held.callee);
    report("both", held.caller + held.callee);
    report::figure(S::NAME, "w3.handle_bytes", held.handle as f64);
}

fn sample<S: Subject>() {
    let mut subject = S::join(MANY);
    subject.echo(1, 1, &Size::Small.payload());
    wire::tap();
    subject.echo(1, 1, &Size::Small.payload());
    if S::CANCELLING != Cancelling::Impossible {
        subject.cancel(1, &mut Laps::new(1, || 0));
    }
    println!("--- {} (one echo, one cancel)\n{}", S::NAME, wire::tapped());
}
