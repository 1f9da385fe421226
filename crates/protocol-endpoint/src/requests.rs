//! Requests of the peer: taken, at work, and responded to.

use alloc::borrow::{Cow, ToOwned};

use core::mem;

use protocol_core::{
    BeforeStart, Cause, Refusal, RequestHandle, Response, Timestamp, WireId, code,
};
use serde_json::value::RawValue;

use crate::account::Grant;
use crate::effects::{Effect, Effects, OperationEnd, Shown};
use crate::failure::Failure;
use crate::inbox::Arrived;
use crate::message::Notification;
use crate::method::{MethodName, clip};
use crate::responses::TOO_MUCH_WAITS;
use crate::rows::{RequestRow, Work};
use crate::state::Endpoint;
use crate::waiters::Line;

impl<W, M> Endpoint<W, M> {
    // Arrivals

    /// Takes a new request into the inbox.
    pub(crate) fn take_request(
        &mut self,
        request: RequestHandle,
        name: &str,
        params: Option<Cow<'_, RawValue>>,
        options: Option<Cow<'_, RawValue>>,
        effects: &mut Effects<W, M>,
    ) {
        let method = MethodName::from(name);
        let starts_operation = self.dialect().starts_operation(name).is_some();
        if let Some(row) = self.stream.connection_mut().request_data_mut(request) {
            row.method = Some(self.names.keep(name));
            row.since = self.now;
        }
        if !self.is_served {
            return self.refuse_unserved(request, effects);
        }
        if !self.inbox.has_room_for(name, params.as_deref(), options.as_deref()) {
            let message = "The request was refused: too much waits to be served";
            return self.refuse(request, message, effects);
        }
        if self.responses.is_full() {
            return self.refuse(request, TOO_MUCH_WAITS, effects);
        }
        if self.grant > Grant::All {
            let message = "The request was refused: this connection holds too much memory";
            return self.refuse(request, message, effects);
        }
        if starts_operation {
            if let Some(row) = self.row(request) {
                row.work = Work::AwaitsOperation;
            }
            effects.push(Effect::BeginOperation(request, method.clone()));
        }
        self.inbox.take_request(request, method, params, options);
        if !starts_operation {
            self.line(Line::Arrival).wake_one(effects);
        }
    }

    /// Begins the operation of a request, as [`Effect::BeginOperation`] asks for.
    ///
    /// # Errors
    ///
    /// As [`Connection::begin_operation`](protocol_core::Connection::begin_operation). The request has got
    /// the dialect's overload code then, unless it had its response.
    pub fn begin_operation(
        &mut self,
        request: RequestHandle,
        entropy: [u8; 16],
        effects: &mut Effects<W, M>,
    ) -> Result<(), Refusal> {
        let begun = match self.row(request) {
            // It waits for room.
            Some(row) if row.work == Work::Responded => Err(Refusal::AlreadyResponded),
            _ => self.stream.connection_mut().begin_operation(request, entropy),
        };
        match &begun {
            Ok(()) => {
                if let Some(it) = self.row(request).filter(|it| it.work == Work::AwaitsOperation) {
                    it.work = Work::Idle;
                }
                self.line(Line::Arrival).wake_one(effects);
                // It may be cancelled already, before its operation could be.
                self.note_cancelled(request, effects);
            }
            Err(Refusal::AlreadyResponded) => {}
            Err(refusal) => self.refuse(request, &alloc::format!("{refusal}"), effects),
        }
        self.follow(effects);
        begun
    }

