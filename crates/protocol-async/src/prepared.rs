//! Calls that can be cancelled before they are sent.

use std::fmt;
use std::marker::PhantomData;

use protocol_core::{CallOptions, Refusal};
use protocol_endpoint::CallError;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::handle::{CancellationHandle, Preparation};
use crate::peer::Peer;
use crate::sent::SentRequest;
use crate::sync::Arc;

impl Peer {
    /// Prepares a call without sending it. Others can hold its [`CancellationHandle`] before the peer
    /// knows of it.
    pub fn prepare<T>(
        &self,
        method: &str,
        params: impl Serialize,
        options: CallOptions,
    ) -> PreparedRequest<T> {
        PreparedRequest {
            peer: self.clone(),
            method: method.into(),
            params: to_raw_value(&params).map_err(|_| Refusal::InvalidParams),
            options,
            preparation: Arc::default(),
            result: PhantomData,
        }
    }
}

/// A call that is not sent yet. Dropping it sends nothing.
#[must_use = "a prepared request does nothing until it is published"]
pub struct PreparedRequest<T> {
    peer: Peer,
    method: String,
    params: Result<Box<RawValue>, Refusal>,
    options: CallOptions,
    preparation: Arc<Preparation>,
    result: PhantomData<fn() -> T>,
}

impl<T> PreparedRequest<T> {
    /// Returns a handle that cancels the call, before it is published or after.
    #[must_use]
    pub fn cancellation_handle(&self) -> CancellationHandle {
        CancellationHandle::of_prepared(self.preparation.clone())
    }

    /// Sends the call, unless it was cancelled already. Then nothing is sent, and the cancellation is its
    /// outcome.
    pub fn publish(self) -> SentRequest<T> {
        let Self { peer, method, params, options, preparation, .. } = self;
        if let Some(cause) = preparation.cancelled() {
            return SentRequest::refused(CallError::Cancelled { cause, error: None });
        }
        let sent: SentRequest<T> = match params {
            Ok(params) => peer.call_raw(&method, Some(&params), options),
            Err(refusal) => SentRequest::refused(refusal.into()),
        };
        preparation.published(sent.cancellation_handle());
        sent
    }
}

impl<T> fmt::Debug for PreparedRequest<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedRequest").field("method", &self.method).finish_non_exhaustive()
    }
}
