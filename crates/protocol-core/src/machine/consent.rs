//! What may be cancelled on the wire, and a memory for cancels that came before their requests.

use alloc::collections::{BTreeMap, VecDeque};
use core::fmt;

use crate::id::WireId;

/// Why a cancel was refused here and never sent. The call goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CancelRefusal {
    /// The capabilities are not exchanged yet.
    BeforeExchange,
    /// The peer did not declare that it can be asked to cancel.
    Undeclared,
    /// Requests of this method can't be cancelled.
    Method,
    /// Requests with such params can't be cancelled this way: a task has a cancel of its own.
    Params,
    /// In this dialect our side may not cancel.
    NotOurs,
}

impl CancelRefusal {
    /// The name in `snake_case`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BeforeExchange => "cancel_before_exchange",
            Self::Undeclared => "cancel_undeclared",
            Self::Method => "cancel_of_method",
            Self::Params => "cancel_of_params",
            Self::NotOurs => "cancel_not_ours",
        }
    }
}

impl fmt::Display for CancelRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BeforeExchange => {
                "nothing can be cancelled before the capabilities are exchanged"
            }
            Self::Undeclared => "the peer did not declare that it can cancel requests",
            Self::Method => "requests of this method can't be cancelled",
            Self::Params => "requests with such params can't be cancelled this way",
            Self::NotOurs => "our side may not cancel in this dialect",
        })
    }
}

/// Whether the peer's cancels of a request, or of all requests, are obeyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PeerCancels {
    /// They are.
    Obeyed,
    /// They are ignored.
    Ignored,
}

/// A bounded memory of ids, with something on each: the oldest is forgotten first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RecentIds<T = ()> {
    ids: BTreeMap<WireId, T>,
    /// The order of arrival. Invariant: holds what `ids` holds.
    order: VecDeque<WireId>,
}

impl<T: Copy> RecentIds<T> {
    pub(crate) const fn new() -> Self {
        Self { ids: BTreeMap::new(), order: VecDeque::new() }
    }

    /// Remembers an id, and at most `limit` in all.
    pub(crate) fn insert(&mut self, id: &WireId, with: T, limit: usize) {
        if self.ids.insert(id.clone(), with).is_none() {
            self.order.push_back(id.clone());
        }
        if self.order.len() > limit {
            if let Some(oldest) = self.order.pop_front() {
                self.ids.remove(&oldest);
            }
        }
    }

    pub(crate) fn get(&self, id: &WireId) -> Option<T> {
        self.ids.get(id).copied()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// What was remembered of the id; it is forgotten now.
    #[inline]
    pub(crate) fn take(&mut self, id: &WireId) -> Option<T> {
        if self.is_empty() { None } else { self.take_some(id) }
    }

    fn take_some(&mut self, id: &WireId) -> Option<T> {
        let with = self.ids.remove(id)?;
        self.order.retain(|other| other != id);
        Some(with)
    }
}
