//! Handles: names of calls and requests that never come to mean another one.

use crate::slot::Slot;

/// The low bits of a serial count; those above them name the connection.
const COUNT_BITS: u32 = 44;

/// Returns the serial that a connection with this number counts on from.
pub(crate) const fn first_serial(connection: u32) -> u64 {
    (connection as u64) << COUNT_BITS
}

const fn count(serial: u64) -> u64 {
    serial & ((1 << COUNT_BITS) - 1)
}

/// The name of one of our calls, for ever: the id of a settled call never comes to mean another.
///
/// Calls of one connection are ordered by when they were made. To a connection with another number
/// ([`Config::connection`](crate::Config::connection)) the id names a call that has settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub(crate) u64);

impl CallId {
    /// The largest id that goes onto the wire. Above it, LSP servers fall silent, panic or die.
    pub(crate) const LAST_NUMBER: u32 = i32::MAX as u32;
    /// The least id, for ranges.
    pub(crate) const MIN: Self = Self(0);

    /// Returns the id on the wire: 1, 2, 3, … and after 2^31-1 from 1 again.
    #[inline]
    pub const fn number(self) -> u32 {
        self.0 as u32 & Self::LAST_NUMBER
    }

    /// Returns the id after this one. None has number 0.
    #[inline]
    pub(crate) const fn next(self) -> Self {
        let next = Self(self.0 + 1);
        if next.number() == 0 { Self(next.0 + 1) } else { next }
    }

    /// Returns whether another call had its number before.
    #[inline]
    pub(crate) const fn is_reissued(self) -> bool {
        count(self.0) > Self::LAST_NUMBER as u64
    }

    /// Returns the latest id up to this one that has this number, if there is one.
    pub(crate) fn latest_numbered(self, number: u32) -> Option<Self> {
        let latest = self.0 - u64::from(self.number()) + u64::from(number);
        let is_later = number > self.number();
        let round = if is_later { u64::from(Self::LAST_NUMBER) + 1 } else { 0 };
        let is_issued =
            (1..=Self::LAST_NUMBER).contains(&number) && (!is_later || self.is_reissued());
        is_issued.then(|| Self(latest - round))
    }
}

/// The name of one run of work, for ever: that of work which has ended never comes to mean another.
///
/// Work of one connection is ordered by when it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkId(pub(crate) u64);

/// The name of one of the peer's requests, for ever: the handle of a request that had its response
/// never comes to mean another.
///
/// Requests of one connection are ordered by when they were accepted. To a connection with another
/// number ([`Config::connection`](crate::Config::connection)) the handle names a request that had its
/// response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestHandle {
    /// Counts accepted requests from 1, above the number of the connection. It makes a reused slot safe.
    pub(crate) serial: u64,
    /// The index of its row. Valid only while the row has the same serial.
    pub(crate) slot: Slot,
}

impl RequestHandle {
    /// Returns the number of the request, which counts the connection's accepted requests from 1.
    pub const fn number(self) -> u64 {
        count(self.serial)
    }
}
