//! Whose a progress token is.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use serde_json::value::RawValue;

use crate::dialect::ProgressRule;
use crate::id::WireId;
use crate::machine::RecentIds;
use crate::wire::decode;

/// The progress tokens of calls that have an idle timeout, or of requests whose progress may have to
/// be withheld.
///
/// Tokens are a number space of their own: a [`WireId`] here is only a way to compare them.
#[derive(Clone, Debug)]
pub(super) struct ProgressTokens<K> {
    by_token: BTreeMap<WireId, BTreeSet<K>>,
    /// Invariant: holds the tokens of each owner in `by_token`, and nothing else.
    by_owner: BTreeMap<K, Vec<WireId>>,
    /// The tokens of owners whose progress is still unwanted after they settled, until a new owner
    /// brings them.
    retired: RecentIds,
}

impl<K: Copy + Ord> ProgressTokens<K> {
    pub(super) const fn new() -> Self {
        Self { by_token: BTreeMap::new(), by_owner: BTreeMap::new(), retired: RecentIds::new() }
    }

    /// Remembers the tokens in the params of a new call or request, up to a length (G8).
    pub(super) fn watch(
        &mut self,
        rules: &[ProgressRule],
        owner: K,
        params: Option<&RawValue>,
        longest: usize,
    ) {
        for path in rules.iter().flat_map(|rule| rule.tokens_of_call) {
            if let Some(token) = token(params, path).filter(|token| token.token().len() <= longest)
            {
                self.add(owner, token);
            }
        }
    }

    /// Remembers one token of a new call or request.
    pub(super) fn add(&mut self, owner: K, token: WireId) {
        self.retired.take(&token);
        self.by_token.entry(token.clone()).or_default().insert(owner);
        self.by_owner.entry(owner).or_default().push(token);
    }

    /// Forgets the tokens of a settled call or request.
    #[inline]
    pub(super) fn forget(&mut self, owner: K) {
        if !self.is_empty() {
            self.forget_some(owner);
        }
    }

    fn forget_some(&mut self, owner: K) {
        for token in self.by_owner.remove(&owner).into_iter().flatten() {
            if let Some(owners) = self.by_token.get_mut(&token) {
                owners.remove(&owner);
                if owners.is_empty() {
                    self.by_token.remove(&token);
                }
            }
        }
    }

    /// Forgets a settled owner, but remembers the last `limit` tokens of such owners.
    pub(super) fn retire(&mut self, owner: K, limit: usize) {
        for token in self.by_owner.get(&owner).into_iter().flatten() {
            self.retired.insert(token, (), limit);
        }
        self.forget(owner);
    }

    /// Whether this notification is progress of a retired owner.
    pub(super) fn is_retired(
        &self,
        rules: &[ProgressRule],
        method: &str,
        params: Option<&RawValue>,
    ) -> bool {
        !self.retired.is_empty()
            && token_in(rules, method, params)
                .is_some_and(|token| self.retired.get(&token).is_some())
    }

    /// Whether nobody has a token.
    pub(super) fn is_empty(&self) -> bool {
        self.by_owner.is_empty() && self.by_token.is_empty()
    }

    /// Whose progress this notification is.
    pub(super) fn owners_of(
        &self,
        rules: &[ProgressRule],
        method: &str,
        params: Option<&RawValue>,
    ) -> impl Iterator<Item = K> {
        let is_watching = !self.by_token.is_empty();
        let token = if is_watching { token_in(rules, method, params) } else { None };
        token.and_then(|token| self.by_token.get(&token)).into_iter().flatten().copied()
    }
}

/// The token of a notification that is progress.
fn token_in(rules: &[ProgressRule], method: &str, params: Option<&RawValue>) -> Option<WireId> {
    let rule = rules.iter().find(|rule| rule.method == method)?;
    token(params, &[rule.token])
}

fn token(params: Option<&RawValue>, path: &[&str]) -> Option<WireId> {
    WireId::scanned(decode::path(params, path)?.get())
}
