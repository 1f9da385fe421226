//! What the connection keeps in the machine's rows, beside the host's data.

use alloc::borrow::Cow;
use alloc::boxed::Box;

use serde_json::value::RawValue;

use super::unsent::BatchKey;
use crate::dialect::{CancelRule, Cancellers, CapabilityRule, Dialect, Envelope};
use crate::machine::CancelRefusal;
use crate::outbox::Ticket;
use crate::slot::Slot;
use crate::wire::abp::{Asked, Origin};
use crate::wire::decode;

/// On each of our calls.
#[derive(Clone, Debug)]
pub struct Outgoing<O> {
    /// The host's data.
    pub(super) data: O,
    /// The last message of this call that went into the outbox: its request, then its cancel.
    pub(super) ticket: Ticket,
    /// What its result settles about the connection, if it settles anything.
    pub(super) opening: Option<Opening>,
    /// Whether the peer may end it.
    pub(super) server_ends: bool,
    pub(super) asked: Asked,
}

/// On each of the peer's requests.
#[derive(Clone, Debug, Default)]
pub struct Incoming<I> {
    /// The host's data.
    pub(super) data: I,
    /// Where what few have is kept: four bytes, because most have nothing of it.
    pub(super) rare: Option<Slot>,
}

/// What few of the peer's requests have.
#[derive(Clone, Debug, Default)]
pub(super) struct Rare {
    /// The batch that waits for its answer.
    pub(super) batch: Option<BatchKey>,
    /// What its result settles about the connection, if it settles anything.
    pub(super) opening: Option<Opening>,
    /// Whether our side may end it without an answer.
    pub(super) server_ends: bool,
    /// Whether it may go on as an operation.
    pub(super) starts_operation: bool,
    /// Where the answer goes, in an envelope that says more than the id.
    pub(super) origin: Option<Box<Origin>>,
}

/// What a request settles about the connection, once it is answered with a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Opening {
    /// Whether the client declares with it that it can be asked to cancel, if it is the exchange of
    /// capabilities.
    pub(super) declares: Option<bool>,
    /// What else it opens, in the one byte that a row has left: the highest bit is there if it is the
    /// session, and the others count from 1 which exchange of the dialect's revision it is, if it is
    /// one.
    opens: u8,
}

impl Rare {
    /// Whether there is nothing in it.
    pub(super) fn is_empty(&self) -> bool {
        let flags = self.server_ends || self.starts_operation;
        self.batch.is_none() && self.opening.is_none() && self.origin.is_none() && !flags
    }
}

impl Opening {
    const SESSION: u8 = 1 << 7;

    /// What a request of this method settles. In most dialects there is nothing to settle.
    #[inline]
    pub(super) fn of(dialect: &Dialect, method: &str, params: Option<&RawValue>) -> Option<Self> {
        match (&dialect.capability, &dialect.session, &*dialect.exchanges) {
            (CapabilityRule::NotNeeded, None, []) => None,
            _ => Self::of_some(dialect, method, params),
        }
    }

    fn of_some(dialect: &Dialect, method: &str, params: Option<&RawValue>) -> Option<Self> {
        let declares = match &dialect.capability {
            CapabilityRule::Declared { exchange, client, .. } if exchange == method => {
                Some(is_declared(params, client))
            }
            _ => None,
        };
        let session = dialect.session.as_deref() == Some(method);
        let session = if session { Self::SESSION } else { 0 };
        // No dialect has so many that they would not fit.
        let exchange = dialect.exchanges.iter().take(100).position(|(it, _)| it == method);
        let exchange = exchange.map_or(0, |at| at as u8 + 1);
        Some(Self { declares, opens: session | exchange }).filter(|it| *it != Self::default())
    }

    /// Whether it opens the session.
    pub(super) const fn session(self) -> bool {
        self.opens & Self::SESSION != 0
    }

    /// Which of the dialect's exchanges it is.
    pub(super) fn exchange(self) -> Option<usize> {
        usize::from(self.opens & !Self::SESSION).checked_sub(1)
    }
}

/// Whether the server may end a request of this method.
#[inline]
pub(super) fn server_ends(dialect: &Dialect, client_asks: bool, method: &str) -> bool {
    let Cancellers::Client { server_may_end } = &dialect.cancellers else { return false };
    client_asks && server_may_end.iter().any(|it| it == method)
}

/// Whether a `true` stands at this path of a request's params or of its result.
pub(super) fn is_declared(value: Option<&RawValue>, path: &[Cow<'static, str>]) -> bool {
    decode::path(value, path).is_some_and(|value| value.get() == "true")
}

/// Why a request can't be cancelled on the wire, if it can't. A member that is `null` counts as
/// absent: some peers write all that they could say.
#[inline]
pub(super) fn uncancellable(
    dialect: &Dialect,
    asked: Asked,
    method: &str,
    params: Option<&RawValue>,
) -> Option<CancelRefusal> {
    let rule = &dialect.uncancellable;
    let has_no_name = match (&dialect.cancel, dialect.envelope) {
        (CancelRule::Operation { .. }, _) => dialect.starts_operation(method).is_none(),
        // In the envelope that has call ids, only calls of capabilities have one.
        (_, Envelope::Abp) => asked == Asked::Other,
        (_, Envelope::JsonRpc | Envelope::Dap) => false,
    };
    if has_no_name || rule.methods.iter().any(|it| it == method) {
        return Some(CancelRefusal::Method);
    }
    let is_held =
        |member: &str| decode::param(params, member).is_some_and(|value| value.get() != "null");
    rule.params.iter().any(|member| is_held(member)).then_some(CancelRefusal::Params)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g08_what_is_kept_with_each_call_and_request_is_small() {
        assert_eq!((size_of::<Outgoing<()>>(), size_of::<Incoming<()>>()), (8, 4));
    }

    #[test]
    fn g08_a_request_with_nothing_rare_has_no_row_for_it() {
        assert!(Rare::default().is_empty());
        let opening = Opening::of(&Dialect::ABP, "initialize", None);
        assert!(opening.is_some() && !Rare { opening, ..Rare::default() }.is_empty());
        assert!(!Rare { server_ends: true, ..Rare::default() }.is_empty());
        assert!(!Rare { starts_operation: true, ..Rare::default() }.is_empty());
    }
}
