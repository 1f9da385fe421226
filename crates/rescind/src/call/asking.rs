//! How an opening asks, and how long it waits.

use std::time::{Duration, Instant};

use protocol_async::{CallError, RpcError};
use protocol_blocking::block_on;
use protocol_blocking::threaded::{Peer, SentRequest, Wait};
use protocol_core::{CallOptions, Cause, Refusal, code};
use serde_json::value::RawValue;

use super::Attempt;

/// How long a server that may not know a question is waited for: it may be one that says nothing then.
const PROBE: Duration = Duration::from_secs(5);
/// When it is said that something does not come soon, to those who see no spinner too.
const SOON: Duration = Duration::from_secs(5);
/// How often it is looked whether an answer came that names no request.
const TICK: Duration = Duration::from_millis(50);

/// A connection that is being opened.
pub(super) struct Asking<'a> {
    pub(super) peer: &'a Peer,
    pub(super) attempt: &'a Attempt<'a>,
}

impl Asking<'_> {
    /// Asks the server. A question that older servers may not know is a probe: a while without an
    /// answer is one too, and so is an answer to nothing, for they may not have understood the id.
    pub(super) fn ask(
        &self,
        method: &str,
        params: Option<&RawValue>,
        has_fallback: bool,
    ) -> Result<Box<RawValue>, CallError> {
        let is_probe = has_fallback && method == "server/discover";
        let within = [self.attempt.left(), is_probe.then_some(PROBE)].into_iter().flatten().min();
        let report = self.attempt.report;
        let strays = report.answers_without_id();
        report.opens(method);
        let begun = Instant::now();
        let options = CallOptions::default().timeout(within);
        let mut sent: SentRequest = self.peer.call_raw(method, params, options);
        let mut is_told = false;
        loop {
            if let Some(answer) = sent.wait_timeout(TICK) {
                return answer.map_err(|error| how_lost(self.peer, error));
            }
            if is_probe && report.answers_without_id() > strays {
                let error = RpcError::new(code::INTERNAL_ERROR, "the answer names no request");
                return Err(CallError::Error(error));
            }
            if !is_told && begun.elapsed() > SOON {
                is_told = true;
                report.still_waits();
            }
        }
    }

    /// Whether the connection takes on the revision that the peers agree on.
    pub(super) fn is_negotiated(&self) -> bool {
        !self.peer.dialect().revisions.is_empty()
    }
}

/// What is refused because the connection is closed already was lost with it: then that says how.
pub(super) fn how_lost(peer: &Peer, error: CallError) -> CallError {
    if !matches!(error, CallError::Refused(Refusal::Closed)) {
        return error;
    }
    let how = block_on(peer.closed()).error.map(|error| error.to_string().into());
    CallError::ConnectionLost { cause: Cause::PeerGone, how }
}
