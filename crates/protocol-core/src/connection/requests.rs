//! The peer's requests as they come in, and the bad messages that are refused.

use alloc::borrow::Cow;
use alloc::boxed::Box;

use super::Connection;
use super::rows::{Opening, Rare, server_ends, uncancellable};
use super::unsent::BatchKey;
use crate::cause::CloseReason;
use crate::dialect::{AnswerRule, Envelope, Role, code};
use crate::event::{Event, Reply, TransmitKind};
use crate::id::WireId;
use crate::machine::CancelRefusal;
use crate::time::Timestamp;
use crate::violation::{EnvelopeProblem, Violation};
use crate::wire::abp::{Asked, Origin};
use crate::wire::decode::{self, Request};
use crate::wire::encode::{Context, Draft, To};

/// A code and its message.
pub(super) type Error = (i64, &'static str);

pub(super) const DUPLICATE_ID: Error =
    (code::INVALID_REQUEST, "Invalid request: the id is that of a request in flight");
const NOT_INITIALIZED: Error = (code::SERVER_NOT_INITIALIZED, "The session is not open");

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
        if self.machine.lacks_session(opening.session()) {
            let (id, origin) = (self.readable(request.id), request.origin.as_deref());
            self.refuse(id, origin, NOT_INITIALIZED, Violation::NotInitialized, batch);
            return None;
        }
        if dialect.cancels_are_requests()
            && dialect.cancel.is(&request.method)
            && !self.is_for_host(request.params)
        {
            self.take_cancel_request(request, batch, now);
            return None;
        }
        let id = self.readable(request.id).filter(|_| dialect.ids.allows(request.id));
        let is_excepted = batch.is_some() && dialect.is_refused_in_batch(&request.method);
        let problem = if is_excepted { EnvelopeProblem::InBatch } else { EnvelopeProblem::Id };
        let Some(id) = id.filter(|_| !is_excepted) else {
            self.refuse_invalid(Some(request.id), request.origin.as_deref(), problem, batch);
            return None;
        };
        let (rare, uncancellable) = self.rare_of(&mut request, opening, batch);
        let handle = match self.machine.receive_request(id, uncancellable, I::default(), rare, now)
        {
            Ok(handle) => handle,
            Err((violation, rare)) => {
                let origin = rare.as_ref().and_then(|rare| rare.origin.as_deref());
                self.refuse_request(request.id, origin, violation, batch, now);
                return None;
            }
        };
        if let Some(batch) = batch {
            self.unsent.add_member(batch);
        }
        let dialect = &self.machine.config().dialect;
        if dialect.answer == AnswerRule::SilentWithProgress {
            let longest = self.machine.config().limits.id_bytes;
            let tokens = decode::progress_tokens(&dialect.progress, request.params);
            for token in tokens.into_iter().filter(|token| token.token().len() <= longest) {
                self.machine.withhold_progress(handle, token);
            }
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

    /// What is kept with few requests, and why the peer can't cancel this one, if it can't.
    #[inline]
    fn rare_of(
        &self,
        request: &mut Request<'_>,
        opening: Opening,
        batch: Option<BatchKey>,
    ) -> (Option<Box<Rare>>, Option<CancelRefusal>) {
        let config = self.machine.config();
        let (method, params) = (&*request.method, request.params);
        let origin = request.origin.take();
        let asked = origin.as_ref().map_or(Asked::Other, |origin| origin.asked());
        let refusal = uncancellable(&config.dialect, asked, method, params);
        let server_ends =
            config.role == Role::Server && server_ends(&config.dialect, Role::Client, method);
        let starts_operation = config.dialect.starts_operation(method).is_some();
        let rare = Rare { batch, opening, server_ends, starts_operation, origin };
        (rare.boxed(), refusal)
    }

    fn refuse_request(
        &mut self,
        id: &str,
        origin: Option<&Origin>,
        violation: Violation,
        batch: Option<BatchKey>,
        now: Timestamp,
    ) {
        let overload = self.config().dialect.overload_code;
        let error = match violation {
            Violation::DuplicateId => DUPLICATE_ID,
            Violation::TooManyRequests => {
                (overload, "The request was refused: too much is in flight")
            }
            // The only other reason.
            _ => (overload, "The request was refused: shutting down"),
        };
        let id = self.readable(id);
        self.refuse(id, origin, error, violation, batch);
        if violation == Violation::TooManyRequests && self.config().close_over_limit {
            self.close(CloseReason::OverLimit, now);
        }
    }

    pub(super) fn refuse_invalid(
        &mut self,
        id: Option<&str>,
        origin: Option<&Origin>,
        problem: EnvelopeProblem,
        batch: Option<BatchKey>,
    ) {
        let id = id.and_then(|id| self.readable(id));
        let error = (code::INVALID_REQUEST, problem.as_str());
        self.refuse(id, origin, error, Violation::InvalidRequest { problem }, batch);
    }

    /// Answers a bad message by ourselves, and reports it. The answer never holds any of the
    /// peer's data but its id (B3).
    ///
    /// What names no request is answered by a server alone, with id null, as JSON-RPC asks for. A
    /// client that reads such a thing reads what its server prints beside its messages, and an
    /// answer to that has ended servers (F61).
    pub(super) fn refuse(
        &mut self,
        id: Option<WireId>,
        origin: Option<&Origin>,
        (code, message): Error,
        violation: Violation,
        batch: Option<BatchKey>,
    ) {
        let config = self.config();
        // ABP has no answer to what can't be read.
        let has_no_answer = origin.is_none() && config.dialect.envelope == Envelope::Abp;
        if has_no_answer || (id.is_none() && config.role == Role::Client) {
            return self.report(violation, id);
        }
        let reply = Reply::Error { code, message, data: None };
        let token = id.as_ref().map_or("null", WireId::token);
        let draft = Draft::Response { to: To { id: token, origin }, reply };
        let context = Context { config: self.machine.config(), now: self.now };
        let sent = self.unsent.answer(&context, &draft, TransmitKind::Response, batch);
        self.report(violation, id.clone());
        match sent {
            Ok(sent) => self.answered(batch, sent, None),
            Err(_) => self.report(Violation::AnswerDropped, id),
        }
    }
}
