//! The progress tokens of calls and requests.

use alloc::collections::BTreeMap;

use crate::id::WireId;
use crate::time::Timestamp;

/// The progress tokens of some calls, or of some requests, each with a count of its owners.
///
/// A token costs the same however many share it: nobody asks each owner. Tokens are a number space of
/// their own; a [`WireId`] here only compares them.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Tokens {
    uses: BTreeMap<WireId, Use>,
}

#[derive(Clone, Debug, Default, Hash)]
struct Use {
    /// The number of calls or requests with this token. Invariant: never 0.
    owners: usize,
    /// The number of owners whose progress is withheld.
    silenced: usize,
    /// The time of the latest progress with this token.
    progressed: Timestamp,
}

impl Tokens {
    pub(super) fn is_empty(&self) -> bool {
        self.uses.is_empty()
    }

    /// Counts one more owner.
    pub(super) fn claim(&mut self, token: &WireId) {
        self.uses.entry(token.clone()).or_default().owners += 1;
    }

    /// Counts one owner less.
    pub(super) fn release(&mut self, token: &WireId, was_silenced: bool) {
        let Some(of) = self.uses.get_mut(token) else { return };
        of.owners -= 1;
        of.silenced -= usize::from(was_silenced);
        if of.owners == 0 {
            self.uses.remove(token);
        }
    }

    /// Counts one more owner whose progress is withheld.
    pub(super) fn silence(&mut self, token: &WireId) {
        if let Some(of) = self.uses.get_mut(token) {
            of.silenced += 1;
        }
    }

    /// Returns whether all owners of a token are silenced; `None` if it has no owner.
    pub(super) fn is_silenced(&self, token: &WireId) -> Option<bool> {
        self.uses.get(token).map(|of| of.silenced == of.owners)
    }

    /// Notes progress with this token.
    pub(super) fn progress(&mut self, token: &WireId, now: Timestamp) {
        if let Some(of) = self.uses.get_mut(token) {
            of.progressed = now;
        }
    }

    /// Returns the time of the latest progress with this token.
    pub(super) fn progressed(&self, token: &WireId) -> Timestamp {
        self.uses.get(token).map_or(Timestamp::ZERO, |of| of.progressed)
    }
}
