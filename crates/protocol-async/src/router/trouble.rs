//! What went wrong and nobody else is told.

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use protocol_core::{Violation, WireId};

use crate::answer::RpcError;
use crate::failure::{Internal, InvalidParams};

use crate::method::{MethodName, clip};

/// What went wrong, for the host: see [`RouterOf::on_trouble`](super::RouterOf::on_trouble). As text it
/// holds nothing of params or results.
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
        /// Whose handler.
        method: &'a MethodName,
        /// Why.
        failure: &'a Internal,
    },
    /// A notification's handler, or work beside a handler, failed with an error for which there is
    /// nobody to be answered.
    Unanswered {
        /// Whose handler.
        method: &'a MethodName,
        /// The error.
        error: &'a RpcError,
    },
    /// More requests at the same time than [`RouterOf::at_most`](super::RouterOf::at_most) says; this
    /// one was refused.
    Overload(&'a MethodName),
    /// The peer broke a rule; the core has answered it already.
    Violation {
        /// Which rule.
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
                write!(f, "the handler of {:?} failed", clip(method))?;
                match failure.reason().downcast_ref::<serde_json::Error>() {
                    // It may quote what does not fit.
                    Some(error) => {
                        write!(f, ": JSON at line {} column {}", error.line(), error.column())
                    }
                    None => write!(f, ": {}", failure.reason()),
                }
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

/// Writes it on standard error. Not for ever: whoever started this process may not be reading that,
/// and a peer can make as much trouble as it likes.
pub(super) fn on_standard_error() -> Arc<super::OnTrouble> {
    const TOLD: usize = 100;
    let count = AtomicUsize::new(0);
    Arc::new(move |trouble| {
        let told = count.fetch_add(1, Ordering::Relaxed);
        // Without standard error there is nobody to tell.
        let _ = match told {
            0..TOLD => writeln!(io::stderr(), "rescind: {trouble}"),
            TOLD => {
                writeln!(io::stderr(), "rescind: more trouble is not told (Router::on_trouble)")
            }
            _ => Ok(()),
        };
    })
}
