//! Payment for acts that cost a peer of a relay next to nothing.
//!
//! Nobody else can count them, because they are not forwarded.

use protocol_core::{CancelRule, Timestamp};
use protocol_relay::{Relay, RelayEvent, Side};

use protocol_endpoint::{Buckets, Budgets, Cheap, OverBudget, is_counted};

/// The rest of both peers' budgets.
pub(super) struct Till {
    buckets: [Buckets; 2],
    /// The budgets that were overspent, until that is acted upon.
    over: [Option<OverBudget>; 2],
    /// The time at which acts are charged. It is set before each input.
    pub(super) now: Timestamp,
}

/// Numbers that change with every message that is forwarded, that gets a response, or that is one.
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

    /// Charges a peer for an event that the relay reports.
    pub(super) fn charge(&mut self, relay: &Relay, side: Side, event: &RelayEvent) {
        let RelayEvent::Violation { violation, id } = event else { return };
        if is_counted(relay.connection(side).config(), *violation, id.as_ref()) {
            self.pay(side, Cheap::Violation);
        }
    }

    /// Charges a peer for a message that made nothing happen, which is a cancel of nothing.
    ///
    /// If cancels are requests, they get a response. Acknowledgements of ours make nothing happen either.
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

    /// Takes the budget that this peer has overspent, if it has.
    pub(super) const fn take_over(&mut self, side: Side) -> Option<OverBudget> {
        self.over[side as usize].take()
    }
}
