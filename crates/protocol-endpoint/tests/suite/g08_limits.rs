//! The limits of an endpoint hold where its parts meet. Nothing waits without a bound, and what is over holds
//! nothing. A sender that was refused is notified of room.

use heap::Heap;
use protocol_core::{CallOptions, Config, Dialect, Refusal, RequestHandle, Response, Timestamp};
use protocol_endpoint::{Arrived, Effect, Effects, Endpoint, Line, Messages, Options, Output};
use serde_json::value::to_raw_value;

const NOW: Timestamp = Timestamp::ZERO;

struct Side {
    endpoint: Endpoint<u32, ()>,
    effects: Effects<u32, ()>,
    out: Messages,
}

impl Side {
    fn new(change: impl FnOnce(&mut Options)) -> Self {
        let mut options = Options::new(Config::server(Dialect::ACP_V1));
        change(&mut options);
        Self { endpoint: Endpoint::new(options), effects: Effects::new(), out: Messages::default() }
    }

    fn receive(&mut self, message: &str) {
        self.endpoint.receive_message(message.as_bytes(), NOW, &mut self.effects);
    }

    fn request(&mut self, id: usize, method: &str) {
        self.receive(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#));
    }

    fn take(&mut self) -> RequestHandle {
        match self.endpoint.take(&mut self.effects) {
            Some(Arrived::Request(request, _)) => request,
            arrived => panic!("{arrived:?} is no request"),
        }
    }

    /// Fills the outbox, which has room for one message.
    fn fill(&mut self) {
        self.endpoint.try_notify("n", None, &mut self.effects).unwrap();
    }

    fn written(&mut self) -> String {
        let mut all = String::new();
        loop {
            self.out.clear();
            if self.endpoint.poll_output(&mut self.out, &mut self.effects) != Output::Write {
                return all;
            }
            all.push_str(std::str::from_utf8(self.out.bytes()).unwrap());
        }
    }

    fn woken(&mut self) -> Vec<u32> {
        let waiters = self.effects.drain().filter_map(|effect| match effect {
            Effect::Wake(waiter) => Some(waiter),
            _ => None,
        });
        waiters.collect()
    }
}

fn one_message(options: &mut Options) {
    options.config.limits.unsent_messages = 1;
}

#[test]
fn g08_responses_that_wait_for_room_hold_no_more_than_their_bytes() {
    let mut side = Side::new(|options| {
        one_message(options);
        options.response_bytes = 10_000;
    });
    (0..50).for_each(|id| side.request(id, "m"));
    let requests: Vec<_> = (0..50).map(|_| side.take()).collect();
    side.fill();
    let text = to_raw_value(&"x".repeat(3_998)).unwrap();
    let heap = Heap::of_thread();
    for request in requests {
        side.endpoint.respond(request, Response::Result(&text), &mut side.effects);
    }
    assert!(heap.held() < 10_000 + 50 * 200, "{} bytes are held", heap.held());
    // Those that come then are refused, and reading goes on.
    side.request(50, "m");
    assert_eq!(side.endpoint.arrivals(), 0);
    let written = side.written();
    let refusal = "too many responses wait to be read";
    assert_eq!((written.matches("xxxx\"").count(), written.matches(refusal).count()), (2, 49));
    // Once they have left there is room for as many.
    side.request(51, "m");
    assert_eq!(side.endpoint.arrivals(), 1);
}

#[test]
fn g08_nothing_is_kept_of_calls_and_requests_that_are_over() {
    let mut side = Side::new(|_| {});
    let mut held = Vec::new();
    let heap = Heap::of_thread();
    for round in 0..2_000 {
        side.request(round, &format!("request/{round}"));
        let request = side.take();
        side.endpoint.respond(request, Response::Cancelled, &mut side.effects);
        let (method, options) = (format!("call/{round}"), CallOptions::default());
        let call = side.endpoint.call(&method, None, options, NOW, &mut side.effects).unwrap();
        drop(side.written());
        let number = call.id.number();
        side.receive(&format!(r#"{{"jsonrpc":"2.0","id":{number},"result":true}}"#));
        assert!(side.endpoint.poll_outcome(call, &mut None).is_some());
        held.push(heap.held());
    }
    // The core remembers some ids of its peer's, up to a limit of its own.
    let grown = held[1_999].saturating_sub(held[1_000]);
    assert!(grown < 10_000, "{grown} bytes more after 1,000 rounds more");
}

#[test]
fn g08_whoever_is_refused_for_want_of_room_hears_of_it() {
    type Send = fn(&mut Endpoint<u32, ()>, &mut Effects<u32, ()>) -> Result<(), Refusal>;
    let sends: [Send; 2] = [
        |endpoint, effects| {
            let options = CallOptions::default();
            endpoint.call("m", None, options, NOW, effects).map(drop)
        },
        |endpoint, effects| endpoint.try_notify("m", None, effects),
    ];
    for (send, line) in sends.into_iter().flat_map(|send| [(send, Line::Room), (send, Line::Ready)])
    {
        let mut side = Side::new(one_message);
        side.fill();
        let Side { endpoint, effects, .. } = &mut side;
        assert_eq!(send(endpoint, effects), Err(Refusal::OutboxFull));
        assert!(endpoint.is_full() && !endpoint.has_room(None));
        endpoint.wait(line, &mut None, &mut Some(7), effects);
        drop(side.written());
        assert_eq!(side.woken(), [7]);
    }
}
