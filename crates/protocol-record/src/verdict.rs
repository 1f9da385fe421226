//! Decisions, as a line tells them.

use std::fmt::Display;

use protocol_core::WireId;
use protocol_relay::RelayEvent;

use crate::line::{Id, Verdict};

impl Verdict<'static> {
    /// Describes an event of a relay, without the time and the connection.
    #[must_use]
    pub fn of_relay(event: &RelayEvent) -> Self {
        match event {
            RelayEvent::Violation { violation, id } => {
                because("violation", id.as_ref(), violation.as_str())
            }
            RelayEvent::CancelDropped { method } => because("cancel_dropped", None, method),
            RelayEvent::CancelIgnored { id } => because("cancel_ignored", Some(id), ""),
            RelayEvent::CancelRefused { id, reason } => because("cancel_refused", Some(id), reason),
            RelayEvent::NotificationDropped { method, reason } => {
                because("notification_dropped", None, format_args!("{method}: {reason}"))
            }
            RelayEvent::RequestRefused { id, reason } => {
                because("request_refused", Some(id), reason)
            }
            RelayEvent::ResponseReplaced { id, reason } => {
                because("answer_replaced", Some(id), reason)
            }
            RelayEvent::ResponseDropped { id } => because("response_dropped", Some(id), ""),
            RelayEvent::WorkStopped { id } => because("stopped", Some(id), ""),
            RelayEvent::TimedOut { id, cause } => {
                Self { id: token(id), cause: Some(cause.as_str().into()), ..named("guard") }
            }
            RelayEvent::Closed { reason } => because("closed", None, reason),
            other => because("other", None, other),
        }
    }

    /// Describes a fault that was done to a message on purpose, such as `drop cancel`.
    #[must_use]
    pub fn fault(id: Option<String>, what: &str) -> Self {
        let why = Some(what.to_owned().into());
        Self { id: id.and_then(Id::from_json), why, ..named("fault") }
    }
}

pub(crate) fn because(
    verdict: &'static str,
    id: Option<&WireId>,
    why: impl Display,
) -> Verdict<'static> {
    let why = Some(why.to_string()).filter(|why| !why.is_empty()).map(Into::into);
    Verdict { id: id.and_then(token), why, ..named(verdict) }
}

pub(crate) fn named(verdict: &'static str) -> Verdict<'static> {
    let (hop, verdict) = ("".into(), verdict.into());
    Verdict { t: 0, hop, verdict, id: None, outcome: None, cause: None, why: None }
}

pub(crate) fn token(id: &WireId) -> Option<Id<'static>> {
    Id::from_json(id.as_json().into())
}
