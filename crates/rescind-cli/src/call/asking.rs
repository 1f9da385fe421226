//! Questions of an opening, and the time that they wait.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use protocol_async::{CallError, RpcError};
use protocol_blocking::block_on;
use protocol_blocking::threaded::{Peer, SentRequest, Wait};
use protocol_core::{CallOptions, Cause, Refusal, code};
use serde_json::json;
use serde_json::value::RawValue;

use super::attempt::Attempt;

/// The time that a server has for a question that it may not know. Then it is asked for a sign of life, and
/// has as long again once it gave one.
const PROBE: Duration = Duration::from_secs(1);
/// When it is said that something does not come soon, to those who see no spinner too.
const SOON: Duration = Duration::from_secs(5);
/// The interval of looking for an answer that names no request.
const TICK: Duration = Duration::from_millis(50);

impl Attempt<'_> {
    /// Asks the server. A question that older servers may not know is a probe: an answer to nothing is
    /// one too, for they may not have understood the id. Silence is none, for a server may take long to
    /// start; but one that answers a ping meanwhile has read the question.
    pub(super) fn ask(
        &self,
        peer: &Peer,
        method: &str,
        params: Option<&RawValue>,
        has_fallback: bool,
    ) -> Result<Box<RawValue>, CallError> {
        let is_probe = has_fallback && method == "server/discover";
        let report = self.report;
        let strays = report.answers_without_id();
        report.opens(method);
        let begun = Instant::now();
        let options = CallOptions::default().timeout(self.left());
        let mut sent: SentRequest = peer.call_raw(method, params, options);
        let mut witness = None;
        let mut is_told = false;
        loop {
            if let Some(answer) = sent.wait_timeout(TICK) {
                return answer.map_err(|error| how_lost(peer, error));
            }
            if is_probe && report.answers_without_id() > strays {
                return Err(unknown("the answer names no request"));
            }
            if is_probe && begun.elapsed() > PROBE {
                let witness = witness.get_or_insert_with(|| ping(peer));
                if witness.get().is_some_and(|seen| seen.elapsed() > PROBE) {
                    return Err(unknown("a ping is answered, and this is not"));
                }
            }
            if !is_told && begun.elapsed() > SOON {
                is_told = true;
                report.still_waits(is_probe);
            }
        }
    }
}

/// Sends a ping, and returns the time of its response. A server of any revision may be asked; one that does not know
/// the method refuses it.
fn ping(peer: &Peer) -> Arc<OnceLock<Instant>> {
    let seen = Arc::new(OnceLock::new());
    let sent: SentRequest = peer.call("ping", json!({}));
    let sees = seen.clone();
    sent.on_result(move |_| {
        let _ = sees.set(Instant::now());
    });
    seen
}

/// Returns the error for a question that the server does not know.
fn unknown(why: &str) -> CallError {
    CallError::Error(RpcError::new(code::INTERNAL_ERROR, why))
}

/// Returns how a call was lost. If it was refused because the connection is closed, the connection says how.
pub(super) fn how_lost(peer: &Peer, error: CallError) -> CallError {
    if !matches!(error, CallError::Refused(Refusal::Closed)) {
        return error;
    }
    let how = block_on(peer.closed()).error.map(|error| error.to_string().into());
    CallError::ConnectionLost { cause: Cause::PeerGone, how }
}
