//! Handles that cancel a call from anywhere.

use std::{fmt, mem};

use protocol_core::{CallId, CancelOutcome, Cause};

use crate::shared::Shared;
use crate::spanned;
use crate::sync::{Arc, Mutex, Weak, lock};

/// A handle that cancels one call, from anywhere. It keeps neither the call nor the connection alive.
#[derive(Clone)]
pub struct CancellationHandle(Target);

#[derive(Clone)]
enum Target {
    Call {
        shared: Weak<Shared>,
        call: CallId,
    },
    /// A call that is prepared, and perhaps sent meanwhile.
    Prepared(Arc<Preparation>),
    Nothing,
}

/// The means by which a call is to end.
#[derive(Clone, Copy)]
enum Means {
    Cancel,
    Stop,
}

impl CancellationHandle {
    pub(crate) fn of(shared: &Arc<Shared>, call: CallId) -> Self {
        Self(Target::Call { shared: Arc::downgrade(shared), call })
    }

    pub(crate) const fn of_prepared(preparation: Arc<Preparation>) -> Self {
        Self(Target::Prepared(preparation))
    }

    pub(crate) const fn of_nothing() -> Self {
        Self(Target::Nothing)
    }

    /// Returns the id of the call, if it is that of a call that was sent.
    pub(crate) const fn id(&self) -> Option<CallId> {
        match self.0 {
            Target::Call { call, .. } => Some(call),
            Target::Prepared(_) | Target::Nothing => None,
        }
    }

    /// Cancels the call, with the cause `caller`. It has no effect on a settled one.
    pub fn cancel(&self) -> CancelOutcome {
        self.end(Means::Cancel, Cause::Caller, None)
    }

    /// As [`cancel`](Self::cancel). The peer gets the reason in words, if the dialect has a place for it.
    /// A call that is not sent yet is withdrawn, and the peer learns nothing of it.
    pub fn cancel_with_reason(&self, reason: &str) -> CancelOutcome {
        self.end(Means::Cancel, Cause::Caller, Some(reason))
    }

    /// Stops the work that the call began, by its name: `session/cancel` for a prompt of ACP.
    ///
    /// The peer ends the work and responds as its protocol says, and the outcome is that response. A call that began
    /// no work is cancelled. Work may go on after the response, as a task of MCP 2025-11-25, and the handle stops it
    /// by `tasks/cancel`. A handle names one run, so nothing is stopped once that has ended.
    pub fn stop(&self) -> CancelOutcome {
        self.end(Means::Stop, Cause::Caller, None)
    }

    /// Does to the call what was done to a request that it follows.
    pub(crate) fn follow(&self, cause: Cause) -> CancelOutcome {
        match cause {
            Cause::Stopped => self.end(Means::Stop, Cause::Parent, None),
            _ => self.end(Means::Cancel, Cause::Parent, None),
        }
    }

    fn end(&self, means: Means, cause: Cause, reason: Option<&str>) -> CancelOutcome {
        let (shared, call) = match &self.0 {
            Target::Call { shared, call } => (Weak::upgrade(shared), *call),
            Target::Prepared(preparation) => return preparation.end(means, cause, reason),
            Target::Nothing => return CancelOutcome::AlreadySettled,
        };
        let Some(shared) = shared else { return CancelOutcome::AlreadySettled };
        spanned::cancelling(&shared, call, cause);
        shared.at(|inner, now, effects| match means {
            Means::Cancel => inner.endpoint.cancel(call, cause, reason, now, effects),
            Means::Stop => inner.endpoint.stop(call, cause, now, effects),
        })
    }
}

impl fmt::Debug for CancellationHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancellationHandle").finish_non_exhaustive()
    }
}

/// The state of a call that can be cancelled before it is sent.
#[derive(Default)]
pub(crate) struct Preparation(Mutex<Prepared>);

#[derive(Default)]
enum Prepared {
    #[default]
    Waiting,
    /// Cancelled before it was sent. It is never sent, unless it is being sent at this moment. Then the
    /// peer gets the reason.
    Cancelled(Means, Cause, Option<Box<str>>),
    Published(CancellationHandle),
}

impl Preparation {
    /// Returns the cause for which the call was cancelled before it was sent, if it was.
    pub(crate) fn cancelled(&self) -> Option<Cause> {
        match *lock(&self.0) {
            Prepared::Cancelled(_, cause, _) => Some(cause),
            Prepared::Waiting | Prepared::Published(_) => None,
        }
    }

    /// Declares that the call was sent, and can be cancelled through this handle.
    pub(crate) fn published(&self, handle: CancellationHandle) {
        let before = mem::replace(&mut *lock(&self.0), Prepared::Published(handle));
        if let Prepared::Cancelled(means, cause, reason) = before {
            // While it was being sent.
            self.end(means, cause, reason.as_deref());
        }
    }

