//! What costs the peer little is paid for.

use protocol_async::{Cheap, Verdict};
use protocol_core::Event;

use super::Host;
use super::call::Place;

impl<T> Host<T> {
    /// The peer pays for what a message of its made happen, or else the connection ends.
    pub(super) fn charge(&mut self, event: Option<&Event<'_, Place>>) {
        let Some(what) = Cheap::of(event, self.stream.connection().config()) else { return };
        let now = self.clock.now();
        let Some(over) = self.buckets.pay(what, now) else { return };
        if let Some(observer) = &mut self.observer {
            observer(Verdict::OverBudget { over });
        }
        self.error.get_or_insert(over.into());
        self.stream.connection_mut().handle_eof(now);
    }
}
