//! What a handler can do on the one thread there is.

use std::time::Duration;

use protocol_async::CallError;
use protocol_core::{CallOptions, Refusal, RequestHandle};
use serde_json::value::RawValue;

use super::{Host, Reading, Transport};
use crate::handler::{Cancelled, Notification, Responder};

/// What a handler on a [`Host`] can do.
pub(super) struct HostResponder<'h, T> {
    pub(super) host: &'h mut Host<T>,
    pub(super) handle: RequestHandle,
}

impl<T: Transport> HostResponder<'_, T> {
    fn result(&mut self) -> Result<(), Cancelled> {
        self.host.cancelled(self.handle).map_or(Ok(()), |cause| Err(Cancelled { cause }))
    }
}

impl<T: Transport> Responder for HostResponder<'_, T> {
    fn checkpoint(&mut self) -> Result<(), Cancelled> {
        self.host.checkpoint();
        self.result()
    }

    fn sleep(&mut self, duration: Duration) -> Result<(), Cancelled> {
        let end = self.host.clock.now() + duration;
        loop {
            self.checkpoint()?;
            let left = self.host.clock.until(end);
            if left.is_zero() {
                return Ok(());
            }
            self.host.turn(Reading::WhatIsThere, Some(left));
        }
    }

    fn notify(&mut self, method: &str, params: Option<&RawValue>) -> Result<(), Refusal> {
        self.host.notify(method, params)
    }

    fn take_notification(&mut self, method: &str) -> Option<Notification> {
        self.host.inbox.take_notification(method)
    }

    fn call(
        &mut self,
        method: &str,
        params: Option<&RawValue>,
        options: CallOptions,
    ) -> Result<Box<RawValue>, CallError> {
        self.host.call(method, params, options.parent(self.handle))
    }
}
