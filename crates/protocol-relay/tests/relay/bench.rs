//! A relay between two peers whose messages the tests write and read as plain lines.

use std::time::Duration;

use protocol_core::{CancelRule, Config, Dialect, Framing, Shutdown, Timestamp};
use protocol_relay::{Relay, RelayEvent, Side};

pub(crate) struct Bench {
    pub(crate) relay: Relay,
    now: Timestamp,
    events: Vec<(Side, RelayEvent)>,
}

impl Bench {
    /// Returns a relay whose `near` side speaks the first dialect.
    pub(crate) fn new(near: Side, [near_config, far_config]: [Config; 2]) -> Self {
        let relay = match near {
            Side::Up => Relay::new(near_config, far_config),
            Side::Down => Relay::new(far_config, near_config),
        };
        Self { relay, now: Timestamp::ZERO, events: Vec::new() }
    }

    pub(crate) fn dialect(&self, side: Side) -> &Dialect {
        &self.relay.connection(side).config().dialect
    }

    // Inputs

    /// Receives a message that one side's peer has written.
    pub(crate) fn receive(&mut self, side: Side, message: &str) {
        let bytes = framed(self.dialect(side).framing, message);
        let mut unread = bytes.as_bytes();
        while !unread.is_empty() {
            let (consumed, _) = self.receive_bytes(side, unread);
            assert!(consumed > 0, "the message is whole");
            unread = &unread[consumed..];
        }
    }

    /// Receives bytes from one side. Returns the number that was consumed, and the message.
    pub(crate) fn receive_bytes<'b>(
        &mut self,
        side: Side,
        unread: &'b [u8],
    ) -> (usize, Option<&'b [u8]>) {
        let received = self.relay.receive(side, unread, self.now);
        self.events.extend(received.event);
        (received.consumed, received.message)
    }

    /// Ends the input of one side.
    pub(crate) fn hang_up(&mut self, side: Side) {
        self.relay.handle_eof(side, b"", self.now);
    }

    pub(crate) fn shutdown(&mut self, how: Shutdown) {
        self.relay.shutdown(how, self.now);
    }

    /// Lets time go by. The next input reports it to the relay.
    pub(crate) fn wait(&mut self, duration: Duration) {
        self.now = self.now + duration;
    }

    pub(crate) fn advance(&mut self, duration: Duration) {
        self.now = self.now + duration;
        self.relay.handle_timeout(self.now);
    }

    // Outputs

    /// Returns everything that leaves now to one side's peer.
    pub(crate) fn sent(&mut self, side: Side) -> Vec<String> {
        std::iter::from_fn(|| self.send_one(side)).collect()
    }

    pub(crate) fn send_one(&mut self, side: Side) -> Option<String> {
        let mut out = Vec::new();
        let transmit = self.relay.poll_transmit(side, &mut out)?;
        let message = String::from_utf8(transmit.message(&out).to_vec()).expect("it is UTF-8");
        assert_eq!(out, framed(self.dialect(side).framing, &message).as_bytes());
        Some(message)
    }

    pub(crate) fn events(&mut self) -> Vec<String> {
        let events = self.raw_events();
        events.iter().map(|(side, event)| format!("{side}: {event}")).collect()
    }

    pub(crate) fn raw_events(&mut self) -> Vec<(Side, RelayEvent)> {
        let waiting = std::iter::from_fn(|| self.relay.poll_event());
        self.events.drain(..).chain(waiting).collect()
    }

    /// Counts the calls and requests in flight on both sides.
    pub(crate) fn in_flight(&self) -> [usize; 4] {
        let [up, down] = Side::BOTH.map(|side| self.relay.connection(side).machine());
        [
            up.calls_in_flight(),
            up.requests_in_flight(),
            down.calls_in_flight(),
            down.requests_in_flight(),
        ]
    }

    pub(crate) fn over(&self) -> [bool; 2] {
        Side::BOTH.map(|side| self.relay.is_over(side))
    }
}

pub(crate) const DIALECTS: [Dialect; 3] = [Dialect::JSON_RPC, Dialect::ACP_V1, Dialect::LSP_3_17];

/// Runs a test with every dialect in front of every other, in both directions.
pub(crate) fn between_all(test: impl Fn(&mut Bench, Side, Side)) {
    between(|_| {}, test);
}

/// Runs a test as [`between_all`] does, with other limits on both sides.
pub(crate) fn between(change: impl Fn(&mut Config), test: impl Fn(&mut Bench, Side, Side)) {
    for near in Side::BOTH {
        for near_dialect in DIALECTS {
            for far_dialect in DIALECTS {
                let configs = [near_dialect.clone(), far_dialect].map(|dialect| {
                    let mut config = Config::client(dialect);
                    change(&mut config);
                    config
                });
                test(&mut Bench::new(near, configs), near, near.other());
            }
        }
    }
}

/// Runs a test as [`between_all`] does, where both dialects have a cancel on the wire.
pub(crate) fn between_cancelling(test: impl Fn(&mut Bench, Side, Side)) {
    between_all(|bench, near, far| {
        if Side::BOTH.iter().all(|&side| bench.dialect(side).cancel != CancelRule::Local) {
            test(bench, near, far);
        }
    });
}

fn framed(framing: Framing, message: &str) -> String {
    match framing {
        Framing::ContentLength => format!("Content-Length: {}\r\n\r\n{message}", message.len()),
        Framing::Newline => format!("{message}\n"),
        Framing::Whole => message.into(),
    }
}

// What a peer writes

pub(crate) fn request(id: &str, method: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#)
}

pub(crate) fn notification(method: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#)
}

pub(crate) fn result(id: &str, value: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{value}}}"#)
}

pub(crate) fn error(id: &str, code: i64, message: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"{message}"}}}}"#)
}

/// Returns the dialect's cancel of the request with this id. The dialect must have one.
pub(crate) fn cancel(dialect: &Dialect, id: &str) -> String {
    let CancelRule::Notification { method, id: member, .. } = &dialect.cancel else {
        panic!("{} has no cancel", dialect.name)
    };
    format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"{member}":{id}}}}}"#)
}
