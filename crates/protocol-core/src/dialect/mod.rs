//! Protocols as data. `presets.rs` has the protocols that are in use, and `revision.rs` applies the
//! revision that two peers agreed on.

/// A constant list of texts.
macro_rules! list {
    ($($text:expr),*) => { Borrowed(&[$(Borrowed($text)),*]) };
}

mod data;
pub(crate) mod facts;
mod kinds;
mod presets;
mod revision;
pub(crate) mod signs;

use alloc::borrow::Cow;
use core::time::Duration;

use protocol_json::{Member, Members, Value, member};
use serde_json::value::RawValue;

use self::data::List;
pub(crate) use self::data::Text;
use self::signs::WorkRule;
use crate::cause::Cause;
use crate::frame::Framing;
use crate::id::{IdRule, WireId};

/// The rules of one protocol for requests and their cancellation, as data.
///
/// A dialect stands for a protocol, its revision and its transport. The core never asks which dialect it
/// speaks; it reads these fields. A dialect of your own is a preset with other fields:
///
/// ```
/// use protocol_core::{CancelRule, Dialect};
///
/// let mut dialect = Dialect::named("acp").ok_or("a preset")?;
/// dialect.name = "house".into();
/// dialect.cancel =
///     CancelRule::Notification { method: "$/stop".into(), id: "id".into(), reason: None };
/// assert!(dialect.is_cancel("$/stop"));
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Dialect {
    /// The name on the command line, such as `lsp`.
    pub name: Text,
    /// The boundaries between messages in a stream of bytes.
    pub framing: Framing,
    /// The form of one message.
    pub envelope: Envelope,
    /// The ids that the peer may use for its requests.
    pub ids: IdRule,
    /// The form of a cancel.
    pub cancel: CancelRule,
    /// The rule about responses to cancelled requests.
    pub response: ResponseRule,
    /// The message beside code -32800 in the response to a cancelled request.
    pub cancelled_message: Text,
    /// The wait for a response after a cancel, for calls without a grace of their own.
    pub grace: Grace,
    /// Whether a cancelled request may get the part of its result that is there. If not, its only
    /// response is that it was cancelled.
    pub partial_results: bool,
    /// The methods whose requests are refused in a batch, or `None` if there are no batches.
    ///
    /// The responses to the members of a batch leave together in one array. Without batches, the whole
    /// array gets one error -32600 with id null.
    pub batches: Option<List<Text>>,
    /// The notifications that are progress of a call, and so restart its idle timeout.
    pub progress: List<ProgressRule>,
    /// The kinds of work that go on under a name of their own, and can be stopped by it.
    pub work: List<WorkRule>,
    /// The error code that refuses a request over a limit, or during shutdown.
    pub overload_code: i64,
    /// The requests that can't be cancelled.
    pub uncancellable: Uncancellable,
    /// The sides that may cancel.
    pub cancellers: Cancellers,
    /// The way that a side declares its support for cancellation.
    pub capability: CapabilityRule,
    /// The method of the request that opens the session, or `None` if the host takes care of that.
    ///
    /// A result opens the session. Until then every other request gets error
    /// [`code::SERVER_NOT_INITIALIZED`], unless our side is shutting down.
    pub session: Option<Text>,
    /// The treatment of a request that is cancelled before its handler began.
    pub before_start: BeforeStart,
    /// Whether messages can overtake each other.
    pub order: MessageOrder,
    /// The cause that the end of input cancels the peer's requests with.
    ///
    /// It is [`Cause::PeerGone`], or [`Cause::Peer`] where that end is a cancel. It is `None` if end of
    /// input does not cancel them, because the peer may reconnect for the responses.
    pub closed_stream: Option<Cause>,
    /// The requests whose results settle the revision of the protocol; none in a fixed dialect.
    ///
    /// Each comes with the member of its result that names the revision. If the member lists several,
    /// both sides take the first one of [`revisions`](Self::revisions) that is in it.
    pub exchanges: List<(Text, Text)>,
    /// The revisions that we speak, from best to worst, each with its name in the exchange.
    ///
    /// Both sides speak the revision's dialect after the exchange. Before it, and if the result names no
    /// revision of this list, the rules of this dialect hold. A later exchange settles the revision anew.
    ///
    /// A request in flight keeps its [`Facts`](crate::Facts). All other rules are those of the new revision.
    pub revisions: List<(Text, Dialect)>,
}

