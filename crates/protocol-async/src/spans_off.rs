//! What `spans.rs` has, for builds without the feature: nothing.

use protocol_core::{CallId, Cause, Dialect, Event, Refusal, RequestHandle, Response, Timestamp};

use crate::budget::OverBudget;
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

#[derive(Clone, Default)]
pub(crate) struct RequestSpan {}

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

    pub(crate) fn inside<T>(&self, work: impl FnOnce() -> T) -> T {
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

    pub(crate) const fn answered(
        &mut self,
        _: RequestHandle,
        _: &Response<'_>,
        _: Timestamp,
    ) -> Option<Box<Seen>> {
        None
    }

    pub(crate) const fn request_ends(&mut self, _: RequestHandle) -> RequestSpan {
        RequestSpan {}
    }

    pub(crate) const fn see<O>(&mut self, _: &Event<'_, O>, _: Timestamp) -> Option<Box<Seen>> {
        None
    }
}

pub(crate) const fn refused(_: Option<&Refusal>, _: bool) -> Option<Box<Seen>> {
    None
}

pub(crate) const fn over_budget(_: OverBudget) -> Option<Box<Seen>> {
    None
}

pub(crate) const fn missed(_: usize) {}
