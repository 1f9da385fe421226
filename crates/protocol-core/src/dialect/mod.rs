//! Dialects: protocol x revision x transport, as data. The [presets](Dialect::PRESETS) are in
//! `presets.rs`; how two peers agree on a revision is in `revision.rs`.

mod presets;
mod revision;

use alloc::borrow::Cow;
use core::time::Duration;

use serde_json::value::RawValue;

use crate::cause::{Cause, CloseReason};
use crate::frame::Framing;
use crate::id::{IdRule, WireId};
use crate::wire::decode;

/// A text of a dialect: a constant of a preset, or one that was read at run time.
pub(crate) type Text = Cow<'static, str>;

/// A list of a dialect, constant or read at run time.
type List<T> = Cow<'static, [T]>;

/// What one protocol asks of cancelling, as data.
///
/// Nothing in the core asks which dialect it speaks; it reads these fields. To make a dialect of
/// your own, start from a preset and change what differs:
///
/// ```
/// use protocol_core::{Dialect, CancelRule};
///
/// let mut dialect = Dialect::ACP_V1;
/// dialect.name = "house".into();
/// dialect.cancel =
///     CancelRule::Notification { method: "$/stop".into(), id: "id".into(), reason: None };
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Dialect {
    /// The name on the command line.
    pub name: Text,
    /// How messages are told apart in a stream of bytes.
    pub framing: Framing,
    /// What one message looks like.
    pub envelope: Envelope,
    /// Which ids the peer may use.
    pub ids: IdRule,
    /// How a cancel looks on the wire.
    pub cancel: CancelRule,
    /// Whether a cancelled request is answered.
    pub response: ResponseRule,
    /// The message beside code -32800 in the answer of a cancelled request.
    pub cancelled_message: Text,
    /// What a caller does after it cancelled, unless the call says otherwise (G12).
    pub grace: Grace,
    /// Whether a cancelled request may be answered with the part of its result that is there. If not, its
    /// only answer is that it was cancelled.
    pub partial_results: bool,
    /// Whether a JSON array of messages is taken, and the answers to its members leave together in one
    /// array: `Some` with the methods of the requests that are refused there. `None`: the whole array is
    /// answered with one -32600, id null.
    pub batches: Option<List<Text>>,
    /// Which notifications are progress of which call, and so reset its idle timeout.
    pub progress: List<ProgressRule>,
    /// The code that refuses a request over a limit, or while shutting down.
    pub overload_code: i64,
    /// What can't be cancelled on the wire.
    pub uncancellable: Uncancellable,
    /// Who may cancel.
    pub cancellers: Cancellers,
    /// How a side says that it can be asked to cancel.
    pub capability: CapabilityRule,
    /// The method of the request that opens the session, once it is answered with a result. Before that
    /// all others are answered [`code::SERVER_NOT_INITIALIZED`], unless our side is shutting down already.
    /// `None`: there is no session, or it is the host's business.
    pub session: Option<Text>,
    /// What becomes of a request that is cancelled before its handler began.
    pub before_start: BeforeStart,
    /// Whether messages can overtake each other.
    pub order: MessageOrder,
    /// Why the peer's requests are cancelled when its input ends: [`Cause::PeerGone`], or
    /// [`Cause::Peer`] where that end is a cancel. `None`: they are not, for the peer may come back for
    /// the answers.
    pub closed_stream: Option<Cause>,
    /// The requests whose results settle the revision of the protocol, each with the member of the result
    /// that names it, or that lists several, of which both sides take the first that
    /// [`revisions`](Self::revisions) lists. None in a dialect that is fixed.
    pub exchanges: List<(Text, Text)>,
    /// The revisions that we speak, the best first: the name of each in the exchange, and the dialect that
    /// both sides speak from then on. Until then the dialect's own rules hold, and they stay if the
    /// result names no revision of this list. A later exchange settles it anew.
    pub revisions: List<(Text, Dialect)>,
}

/// How a cancel looks on the wire.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CancelRule {
    /// The dialect has none: a cancelled call settles locally, at once.
    Local,
    /// A notification whose params name the request.
    Notification {
        /// Its method.
        method: Text,
        /// The member of its params that holds the request's id.
        id: Text,
        /// The member of its params that may say why, in words.
        reason: Option<Text>,
    },
    /// A request of its own that names the request. The other side acknowledges it by
    /// `{<id>, cancelled, reason?}`.
    Request {
        /// Its method.
        method: Text,
        /// The member of its params that holds the request's id.
        id: Text,
        /// The member of its params that may say why, in words.
        reason: Option<Text>,
    },
    /// A request of its own that names an operation, which outlives its answered request. The other side
    /// acknowledges it by `{"status":"cancelled"}` or error [`code::OPERATION_NOT_FOUND`].
    Operation {
        /// Its method.
        method: Text,
        /// The member that holds the operation's token, in its params and in the answer of the request
        /// that started it.
        token: Text,
        /// The methods of the requests that start an operation, and are answered with its token at once.
        started_by: List<Text>,
        /// The method of the notification that tells the client of every cancelled operation.
        notification: Text,
        /// The member of its params that may say why, in words.
        reason: Option<Text>,
    },
    /// The host closes the stream that the response was to come on; no message is sent. A
    /// cancelled call settles locally, at once.
    ClosedStream,
}

/// What one message looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Envelope {
    /// JSON-RPC 2.0.
    JsonRpc,
    /// `{type, id, timestamp, payload}`: the App-Browser Protocol. It has no batches; the ids of our
    /// requests are strings; its cancels are requests that name an id, or there are none.
    Abp,
    /// `{seq, type, …}`: the Debug Adapter Protocol. It has no batches; `seq` counts all messages that a
    /// side sends; its cancels are requests that name an id, or there are none. One that names none is
    /// the host's: it is for a progress.
    Dap,
}

