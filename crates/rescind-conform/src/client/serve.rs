//! Our side of a session with a client: a server that leaves one request unanswered.

use crate::options::ClientOptions;
use crate::wire::Asked;

/// The client's request that is left unanswered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Held {
    pub(crate) asked: Asked,
    /// The place of its response, once there is one.
    pub(crate) answered_at: Option<usize>,
}

/// The memory of a server whose client is tested.
#[derive(Clone, Debug)]
pub(crate) struct Serving {
    pub(crate) options: ClientOptions,
    pub(crate) held: Option<Held>,
    /// The client's requests, with their places in the record.
    pub(crate) asked: Vec<(usize, Asked)>,
    pub(crate) holds_opening: bool,
    pub(crate) declares: bool,
}

impl Serving {
    pub(crate) fn new(options: ClientOptions) -> Self {
        Self { options, held: None, asked: Vec::new(), holds_opening: false, declares: true }
    }
}
