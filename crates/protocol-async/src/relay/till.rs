//! What costs a peer of a relay next to nothing, and is not passed on to whoever else could count it: it is
//! paid for here.

use protocol_core::{CancelRule, Timestamp};
use protocol_relay::{Relay, RelayEvent, Side};

use crate::budget::{Buckets, Budgets, Cheap, OverBudget, is_counted};

/// What is left of both peers' budgets.
pub(super) struct Till {
    buckets: [Buckets; 2],
    /// Who has overspent, until that is acted upon.
    over: [Option<OverBudget>; 2],
    now: Timestamp,
}

/// What is different after every message that was passed on or answered, or that answered something.
#[derive(PartialEq, Eq)]
pub(super) struct Trail([[usize; 3]; 2]);

impl Trail {
    pub(super) fn of(relay: &Relay) -> Self {
        Self(Side::BOTH.map(|side| {
            let connection = relay.connection(side);
            let machine = connection.machine();
            [connection.unsent_bytes(), machine.calls_in_flight(), machine.requests_in_flight()]
        }))
    }
}

impl Till {
    pub(super) fn new(budgets: Budgets) -> Self {
        let buckets = [(); 2].map(|()| Buckets::new(budgets));
        Self { buckets, over: [None; 2], now: Timestamp::ZERO }
    }

    /// From here on it is that late.
    pub(super) const fn set(&mut self, now: Timestamp) {
        self.now = now;
    }

    /// A peer pays for what the relay tells of it.
    pub(super) fn charge(&mut self, relay: &Relay, side: Side, event: &RelayEvent) {
        let RelayEvent::Violation { violation, id } = event else { return };
        if is_counted(relay.connection(side).config(), *violation, id.as_ref()) {
            self.pay(side, Cheap::Violation);
        }
    }

    /// A peer pays for a message that made nothing happen: it is a cancel of nothing. Where cancels are requests they
    /// are answered, and acknowledgements of our own make nothing happen either.
    pub(super) fn charge_for_nothing(&mut self, relay: &Relay, side: Side, before: &Trail) {
        let cancel = &relay.connection(side).config().dialect.cancel;
        if matches!(cancel, CancelRule::Notification { .. }) && Trail::of(relay) == *before {
            self.pay(side, Cheap::VainCancel);
        }
    }

    fn pay(&mut self, side: Side, what: Cheap) {
        let over = self.buckets[side as usize].pay(what, self.now);
        self.over[side as usize] = self.over[side as usize].or(over);
    }

    /// Whether this peer has overspent a budget. It is said once.
    pub(super) const fn take_over(&mut self, side: Side) -> Option<OverBudget> {
        self.over[side as usize].take()
    }
}
