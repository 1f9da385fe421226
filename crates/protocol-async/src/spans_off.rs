//! The counterpart of `spans.rs` for builds without the feature: it does nothing.

use protocol_core::{CallId, Cause, Dialect, Refusal, RequestHandle, Timestamp};
use protocol_endpoint::Shown;

use crate::cancellation::Cancellation;

pub(crate) const fn is_watched() -> bool {
    false
}

#[derive(Clone, Copy)]
pub(crate) struct Protocol {}

impl Protocol {
    pub(crate) const fn of(_: &Dialect) -> Self {
        Self {}
    }
}

#[derive(Clone, Default)]
pub(crate) struct CallSpan {}

impl CallSpan {
    pub(crate) const fn begin(_: &str, _: Protocol, _: &RequestSpan) -> Self {
        Self {}
    }

    pub(crate) const fn accepted(&self, _: u32) {}

    pub(crate) const fn refused(self, _: &Refusal) {}

    pub(crate) const fn cancelled(&self, _: Cause) {}
}

/// The span of a request, of which there is none in these builds.
#[derive(Clone, Debug, Default)]
pub struct RequestSpan {}

impl RequestSpan {
    pub(crate) const fn begin(
        _: &str,
        _: Protocol,
        _: Option<&str>,
        _: Timestamp,
        _: Option<&Cancellation>,
    ) -> Self {
        Self {}
    }

    /// Runs some work.
    pub fn inside<T>(&self, work: impl FnOnce() -> T) -> T {
        work()
    }
}

pub(crate) enum Seen {}

impl Seen {
    pub(crate) const fn tell(self) {
        match self {}
    }
}

#[derive(Default)]
pub(crate) struct Spans {}

impl Spans {
    pub(crate) const CALL: usize = 0;
    pub(crate) const REQUEST: usize = 0;

    pub(crate) const fn call_begins(&mut self, _: CallId, _: CallSpan, _: Timestamp) {}

    pub(crate) const fn call(&self, _: CallId) -> CallSpan {
        CallSpan {}
    }

    pub(crate) const fn request_begins(&mut self, _: RequestHandle, _: RequestSpan) {}

    pub(crate) const fn request(&self, _: RequestHandle) -> RequestSpan {
        RequestSpan {}
    }

    pub(crate) const fn is_watched(&self) -> bool {
        false
    }

    pub(crate) const fn see(&mut self, _: &Shown) -> Option<Seen> {
        None
    }
}

pub(crate) const fn missed(_: usize) {}
