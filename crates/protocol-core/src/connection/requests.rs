//! The peer's requests as they come in, and the bad messages that are refused.

use alloc::borrow::Cow;

use serde_json::value::RawValue;

use super::rows::{Incoming, Opening, Rare, server_ends, uncancellable};
use super::unsent::BatchKey;
use super::{Connection, context};
use crate::cause::CloseReason;
use crate::config::Config;
use crate::dialect::{Envelope, ResponseRule, Role, code};
use crate::event::{Event, Response, TransmitKind};
use crate::id::WireId;
use crate::machine::RequestHandle;
use crate::slot::{self, Slot};
use crate::time::Timestamp;
use crate::violation::{EnvelopeProblem, Violation};
use crate::wire::abp::{Asked, Origin};
use crate::wire::decode::{self, Request};
use crate::wire::encode::{Draft, To};

impl<O, I: Default> Connection<O, I> {
    #[inline]
    pub(super) fn take_request<'m>(
        &mut self,
        mut request: Request<'m>,
        batch: Option<BatchKey>,
        now: Timestamp,
    ) -> Option<Event<'m, O>> {
        let dialect = &self.machine.config().dialect;
        let opening = Opening::of(dialect, &request.method, request.params);
        let is_cancel =
            dialect.cancels_are_requests() && dialect.cancel.has_method(&request.method);
        let is_ours = is_cancel && !self.is_for_host(request.params);
        let id = self.readable(request.id).filter(|_| dialect.ids.allows(request.id));
        let is_excepted = batch.is_some() && dialect.is_refused_in_batch(&request.method);
        let invalid = |problem| Err(Violation::InvalidRequest { problem });
        let admitted = self.machine.admit_to_session(opening.is_some_and(Opening::session));
        let taken = match (admitted, id) {
            (Err(violation), _) => Err(violation),
            (_, Some(id)) if is_ours => {
                self.take_cancel_request(id, &request, batch, now).map(|()| None)
            }
            _ if is_excepted && !is_ours => invalid(EnvelopeProblem::InBatch),
            (_, Some(id)) => self.admit(id, &mut request, opening, batch, now).map(Some),
            (_, None) => invalid(EnvelopeProblem::Id),
        };
        let handle = match taken {
            Ok(handle) => handle?,
            Err(violation) => {
                self.refuse(Some(request.id), request.origin.as_deref(), violation, batch);
                let is_over = violation == Violation::TooManyRequests;
                if is_over && self.config().close_over_limit {
                    self.close(CloseReason::OverLimit, now);
                }
                return None;
            }
        };
        if is_cancel {
            self.obey_beside(request.params, now);
        }
        self.follow();
        let Request { id, method, params, options, .. } = request;
        Some(Event::Request {
            request: handle,
            id: Cow::Borrowed(id),
            method,
            params: params.map(Cow::Borrowed),
            options: options.map(Cow::Borrowed),
        })
    }

    /// Takes a request that the host answers, if there is room for it.
    #[inline]
    fn admit(
        &mut self,
        id: WireId,
        request: &mut Request<'_>,
        opening: Option<Opening>,
        batch: Option<BatchKey>,
        now: Timestamp,
    ) -> Result<RequestHandle, Violation> {
        let config = self.machine.config();
        let (method, params) = (&*request.method, request.params);
        let origin = request.origin.take();
        let asked = origin.as_ref().map_or(Asked::Other, |origin| origin.asked());
        let uncancellable = uncancellable(&config.dialect, asked, method, params);
        let server_ends = server_ends(&config.dialect, config.role == Role::Server, method);
        let starts_operation = config.dialect.starts_operation(method).is_some();
        let rare = Rare { batch, opening, server_ends, starts_operation, origin };
        let rare = (!rare.is_empty()).then(|| {
            slot::make_room(&mut self.rares);
            Slot::new(self.rares.insert(rare))
        });
        let incoming = Incoming { data: I::default(), rare };
        let received = self.machine.receive_request(id, uncancellable, incoming, now);
        let handle = received.map_err(|(violation, refused)| {
            request.origin = refused.rare.and_then(|slot| self.take_rare(slot).origin);
            violation
        })?;
        if let Some(batch) = batch {
            self.unsent.add_member(batch);
        }
        if self.config().dialect.response == ResponseRule::SilentWithProgress {
            self.withhold_progress(handle, params);
        }
        Ok(handle)
    }

    /// A cancel that the host answers, since it names a progress, cancels the request that it names too.
    fn obey_beside(&mut self, params: Option<&RawValue>, now: Timestamp) {
        let Config { dialect, .. } = self.config();
        let named = dialect.cancel.id_in(params).filter(|_| dialect.envelope == Envelope::Dap);
        if let Some(id) = named.filter(|id| self.readable(id.token()).is_some()) {
            self.obey(&id, None, now);
        }
    }

    /// Once this request is cancelled, no progress of it is sent.
    fn withhold_progress(&mut self, request: RequestHandle, params: Option<&RawValue>) {
        let Config { dialect, limits, .. } = self.machine.config();
        let longest = limits.id_bytes;
        let tokens = decode::progress_tokens(&dialect.progress, params);
        for token in tokens.into_iter().filter(|token| token.token().len() <= longest) {
            self.machine.withhold_progress(request, token);
        }
    }

    /// What a request had that is over.
    pub(super) fn take_rare(&mut self, slot: Slot) -> Rare {
        let rare = self.rares.remove(slot.get());
        slot::give_back(&mut self.rares);
        rare
    }

    /// Answers a bad message by ourselves, and reports it.
    ///
    /// What names no request is answered by a server alone, with id null, as JSON-RPC asks for. A
    /// client that reads such a thing reads what its server prints beside its messages, and an
    /// answer to that has ended servers (F61).
    pub(super) fn refuse(
        &mut self,
        id: Option<&str>,
        origin: Option<&Origin>,
        violation: Violation,
        batch: Option<BatchKey>,
    ) {
        let id = id.and_then(|id| self.readable(id));
        let config = self.config();
        // ABP and DAP have no answer to what can't be read.
        let has_no_answer = origin.is_none() && config.dialect.envelope != Envelope::JsonRpc;
        if has_no_answer || (id.is_none() && config.role == Role::Client) {
            return self.report(violation, id);
        }
        let (code, message) = error_of(violation, config.dialect.overload_code);
        let reply = Response::Error { code, message, data: None };
        let token = id.as_ref().map_or("null", WireId::token);
        let draft = Draft::Response { to: To { id: token, origin }, reply };
        let context = context(&self.machine, self.now);
        let sent = self.unsent.answer(&context, &draft, TransmitKind::Response, batch);
        self.report(violation, id.clone());
        match sent {
            Ok(sent) => self.answered(batch, sent, None),
            Err(_) => self.report(Violation::ResponseDropped, id),
        }
    }
}

/// The error that a bad message is answered with. Its words hold none of the peer's data (B3).
fn error_of(violation: Violation, overload: i64) -> (i64, &'static str) {
    let invalid = |message| (code::INVALID_REQUEST, message);
    match violation {
        Violation::Parse { .. } | Violation::InvalidUtf8 { .. } => {
            (code::PARSE_ERROR, "Parse error: the message is not JSON")
        }
        Violation::InvalidRequest { problem } => invalid(problem.as_str()),
        Violation::DuplicateId => invalid("Invalid request: the id is that of a request in flight"),
        Violation::MessageTooLarge => invalid("Invalid request: the message is too long"),
        Violation::BatchRefused | Violation::BatchSize => {
            invalid("Invalid request: no such batch is accepted")
        }
        Violation::MalformedCancel => {
            (code::INVALID_PARAMS, "Invalid params: the cancel names nothing")
        }
        Violation::NotInitialized => (code::SERVER_NOT_INITIALIZED, "The session is not open"),
        Violation::TooManyRequests => (overload, "The request was refused: too much is in flight"),
        // The only other reason.
        _ => (overload, "The request was refused: shutting down"),
    }
}
