//! F84: under any limits, every request gets its response, or is released with an event.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol_core::{CancelRule, Config, Dialect, Envelope, Limits, Violation};
use protocol_relay::{RelayEvent, Side};
use serde_json::Value;

use crate::bench::{Bench, between, cancel, error, notification, request, result};
use crate::chain::Random;

const CONVERSATIONS: u64 = 4_000;

#[test]
fn f84_a_request_for_which_no_response_fits_is_released() {
    between(
        |config| config.limits.unsent_bytes = 60,
        |bench, near, far| {
            for _ in 0..3 {
                bench.receive(near, &request("1", "work"));
                assert_eq!(bench.sent(far).len(), 1, "its id is free again");
                let number = bench.relay.connection(far).machine().next_number() - 1;
                bench.receive(far, &result(&number.to_string(), &"1".repeat(60)));
                let dropped = "no response fits into the outbox (limits.unsent_bytes)";
                assert_eq!(bench.events()[1], format!("{near}: id 1: {dropped}"));
                assert_eq!((bench.sent(near), bench.in_flight()), (vec![], [0; 4]));
            }
        },
    );
}

#[test]
fn f84_where_no_message_may_wait_requests_are_released_at_once() {
    between(
        |config| config.limits.unsent_messages = 0,
        |bench, near, far| {
            bench.receive(near, &request("1", "work"));
            assert_eq!(bench.events().len(), 2, "it was refused, and so was the response");
            assert_eq!((bench.sent(near), bench.sent(far)), (vec![], vec![]));
            assert_eq!(bench.in_flight(), [0; 4]);
        },
    );
}

#[test]
fn f84_every_request_of_random_conversations_gets_its_response_or_an_event() {
    let mut dropped = 0;
    for seed in 1..=CONVERSATIONS {
        let mut talk = Conversation::new(seed);
        for _ in 0..40 {
            talk.step();
        }
        talk.respond_to_everything();
        assert_eq!(talk.bench.in_flight(), [0; 4], "conversation {seed}");
        dropped += talk.assert_responses(seed);
        for side in Side::BOTH {
            talk.bench.hang_up(side);
        }
        talk.respond_to_everything();
        assert_eq!(talk.bench.over(), [true, true], "conversation {seed}");
    }
    assert!(dropped > 1_000, "only {dropped} responses were dropped");
}

#[test]
fn f84_a_peer_that_hangs_up_leaves_nothing_behind_under_any_limits() {
    for seed in 1..=CONVERSATIONS {
        let mut talk = Conversation::new(seed);
        for _ in 0..30 {
            talk.step();
        }
        let first = if seed % 2 == 0 { Side::Up } else { Side::Down };
        talk.bench.hang_up(first);
        for side in Side::BOTH {
            talk.read(side, usize::MAX);
        }
        // The other peer responds to nothing.
        talk.bench.advance(Duration::from_secs(31));
        talk.bench.hang_up(first.other());
        for side in Side::BOTH {
            talk.read(side, usize::MAX);
        }
        talk.events();
        assert_eq!(talk.bench.in_flight(), [0; 4], "conversation {seed}");
        assert_eq!(talk.bench.over(), [true, true], "conversation {seed}");
    }
}

/// Two peers that do anything, and a relay between them with limits that may be tiny.
struct Conversation {
    bench: Bench,
    random: Random,
    peers: [Peer; 2],
}

/// One of the two peers, by side.
#[derive(Default)]
struct Peer {
    /// The requests that it has sent.
    sent: BTreeMap<u64, Sent>,
    /// The ids of the requests that it has read and not responded to.
    pending: Vec<String>,
}

/// A request of a peer's.
#[derive(Default)]
struct Sent {
    is_cancelled: bool,
    responses: usize,
    dropped: usize,
}

