//! The two ends of `protocol-core`, driven as its documentation describes. Bytes go from memory to
//! memory, in one thread, with relays between the ends if asked for. The host writes and reads
//! params with `serde_json`.

use bench_harness::{Hanging, Payload};
use protocol_core::{
    CallId, CallOptions, Cause, Config, Dialect, Event, Outcome, RequestHandle, Response,
    StreamConnection, Timestamp,
};
use protocol_relay::{Relay, Side};
use serde_json::value::RawValue;

/// ACP version 1, with room for so many requests.
#[must_use]
pub fn config(limit: usize) -> Config {
    let mut config = Config::client(Dialect::ACP_V1);
    config.limits.calls = limit;
    config.limits.requests = limit;
    config
}

/// The calling side. Its calls carry nothing.
pub struct Caller {
    /// The connection, with its framing.
    pub stream: StreamConnection<()>,
    /// The time that the connection gets with each input.
    pub now: Timestamp,
    /// The params of a call, as JSON.
    params: Vec<u8>,
    output: Vec<u8>,
}

impl Caller {
    /// With room for so many requests.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        let stream = StreamConnection::new(config(limit));
        Self { stream, now: Timestamp::ZERO, params: Vec::new(), output: Vec::new() }
    }

    /// Makes a call, and returns its id.
    pub fn call(&mut self, method: &str, payload: &Payload, options: CallOptions) -> CallId {
        let params = Some(written(payload, &mut self.params));
        let core = self.stream.connection_mut();
        core.call(method, params, (), options, self.now).expect("there is room")
    }

    /// Cancels a call, for its caller.
    pub fn cancel(&mut self, call: CallId) {
        self.stream.connection_mut().cancel(call, Cause::Caller, self.now);
    }

    /// Returns the bytes that are to be written.
    pub fn write(&mut self) -> &[u8] {
        self.output.clear();
        while self.stream.poll_transmit(&mut self.output).is_some() {}
        &self.output
    }

    /// Reads, and hands every outcome to `settled`.
    pub fn read(&mut self, mut input: &[u8], mut settled: impl FnMut(Outcome<'_>)) {
        loop {
            let received = self.stream.receive(input, self.now);
            let mut next = received.event;
            while let Some(event) = next {
                match event {
                    Event::Settled { outcome, .. } => settled(outcome),
                    other => panic!("nothing else is sent: {other:?}"),
                }
                next = self.stream.connection_mut().poll_event();
            }
            if received.consumed == 0 {
                break;
            }
            input = &input[received.consumed..];
        }
    }
}

/// The serving side. A request that hangs holds its [`Hanging`].
pub struct Callee {
    /// The connection, with its framing.
    pub stream: StreamConnection<(), Option<Hanging>>,
    /// The result of a request, as JSON.
    result: Vec<u8>,
    output: Vec<u8>,
}

impl Callee {
    /// With room for so many requests.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        let stream = StreamConnection::new(config(limit));
        Self { stream, result: Vec::new(), output: Vec::new() }
    }

    /// Reads, echoes, confirms cancels, and hands every request that hangs to `hangs`.
    pub fn serve(&mut self, mut input: &[u8], mut hangs: impl FnMut(RequestHandle)) {
        loop {
            let received = self.stream.receive(input, Timestamp::ZERO);
            let core = self.stream.connection_mut();
            let mut next = received.event;
            while let Some(event) = next {
                match event {
                    Event::Request { request, method, params: Some(params), .. }
                        if method == "bench/echo" =>
                    {
                        let payload: Payload =
                            serde_json::from_str(params.get()).expect("a payload");
                        let reply = Response::Result(written(&payload, &mut self.result));
                        core.respond(request, reply).expect("there is room");
                    }
                    Event::Request { request, .. } => {
                        *core.request_data_mut(request).expect("it is new") = Some(Hanging::new());
                        hangs(request);
                    }
                    Event::Cancelled { request, .. } => {
                        core.respond(request, Response::Cancelled).expect("there is room");
                    }
                    other => panic!("nothing else is sent: {other:?}"),
                }
                next = core.poll_event();
            }
            if received.consumed == 0 {
                break;
            }
            input = &input[received.consumed..];
        }
    }

    /// Returns the bytes that are to be written.
    pub fn write(&mut self) -> &[u8] {
        self.output.clear();
        while self.stream.poll_transmit(&mut self.output).is_some() {}
        &self.output
    }
}

/// A payload as JSON, in a buffer that is used again.
fn written<'b>(payload: &Payload, buffer: &'b mut Vec<u8>) -> &'b RawValue {
    protocol_core::write_value(payload, buffer).expect("a payload")
}

/// One relay between two ends.
pub struct Hop {
    relay: Relay,
    output: Vec<u8>,
}

impl Hop {
    /// With room for so many requests.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { relay: Relay::new(config(limit), config(limit)), output: Vec::new() }
    }

    /// Receives bytes from one side, and returns those for the other.
    pub fn pass(&mut self, from: Side, mut input: &[u8]) -> &[u8] {
        loop {
            let consumed = self.relay.receive(from, input, Timestamp::ZERO).consumed;
            if consumed == 0 {
                break;
            }
            input = &input[consumed..];
        }
        self.output.clear();
        while self.relay.poll_transmit(from.other(), &mut self.output).is_some() {}
        &self.output
    }
}

/// Both ends, and the hops between them.
pub struct Ends {
    /// The calling side.
    pub caller: Caller,
    /// The serving side.
    pub callee: Callee,
    /// From the caller's side to the callee's.
    pub hops: Vec<Hop>,
}

impl Ends {
    /// With room for so many requests, and so many hops.
    #[must_use]
    pub fn new(limit: usize, hops: usize) -> Self {
        let hops = (0..hops).map(|_| Hop::new(limit)).collect();
        Self { caller: Caller::new(limit), callee: Callee::new(limit), hops }
    }

    /// Every message that waits reaches the other end.
    pub fn turn(&mut self, hangs: impl FnMut(RequestHandle), settled: impl FnMut(Outcome<'_>)) {
        let down = self.caller.write();
        let down = self.hops.iter_mut().fold(down, |bytes, hop| hop.pass(Side::Up, bytes));
        self.callee.serve(down, hangs);
        let up = self.callee.write();
        let up = self.hops.iter_mut().rev().fold(up, |bytes, hop| hop.pass(Side::Down, bytes));
        self.caller.read(up, settled);
    }

    /// So many echoes in one turn; compares each.
    pub fn echo(&mut self, width: usize, payload: &Payload, options: CallOptions) {
        for _ in 0..width {
            self.caller.call("bench/echo", &payload.clone(), options);
        }
        let mut settled = 0;
        let hangs = |_| panic!("only echoes are sent");
        self.turn(hangs, |outcome| {
            let Outcome::Result(result) = outcome else { panic!("an echo: {outcome:?}") };
            let echoed: Payload = serde_json::from_str(result.get()).expect("a payload");
            assert!(echoed == *payload, "what comes back is what was sent");
            settled += 1;
        });
        assert_eq!(settled, width);
    }
}
