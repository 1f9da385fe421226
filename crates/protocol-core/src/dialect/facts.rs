//! The facts of one message: everything that its dialect has to say about it.

use alloc::boxed::Box;
use alloc::vec::Vec;

use protocol_json::{member, path};
use serde_json::value::RawValue;

use super::signs::{Carrier, News, Sign, StopMark, WorkPart, WorkRule};
use super::{Cancellers, CapabilityRule, Dialect, RequestKind, Role, TOKENS, Text, Uncancellable};
use crate::error::CancelRefusal;
use crate::id::WireId;

/// A request of either side, as its dialect sees it.
///
/// Facts are read once, when the request is sent or received, by the dialect that is spoken then. They
/// stay what they are if negotiation settles another revision while the request is in flight.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Facts {
    /// The reason why it can't be cancelled on the wire, if it can't.
    pub refusal: Option<CancelRefusal>,
    /// Whether it has an id that a cancel can name.
    pub kind: RequestKind,
    /// Whether the server may end it without a response.
    pub server_may_end: bool,
    /// Whether its response may be the token of an operation.
    pub starts_operation: bool,
    /// The role of its result in a handshake, if it has one.
    pub handshake: Option<Handshake>,
    /// The tokens under which its progress comes, if they were asked for.
    pub progress_tokens: Vec<WireId>,
    /// The part that it has in some work, if any.
    pub work: Option<Box<WorkPart>>,
}

impl Facts {
    /// Returns whether there is nothing to keep but the refusal, as for most requests.
    pub(crate) fn is_plain(&self) -> bool {
        let Self { refusal: _, kind, server_may_end, starts_operation, .. } = self;
        let Self { handshake, progress_tokens, work, .. } = self;
        let has_flag = *server_may_end || *starts_operation || *kind == RequestKind::Typed;
        !has_flag && handshake.is_none() && progress_tokens.is_empty() && work.is_none()
    }
}

/// The handshakes that the result of a request completes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Handshake {
    /// Whether the client declares in the params that it can be asked to cancel, if the request is the
    /// exchange of capabilities.
    pub capability: Option<bool>,
    /// Whether the result opens the session.
    pub opens_session: bool,
    /// The index in [`Dialect::exchanges`], if the result names a revision.
    pub exchange: Option<u8>,
}

/// A request whose facts are to be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestHead<'a> {
    /// The side that sends it.
    pub(crate) by: Role,
    pub(crate) kind: RequestKind,
    pub(crate) method: &'a str,
    pub(crate) params: Option<&'a RawValue>,
    /// The length in bytes up to which the tokens of its progress are read, or `None` if they are not
    /// needed. Longer ones are never copied.
    pub(crate) tokens_up_to: Option<usize>,
    /// The length in bytes up to which a name of work is read.
    pub(crate) names_up_to: usize,
}

/// Returns a member. One that is `null` counts as absent: some peers write all that they could say.
pub(crate) fn given<'m>(value: &'m RawValue, name: &str) -> Option<&'m RawValue> {
    member(value, name).filter(|it| it.get() != "null")
}

impl Dialect {
    /// Reads the facts of a request: its method, and then its params, once for each path that the dialect
    /// names.
    #[inline(always)]
    pub(crate) fn facts(&self, head: &RequestHead<'_>) -> Facts {
        let mut facts = Facts { kind: head.kind, ..Facts::default() };
        facts.starts_operation = self.starts_operation(head.method).is_some();
        facts.refusal = self.refusal(head, facts.starts_operation);
        if let Cancellers::Client { server_may_end } = &self.cancellers {
            facts.server_may_end = head.by == Role::Client && has(server_may_end, head.method);
        }
        facts.handshake = if self.has_handshakes() { self.handshake(head) } else { None };
        if let (Some(longest), Some(params)) = (head.tokens_up_to, head.params) {
            facts.progress_tokens = self.progress_tokens(longest, params);
        }
        let work = self.work_in(Carrier::Request, head.method, head.params, head.names_up_to);
        facts.work = work.map(Box::new);
        facts
    }

    /// Returns the reason why a request can't be cancelled, if it can't.
    #[inline(always)]
    fn refusal(&self, head: &RequestHead<'_>, starts_operation: bool) -> Option<CancelRefusal> {
        let Uncancellable { methods, params } = &self.uncancellable;
        let is_ordinary = head.kind == RequestKind::Ordinary;
        let has_name = if self.has_operations() { starts_operation } else { is_ordinary };
        if !has_name || has(methods, head.method) {
            return Some(CancelRefusal::Method);
        }
        let is_there = |name: &Text| head.params.is_some_and(|it| given(it, name).is_some());
        params.iter().any(is_there).then_some(CancelRefusal::Params)
    }