    /// Takes the next arrival. `None` if there is none yet, or none ever again.
    ///
    /// Requests that find no place among those at work get the dialect's overload code. If the dialect
    /// says so, those that were cancelled before their turn get their response here.
    pub fn take(&mut self, effects: &mut Effects<W, M>) -> Option<Arrived> {
        // A loop: a peer may cancel any number of requests before their turn (F30).
        loop {
            let next = self.inbox.next_request().and_then(|request| self.row(request));
            if next.is_some_and(|row| row.work == Work::AwaitsOperation) {
                return None;
            }
            let arrived = self.inbox.pop()?;
            let Arrived::Request(handle, request) = &arrived else { return Some(arrived) };
            let is_skipped = self.dialect().before_start == BeforeStart::Skipped;
            if is_skipped && self.cause(*handle).is_some() {
                let mark = self.respond_inside(*handle, Response::Cancelled, effects);
                effects.add(mark.map(Effect::DropMark));
            } else {
                // It got its response if its operation could not begin.
                let row = self.stream.connection_mut().request_data_mut(*handle);
                let Some(row) = row.filter(|row| row.work != Work::Responded) else { continue };
                let bytes = request.bytes();
                if self.at_work.enter(bytes) {
                    row.work = Work::Taken(bytes);
                    return Some(arrived);
                }
                self.refuse(*handle, "The request was refused: too many are being served", effects);
            }
            // The response wakes the writer.
            self.follow(effects);
        }
    }

    /// Takes the oldest waiting notification with this method ahead of its turn.
    pub fn take_notification(&mut self, method: &str) -> Option<Notification> {
        self.inbox.take_notification(method)
    }

    /// Returns the number of arrivals that wait.
    pub fn arrivals(&self) -> usize {
        self.inbox.len()
    }

    /// Declares that nobody takes arrivals any more. Requests that wait are refused, and so are all that
    /// come.
    pub fn stop_serving(&mut self, effects: &mut Effects<W, M>) {
        self.is_served = false;
        while let Some(arrived) = self.inbox.pop() {
            if let Arrived::Request(request, _) = arrived {
                self.refuse_unserved(request, effects);
            }
        }
        self.follow(effects);
    }

    // Requests at work

    /// Returns the row of a request in flight.
    pub(crate) fn row(&mut self, request: RequestHandle) -> Option<&mut RequestRow<M>> {
        self.stream.connection_mut().request_data_mut(request)
    }

    /// Returns the cause for which a request was cancelled, if it was.
    pub fn cause(&self, request: RequestHandle) -> Option<Cause> {
        self.core().machine().request_cause(request)
    }

    /// Returns the id of a request as the peer wrote it, while it has no response.
    pub fn request_id(&self, request: RequestHandle) -> Option<&WireId> {
        self.core().machine().request_id(request)
    }

    /// Returns whether a failure of a handler is but the cancellation of its request:
    /// [`Failure::Cancelled`] then takes its place, and it is no trouble.
    ///
    /// The end of input loses the calls made for a request and cancels the request. Such a loss is meant.
    #[must_use]
    pub fn is_cancellation(&self, request: RequestHandle, failure: &Failure) -> bool {
        failure.is_connection_lost() && self.cause(request).is_some()
    }

    /// Sets the mark of a request: the host gets it back when the request is cancelled or over.
    ///
    /// A host looks at [`cause`](Self::cause) first, for a request may be cancelled before it is taken.
    ///
    /// # Errors
    ///
    /// The mark, if the request is over or has a mark already.
    pub fn watch(&mut self, request: RequestHandle, mark: M) -> Result<(), M> {
        match self.row(request) {
            Some(row) if row.mark.is_none() => {
                row.mark = Some(mark);
                Ok(())
            }
            _ => Err(mark),
        }
    }

    /// Returns the time at which a request arrived.
    pub fn since(&mut self, request: RequestHandle) -> Option<Timestamp> {
        Some(self.row(request)?.since)
    }

    /// Responds to a request. A response that has no room yet waits for it, behind those that wait
    /// already, and is never lost. A second response to the same request does nothing.
    ///
    /// Returns the mark of the request if it is over now.
    pub fn respond(
        &mut self,
        request: RequestHandle,
        response: Response<'_>,
        effects: &mut Effects<W, M>,
    ) -> Option<M> {
        let mark = self.respond_inside(request, response, effects);
        self.follow(effects);
        mark
    }

