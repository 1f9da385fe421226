//! How much a relay could not pass on.

use std::sync::atomic::{AtomicU64, Ordering};

use protocol_relay::RelayEvent;

/// Counts what was not passed on.
#[derive(Debug, Default)]
pub(super) struct Losses {
    notifications: AtomicU64,
    requests: AtomicU64,
    answers: AtomicU64,
}

impl Losses {
    pub(super) fn count(&self, event: &RelayEvent) {
        let count = match event {
            RelayEvent::NotificationDropped { .. } => &self.notifications,
            RelayEvent::RequestRefused { .. } => &self.requests,
            RelayEvent::AnswerReplaced { .. } | RelayEvent::AnswerDropped { .. } => &self.answers,
            _ => return,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// How much that was, in words, if it was anything.
    pub(super) fn total(&self) -> Option<String> {
        let [notifications, requests, answers] =
            [&self.notifications, &self.requests, &self.answers]
                .map(|count| count.load(Ordering::Relaxed));
        (notifications + requests + answers > 0).then(|| {
            format!(
                "not passed on in the whole: {notifications} notifications, {requests} requests, \
                 {answers} answers"
            )
        })
    }
}
