//! Many clients that come, ask, cancel and hang up at random. In the midst of it the server has to end: nothing is
//! lost, and nothing gets a second response.

use std::collections::HashMap;
use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use rescind_hostile_suite::wire::request;
use rescind_hostile_suite::{MIB, mib};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tungstenite::error::ProtocolError;
use tungstenite::{Error, Message};

use crate::alone;
use crate::websocket::{Client, Server};

const CLIENTS: u64 = 96;
/// The most by which the server grows once all clients have been there for a third of the time.
const GROWTH: usize = 16 * MIB;

/// A generator of numbers that need not be good (xorshift).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// One client, with the requests that it has sent.
struct Asked {
    client: Client,
    next: u64,
    /// The requests without a response, by id, and whether each was cancelled.
    open: HashMap<u64, bool>,
    /// The last of what the server is known to have taken: it takes everything in order.
    taken: u64,
    answered: usize,
}

/// The end of a client's stay.
#[derive(PartialEq, Eq, Debug)]
enum Stay {
    HungUp,
    SaidGoodbyeTo,
}

impl Asked {
    /// Nobody, if the server takes none any more.
    fn begin(server: &Server) -> Option<Self> {
        let client = server.target.websocket().ok()?;
        Some(Self { client, next: 1, open: HashMap::new(), taken: 0, answered: 0 })
    }

    /// Takes one answer, or the server's goodbye.
    fn take(&mut self) -> Option<Stay> {
        match self.client.read() {
            Ok(Message::Text(text)) => {
                let answer: Value = serde_json::from_str(&text).unwrap();
                let id = answer["id"].as_u64().unwrap();
                let was_cancelled = self.open.remove(&id).expect("it was asked, and answered once");
                let code = answer["error"]["code"].as_i64();
                // Cancelled by its client, or by the server's end, or refused because of that; else there is a result.
                assert!(code.is_none() || was_cancelled || code <= Some(-32_000), "{answer}");
                self.taken = self.taken.max(id);
                self.answered += 1;
                None
            }
            Ok(Message::Close(_)) => Some(self.told_goodbye()),
            Ok(other) => panic!("{other:?}"),
            // A write after the server said goodbye and hung up resets the connection, and the goodbye may be lost with
            // it. The caller asserts then that the server is ending.
            Err(Error::Io(error)) if matches!(error.kind(), ConnectionReset | BrokenPipe) => {
                Some(self.told_goodbye())
            }
            Err(Error::Protocol(ProtocolError::ResetWithoutClosingHandshake)) => {
                Some(self.told_goodbye())
            }
            Err(error) => panic!("lost without a goodbye: {error}, {} open", self.open.len()),
        }
    }

    fn told_goodbye(&self) -> Stay {
        let lost = self.open.keys().filter(|id| **id < self.taken).count();
        assert_eq!(lost, 0, "taken, and never answered");
        Stay::SaidGoodbyeTo
    }

    fn say(&mut self, text: String) {
        // The goodbye is read next if this fails.
        let _ = self.client.send(Message::text(text));
    }

    fn stay(&mut self, dice: &mut Dice) -> Stay {
        loop {
            match dice.roll(16) {
                0..6 => {
                    let (id, ms) = (self.next, dice.roll(20));
                    self.next += 1;
                    self.open.insert(id, false);
                    self.say(request(&json!(id), "sleep", &json!({ "ms": ms })));
                }
                6..9 => {
                    let chosen = dice.roll(self.next);
                    if let Some(cancelled) = self.open.get_mut(&chosen) {
                        *cancelled = true;
                        let params = json!({ "requestId": chosen });
                        self.say(json!({ "jsonrpc": "2.0", "method": "$/cancel_request", "params": params }).to_string());
                    }
                }
                9 if dice.roll(20) == 0 => {
                    // With all its answers, or in the midst of them.
                    let waits = dice.roll(2) == 0;
                    while waits && !self.open.is_empty() {
                        if let Some(end) = self.take() {
                            return end;
                        }
                    }
                    return Stay::HungUp;
                }
                _ if self.open.is_empty() => {}
                _ => {
                    if let Some(end) = self.take() {
                        return end;
                    }
                }
            }
        }
    }
}

#[test]
fn g02_nothing_is_lost_and_nothing_comes_twice_though_clients_hang_up_and_the_server_is_ended() {
    let _alone = alone();
    let seconds = std::env::var("CHURN_SECONDS").map_or(3, |seconds| seconds.parse().unwrap());
    let server = Server::start(&["--grace", "10s", "--connections-per-address", "1024"]);
    let resident = || server.program.process().resident().unwrap();
    let idle = resident();
    let (answered, stays, is_ending) =
        (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for seed in 1..=CLIENTS {
            let (server, answered, stays, is_ending) = (&server, &answered, &stays, &is_ending);
            scope.spawn(move || {
                let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
                while !is_ending.load(Relaxed) {
                    let Some(mut asked) = Asked::begin(server) else {
                        assert!(is_ending.load(Relaxed), "nobody ended it");
                        return;
                    };
                    let end = asked.stay(&mut dice);
                    answered.fetch_add(asked.answered, Relaxed);
                    stays.fetch_add(1, Relaxed);
                    if end == Stay::SaidGoodbyeTo {
                        assert!(is_ending.load(Relaxed), "nobody ended it");
                        return;
                    }
                }
            });
        }
        thread::sleep(Duration::from_secs(seconds) / 3);
        let before = resident();
        thread::sleep(Duration::from_secs(seconds) * 2 / 3);
        let after = resident();
        println!(
            "{} idle, {} after a third of the time, {} at its end",
            mib(idle),
            mib(before),
            mib(after)
        );
        is_ending.store(true, Relaxed);
        let id = i32::try_from(server.program.child.id()).unwrap();
        kill_process(Pid::from_raw(id).unwrap(), Signal::TERM).unwrap();
        assert!(after <= before + GROWTH, "{} after {}", mib(after), mib(before));
    });
    let Server { mut program, .. } = server;
    assert_eq!(program.wait(), Some(0));
    println!(
        "{} answers to {} stays of {CLIENTS} clients in {seconds} s",
        answered.load(Relaxed),
        stays.load(Relaxed)
    );
}
