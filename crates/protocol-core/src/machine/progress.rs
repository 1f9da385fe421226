//! Which calls and requests a progress token belongs to.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::id::WireId;

/// The progress tokens of some calls, or of some requests. The others cost nothing here.
///
/// Tokens are a number space of their own: a [`WireId`] here is only a way to compare them.
#[derive(Clone, Debug, Hash)]
pub(super) struct ProgressTokens<K> {
    by_token: BTreeMap<WireId, BTreeSet<K>>,
    /// Invariant: holds the tokens of each owner in `by_token`, and nothing else.
    by_owner: BTreeMap<K, Vec<WireId>>,
}

impl<K: Copy + Ord> ProgressTokens<K> {
    pub(super) const fn new() -> Self {
        Self { by_token: BTreeMap::new(), by_owner: BTreeMap::new() }
    }

    pub(super) fn insert(&mut self, owner: K, token: WireId) {
        if self.by_token.entry(token.clone()).or_default().insert(owner) {
            self.by_owner.entry(owner).or_default().push(token);
        }
    }

    /// Forgets a settled owner; gives its tokens, if it had any.
    #[inline]
    pub(super) fn remove(&mut self, owner: K) -> Option<Vec<WireId>> {
        if self.is_empty() {
            return None;
        }
        let tokens = self.by_owner.remove(&owner)?;
        for token in &tokens {
            if let Some(owners) = self.by_token.get_mut(token) {
                owners.remove(&owner);
                if owners.is_empty() {
                    self.by_token.remove(token);
                }
            }
        }
        Some(tokens)
    }

    /// Whose progress a notification with this token is.
    pub(super) fn owners_of(&self, token: &WireId) -> impl Iterator<Item = K> {
        self.by_token.get(token).into_iter().flatten().copied()
    }

    /// Whether nobody has a token.
    pub(super) fn is_empty(&self) -> bool {
        self.by_owner.is_empty()
    }
}
