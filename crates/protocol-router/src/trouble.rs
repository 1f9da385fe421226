//! Trouble that nobody else learns of.

use std::error::Error;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fmt, iter};

use protocol_async::hooks::{clip, clip_to, is_standard_error_muted};
use protocol_async::{CallError, Internal, InvalidParams, MethodName, Panicked, RpcError};
use protocol_core::{Violation, WireId};

/// Something that went wrong, for the host: see [`RouterOf::on_trouble`](crate::RouterOf::on_trouble).
///
/// As text it holds nothing of params or results, unless an error of the host's own quotes them.
#[derive(Debug)]
#[non_exhaustive]
pub enum Trouble<'a> {
    /// A request has no handler, and was answered -32601.
    UnknownRequest(&'a MethodName),
    /// A notification has no handler. Those that may be ignored are not reported: names that start with
    /// `$/`, stops of work, `initialized` and `notifications/initialized`.
    UnknownNotification(&'a MethodName),
    /// The params of a request or a notification do not fit its handler.
    InvalidParams(&'a InvalidParams),
    /// A handler failed, by an error of the host's own or by a panic. The peer does not learn why.
    Failed {
        /// The method whose handler failed.
        method: &'a MethodName,
        /// The reason, which the peer does not learn.
        failure: &'a Internal,
    },
    /// A notification's handler, or work beside a handler, failed with an error that no response
    /// carries.
    Unanswered {
        /// The method whose handler failed.
        method: &'a MethodName,
        /// The error, which no response carries.
        error: &'a RpcError,
    },
    /// A request was refused, because [`RouterOf::at_most`](crate::RouterOf::at_most) others were at
    /// work.
    Overload(&'a MethodName),
    /// The peer broke a rule; the core has answered it already.
    Violation {
        /// The rule that the peer broke.
        violation: Violation,
        /// The id of the message that broke it, if it can be read.
        id: Option<&'a WireId>,
    },
    /// This number of notifications were not kept, because nothing took them in time.
    Missed(usize),
}

/// The function that trouble is reported to.
pub(crate) type OnTrouble = dyn Fn(&Trouble<'_>) + Send + Sync;

impl fmt::Display for Trouble<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownRequest(name) => write!(f, "nobody serves the request {:?}", clip(name)),
            Self::UnknownNotification(method) => {
                write!(f, "nobody serves the notification {:?}", clip(method))
            }
            Self::InvalidParams(invalid) => invalid.fmt(f),
            Self::Failed { method, failure } => {
                write!(f, "the handler of {:?} failed: ", clip(method))?;
                fmt_reason(failure.reason(), f)
            }
            Self::Unanswered { method, error } => {
                let (method, code) = (clip(method), error.code);
                write!(f, "work for {method:?} failed with {code}, which nobody is told")
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

/// Writes an error without anything that it may quote.
///
/// One of serde's names the value that does not fit. A peer's says anything, and so does a panic, which
/// the panic hook has reported.
fn fmt_reason(reason: &(dyn Error + 'static), f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for error in iter::successors(Some(reason), |error| inside(*error)) {
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

/// Returns the error inside an error, whose text the outer one may hold.
///
/// One of `std::io` hides it: its source is the source of the inner one.
fn inside<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    let hidden = error.downcast_ref().and_then(io::Error::get_ref);
    hidden.map_or_else(|| error.source(), |inner| Some(inner))
}

/// Returns a function that writes trouble on standard error.
///
/// It stops after a hundred lines. The process that started this one may not be reading them, and a
/// peer can make as much trouble as it likes.
pub(crate) fn on_standard_error() -> Arc<OnTrouble> {
    const TOLD: usize = 100;
    let count = AtomicUsize::new(0);
    Arc::new(move |trouble| {
        if is_standard_error_muted() {
            return;
        }
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

/// Returns a line so short that a hundred fit into a pipe of 64 KiB.
fn line(trouble: &dyn fmt::Display) -> String {
    format!("{}\n", clip_to(&format!("rescind: {trouble}"), 399))
}

#[cfg(test)]
mod tests {
    use protocol_async::Failure;

    use super::*;

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
