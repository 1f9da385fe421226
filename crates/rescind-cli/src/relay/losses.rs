//! A count of the messages that a relay could not pass on.

use std::sync::atomic::{AtomicU64, Ordering};

use protocol_relay::RelayEvent;

/// Counts what was not passed on.
#[derive(Debug, Default)]
pub(super) struct Losses {
    /// The counts of lost notifications, requests and responses, in this order.
    counts: [AtomicU64; 3],
}

impl Losses {
    pub(super) fn count(&self, event: &RelayEvent) {
        let kind = match event {
            RelayEvent::NotificationDropped { .. } => 0,
            RelayEvent::RequestRefused { .. } => 1,
            RelayEvent::ResponseReplaced { .. } | RelayEvent::ResponseDropped { .. } => 2,
            _ => return,
        };
        self.counts[kind].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the counts in words, if there were any.
    pub(super) fn total(&self) -> Option<String> {
        let counts = self.counts.each_ref().map(|count| count.load(Ordering::Relaxed));
        let [notifications, requests, answers] = counts;
        (notifications + requests + answers > 0).then(|| {
            format!(
                "not passed on in the whole: {notifications} notifications, {requests} requests, \
                 {answers} answers"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use protocol_core::{Refusal, WireId};

    use super::*;

    #[test]
    fn g08_what_is_not_passed_on_is_counted_by_its_kind() {
        let losses = Losses::default();
        let (reason, id) = (Refusal::OutboxFull, WireId::from_json("1").unwrap());
        losses.count(&RelayEvent::CancelDropped { method: "m".into() });
        assert_eq!(losses.total(), None);
        let dropped = RelayEvent::NotificationDropped { method: "m".into(), reason };
        let refused = RelayEvent::RequestRefused { id: id.clone(), reason };
        let replaced = RelayEvent::ResponseReplaced { id: id.clone(), reason };
        for event in [&dropped, &dropped, &dropped, &refused, &replaced] {
            losses.count(event);
        }
        losses.count(&RelayEvent::ResponseDropped { id });
        let total = "not passed on in the whole: 3 notifications, 1 requests, 2 answers";
        assert_eq!(losses.total().as_deref(), Some(total));
        for event in [dropped, refused, replaced] {
            let losses = Losses::default();
            losses.count(&event);
            assert!(losses.total().is_some(), "{event}");
        }
    }
}
