//! F85: an endpoint never drops, wakes or clones a value of its host's. Each waiter and each mark is a bomb
//! that goes off when a method drops it. Random hosts on both ends do anything in any order.

use std::cell::Cell;
use std::time::Duration;

use protocol_core::{
    CallOptions, Cause, Config, Dialect, Refusal, RequestHandle, Response, Shutdown, Timestamp,
};
use protocol_endpoint::{
    AlarmId, Arrived, Call, Effect, Effects, Endpoint, Line, Messages, Options, Output, Place,
};
use serde_json::value::RawValue;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    static ALIVE: Cell<i64> = const { Cell::new(0) };
}

/// A value of the host's.
#[derive(Debug)]
struct Bomb;

impl Bomb {
    fn new() -> Self {
        ALIVE.set(ALIVE.get() + 1);
        Self
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        ALIVE.set(ALIVE.get() - 1);
        assert!(!INSIDE.get(), "it was dropped inside the endpoint");
    }
}

fn inside<R>(method: impl FnOnce() -> R) -> R {
    INSIDE.set(true);
    let done = method();
    INSIDE.set(false);
    done
}

/// A sequence of numbers that a seed decides.
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % most
    }

    fn pick<T>(&mut self, from: &mut Vec<T>) -> Option<T> {
        let len = from.len();
        (len > 0).then(|| from.swap_remove(self.below(len)))
    }
}

const LINES: [Line; 5] = [Line::Arrival, Line::Room, Line::Ready, Line::Flushed, Line::End];

/// One end, and what its host has of it.
struct Side {
    endpoint: Endpoint<Bomb, Bomb>,
    effects: Effects<Bomb, Bomb>,
    out: Messages,
    input: Vec<u8>,
    calls: Vec<Call>,
    over: Vec<Call>,
    requests: Vec<RequestHandle>,
    places: Vec<(Line, Place)>,
    alarms: Vec<AlarmId>,
    corks: usize,
    settled: usize,
}

impl Side {
    fn new(mut config: Config) -> Self {
        config.limits.unsent_messages = 3;
        config.limits.requests = 6;
        config.limits.calls = 8;
        let mut options = Options::new(config);
        options.inbox_bytes = 900;
        options.work_requests = 4;
        options.response_bytes = 200;
        options.result_bytes = 100;
        Self {
            endpoint: Endpoint::new(options),
            effects: Effects::new(),
            out: Messages::default(),
            input: Vec::new(),
            calls: Vec::new(),
            over: Vec::new(),
            requests: Vec::new(),
            places: Vec::new(),
            alarms: Vec::new(),
            corks: 0,
            settled: 0,
        }
    }

    /// Carries out the effects, as a host does between two methods.
    fn run(&mut self) {
        while let Some(effect) = self.effects.pop() {
            match effect {
                Effect::BeginOperation(request, _) => {
                    let mut entropy = [7; 16];
                    entropy[..8].copy_from_slice(&request.number().to_be_bytes());
                    let _ = inside(|| {
                        self.endpoint.begin_operation(request, entropy, &mut self.effects)
                    });
                }
                Effect::HandOver(_, _) => self.settled += 1,
                _ => {}
            }
        }
    }

    fn call(&mut self, random: &mut Random, now: Timestamp, params: &RawValue) {
        let mut options = CallOptions::default();
        if random.below(3) == 0 {
            options = options.timeout(Duration::from_millis(300));
        }
        let (endpoint, effects) = (&mut self.endpoint, &mut self.effects);
        let method = ["m", "tool/call"][random.below(2)];
        if let Ok(call) = inside(|| endpoint.call(method, Some(params), options, now, effects)) {
            self.calls.push(call);
        }
    }

    fn poll(&mut self, random: &mut Random) {
        let Some(call) = random.pick(&mut self.calls) else { return };
        let mut waiter = Some(Bomb::new());
        match inside(|| self.endpoint.poll_outcome(call, &mut waiter)) {
            Some(_) => {
                self.settled += 1;
                self.over.push(call);
            }
            None => self.calls.push(call),
        }
    }

