//! One operation, as the host sees it.

use core::time::Duration;

use protocol_core::Timestamp;

use crate::metrics::Cleanup;
use crate::reason::CancelReason;
use crate::table::Status;
use crate::token::OperationToken;

/// The name of an operation inside the process, which never names another one.
///
/// It is no secret, and looking it up is faster than looking up the token. It carries the number
/// of its registry, so that a registry with another number refuses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId {
    /// The count of registrations up to this one. Being the first field, it orders ids by age.
    pub(crate) serial: u64,
    /// The index of the row, which later operations use again.
    pub(crate) slot: u32,
    pub(crate) registry: u32,
}

/// The time that the worker of a cancelled operation has to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Urgency {
    /// The worker may finish the unit of work in hand, and is stopped after this grace period.
    Graceful(Duration),
    /// The worker is stopped at once.
    Forced,
}

/// A view of a live operation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OperationInfo<'a> {
    /// The id that the host uses.
    pub operation: OperationId,
    /// The token that its client uses.
    pub token: OperationToken,
    /// The name of its kind, such as `tool/call`.
    pub kind: &'a str,
    /// The time of its registration.
    pub started: Timestamp,
    /// The time that has passed since then.
    pub duration: Duration,
    /// The state it is in.
    pub status: Status,
    /// The reason of its first cancellation; `None` while it is active.
    pub reason: Option<&'a CancelReason>,
}

/// An operation that has ended, with the data that it leaves to the host.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "it may have to be cleaned up after"]
pub struct Ended<T, P = ()> {
    /// The token that its client used.
    pub token: OperationToken,
    /// The time of its registration.
    pub started: Timestamp,
    /// The reason of its first cancellation; `None` if it was not cancelled.
    pub reason: Option<CancelReason>,
    /// `Wanted` if the host has to clean up after it now. It was cancelled then, and its kind wants
    /// that.
    pub cleanup: Cleanup,
    /// The data that it was registered with.
    pub data: T,
    /// The last partial result of its worker. A completed operation has none, because it has a
    /// whole result.
    pub partial: Option<P>,
}