/// The form of a cancel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CancelRule {
    /// There is no cancel message. A cancelled call settles locally, at once.
    Local,
    /// A notification whose params name the request.
    Notification {
        /// The method of the cancel.
        method: Text,
        /// The member of its params that holds the request's id.
        id: Text,
        /// The member of its params that may give a reason in words.
        reason: Option<Text>,
    },
    /// A request whose params name the request to cancel. The response to it is
    /// `{<id>, cancelled, reason?}`.
    Request {
        /// The method of the cancel.
        method: Text,
        /// The member of its params that holds the request's id.
        id: Text,
        /// The member of its params that may give a reason in words.
        reason: Option<Text>,
    },
    /// A request whose params name an operation, which goes on after the request that started it had its
    /// response.
    ///
    /// The response to it is `{"status":"cancelled"}`, or error [`code::OPERATION_NOT_FOUND`].
    Operation {
        /// The method of the cancel.
        method: Text,
        /// The member that holds the operation's token: in the cancel's params, and in the response to
        /// the request that started the operation.
        token: Text,
        /// The methods of the requests that start an operation. Their response is its token, at once.
        started_by: List<Text>,
        /// The method of the notification that reports a cancelled operation to the client.
        notification: Text,
        /// The member of the cancel's params that may give a reason in words.
        reason: Option<Text>,
    },
    /// The host closes the stream that the response was to come on, and no message is sent. A cancelled
    /// call settles locally, at once.
    ClosedStream,
}

/// The form of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Envelope {
    /// JSON-RPC 2.0: `{jsonrpc, id, method, params}` and its kin.
    JsonRpc,
    /// The App-Browser Protocol: `{type, id, timestamp, payload}`.
    ///
    /// It has no batches, and the ids of our requests are strings. Its cancels are requests that name an
    /// id, or there are none.
    Abp,
    /// The Debug Adapter Protocol: `{seq, type, …}`, where `seq` counts all messages of one side.
    ///
    /// It has no batches. Its cancels are requests that name an id, or there are none. A cancel that
    /// names none is about a progress, and goes to the host.
    Dap,
}

/// The treatment of a request that is cancelled before its handler began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BeforeStart {
    /// The handler gets the request, marked as cancelled, and responds.
    Delivered,
    /// The handler never runs, and the response is that the request was cancelled. Adapters do this,
    /// because the core has no queue of handlers.
    Skipped,
}

/// The requests that can't be cancelled; none by default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Uncancellable {
    /// The methods of such requests.
    pub methods: List<Text>,
    /// The members that make a request uncancellable if its params hold one of them.
    pub params: List<Text>,
}

/// The sides that may cancel requests of their own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cancellers {
    /// Both sides may cancel.
    Both,
    /// The client. The server may only end some of the client's calls, by a cancel that names one.
    Client {
        /// The methods of the calls that the server may end.
        server_may_end: List<Text>,
    },
}

/// The side of the connection that we are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// The side that opened the connection.
    #[default]
    Client,
    /// The side that accepted the connection.
    Server,
}

impl Role {
    /// Returns the role of the other side.
    pub const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// Whether a cancel can name a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RequestKind {
    /// The request has an id that a cancel can name.
    #[default]
    Ordinary,
    /// The request is an ABP message of a type of its own, which has no call id.
    Typed,
}

/// The way that a side declares its support for cancellation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CapabilityRule {
    /// Every side supports it, without a declaration.
    NotNeeded,
    /// Both sides declare it in one exchange: the client in the params of a request, the server in its
    /// result. Nothing can be cancelled before that.
    Declared {
        /// The method of that request.
        exchange: Text,
        /// The path of the client's `true` in the params.
        client: List<Text>,
        /// The path of the server's `true` in the result.
        server: List<Text>,
        /// The notification by which the server may change its declaration, if there is one: its
        /// method, and the path of the boolean in its params.
        later: Option<(Text, List<Text>)>,
    },
}

/// Whether messages can overtake each other on the transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MessageOrder {
    /// Messages arrive in the order they were sent. A cancel that names no request in flight came too
    /// late, and is ignored.
    Kept,
    /// A cancel may arrive before its request. It is remembered, and cancels the request on arrival.
    MayChange,
}

impl Dialect {
    /// Returns whether cancels name operations, which go on after their request had its response.
    pub const fn has_operations(&self) -> bool {
        matches!(self.cancel, CancelRule::Operation { .. })
    }

    /// Returns whether cancels are requests, so that each gets a response.
    pub(crate) const fn cancels_are_requests(&self) -> bool {
        matches!(self.cancel, CancelRule::Request { .. } | CancelRule::Operation { .. })
    }

    /// Returns whether a request of this method is refused in a batch.
    pub(crate) fn is_refused_in_batch(&self, method: &str) -> bool {
        self.batches.iter().flat_map(|refused| refused.iter()).any(|it| it == method)
    }

    /// Returns whether a notification of this method reports a cancelled operation to the client.
    pub fn tells_of_cancels(&self, method: &str) -> bool {
        matches!(&self.cancel, CancelRule::Operation { notification, .. } if notification == method)
    }