    /// Returns whether a response waits for room in the outbox. A host that serves one request at a time
    /// takes no other one then.
    pub fn owes_response(&self) -> bool {
        !self.responses.is_empty()
    }

    /// Responds to a request whose worker is gone without a response: as cancelled if it is, else with an
    /// error that names the method.
    pub fn respond_for_worker(
        &mut self,
        request: RequestHandle,
        effects: &mut Effects<W, M>,
    ) -> Option<M> {
        if !self.leave_work(request, None, effects) {
            return None;
        }
        let method = self.row(request).and_then(|row| row.method);
        let method = method.map_or("", |method| self.names.get(method));
        let message = alloc::format!("no response from the handler of {}", clip(method));
        let response = match self.cause(request) {
            Some(_) => Response::Cancelled,
            None => Response::Error { code: code::INTERNAL_ERROR, message: &message, data: None },
        };
        let mark = self.send_or_keep(request, response, effects);
        self.follow(effects);
        mark
    }

    /// Ends a request of the client's without a response, if the dialect lets the server do that.
    ///
    /// Returns the mark of the request.
    ///
    /// # Errors
    ///
    /// As [`Connection::end_request`](protocol_core::Connection::end_request).
    pub fn end_request(
        &mut self,
        request: RequestHandle,
        reason: Option<&str>,
        effects: &mut Effects<W, M>,
    ) -> Result<Option<M>, Refusal> {
        let end = |it: &mut Self| it.stream.connection_mut().end_request(request, reason);
        let row = self.send(end, effects)?;
        // There may be no message, and a stream to close instead.
        effects.wake(self.output.writer.take());
        Ok(self.release(request, row, ("ended", None), effects))
    }

    /// Sends the responses that have room now, in their order.
    pub(crate) fn respond_waiting(&mut self, effects: &mut Effects<W, M>) {
        while let Some((request, kept)) = self.responses.pop() {
            match self.try_respond(request, kept.as_response(), effects) {
                Ok(mark) => effects.add(mark.map(Effect::DropMark)),
                Err(NoRoom) => return self.responses.put_back(request, kept),
            }
            self.responses.made_room();
        }
    }

    /// Sends a response, or keeps it until there is room for it. Returns the mark of the request if it is
    /// over now.
    fn send_or_keep(
        &mut self,
        request: RequestHandle,
        response: Response<'_>,
        effects: &mut Effects<W, M>,
    ) -> Option<M> {
        if self.responses.is_empty() {
            if let Ok(mark) = self.try_respond(request, response, effects) {
                return mark;
            }
        }
        // A request that is over, or was abandoned, waits for nothing.
        let row = self.row(request)?;
        row.work = Work::Responded;
        let overload = self.dialect().overload_code;
        self.responses.push(request, response, overload);
        None
    }

    /// Responds to a request if there is room, which is known before anything is written.
    fn try_respond(
        &mut self,
        request: RequestHandle,
        response: Response<'_>,
        effects: &mut Effects<W, M>,
    ) -> Result<Option<M>, NoRoom> {
        let mut responded = self.send_response(request, response, effects);
        if matches!(responded, Err(Refusal::TooLarge)) {
            let message = "the response is too large (limits.unsent_bytes)";
            let refused = Response::Error { code: code::INTERNAL_ERROR, message, data: None };
            responded = self.send_response(request, refused, effects);
        }
        match responded {
            Ok(mark) => Ok(mark),
            Err(Refusal::OutboxFull) => Err(NoRoom),
            // No response fits under these limits.
            Err(Refusal::TooLarge) => Ok(self.release_unsent(request, effects)),
            // It has its response already.
            Err(_) => Ok(None),
        }
    }

