//! The rules of a connection: what its host chose, and the revision that the peers agreed on.

use std::borrow::Cow;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use protocol_core::Config;
use serde_json::Value;

/// The host's choices, in the dialect that is spoken now. Only the dialect can change, to another revision: its
/// name tells states apart.
#[derive(Clone, Debug)]
pub(crate) struct Rules(Arc<Config>);

impl Rules {
    pub(crate) fn new(config: Config) -> Self {
        Self(Arc::new(config))
    }

    /// Returns the member of the result of a request of this method that names the revision, or a list of
    /// revisions, if it is an exchange that settles that.
    pub(crate) fn names_revision(&self, method: &str) -> Option<Cow<'static, str>> {
        let mut exchanges = self.dialect.exchanges.iter();
        exchanges.find(|(exchange, _)| exchange == method).map(|(_, member)| member.clone())
    }

    /// The rules once an exchange was answered with a result that has this in that member: both sides
    /// speak the best revision that it names. The framing and the envelope stay. `None` if it names
    /// none, or the one that is spoken.
    pub(crate) fn settled_by(&self, named: &Value) -> Option<Self> {
        let dialect = &self.dialect;
        let is_named = |version: &str| match named {
            Value::Array(versions) => versions.iter().any(|other| other == version),
            other => other == version,
        };
        let (_, revision) = dialect.revisions.iter().find(|(version, _)| is_named(version))?;
        if revision.name == dialect.name {
            return None;
        }
        let mut spoken = revision.clone();
        spoken.framing = dialect.framing;
        spoken.envelope = dialect.envelope;
        spoken.exchanges = dialect.exchanges.clone();
        spoken.revisions = dialect.revisions.clone();
        let mut config = (*self.0).clone();
        config.dialect = spoken;
        Some(Self::new(config))
    }
}

impl Deref for Rules {
    type Target = Config;

    fn deref(&self) -> &Config {
        &self.0
    }
}

impl PartialEq for Rules {
    fn eq(&self, other: &Self) -> bool {
        self.dialect.name == other.dialect.name
    }
}

impl Eq for Rules {}

impl Hash for Rules {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.dialect.name.hash(state);
    }
}