    /// Returns whether any result settles anything. In most dialects none does.
    #[inline]
    fn has_handshakes(&self) -> bool {
        let is_declared = !matches!(self.capability, CapabilityRule::NotNeeded);
        is_declared || self.session.is_some() || !self.exchanges.is_empty()
    }

    /// Returns what the result of a request settles.
    fn handshake(&self, head: &RequestHead<'_>) -> Option<Handshake> {
        let capability = match &self.capability {
            CapabilityRule::Declared { exchange, client, .. } if exchange == head.method => {
                Some(head.params.is_some_and(|params| is_true(params, client)))
            }
            _ => None,
        };
        let opens_session = self.session.as_deref() == Some(head.method);
        let exchange = self.exchanges.iter().position(|(exchange, _)| exchange == head.method);
        let exchange = exchange.and_then(|index| u8::try_from(index).ok());
        let handshake = Handshake { capability, opens_session, exchange };
        (handshake != Handshake::default()).then_some(handshake)
    }

    /// Returns the tokens in params under which progress of the request comes.
    fn progress_tokens(&self, longest: usize, params: &RawValue) -> Vec<WireId> {
        let paths = self.progress.iter().flat_map(|rule| rule.tokens_of_call.iter());
        let tokens = paths.filter_map(|names| path(params, names)).map(RawValue::get);
        let tokens = tokens.filter(|token| token.len() <= longest).filter_map(WireId::scanned);
        tokens.take(TOKENS).collect()
    }

    // Work

    /// Returns what a message reports about work, with the method and the params or the result of the message. Most
    /// messages speak of none, which their method tells. Names of work longer than `names_up_to` bytes are not read.
    #[inline]
    #[must_use]
    pub fn work_in(
        &self,
        carrier: Carrier,
        method: &str,
        value: Option<&RawValue>,
        names_up_to: usize,
    ) -> Option<WorkPart> {
        let speaks = |rule: &WorkRule| rule.signs.iter().any(|sign| sign.is_of(carrier, method));
        let value = value.filter(|_| self.work.iter().any(speaks))?;
        self.news_in(carrier, method, value, names_up_to)
    }

    #[cold]
    fn news_in(
        &self,
        carrier: Carrier,
        method: &str,
        value: &RawValue,
        names_up_to: usize,
    ) -> Option<WorkPart> {
        self.work.iter().enumerate().find_map(|(rule, it)| {
            let signs = it.signs.iter().enumerate();
            let mut signs = signs.filter(|(_, sign)| sign.is_of(carrier, method));
            let (at, sign, name) =
                signs.find_map(|(at, sign)| Some((at, sign, sign.name_in(value)?)))?;
            let name = WireId::scanned(Some(name).filter(|name| name.len() <= names_up_to)?)?;
            let is_stopped = sign.stopped.as_ref().is_some_and(|mark| mark.is_in(value));
            Some(WorkPart { rule: rule as u8, news: sign.news, name, is_stopped, sign: at as u8 })
        })
    }

    /// Returns the mark of a stop in the result of a request with this part.
    pub(crate) fn mark_of(&self, part: &WorkPart) -> Option<&StopMark> {
        let rule = self.work.get(usize::from(part.rule))?;
        rule.signs.get(usize::from(part.sign))?.stopped.as_ref()
    }

    /// Returns the message that stops work of this rule, if the core can send it.
    pub(crate) fn stop_of(&self, rule: u8) -> Option<&Sign> {
        let mut signs = self.work.get(usize::from(rule))?.signs.iter();
        signs.find(|sign| sign.news == News::Stop && sign.state.is_none())
    }

    /// Returns whether work that a request began ends with the response.
    #[must_use]
    pub fn work_ends_with_response(&self, part: &WorkPart) -> bool {
        let rule = self.work.get(usize::from(part.rule));
        rule.is_none_or(|rule| rule.signs.iter().all(|sign| sign.news != News::Ended))
    }
}

fn has(methods: &[Text], method: &str) -> bool {
    methods.iter().any(|it| it == method)
}

/// Returns whether a `true` stands at this path of a request's params or of its result.
pub(crate) fn is_true(value: &RawValue, names: &[Text]) -> bool {
    path(value, names).is_some_and(|value| value.get() == "true")
}