    /// Releases a request whose response is never sent. Returns its mark.
    pub(crate) fn release_unsent(
        &mut self,
        request: RequestHandle,
        effects: &mut Effects<W, M>,
    ) -> Option<M> {
        let row = self.stream.connection_mut().release_request(request).ok()?;
        effects.wake(self.output.writer.take());
        self.release(request, row, ("unsent", None), effects)
    }

    fn send_response(
        &mut self,
        request: RequestHandle,
        response: Response<'_>,
        effects: &mut Effects<W, M>,
    ) -> Result<Option<M>, Refusal> {
        let row = self.stream.connection_mut().respond(request, response)?;
        let end = match response {
            Response::Result(_) => ("result", None),
            Response::Error { code, .. } => ("error", Some(code)),
            Response::ErrorRaw(_) => ("error", None),
            _ => ("cancelled", None),
        };
        Ok(self.release(request, row, end, effects))
    }

    /// Releases what was kept of a request that is over, with this outcome.
    fn release(
        &mut self,
        request: RequestHandle,
        row: RequestRow<M>,
        (outcome, code): (&'static str, Option<i64>),
        effects: &mut Effects<W, M>,
    ) -> Option<M> {
        if self.shows.responses {
            effects.show(Shown::Responded { request, outcome, code, now: self.now });
        }
        self.leave_state(row.work, effects);
        if let Some(method) = row.method {
            self.names.release(method);
        }
        row.mark
    }

    /// Takes a request out of those at work, and reports the end of its operation. `None` stands for a
    /// worker that is gone. Returns whether the request has no response, sent or waiting.
    fn leave_work(
        &mut self,
        request: RequestHandle,
        response: Option<Response<'_>>,
        effects: &mut Effects<W, M>,
    ) -> bool {
        let row = self.row(request).filter(|row| row.work != Work::Responded);
        let Some(row) = row else { return false };
        let work = mem::replace(&mut row.work, Work::Idle);
        self.leave_state(work, effects);
        if let Some(token) = self.core().operation(request) {
            let end = match response {
                None => OperationEnd::WorkerGone,
                // Nobody else gets the result of a cancelled operation.
                Some(Response::Result(result)) if self.cause(request).is_some() => {
                    OperationEnd::Responded(Some(result.to_owned()))
                }
                Some(_) => OperationEnd::Responded(None),
            };
            effects.push(Effect::EndOperation(token, end));
        }
        true
    }

    fn leave_state(&mut self, work: Work, effects: &mut Effects<W, M>) {
        match work {
            Work::Taken(bytes) => self.at_work.leave(bytes),
            // It holds back those behind it no more.
            Work::AwaitsOperation => self.line(Line::Arrival).wake_one(effects),
            Work::Idle | Work::Responded => {}
        }
    }

    /// Refuses a request with the dialect's overload code.
    fn refuse(&mut self, request: RequestHandle, message: &str, effects: &mut Effects<W, M>) {
        self.refuse_with(request, self.dialect().overload_code, message, effects);
    }

    fn refuse_unserved(&mut self, request: RequestHandle, effects: &mut Effects<W, M>) {
        let message = "nobody serves requests here";
        self.refuse_with(request, code::METHOD_NOT_FOUND, message, effects);
    }

    fn refuse_with(
        &mut self,
        request: RequestHandle,
        code: i64,
        message: &str,
        effects: &mut Effects<W, M>,
    ) {
        let response = Response::Error { code, message, data: None };
        let mark = self.respond_inside(request, response, effects);
        effects.add(mark.map(Effect::DropMark));
    }

    /// Responds as [`respond`](Self::respond) does, but leaves `follow` to the caller.
    #[inline]
    fn respond_inside(
        &mut self,
        request: RequestHandle,
        response: Response<'_>,
        effects: &mut Effects<W, M>,
    ) -> Option<M> {
        let is_owed = self.leave_work(request, Some(response), effects);
        if is_owed { self.send_or_keep(request, response, effects) } else { None }
    }
}

/// The outbox has no room for a response yet.
struct NoRoom;
