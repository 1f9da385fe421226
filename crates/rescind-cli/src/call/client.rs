//! The duties of a client towards a server: answers to its requests, and eyes for its notifications, which may
//! cancel the call.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Args;
use protocol_blocking::{
    Answer, Handler, Internal, InvalidParams, Notification, Request, Responder,
};
use protocol_core::{Violation, WireId};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use super::attempt::Attempt;
use super::interrupts::Interrupts;
use super::report::Report;

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

/// The same, and how many have come.
#[derive(Debug)]
pub(super) struct Trigger {
    args: TriggerArgs,
    seen: AtomicU64,
}

impl TriggerArgs {
    /// Whether there is any such notification.
    pub(super) const fn is_set(&self) -> bool {
        self.cancel_after_notifications.is_some() || self.cancel_on.is_some()
    }
}

impl Trigger {
    pub(super) fn new(args: &TriggerArgs) -> Self {
        Self { args: args.clone(), seen: AtomicU64::new(0) }
    }

    /// Whether this notification, which came while the call was in flight, is the one.
    pub(super) fn is_pulled(&self, method: &str, params: &str) -> bool {
        let seen = 1 + self.seen.fetch_add(1, Ordering::Relaxed);
        let text = self.args.cancel_on.as_deref();
        self.args.cancel_after_notifications.is_some_and(|wanted| seen >= wanted)
            || text.is_some_and(|text| method.contains(text) || params.contains(text))
    }
}

/// Answers servers as a client without features does.
pub(super) struct Client {
    report: Report,
    interrupts: Interrupts,
    trigger: Trigger,
}

#[derive(Deserialize)]
struct Sleep {
    ms: u64,
}

#[derive(Deserialize)]
struct Configuration {
    items: Vec<serde_json::Value>,
}

impl Client {
    pub(super) fn new(attempt: &Attempt<'_>) -> Self {
        Self {
            report: attempt.report.clone(),
            interrupts: attempt.interrupts.clone(),
            trigger: Trigger::new(&attempt.args.trigger),
        }
    }

    fn show(&self, notification: &Notification) {
        let params = notification.params.as_deref().map_or("", RawValue::get);
        self.report.notification(&notification.method, params);
        if self.interrupts.is_calling() && self.trigger.is_pulled(&notification.method, params) {
            self.interrupts.cancel(&self.report);
        }
    }
}

impl Handler for Client {
    fn request(&self, request: &Request, responder: &mut dyn Responder) -> Answer {
        let answer = match request.method.as_str() {
            // The built-in peer's `nested` calls it.
            "sleep" => {
                let Sleep { ms } = request.params()?;
                responder.sleep(Duration::from_millis(ms))?;
                json!({ "slept_ms": ms })
            }
            "workspace/configuration" => {
                let Configuration { items } = request.params()?;
                json!(vec![(); items.len()])
            }
            "client/registerCapability"
            | "client/unregisterCapability"
            | "window/workDoneProgress/create"
            | "window/showMessageRequest"
            | "workspace/workspaceFolders" => json!(()),
            "session/request_permission" => json!({ "outcome": { "outcome": "cancelled" } }),
            _ => return Err(request.unknown_method()),
        };
        Ok(to_raw_value(&answer)?)
    }

    fn notification(&self, notification: &Notification, _: &mut dyn Responder) -> ControlFlow<()> {
        self.show(notification);
        ControlFlow::Continue(())
    }

    fn violation(&self, violation: Violation, id: Option<&WireId>) {
        self.report.violation(violation, id);
    }

    // A server that is being tested sees its own mistakes in the responses.
    fn invalid_params(&self, _: &InvalidParams) {}

    fn failed(&self, _: &Request, _: &Internal) {}
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Given {
        #[command(flatten)]
        trigger: TriggerArgs,
    }

    #[test]
    fn notifications_of_the_opening_do_not_count() {
        let given = Given::parse_from(["", "--cancel-after-notifications", "3"]);
        let trigger = Trigger::new(&given.trigger);
        let client =
            Client { report: Report::start(false), interrupts: Interrupts::default(), trigger };
        let early = Notification { method: "early".into(), params: None };
        for _ in 0..3 {
            client.show(&early);
        }
        let pulled = [1, 2, 3].map(|_| client.trigger.is_pulled("m", ""));
        assert_eq!(pulled, [false, false, true]);
    }
}
