//! Which calls a progress token belongs to.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::ops::Bound::{Included, Unbounded};

use serde_json::value::RawValue;

use crate::dialect::ProgressRule;
use crate::event::Params;
use crate::id::WireId;
use crate::machine::CallId;
use crate::wire::decode;

/// The progress tokens of the calls that have an idle timeout.
///
/// Tokens are a number space of their own: a [`WireId`] here is only a way to compare them.
#[derive(Clone, Debug, Default)]
pub(super) struct ProgressTokens {
    by_token: BTreeSet<(WireId, CallId)>,
    /// Invariant: holds the tokens of each call of `by_token`, and nothing else.
    by_call: BTreeMap<CallId, Vec<WireId>>,
}

impl ProgressTokens {
    /// Remembers the tokens in the params of a new call.
    pub(super) fn watch(&mut self, rules: &[ProgressRule], call: CallId, params: Params<'_>) {
        let Params::Raw(params) = params else { return };
        for member in rules.iter().flat_map(|rule| rule.tokens_of_call) {
            if let Some(token) = token(Some(params), member) {
                self.by_token.insert((token.clone(), call));
                self.by_call.entry(call).or_default().push(token);
            }
        }
    }

    /// Forgets the tokens of a settled call.
    pub(super) fn forget(&mut self, call: CallId) {
        for token in self.by_call.remove(&call).into_iter().flatten() {
            self.by_token.remove(&(token, call));
        }
    }

    /// Whether no call has a token.
    pub(super) fn is_empty(&self) -> bool {
        self.by_call.is_empty() && self.by_token.is_empty()
    }

    /// The calls that this notification is progress of.
    pub(super) fn calls_of(
        &self,
        rules: &[ProgressRule],
        method: &str,
        params: Option<&RawValue>,
    ) -> impl Iterator<Item = CallId> {
        let rule = rules.iter().find(|rule| rule.method == method && !self.by_token.is_empty());
        let token = rule.and_then(|rule| token(params, rule.token));
        token.into_iter().flat_map(|token| {
            let from = (token.clone(), CallId::MIN);
            let rest = self.by_token.range((Included(from), Unbounded));
            rest.take_while(move |(other, _)| *other == token).map(|(_, call)| *call)
        })
    }
}

fn token(params: Option<&RawValue>, member: &str) -> Option<WireId> {
    WireId::from_token(decode::param(params, member)?.get())
}
