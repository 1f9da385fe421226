//! What went wrong and nobody else is told.

use std::error::Error;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fmt, iter};

use protocol_core::{Violation, WireId};

use crate::answer::{CallError, RpcError};
use crate::failure::{Internal, InvalidParams, Panicked};
use crate::method::{MethodName, clip, clip_to};

/// What went wrong, for the host: see [`RouterOf::on_trouble`](super::RouterOf::on_trouble). As text it
/// holds nothing of params or results, unless an error of the host's own quotes them.
#[derive(Debug)]
#[non_exhaustive]
pub enum Trouble<'a> {
    /// Nobody serves such a request; it was answered -32601.
    UnknownRequest(&'a MethodName),
    /// Nobody serves such a notification. Those that start with `$/` are made to be ignored, and are
    /// not told.
    UnknownNotification(&'a MethodName),
    /// The params of a request or a notification are not what its handler takes.
    InvalidParams(&'a InvalidParams),
    /// A handler failed, by an error of the host's own or by a panic. The peer was not told why.
    Failed {
        /// The method whose handler failed.
        method: &'a MethodName,
        /// The reason, which the peer does not learn.
        failure: &'a Internal,
    },
    /// A notification's handler, or work beside a handler, failed with an error for which there is
    /// nobody to be answered.
    Unanswered {
        /// The method whose handler failed.
        method: &'a MethodName,
        /// The error, which no response carries.
        error: &'a RpcError,
    },
    /// More requests at the same time than [`RouterOf::at_most`](super::RouterOf::at_most) says; this
    /// one was refused.
    Overload(&'a MethodName),
    /// The peer broke a rule; the core has answered it already.
    Violation {
        /// The rule that the peer broke.
        violation: Violation,
        /// The id of the message that broke it, if it can be read.
        id: Option<&'a WireId>,
    },
    /// So many notifications were not kept, because nobody took them in time.
    Missed(usize),
}

impl fmt::Display for Trouble<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownRequest(method) => {
                write!(f, "nobody serves the request {:?}", clip(method))
            }
            Self::UnknownNotification(method) => {
                write!(f, "nobody serves the notification {:?}", clip(method))
            }
            Self::InvalidParams(invalid) => invalid.fmt(f),
            Self::Failed { method, failure } => {
                write!(f, "the handler of {:?} failed: ", clip(method))?;
                fmt_reason(failure.reason(), f)
            }
            Self::Unanswered { method, error } => {
                write!(
                    f,
                    "work for {:?} failed with {}, which nobody is told",
                    clip(method),
                    error.code
                )
            }
            Self::Overload(method) => {
                write!(f, "too many requests at the same time: {:?} was refused", clip(method))
            }
            Self::Violation { violation, id: Some(id) } => write!(f, "id {id}: {violation}"),
            Self::Violation { violation, id: None } => violation.fmt(f),
            Self::Missed(count) => write!(f, "{count} notifications were missed"),
        }
    }
}

/// An error, without what it may quote: one of serde's names the value that does not fit, a peer's
/// says anything, and so does a panic, which the panic hook has reported.
fn fmt_reason(reason: &(dyn Error + 'static), f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for error in iter::successors(Some(reason), |error| beneath(*error)) {
        if let Some(error) = error.downcast_ref::<serde_json::Error>() {
            return write!(f, "JSON at line {} column {}", error.line(), error.column());
        }
        if let Some(error) = error.downcast_ref::<RpcError>() {
            return write!(f, "error {}", error.code);
        }
        if error.is::<Panicked>() {
            return f.write_str("panicked");
        }
        if let Some(CallError::InvalidResult { .. }) = error.downcast_ref() {
            return f.write_str("the result of a call does not fit");
        }
    }
    fmt::Display::fmt(reason, f)
}

/// What an error is around, whose text its own may hold. One of `std::io` hides it: its source is
/// that of what it is around.
fn beneath<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(inner) => Some(inner),
        None => error.source(),
    }
}

/// Writes it on standard error. Not for ever, and not at any length: whoever started this process may
/// not be reading that, and a peer can make as much trouble as it likes.
pub(super) fn on_standard_error() -> Arc<super::OnTrouble> {
    const TOLD: usize = 100;
    let count = AtomicUsize::new(0);
    Arc::new(move |trouble| {
        let told = count.fetch_add(1, Ordering::Relaxed);
        let line = match told {
            0..TOLD => line(trouble),
            TOLD => line(&"more trouble is not told (Router::on_trouble)"),
            _ => return,
        };
        // Without standard error there is nobody to tell.
        let _ = io::stderr().write_all(line.as_bytes());
    })
}

/// A line, of a length of which a hundred fit into a pipe of 64 KiB.
fn line(trouble: &dyn fmt::Display) -> String {
    const LONGEST: usize = 400;
    let line = format!("rescind: {trouble}");
    format!("{}\n", clip_to(&line, LONGEST - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Failure;

    #[test]
    fn f42_a_line_of_trouble_takes_400_bytes_at_most() {
        for long in ["x".repeat(100_000), "é".repeat(100_000), "x".to_owned()] {
            let method = MethodName::from(long.clone());
            let Failure::Internal(failure) = Failure::internal(long) else { unreachable!() };
            let text = line(&Trouble::Failed { method: &method, failure: &failure });
            assert!(text.len() <= 400 && text.ends_with('\n'), "{text}");
            assert!(text.starts_with("rescind: the handler of "), "{text}");
        }
    }
}
