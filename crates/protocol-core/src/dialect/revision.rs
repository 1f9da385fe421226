//! How two peers agree on a revision of their protocol, as data.

use serde_json::value::RawValue;

use super::{Dialect, List, Text};
use crate::wire::decode;

/// Whether two peers agree on a revision of the protocol while they speak.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RevisionRule {
    /// They know it before.
    Fixed,
    /// The result of an exchange settles it, for both sides. Until then the dialect's own rules hold,
    /// and they stay if the result names no revision of the list. A later exchange settles it anew.
    Negotiated {
        /// The requests whose results settle it.
        exchanges: List<Exchange>,
        /// The revisions that we speak, the best first.
        revisions: List<Revision>,
    },
}

/// A request whose result names the revision, or a list of revisions of which both sides take the first
/// that [`RevisionRule::Negotiated`] lists.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Exchange {
    /// The request's method.
    pub method: Text,
    /// The member of its result that holds the name, or the list.
    pub member: Text,
}

/// One revision of a protocol.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Revision {
    /// Its name in the exchange.
    pub version: Text,
    /// The dialect that is spoken from then on, with the framing, the envelope and the revisions of the
    /// one that was spoken until then.
    pub dialect: Dialect,
}

impl Dialect {
    /// The dialect that both sides speak once a request of this method was answered with this result.
    /// `None`: nothing changes.
    #[must_use]
    pub fn settled_by(&self, method: &str, result: &RawValue) -> Option<Self> {
        let RevisionRule::Negotiated { exchanges, revisions } = &self.revisions else {
            return None;
        };
        let exchange = exchanges.iter().find(|exchange| exchange.method == method)?;
        let named = decode::param(Some(result), &exchange.member)?;
        let revision = revisions.iter().find(|revision| is_named(&revision.version, named))?;
        let settled = Self {
            framing: self.framing,
            envelope: self.envelope,
            revisions: self.revisions.clone(),
            ..revision.dialect.clone()
        };
        (settled != *self).then_some(settled)
    }
}

/// Whether a token is this text, or a list with it.
fn is_named(version: &str, named: &RawValue) -> bool {
    let is_version = |token: &RawValue| decode::string(token).is_some_and(|text| text == version);
    let Ok(list) = serde_json::from_str::<alloc::vec::Vec<&RawValue>>(named.get()) else {
        return is_version(named);
    };
    list.into_iter().any(is_version)
}
