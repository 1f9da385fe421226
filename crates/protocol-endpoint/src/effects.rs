//! Effects: what the host does once it holds no lock.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use protocol_core::{Cause, RequestHandle, Timestamp, Violation};
use serde_json::value::RawValue;
use smallvec::SmallVec;

use crate::error::CallOutcome;
use crate::method::MethodName;
use crate::verdict::Verdict;

/// One thing that the host does once it holds no lock.
#[non_exhaustive]
pub enum Effect<W, M> {
    /// Wakes a waiter: its check may succeed now.
    Wake(W),
    /// Hands the outcome of a call to the waiter of [`Endpoint::hand_over`](crate::Endpoint::hand_over).
    HandOver(W, CallOutcome),
    /// Sets the mark of a request, which was cancelled for this cause.
    Cancel(M, Cause),
    /// Drops a waiter that nobody needs any more.
    Drop(W),
    /// Drops the mark of a request that is over.
    DropMark(M),
    /// Begins the operation that a request with this method starts: calls
    /// [`Endpoint::begin_operation`](crate::Endpoint::begin_operation), or refuses the request.
    BeginOperation(RequestHandle, MethodName),
    /// Records that the operation with this token was cancelled.
    CancelOperation([u8; 16], Cause),
    /// Records that the operation with this token has ended.
    EndOperation([u8; 16], OperationEnd),
}

/// The way in which an operation ended.
#[derive(Debug)]
pub enum OperationEnd {
    /// Its request got its response: this result, or an error.
    Responded(Option<Box<RawValue>>),
    /// Nobody serves its request any more.
    WorkerGone,
}

/// Something that a host which asked for it may show: see [`Options::shows`](crate::Options::shows).
#[derive(Debug)]
#[non_exhaustive]
pub enum Shown {
    /// A whole message, without framing.
    Message(Way, Box<[u8]>),
    /// Bytes that are no message, and the rule that they break.
    Noise(Violation, Box<[u8]>),
    /// A decision of the core, and its time.
    Verdict(Verdict, Timestamp),
    /// A request is over. Mostly it got its response: an error with this code, or a result.
    Responded {
        /// The request that is over.
        request: RequestHandle,
        /// The name of the outcome: `result`, `error`, `cancelled`, `ended` by the server without a response,
        /// or `unsent`, because none fits or the connection was revoked.
        outcome: &'static str,
        /// The code of the error.
        code: Option<i64>,
        /// The time of the response.
        now: Timestamp,
    },
    /// There was no room for a message.
    NoRoom,
    /// There is room again for a message that was refused.
    Room,
}

/// The direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From us to the peer.
    Sent,
    /// From the peer to us.
    Received,
}

/// A sink for effects, in the order in which they are to be carried out.
///
/// One message needs no allocation. A sink that is not empty when it is dropped drops the host's values, so
/// that must not happen under a lock.
pub struct Effects<W, M> {
    effects: SmallVec<[Effect<W, M>; 2]>,
    shown: Vec<Shown>,
}

impl<W, M> Effects<W, M> {
    /// Returns an empty sink.
    #[must_use]
    #[inline]
    pub fn new() -> Self {
        Self { effects: SmallVec::new(), shown: Vec::new() }
    }

    /// Returns whether there is nothing to carry out.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.effects.is_empty()
    }

    /// Takes the first effect.
    pub fn pop(&mut self) -> Option<Effect<W, M>> {
        (!self.effects.is_empty()).then(|| self.effects.remove(0))
    }

    /// Takes all effects, in their order.
    pub fn drain(&mut self) -> impl Iterator<Item = Effect<W, M>> + '_ {
        self.effects.drain(..)
    }

    /// Takes the effects that concern operations, in their order.
    ///
    /// A registry of several connections and threads has to learn of them in that order, so a host queues
    /// them before it releases its lock.
    pub fn take_operations(&mut self) -> Vec<Effect<W, M>> {
        let is_operation = |effect: &Effect<W, M>| {
            matches!(effect, Effect::CancelOperation(..) | Effect::EndOperation(..))
        };
        if !self.effects.iter().any(is_operation) {
            return Vec::new();
        }
        let (taken, left): (Vec<_>, Vec<_>) = self.effects.drain(..).partition(is_operation);
        self.effects.extend(left);
        taken
    }

    /// Returns whether there is anything to show.
    #[inline]
    #[must_use]
    pub fn has_shown(&self) -> bool {
        !self.shown.is_empty()
    }

    /// Returns whether the sink is empty and holds no heap, so that dropping it does nothing.
    #[inline]
    #[must_use]
    pub fn holds_nothing(&self) -> bool {
        self.is_empty() && !self.effects.spilled() && self.shown.capacity() == 0
    }

    /// Takes what is to be shown. The host queues it before it releases its lock, so that it keeps its
    /// order.
    #[inline]
    pub fn take_shown(&mut self) -> Vec<Shown> {
        core::mem::take(&mut self.shown)
    }

    #[inline]
    pub(crate) fn push(&mut self, effect: Effect<W, M>) {
        self.effects.push(effect);
    }

    #[inline]
    pub(crate) fn wake(&mut self, waiter: Option<W>) {
        self.add(waiter.map(Effect::Wake));
    }

    #[inline]
    pub(crate) fn add(&mut self, effect: Option<Effect<W, M>>) {
        if let Some(effect) = effect {
            self.push(effect);
        }
    }

    pub(crate) fn show(&mut self, shown: Shown) {
        self.shown.push(shown);
    }
}

impl<W, M> Default for Effects<W, M> {
    fn default() -> Self {
        Self::new()
    }
}

impl<W, M> fmt::Debug for Effects<W, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Effects").field("effects", &self.effects.len()).finish_non_exhaustive()
    }
}

/// Omits values of the host's and payloads.
impl<W, M> fmt::Debug for Effect<W, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Wake(_) => "Wake",
            Self::HandOver(..) => "HandOver",
            Self::Cancel(..) => "Cancel",
            Self::Drop(_) => "Drop",
            Self::DropMark(_) => "DropMark",
            Self::BeginOperation(..) => "BeginOperation",
            Self::CancelOperation(..) => "CancelOperation",
            Self::EndOperation(..) => "EndOperation",
        })
    }
}
