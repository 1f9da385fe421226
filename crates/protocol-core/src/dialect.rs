//! Dialects: protocol x revision x transport, as data.

use core::time::Duration;

use crate::frame::Framing;
use crate::id::IdRule;

/// What one protocol asks of cancelling, as data.
///
/// Nothing in the core asks which dialect it speaks; it reads these fields. To make a dialect of
/// your own, start from a preset and change what differs:
///
/// ```
/// use protocol_core::{Dialect, CancelRule};
///
/// let mut dialect = Dialect::ACP_V1;
/// dialect.name = "house";
/// dialect.cancel = CancelRule::Notification { method: "$/stop", id: "id" };
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Dialect {
    /// The name on the command line.
    pub name: &'static str,
    /// How messages are told apart in a stream of bytes.
    pub framing: Framing,
    /// Which ids the peer may use.
    pub ids: IdRule,
    /// How a cancel looks on the wire.
    pub cancel: CancelRule,
    /// Whether a cancelled request is answered.
    pub answer: AnswerRule,
    /// The message beside code -32800 in the answer of a cancelled request.
    pub cancelled_message: &'static str,
    /// What a caller does after it cancelled, unless the call says otherwise (G12).
    pub grace: Grace,
    /// Whether a cancelled request may be answered with the part of its result that is there.
    pub partial_results: PartialResults,
    /// What to do with a JSON array of messages.
    pub batches: BatchRule,
    /// Which notifications are progress of which call, and so reset its idle timeout.
    pub progress: &'static [ProgressRule],
    /// The code that refuses a request over a limit, or while shutting down.
    pub overload_code: i64,
}

impl Dialect {
    /// Plain JSON-RPC 2.0, one message a line. It has no cancel on the wire: cancelling settles
    /// locally, and a late answer is recognised.
    pub const JSON_RPC: Self = Self {
        name: "jsonrpc",
        framing: Framing::Newline,
        ids: IdRule::NumberOrString,
        cancel: CancelRule::Local,
        answer: AnswerRule::Answered,
        cancelled_message: "Request cancelled",
        grace: Grace::Settle(Duration::ZERO),
        partial_results: PartialResults::Allowed,
        batches: BatchRule::Accepted,
        progress: &[],
        overload_code: code::INTERNAL_ERROR,
    };

    /// Agent Client Protocol, version 1: `$/cancel_request {requestId}`, always answered.
    pub const ACP_V1: Self = Self {
        name: "acp",
        framing: Framing::Newline,
        ids: IdRule::IntegerStringOrNull,
        cancel: CancelRule::Notification { method: "$/cancel_request", id: "requestId" },
        answer: AnswerRule::Answered,
        cancelled_message: "Request cancelled",
        grace: Grace::Await,
        partial_results: PartialResults::Allowed,
        batches: BatchRule::Refused,
        progress: &[ProgressRule {
            method: "session/update",
            token: "sessionId",
            tokens_of_call: &["sessionId"],
        }],
        overload_code: code::REQUEST_CANCELLED,
    };

    /// Language Server Protocol 3.17: `$/cancelRequest {id}`, always answered.
    pub const LSP_3_17: Self = Self {
        name: "lsp",
        framing: Framing::ContentLength,
        ids: IdRule::Int32OrString,
        cancel: CancelRule::Notification { method: "$/cancelRequest", id: "id" },
        answer: AnswerRule::Answered,
        cancelled_message: "Request cancelled",
        grace: Grace::Await,
        partial_results: PartialResults::Allowed,
        batches: BatchRule::Refused,
        progress: &[ProgressRule {
            method: "$/progress",
            token: "token",
            tokens_of_call: &["workDoneToken", "partialResultToken"],
        }],
        overload_code: code::REQUEST_FAILED,
    };

    /// Every preset, in the order `--help` lists them.
    pub const PRESETS: [Self; 3] = [Self::JSON_RPC, Self::ACP_V1, Self::LSP_3_17];

    /// Whether messages of this method are cancels in this dialect or in any preset. The id in one
    /// means nothing on another connection, so a proxy must never pass one on (B25).
    #[must_use]
    pub fn is_cancel(&self, method: &str) -> bool {
        self.cancel.is(method) || Self::PRESETS.iter().any(|preset| preset.cancel.is(method))
    }

    /// The preset of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::PRESETS.into_iter().find(|dialect| dialect.name == name)
    }
}

/// How a cancel looks on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CancelRule {
    /// The dialect has none: a cancelled call settles locally, at once.
    Local,
    /// A notification whose params name the request.
    Notification {
        /// Its method.
        method: &'static str,
        /// The member of its params that holds the request's id.
        id: &'static str,
    },
}

impl CancelRule {
    /// Whether messages of this method are cancels.
    #[must_use]
    pub fn is(self, method: &str) -> bool {
        matches!(self, Self::Notification { method: cancel, .. } if cancel == method)
    }
}

/// Whether a cancelled request is answered (B11, B12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AnswerRule {
    /// With its result, a partial result, or error -32800.
    Answered,
    /// Not at all: whatever the handler answers is withheld.
    Silent,
}

/// What a caller does once it has cancelled a call (G12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Grace {
    /// Waits for the peer's answer, however long that takes.
    Await,
    /// Waits for the answer this long, then settles the call locally.
    Settle(Duration),
}

/// Whether a cancelled request may be answered with a part of its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PartialResults {
    /// It may.
    Allowed,
    /// Its only answer is that it was cancelled.
    Refused,
}

/// What to do with a JSON array of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BatchRule {
    /// Every member is taken, and their answers leave together in one array.
    Accepted,
    /// The whole array is answered with one -32600, id null.
    Refused,
}

/// Which notification is progress of which calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProgressRule {
    /// The notification's method.
    pub method: &'static str,
    /// The member of its params that holds the token.
    pub token: &'static str,
    /// The members of a call's own params that hold its tokens.
    pub tokens_of_call: &'static [&'static str],
}

/// The error codes of JSON-RPC and of its cancelling dialects.
pub mod code {
    /// The message is not JSON.
    pub const PARSE_ERROR: i64 = -32700;
    /// The message is JSON but no JSON-RPC message.
    pub const INVALID_REQUEST: i64 = -32600;
    /// No handler for that method.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The handler could not read the params.
    pub const INVALID_PARAMS: i64 = -32602;
    /// The handler failed.
    pub const INTERNAL_ERROR: i64 = -32603;
    /// The request was cancelled.
    pub const REQUEST_CANCELLED: i64 = -32800;
    /// LSP: the document changed under the request.
    pub const CONTENT_MODIFIED: i64 = -32801;
    /// LSP: the server gave up a request that declares it may be.
    pub const SERVER_CANCELLED: i64 = -32802;
    /// LSP: a valid request failed.
    pub const REQUEST_FAILED: i64 = -32803;
    /// LSP: a request before `initialize`.
    pub const SERVER_NOT_INITIALIZED: i64 = -32002;
}
