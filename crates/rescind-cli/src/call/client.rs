//! The duties of a client towards a server: answers to its requests, and eyes for its notifications, which may
//! cancel the call.

use std::ops::ControlFlow;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

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
use super::trigger::TriggerArgs;

/// Answers servers as a client without features does.
pub(super) struct Client {
    report: Report,
    interrupts: Interrupts,
    trigger: TriggerArgs,
    /// The notifications since the call was sent.
    seen: AtomicU64,
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
            trigger: attempt.args.trigger.clone(),
            seen: AtomicU64::default(),
        }
    }

    fn show(&self, notification: &Notification) {
        let params = notification.params.as_deref().map_or("", RawValue::get);
        self.report.notification(&notification.method, params);
        let method = &notification.method;
        if self.interrupts.is_calling() && self.trigger.is_pulled(&self.seen, method, params) {
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
        let client = Client {
            report: Report::start(false),
            interrupts: Interrupts::default(),
            trigger: given.trigger,
            seen: AtomicU64::default(),
        };
        let early = Notification { method: "early".into(), params: None };
        for _ in 0..3 {
            client.show(&early);
        }
        let pulled = [1, 2, 3].map(|_| client.trigger.is_pulled(&client.seen, "m", ""));
        assert_eq!(pulled, [false, false, true]);
    }
}
