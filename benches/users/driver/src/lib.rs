//! The client of all workloads: it starts a server as a child over pipes, and reads what the server
//! costs. It is one blocking thread and uses neither library, so that both servers meet the same client.

mod ledger;
mod server;

use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

pub use ledger::{Ledger, Settled};
pub use server::{Framing, Input, Message, Server, cpu};

/// The time for which a reader stops.
pub const STOPPED: Duration = Duration::from_secs(4);

/// The `main` of a workload: `WORKLOAD speed|memory SERVER`.
///
/// - `speed`: rounds of the workload, each with its CPU time, and the latencies of cancels
/// - `memory`: the most memory that the server needs while its reader stops
///
/// # Panics
///
/// If it is asked for something else, and if the server's responses are wrong.
pub fn run(framing: Framing, speed: fn(&mut Server), memory: fn(&mut Server)) {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [mode, program] = &arguments[..] else {
        panic!("asked for {arguments:?}, not: MODE SERVER")
    };
    let mut server = Server::start(program, framing);
    match mode.as_str() {
        "speed" => speed(&mut server),
        "memory" => memory(&mut server),
        _ => panic!("there is no mode {mode}"),
    }
    let most = server.most_memory();
    server.end();
    if mode == "memory" {
        figure("memory_kib", most as f64);
    }
}

/// Asks 2,000 times a second while nobody reads, and then reads every response.
///
/// # Panics
///
/// If a response is wrong.
pub fn stop_reading(
    server: &mut Server,
    ledger: &mut Ledger,
    mut ask: impl FnMut(&mut Input, &mut Ledger) + Send,
) {
    let mut input = server.input.take().expect("it is here");
    let ledger = Mutex::new(ledger);
    let locked = || ledger.lock().expect("no panic");
    thread::scope(|scope| {
        // On a thread of its own, for the server may make it wait.
        let asking = scope.spawn(|| {
            let begun = Instant::now();
            while begun.elapsed() < STOPPED {
                ask(&mut input, &mut locked());
                input.write();
                thread::sleep(Duration::from_micros(500));
            }
        });
        thread::sleep(STOPPED);
        while !asking.is_finished() || locked().unanswered() > 0 {
            if locked().unanswered() > 0 {
                let message = server.receive();
                locked().settle(&message);
            } else {
                thread::yield_now();
            }
        }
    });
    server.input = Some(input);
}

/// Prints one figure as a line of JSON.
pub fn figure(metric: &str, value: f64) {
    println!(r#"{{"metric":"{metric}","value":{value:.3}}}"#);
}

/// Prints the least CPU time a message of some rounds, in microseconds. A disturbance only adds to it.
///
/// A round returns the CPU time of the server, and the number of messages. The first one warms up.
pub fn least(metric: &str, rounds: usize, mut round: impl FnMut() -> (Duration, usize)) {
    round();
    let cost = |(time, messages): (Duration, usize)| time.as_secs_f64() * 1e6 / messages as f64;
    figure(metric, (0..rounds).map(|_| cost(round())).fold(f64::INFINITY, f64::min));
}

/// The latencies of cancels.
#[derive(Debug, Default)]
pub struct Latencies(Vec<Duration>);

impl Latencies {
    /// Notes the time since a cancel was written.
    pub fn since(&mut self, written: Instant) {
        self.0.push(written.elapsed());
    }

    /// Prints the median and the worst, in microseconds.
    ///
    /// # Panics
    ///
    /// If there are none.
    pub fn print(mut self) {
        self.0.sort_unstable();
        let micros = |at: usize| self.0[at].as_secs_f64() * 1e6;
        figure("cancel_median_us", micros(self.0.len() / 2));
        figure("cancel_worst_us", micros(self.0.len() - 1));
    }
}
