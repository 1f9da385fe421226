//! G11: when outputs are drained changes only what can still be withdrawn, and what a cancel overtakes.

use std::time::Duration;

use protocol_core::{
    CallOptions, CancelOutcome, Cause, Config, Connection, Dialect, Event, Role, Timestamp,
    TransmitKind,
};
use protocol_testkit::{Random, both_roles, judge_draining, operations};

const NOW: Timestamp = Timestamp::ZERO;

/// A connection with one call, whose request has left or not.
struct Host {
    connection: Connection<()>,
    call: protocol_core::CallId,
    left: Vec<TransmitKind>,
}

impl Host {
    fn new() -> Self {
        let mut connection = Connection::new(Config::client(Dialect::ACP_V1));
        let call = connection.call("work", None, (), CallOptions::default(), NOW);
        Self { connection, call: call.expect("it is open"), left: Vec::new() }
    }

    fn drain(&mut self) {
        let transmits = std::iter::from_fn(|| self.connection.poll_transmit(&mut Vec::new()));
        self.left.extend(transmits.map(|transmit| transmit.kind));
    }

    fn notify(&mut self) {
        self.connection.notify("note", None).expect("there is room");
    }

    fn cancel(&mut self) -> CancelOutcome {
        self.connection.cancel(self.call, Cause::Caller, NOW)
    }

    fn settled(&mut self) -> bool {
        matches!(self.connection.poll_event(), Some(Event::Settled { .. }))
    }
}

/// The sentence was that only what can still be withdrawn changes.
#[test]
fn f12_when_outputs_are_drained_changes_what_a_cancel_overtakes() {
    use TransmitKind::{Cancel, Notification, Request};
    let [mut early, mut late] = [0, 1].map(|_| Host::new());
    for host in [&mut early, &mut late] {
        host.drain();
        host.notify();
    }
    early.drain();
    for host in [&mut early, &mut late] {
        assert_eq!(host.cancel(), CancelOutcome::Sent);
        host.drain();
        assert!(!host.settled(), "nothing else is different");
    }
    assert_eq!(early.left, [Request, Notification, Cancel]);
    assert_eq!(late.left, [Request, Cancel, Notification]);
}

#[test]
fn f12_when_outputs_are_drained_changes_what_can_still_be_withdrawn() {
    use TransmitKind::{Cancel, Notification, Request};
    let [mut early, mut late] = [0, 1].map(|_| Host::new());
    early.drain();
    assert_eq!((early.cancel(), late.cancel()), (CancelOutcome::Sent, CancelOutcome::Withdrawn));
    for host in [&mut early, &mut late] {
        host.notify();
        host.drain();
    }
    assert_eq!((early.settled(), late.settled()), (false, true));
    assert_eq!(early.left, [Request, Cancel, Notification]);
    assert_eq!(late.left, [Notification]);
}

#[test]
fn f12_when_outputs_are_drained_changes_nothing_else() {
    let mut random = Random::new(12);
    for dialect in Dialect::PRESETS {
        let mut config = Config::client(dialect.clone());
        config.abandoned_grace = Duration::from_millis(40);
        for config in both_roles(config) {
            for round in 0..100 {
                let drains = [0, 1].map(|_| u32::try_from(random.below(1 << 32)).expect("32 bits"));
                let bytes = random.bytes(200);
                judge_draining(&config, drains, &operations(&bytes)).unwrap_or_else(|broken| {
                    let end = if config.role == Role::Client { "client" } else { "server" };
                    panic!("{} {end}, round {round}: {broken}", dialect.name)
                });
            }
        }
    }
}
