//! Trouble that nobody else learns of.

use std::fmt;
use std::sync::Arc;

use protocol_async::hooks::{HandlerFailed, StandardError, clip};
use protocol_async::{Internal, InvalidParams, MethodName, RpcError, UndoEnd, Undone};
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
    /// A step that undoes some work has ended, well or badly.
    Undone {
        /// The method whose work is undone.
        method: &'a MethodName,
        /// The outcome of the step.
        undone: &'a Undone,
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
    /// The number of notifications and violations that were not kept, because nothing took them in time.
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
            Self::Failed { method, failure } => HandlerFailed(method, failure).fmt(f),
            Self::Unanswered { method, error } => {
                let (method, code) = (clip(method), error.code);
                write!(f, "work for {method:?} failed with {code}, which nobody is told")
            }
            Self::Undone { method, undone } => write!(f, "{:?}: {undone}", clip(method)),
            Self::Overload(method) => {
                write!(f, "too many requests at the same time: {:?} was refused", clip(method))
            }
            Self::Violation { violation, id: Some(id) } => write!(f, "id {id}: {violation}"),
            Self::Violation { violation, id: None } => violation.fmt(f),
            Self::Missed(count) => write!(f, "{count} notifications and violations were missed"),
        }
    }
}

/// Returns a function that writes trouble on standard error, a hundred lines at most. A step that undid its
/// part is none.
pub(crate) fn on_standard_error() -> Arc<OnTrouble> {
    let lines = StandardError::new("Router::on_trouble");
    Arc::new(move |trouble| match trouble {
        Trouble::Undone { undone: Undone { end: UndoEnd::Ran, .. }, .. } => {}
        trouble => lines.write(trouble),
    })
}