    fn end(&self, means: Means, cause: Cause, reason: Option<&str>) -> CancelOutcome {
        let mut prepared = lock(&self.0);
        let handle = match &*prepared {
            Prepared::Waiting => {
                *prepared = Prepared::Cancelled(means, cause, reason.map(Into::into));
                return CancelOutcome::Withdrawn;
            }
            Prepared::Cancelled(..) => return CancelOutcome::AlreadySettled,
            Prepared::Published(handle) => handle.clone(),
        };
        drop(prepared);
        handle.end(means, cause, reason)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use futures_util::FutureExt;
    use protocol_core::{CallOptions, Config, Dialect, Timestamp};
    use serde_json::value::RawValue;

    use super::*;
    use crate::hub::{Hub, Messages};
    use crate::sent::SentRequest;

    #[test]
    fn w10_a_handle_stops_the_task_that_its_settled_call_began() {
        let config = Config::client(Dialect::MCP_2025_11_25);
        let (hub, peer, _incoming) = Hub::new(config, || Timestamp::ZERO);
        let params = RawValue::from_string(r#"{"name":"t","task":{}}"#.into()).unwrap();
        let sent: SentRequest = peer.call_raw("tools/call", Some(&params), CallOptions::default());
        let mut out = Messages::default();
        let _ = hub.poll_output(Waker::noop(), &mut out);
        out.clear();
        let handle = sent.cancellation_handle();
        hub.receive_message(br#"{"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"t1"}}}"#);
        drop(sent);
        assert_eq!(handle.stop(), CancelOutcome::Sent);
        assert_eq!(handle.stop(), CancelOutcome::AlreadySent);
        let _ = hub.poll_output(Waker::noop(), &mut out);
        let stops = std::str::from_utf8(out.bytes()).unwrap();
        let stop = r#""method":"tasks/cancel","params":{"taskId":"t1"}"#;
        assert_eq!(stops.matches(stop).count(), 1, "{stops}");
        hub.receive_message(
            br#"{"jsonrpc":"2.0","id":2,"result":{"taskId":"t1","status":"cancelled"}}"#,
        );
        assert_eq!(handle.stop(), CancelOutcome::AlreadySettled);
    }

    #[test]
    fn w10_a_call_whose_outcome_was_taken_stops_the_task_that_it_began() {
        let config = Config::client(Dialect::MCP_2025_11_25);
        let (hub, peer, _incoming) = Hub::new(config, || Timestamp::ZERO);
        let params = serde_json::json!({"name": "t", "task": {}});
        let mut sent = peer.call::<serde_json::Value>("tools/call", params);
        let _ = hub.poll_output(Waker::noop(), &mut Messages::default());
        hub.receive_message(br#"{"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"t1"}}}"#);
        assert!((&mut sent).now_or_never().is_some_and(|outcome| outcome.is_ok()));
        assert_eq!(sent.id().map(CallId::number), Some(1));
        assert_eq!(sent.stop(), CancelOutcome::Sent);
    }

    #[test]
    fn w10_a_handle_of_a_prepared_call_stops_the_task_that_the_call_began() {
        let config = Config::client(Dialect::MCP_2025_11_25);
        let (hub, peer, _incoming) = Hub::new(config, || Timestamp::ZERO);
        let params = serde_json::json!({"name": "t", "task": {}});
        let prepared = peer.prepare::<()>("tools/call", params, CallOptions::default());
        let handle = prepared.cancellation_handle();
        let sent = prepared.publish();
        let mut out = Messages::default();
        let _ = hub.poll_output(Waker::noop(), &mut out);
        out.clear();
        hub.receive_message(br#"{"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"t1"}}}"#);
        drop(sent);
        assert_eq!(handle.stop(), CancelOutcome::Sent);
        let _ = hub.poll_output(Waker::noop(), &mut out);
        let stop = std::str::from_utf8(out.bytes()).unwrap();
        assert!(stop.contains(r#""method":"tasks/cancel","params":{"taskId":"t1"}"#), "{stop}");
    }

    #[test]
    fn w10_a_stop_while_a_prepared_call_is_sent_is_a_stop() {
        let (hub, peer, _incoming) = Hub::new(Config::client(Dialect::ACP_V1), || Timestamp::ZERO);
        let params = RawValue::from_string(r#"{"sessionId":"s"}"#.into()).unwrap();
        let sent: SentRequest =
            peer.call_raw("session/prompt", Some(&params), CallOptions::default());
        let mut out = Messages::default();
        let _ = hub.poll_output(Waker::noop(), &mut out);
        out.clear();
        let preparation = Arc::new(Preparation::default());
        let handle = CancellationHandle::of_prepared(preparation.clone());
        assert_eq!(handle.stop(), CancelOutcome::Withdrawn);
        preparation.published(sent.cancellation_handle());
        let _ = hub.poll_output(Waker::noop(), &mut out);
        let stop = std::str::from_utf8(out.bytes()).unwrap();
        assert!(stop.contains(r#""method":"session/cancel""#), "{stop}");
    }

    #[test]
    fn g04_a_cancel_while_a_prepared_call_is_sent_keeps_its_reason() {
        let config = Config::client(Dialect::MCP_2025_11_25);
        let (hub, peer, _incoming) = Hub::new(config, || Timestamp::ZERO);
        let sent: SentRequest = peer.call_raw("m", None, CallOptions::default());
        let mut out = Messages::default();
        let _ = hub.poll_output(Waker::noop(), &mut out);
        out.clear();

        let preparation = Arc::new(Preparation::default());
        let handle = CancellationHandle::of_prepared(preparation.clone());
        assert_eq!(handle.cancel_with_reason("it is late"), CancelOutcome::Withdrawn);
        preparation.published(sent.cancellation_handle());
        let _ = hub.poll_output(Waker::noop(), &mut out);
        let cancel = std::str::from_utf8(out.bytes()).unwrap();
        assert!(cancel.contains("it is late"), "{cancel}");
    }
}