impl Conversation {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let in_json_rpc = |dialect: &&Dialect| dialect.envelope == Envelope::JsonRpc;
        let dialects: Vec<_> = Dialect::PRESETS.iter().filter(in_json_rpc).cloned().collect();
        let configs = [(); 2].map(|()| {
            let mut config = Config::client(random.pick(&dialects));
            config.limits = limits(&mut random);
            config
        });
        Self { bench: Bench::new(Side::Up, configs), random, peers: Default::default() }
    }

    fn step(&mut self) {
        let side = self.random.pick(&Side::BOTH);
        let dialect = self.bench.dialect(side).clone();
        match self.random.below(10) {
            0..=2 => {
                let message = self.request(side);
                self.bench.receive(side, &message);
            }
            // A longer batch is refused as a whole.
            3 if dialect.batches.is_some() && self.batch_members(side) > 0 => {
                let members = 1 + self.random.below(self.batch_members(side).min(4));
                let batch: Vec<_> = (0..members).map(|_| self.request(side)).collect();
                self.bench.receive(side, &format!("[{}]", batch.join(",")));
            }
            4 if matches!(dialect.cancel, CancelRule::Notification { .. }) => {
                let sent = &mut self.peers[side as usize].sent;
                if !sent.is_empty() {
                    let id = self.random.below(sent.len()) as u64;
                    sent.entry(id).or_default().is_cancelled = true;
                    self.bench.receive(side, &cancel(&dialect, &id.to_string()));
                }
            }
            5 => {
                let method = "n".repeat(1 + self.random.below(200));
                self.bench.receive(side, &notification(&method));
            }
            6 => self.read(side, 1),
            _ => self.respond(side),
        }
        self.events();
    }

    fn batch_members(&self, side: Side) -> usize {
        self.bench.relay.connection(side).config().limits.batch_members
    }

    fn request(&mut self, side: Side) -> String {
        let sent = &mut self.peers[side as usize].sent;
        let id = sent.len() as u64;
        sent.insert(id, Sent::default());
        request(&id.to_string(), &"m".repeat(1 + self.random.below(60)))
    }

    /// Lets a peer read so many messages.
    fn read(&mut self, side: Side, most: usize) {
        for _ in 0..most {
            let Some(message) = self.bench.send_one(side) else { return };
            let message: Value = serde_json::from_str(&message).expect("it is JSON");
            match message {
                Value::Array(members) => {
                    members.iter().for_each(|member| self.peers[side as usize].read(member));
                }
                message => self.peers[side as usize].read(&message),
            }
        }
    }

    /// Lets a peer respond to a request, with anything.
    fn respond(&mut self, side: Side) {
        let pending = &mut self.peers[side as usize].pending;
        if pending.is_empty() {
            return;
        }
        let id = pending.swap_remove(self.random.below(pending.len()));
        let text = "x".repeat(self.random.below(300));
        let response = match self.random.below(5) {
            0 => error(&id, -1, &text),
            1 => error(&id, -32800, "Request cancelled"),
            2 => format!(r#"{{"jsonrpc":"2.0","id":{id},"error":1}}"#),
            _ => result(&id, &format!("\"{text}\"")),
        };
        self.bench.receive(side, &response);
    }

    fn respond_to_everything(&mut self) {
        let mut moves = true;
        while moves {
            moves = false;
            for side in Side::BOTH {
                self.read(side, usize::MAX);
                while !self.peers[side as usize].pending.is_empty() {
                    self.respond(side);
                    moves = true;
                }
                self.events();
            }
        }
    }

    /// Counts the responses that were reported as dropped.
    fn events(&mut self) {
        for (side, event) in self.bench.raw_events() {
            let (RelayEvent::ResponseDropped { id }
            | RelayEvent::Violation { violation: Violation::ResponseDropped, id: Some(id) }) =
                event
            else {
                continue;
            };
            let id = id.as_json().parse().expect("an id is a number");
            self.peers[side as usize].sent.entry(id).or_default().dropped += 1;
        }
    }

    /// Checks that each request had its one response, and returns how many were dropped.
    fn assert_responses(&self, seed: u64) -> usize {
        let mut all_dropped = 0;
        for (side, peer) in Side::BOTH.into_iter().zip(&self.peers) {
            for (id, Sent { is_cancelled, responses, dropped }) in &peer.sent {
                let is_settled = responses + dropped == 1;
                // A dialect may want silence after a cancel.
                let is_silent = *is_cancelled && responses + dropped == 0;
                assert!(
                    is_settled || is_silent,
                    "conversation {seed}, {side}, id {id}: {responses} responses, {dropped} dropped"
                );
                all_dropped += dropped;
            }
        }
        all_dropped
    }
}

impl Peer {
    fn read(&mut self, message: &Value) {
        let id = &message["id"];
        if message.get("method").is_some() {
            self.pending.extend((!id.is_null()).then(|| id.to_string()));
        } else if let Some(id) = id.as_u64() {
            self.sent.entry(id).or_default().responses += 1;
        }
    }
}

fn limits(random: &mut Random) -> Limits {
    const FEW: [usize; 4] = [0, 1, 2, 1_000];
    let mut limits = Limits::default();
    limits.unsent_bytes = random.below(301);
    limits.unsent_messages = random.pick(&[0, 1, 2, 1_000, 1_000, 1_000]);
    limits.calls = random.pick(&FEW);
    limits.requests = random.pick(&FEW);
    limits.batch_members = random.pick(&FEW);
    limits.abandoned_ids = random.pick(&FEW);
    limits
}
