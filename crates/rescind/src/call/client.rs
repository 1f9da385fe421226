//! What a client owes a server: answers to its requests, and eyes for its notifications.

use std::ops::ControlFlow;
use std::time::Duration;

use protocol_blocking::{Answer, Handler, Notification, Request, Responder};
use protocol_core::{Violation, WireId};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use super::report::Report;

/// Answers servers as a client without features does.
#[derive(Debug)]
pub(super) struct Client {
    report: Report,
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
    pub(super) const fn new(report: Report) -> Self {
        Self { report }
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

    fn notification(&self, notification: &Notification) -> ControlFlow<()> {
        let params = notification.params.as_deref().map_or("", RawValue::get);
        self.report.notification(&notification.method, params);
        ControlFlow::Continue(())
    }

    fn violation(&self, violation: Violation, id: Option<&WireId>) {
        self.report.violation(violation, id);
    }
}
