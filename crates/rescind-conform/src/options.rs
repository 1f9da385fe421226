//! The options of a run.

use std::time::Duration;

use protocol_core::Dialect;
use serde_json::Value;

use crate::family::{Opening, Request};
use crate::known::Known;

/// The options that all runs share.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Suite {
    /// Chooses ids, and which requests are cancelled where any will do.
    pub seed: u64,
    /// The time that is waited for what has to come.
    pub patience: Duration,
    /// The number of checks that run at the same time.
    pub jobs: usize,
    /// The checks to run, by their ids or the parts before the slash; all if there are none.
    pub only: Vec<String>,
    /// The checks that are known to fail.
    pub known: Known,
}

impl Default for Suite {
    fn default() -> Self {
        let patience = Duration::from_secs(10);
        Self { seed: 1, patience, jobs: 4, only: Vec::new(), known: Known::default() }
    }
}

/// The options of a run on a server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The protocol that the server is asked to speak.
    pub dialect: Dialect,
    /// A request that takes its time; discovered if there is none, where that is possible.
    pub slow: Option<Request>,
    /// A request that makes the server ask something of us.
    pub reverse: Option<Request>,
    /// A request whose result tells how the work of another ended: a line of a text in it is `finished` or `cancelled`. In its
    /// params `$TOKEN` stands for the progress token of the other. Without either line it is asked again.
    pub witness: Option<Request>,
    /// The messages that open a session, instead of the dialect's own.
    pub open: Option<Vec<Opening>>,
    /// The language of the document that a language server works on: `cpp`, `python`, `typescript`, `go` or
    /// `plaintext`; by the server's name if there is none.
    pub language: Option<String>,
    /// Whether tools that are not declared read-only may be called.
    pub allow_tools: bool,
    /// The time that slow requests are asked to take, in milliseconds.
    pub slow_ms: u64,
    /// The options that all runs share.
    pub suite: Suite,
}

impl Options {
    /// The defaults for a dialect.
    #[must_use]
    pub fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            slow: None,
            reverse: None,
            witness: None,
            open: None,
            language: None,
            allow_tools: false,
            slow_ms: 1000,
            suite: Suite::default(),
        }
    }
}

/// The options of a run on a client.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientOptions {
    /// The protocol that the client speaks.
    pub dialect: Dialect,
    /// The method of the request that is held; the first that no opening needs, if there is none.
    pub hold: Option<String>,
    /// The results of requests by their methods, where those that are made up don't do.
    pub answers: Vec<(String, Value)>,
    /// A notification of ours that makes the client cancel what is held; by itself, if there is none.
    pub trigger: Option<Request>,
    /// A request of ours that takes the client its time; `sleep`, as `rescind call` knows it, if there is none.
    pub ask: Option<Request>,
    /// The time that this request of ours is asked to take, in milliseconds.
    pub ask_ms: u64,
    /// The options that all runs share.
    pub suite: Suite,
}

impl ClientOptions {
    /// The defaults for a dialect.
    #[must_use]
    pub fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            hold: None,
            answers: Vec::new(),
            trigger: None,
            ask: None,
            ask_ms: 1000,
            suite: Suite::default(),
        }
    }
}