    /// Returns the type of the operation that a request of this method starts, if it starts one.
    #[inline]
    pub fn starts_operation(&self, method: &str) -> Option<&Text> {
        let CancelRule::Operation { started_by, .. } = &self.cancel else { return None };
        started_by.iter().find(|start| *start == method)
    }

    /// Returns the token of a notification, if it is progress.
    pub(crate) fn progress_token(&self, method: &str, params: Option<&RawValue>) -> Option<WireId> {
        let rule = self.progress.iter().find(|rule| rule.method == method)?;
        WireId::equal_to(member(params?, &rule.token)?.get())
    }
}

impl CancelRule {
    /// Returns whether messages of this method are cancels.
    pub fn has_method(&self, method: &str) -> bool {
        self.members().is_some_and(|(cancel, ..)| cancel == method)
    }

    /// Returns the id that a cancel with these params names, if it names one.
    pub fn id_in(&self, params: Option<&RawValue>) -> Option<WireId> {
        WireId::scanned(member(params?, self.members()?.1)?.get())
    }

    /// Returns the method of a cancel, and its params: they name the target, and the reason where the
    /// dialect has a place for it. `None` if no message cancels.
    #[inline]
    pub(crate) fn message<'a>(
        &'a self,
        target: Value<'a>,
        reason: Option<&'a str>,
    ) -> Option<(&'a str, [Member<'a>; 2])> {
        let (method, id, place) = self.members()?;
        let reason = place.and(reason).map(Value::Text);
        Some((method, [(id, Some(target)), (place.unwrap_or_default(), reason)]))
    }

    /// Reads the target and the reason of a cancel with these params.
    #[inline(always)]
    pub(crate) fn read<'m>(
        &self,
        params: Option<&'m RawValue>,
    ) -> (Option<&'m RawValue>, Option<Cow<'m, str>>) {
        let Some((_, id, place)) = self.members() else { return (None, None) };
        let Some(place) = place else {
            return (params.and_then(|params| member(params, id)), None);
        };
        let members = Members::within(params, &[id, place]);
        (members.raw(0), members.string(1))
    }

    /// Returns the method of a cancel, the member that names its target, and the member for a reason.
    pub(crate) fn members(&self) -> Option<(&str, &str, Option<&str>)> {
        match self {
            Self::Notification { method, id: target, reason }
            | Self::Request { method, id: target, reason }
            | Self::Operation { method, token: target, reason, .. } => {
                Some((method, target, reason.as_deref()))
            }
            Self::Local | Self::ClosedStream => None,
        }
    }
}

/// The rule about responses to cancelled requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ResponseRule {
    /// There is a response: the result, a part of it, or error -32800.
    Required,
    /// There is no response. The core withholds the handler's response.
    Silent,
    /// There is no response and no more progress. The core withholds both.
    SilentWithProgress,
}

/// The wait for a response after a cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Grace {
    /// The call waits for the peer's response without a limit.
    Await,
    /// The call waits for this long, and then settles locally.
    Settle(Duration),
}

/// The progress tokens of a call or a request that are kept: LSP has two.
pub(crate) const TOKENS: usize = 2;

/// A notification that is progress of a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ProgressRule {
    /// The method of the notification.
    pub method: Text,
    /// The member of its params that holds a progress token.
    pub token: Text,
    /// The paths in a call's own params that lead to its progress tokens. The first two tokens count.
    pub tokens_of_call: List<List<Text>>,
}

/// The error codes of JSON-RPC 2.0 and of the protocols on top of it.
pub mod code {
    /// The message is not JSON (JSON-RPC 2.0).
    pub const PARSE_ERROR: i64 = -32700;
    /// The message is JSON, but not a JSON-RPC message (JSON-RPC 2.0).
    pub const INVALID_REQUEST: i64 = -32600;
    /// There is no handler for the method (JSON-RPC 2.0).
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The handler could not read the params (JSON-RPC 2.0).
    pub const INVALID_PARAMS: i64 = -32602;
    /// The handler failed (JSON-RPC 2.0).
    pub const INTERNAL_ERROR: i64 = -32603;
    /// The request was cancelled (LSP, ACP).
    pub const REQUEST_CANCELLED: i64 = -32800;
    /// The document changed while the request was served (LSP).
    pub const CONTENT_MODIFIED: i64 = -32801;
    /// The server cancelled a request whose method allows that (LSP).
    pub const SERVER_CANCELLED: i64 = -32802;
    /// A valid request failed (LSP).
    pub const REQUEST_FAILED: i64 = -32803;
    /// No operation has this token (erlmcp).
    pub const OPERATION_NOT_FOUND: i64 = -32001;
    /// A request came before `initialize` (LSP).
    pub const SERVER_NOT_INITIALIZED: i64 = -32002;
}