    fn hand_over(&mut self, random: &mut Random) {
        let Some(call) = random.pick(&mut self.calls) else { return };
        let (endpoint, effects, bomb) = (&mut self.endpoint, &mut self.effects, Bomb::new());
        if inside(|| endpoint.hand_over(call, bomb, effects)).is_err() {
            self.settled += 1;
        }
        self.over.push(call);
    }

    /// Does something to a call that is over: nothing happens.
    fn use_stale(&mut self, random: &mut Random, now: Timestamp) {
        let Some(call) = random.pick(&mut self.over) else { return };
        let (endpoint, effects) = (&mut self.endpoint, &mut self.effects);
        let mut waiter = Some(Bomb::new());
        assert!(inside(|| endpoint.poll_outcome(call, &mut waiter)).is_none());
        inside(|| endpoint.drop_call(call, now, effects));
    }

    fn take(&mut self) {
        let (endpoint, effects) = (&mut self.endpoint, &mut self.effects);
        if let Some(Arrived::Request(request, _)) = inside(|| endpoint.take(effects)) {
            let mark = Bomb::new();
            let refused = inside(|| endpoint.watch(request, mark));
            drop(refused);
            self.requests.push(request);
        }
    }

    fn respond(&mut self, random: &mut Random, now: Timestamp, result: &RawValue) {
        let Some(request) = random.pick(&mut self.requests) else { return };
        let (endpoint, effects) = (&mut self.endpoint, &mut self.effects);
        let mark = match random.below(4) {
            0 => inside(|| endpoint.respond_for_worker(request, effects)),
            1 => {
                inside(|| endpoint.cancel_request(request, Cause::Internal, now, effects));
                inside(|| endpoint.respond(request, Response::Cancelled, effects))
            }
            _ => inside(|| endpoint.respond(request, Response::Result(result), effects)),
        };
        drop(mark);
    }

    fn wait(&mut self, random: &mut Random) {
        let (endpoint, effects) = (&mut self.endpoint, &mut self.effects);
        let mut waiter = Some(Bomb::new());
        match random.pick(&mut self.places) {
            Some((line, place)) if random.below(2) == 0 => {
                inside(|| endpoint.leave(line, &place, effects));
            }
            Some((line, place)) => {
                let mut place = Some(place);
                inside(|| endpoint.wait(line, &mut place, &mut waiter, effects));
                self.places.extend(place.map(|place| (line, place)));
            }
            None => {
                let (line, mut place) = (LINES[random.below(4)], None);
                inside(|| endpoint.wait(line, &mut place, &mut waiter, effects));
                self.places.extend(place.map(|place| (line, place)));
            }
        }
    }

    fn notify(&mut self, random: &mut Random, params: &RawValue) {
        let (endpoint, effects) = (&mut self.endpoint, &mut self.effects);
        if random.below(2) == 0 {
            let _ = inside(|| endpoint.try_notify("n", Some(params), effects));
            return;
        }
        let (mut place, mut waiter) = (None, Some(Bomb::new()));
        inside(|| {
            if endpoint.notify_at(None, "n", Some(params), effects) == Err(Refusal::OutboxFull) {
                endpoint.wait(Line::Room, &mut place, &mut waiter, effects);
            }
        });
        self.places.extend(place.map(|place| (Line::Room, place)));
    }

