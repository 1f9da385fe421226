//! Methods as types.

/// A method as a type: its name, its params and its result. A notification is one whose result is
/// `()`.
///
/// [`Peer::call_method`](crate::Peer::call_method) and
/// [`Peer::notify_method`](crate::Peer::notify_method) send one, and a router of `rescind-router`
/// serves one. The crates `rescind-acp` and `rescind-lsp` have those of ACP and of LSP.
///
/// ```
/// use protocol_async::{CallError, Method, Peer};
///
/// enum Add {}
///
/// impl Method for Add {
///     const NAME: &'static str = "add";
///     type Params = (i64, i64);
///     type Result = i64;
/// }
///
/// async fn three(peer: &Peer) -> Result<i64, CallError> {
///     peer.call_method::<Add>((1, 2)).await
/// }
/// ```
pub trait Method {
    /// The name on the wire.
    const NAME: &'static str;
    /// The type of the params.
    type Params;
    /// The type of the result.
    type Result;
}