/// What becomes of a request that is cancelled before its handler began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BeforeStart {
    /// Its handler gets it, marked, and answers it.
    Delivered,
    /// It is skipped, and answered as cancelled. The host's queue is the host's, so the adapters do
    /// this.
    Skipped,
}

/// What can't be cancelled on the wire.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Uncancellable {
    /// Requests of these methods.
    pub methods: List<Text>,
    /// Requests whose params hold one of these members.
    pub params: List<Text>,
}

impl Uncancellable {
    /// Everything can be cancelled.
    pub const NOTHING: Self = Self { methods: Cow::Borrowed(&[]), params: Cow::Borrowed(&[]) };
}

/// Who may cancel requests of its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cancellers {
    /// Both sides.
    Both,
    /// The client. The server may only end calls of these methods, which are the client's own: its
    /// cancel names one of those.
    Client {
        /// The methods of the calls that the server may end.
        server_may_end: List<Text>,
    },
}

/// Which side of the connection we are, where the dialect tells its sides apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// The side that opened the connection.
    #[default]
    Client,
    /// The side that was connected to.
    Server,
}

/// How a side says that it can be asked to cancel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CapabilityRule {
    /// It need not say so.
    NotNeeded,
    /// In one exchange: the client in the params of a request, the server in its result. Before
    /// that nothing can be cancelled.
    Declared {
        /// The method of that request.
        exchange: Text,
        /// The path of the client's `true` in the params.
        client: List<Text>,
        /// The path of the server's `true` in the result.
        server: List<Text>,
        /// The notification by which the server declares it anew, if there is one: its method, and the
        /// path of the `true` or `false` in its params.
        later: Option<(Text, List<Text>)>,
    },
}

/// Whether messages can overtake each other on the transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MessageOrder {
    /// They arrive in the order they were sent: a cancel that names no request in flight is too
    /// late, and ignored.
    Kept,
    /// A cancel may arrive before its request: it is remembered, and marks that request on arrival.
    MayChange,
}

impl Dialect {
    /// Whether its cancels name operations, which outlive their answered requests.
    #[must_use]
    pub const fn has_operations(&self) -> bool {
        matches!(self.cancel, CancelRule::Operation { .. })
    }

    /// Whether its cancels are requests, which are acknowledged.
    pub(crate) const fn cancels_are_requests(&self) -> bool {
        matches!(self.cancel, CancelRule::Request { .. } | CancelRule::Operation { .. })
    }

    /// Whether a request of this method is refused in a batch.
    pub(crate) fn is_refused_in_batch(&self, method: &str) -> bool {
        self.batches.iter().flat_map(|except| except.iter()).any(|it| it == method)
    }

    /// Whether a notification of this method tells the client of a cancelled operation.
    #[must_use]
    pub fn tells_of_cancels(&self, method: &str) -> bool {
        matches!(&self.cancel, CancelRule::Operation { notification: told, .. } if told == method)
    }

    /// The type of the operation that a request of this method starts, if it starts one.
    #[must_use]
    #[inline]
    pub fn starts_operation(&self, method: &str) -> Option<&Text> {
        let CancelRule::Operation { started_by: starts, .. } = &self.cancel else { return None };
        starts.iter().find(|start| *start == method)
    }

    /// Why the peer's requests are cancelled when a connection closes, if they are.
    pub(crate) fn cause_of_close(&self, reason: CloseReason) -> Option<Cause> {
        match reason {
            CloseReason::PeerGone => self.closed_stream,
            _ => Some(reason.cause()),
        }
    }
}

impl CancelRule {
    /// Whether messages of this method are cancels.
    #[must_use]
    pub fn has_method(&self, method: &str) -> bool {
        self.members().is_some_and(|(cancel, ..)| cancel == method)
    }

    /// The id that a cancel with these params names, if it names one.
    #[must_use]
    pub fn id_in(&self, params: Option<&RawValue>) -> Option<WireId> {
        WireId::scanned(decode::param(params, self.members()?.1)?.get())
    }

    /// The method of a cancel, the member that names what is cancelled, and the one that says why.
    pub(crate) fn members(&self) -> Option<(&str, &str, Option<&str>)> {
        match self {
            Self::Notification { method, id: member, reason }
            | Self::Request { method, id: member, reason }
            | Self::Operation { method, token: member, reason, .. } => {
                Some((method, member, reason.as_deref()))
            }
            Self::Local | Self::ClosedStream => None,
        }
    }
}

/// Whether a cancelled request is answered (B11, B12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ResponseRule {
    /// With its result, a partial result, or error -32800.
    Required,
    /// Not at all: whatever the handler answers is withheld.
    Silent,
    /// Not at all, and its progress is withheld too.
    SilentWithProgress,
}

/// What a caller does once it has cancelled a call (G12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Grace {
    /// Waits for the peer's answer, however long that takes.
    Await,
    /// Waits for the answer this long, then settles the call locally.
    Settle(Duration),
}

/// Which notification is progress of which calls.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ProgressRule {
    /// The notification's method.
    pub method: Text,
    /// The member of its params that holds the token.
    pub token: Text,
    /// The paths in a call's own params that lead to its tokens.
    pub tokens_of_call: List<List<Text>>,
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
    /// erlmcp: no such operation.
    pub const OPERATION_NOT_FOUND: i64 = -32001;
    /// A request before `initialize`.
    pub const SERVER_NOT_INITIALIZED: i64 = -32002;
}