    fn drive(&mut self, random: &mut Random, now: Timestamp) {
        let (endpoint, effects) = (&mut self.endpoint, &mut self.effects);
        let mut waiter = Some(Bomb::new());
        match random.below(7) {
            4 => {
                let bomb = Bomb::new();
                let due = now + Duration::from_millis(random.below(20) as u64);
                self.alarms.push(inside(|| endpoint.set_alarm(due, bomb, effects)));
            }
            5 => {
                if let Some(alarm) = random.pick(&mut self.alarms) {
                    inside(|| endpoint.clear_alarm(&alarm, effects));
                }
            }
            0 => inside(|| endpoint.wait_for_output(&mut waiter)),
            1 => drop(inside(|| endpoint.wait_for_timer(&mut waiter))),
            2 => {
                endpoint.cork();
                self.corks += 1;
            }
            3 if self.corks > 0 => {
                self.corks -= 1;
                inside(|| endpoint.uncork(effects));
            }
            _ => drop(inside(|| endpoint.handle_timeout(now, effects))),
        }
    }

    /// Writes to the other end.
    fn transfer(&mut self, other: &mut Self, now: Timestamp) {
        self.out.clear();
        let output = inside(|| self.endpoint.poll_output(&mut self.out, &mut self.effects));
        if output == Output::Write {
            other.input.extend_from_slice(self.out.bytes());
        }
        let used = inside(|| other.endpoint.receive(&other.input, now, &mut other.effects));
        other.input.drain(..used);
    }

    fn end(&mut self, random: &mut Random, now: Timestamp) {
        let (endpoint, effects) = (&mut self.endpoint, &mut self.effects);
        match random.below(3) {
            0 => inside(|| endpoint.shutdown(Shutdown::CancelAll, now, effects)),
            1 => inside(|| endpoint.stop_serving(effects)),
            _ => inside(|| endpoint.stop_writing("it broke", now, effects)),
        }
        inside(|| endpoint.handle_eof(&[], None, now, effects));
        self.run();
        for call in self.calls.drain(..) {
            let outcome = inside(|| self.endpoint.poll_outcome(call, &mut None));
            assert!(outcome.is_some(), "a call settles when the connection ends");
        }
    }
}

fn play(seed: u64, dialect: &Dialect) -> usize {
    let params = RawValue::from_string(r#"{"text":"hello"}"#.to_owned()).unwrap();
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut sides =
        [Config::client(dialect.clone()), Config::server(dialect.clone())].map(Side::new);
    let mut now = Timestamp::ZERO;
    for step in 0..600 {
        now = Timestamp::from_millis(step * 20);
        let [one, two] = &mut sides;
        let (me, other) = if random.below(2) == 0 { (one, two) } else { (two, one) };
        match random.below(20) {
            0..3 => me.call(&mut random, now, &params),
            3..6 => me.poll(&mut random),
            6 => me.hand_over(&mut random),
            7 => me.use_stale(&mut random, now),
            8..11 => me.take(),
            11..13 => me.respond(&mut random, now, &params),
            13 => me.wait(&mut random),
            14 => me.notify(&mut random, &params),
            15 => me.drive(&mut random, now),
            16 => {
                if let Some(call) = random.pick(&mut me.calls) {
                    let (endpoint, effects) = (&mut me.endpoint, &mut me.effects);
                    match random.below(3) {
                        0 => inside(|| endpoint.drop_call(call, now, effects)),
                        1 => inside(|| endpoint.detach(call, now, effects)),
                        _ => {
                            inside(|| endpoint.cancel(call.id, Cause::Caller, None, now, effects));
                            me.calls.push(call);
                        }
                    }
                }
            }
            _ => me.transfer(other, now),
        }
        for side in &mut sides {
            side.run();
        }
    }
    sides.iter_mut().for_each(|side| side.end(&mut random, now));
    let settled = sides.iter().map(|side| side.settled).sum();
    drop(sides);
    assert_eq!(ALIVE.get(), 0, "no value of the host's is lost");
    settled
}

#[test]
fn f85_no_value_of_the_hosts_is_dropped_inside() {
    let mut settled = 0;
    for dialect in [&Dialect::ACP_V1, &Dialect::ERLMCP, &Dialect::MCP_2025_11_25, &Dialect::DAP] {
        settled += (0..150).map(|seed| play(seed, dialect)).sum::<usize>();
    }
    assert!(settled > 5_000, "only {settled} calls got their outcomes: this proves little");
}
