//! Notifications that cancel the call.

use std::sync::atomic::{AtomicU64, Ordering};

use clap::Args;

/// At which notification of the server the call is cancelled.
#[derive(Clone, Debug, Args)]
pub(super) struct TriggerArgs {
    /// Cancel once so many notifications have come since the call was sent
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    cancel_after_notifications: Option<u64>,

    /// Cancel at the first notification since the call was sent that has TEXT in its method or params
    #[arg(long, value_name = "TEXT")]
    cancel_on: Option<String>,
}

impl TriggerArgs {
    /// Whether there is any such notification.
    pub(super) const fn is_set(&self) -> bool {
        self.cancel_after_notifications.is_some() || self.cancel_on.is_some()
    }

    /// Returns whether this notification is the one. `seen` counts those that came before it while the call was in flight.
    pub(super) fn is_pulled(&self, seen: &AtomicU64, method: &str, params: &str) -> bool {
        let seen = 1 + seen.fetch_add(1, Ordering::Relaxed);
        let text = self.cancel_on.as_deref();
        self.cancel_after_notifications.is_some_and(|wanted| seen >= wanted)
            || text.is_some_and(|text| method.contains(text) || params.contains(text))
    }
}
