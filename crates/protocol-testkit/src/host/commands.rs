//! The commands of a host, and their effect on its model.

use protocol_core::{
    Cause, Connection, Envelope, Refusal, RequestHandle, Response, Shutdown, StreamConnection,
    Timestamp, WireId, code,
};

use super::{Host, Judged, fingerprint, value};
use crate::guarantee::{Broken, Guarantee};
use crate::model::{Model, reading};
use crate::operation::{Answering, Asked, Operation, pick, raw};

impl Host {
    /// Does what a host does by itself. What is about the line does nothing here.
    pub(crate) fn act(&mut self, operation: &Operation, now: Timestamp) -> Judged {
        match *operation {
            Operation::Call { asked, .. } => self.call(asked, now),
            Operation::Cancel { call, cause, .. } => self.cancel(call, cause, now),
            Operation::Detach { call, .. } => self.detach(call, now),
            Operation::Respond { request, answer, .. } => self.respond(request, answer),
            Operation::Begin { request, .. } => self.begin(request),
            Operation::SendCancel { call, .. } => self.send_cancel(call),
            Operation::End { request, .. } => self.end(request),
            Operation::GiveUp { request, .. } => self.give_up(request, now),
            Operation::Notify { long, .. } => {
                let text = if long { "x".repeat(600) } else { String::new() };
                self.notify("note", &format!(r#"{{"text":"{text}"}}"#))
            }
            Operation::Progress { token, .. } => {
                let dialect = self.config().dialect.clone();
                let Some(rule) = dialect.progress.first() else { return Ok(()) };
                let token = self.progress_token(dialect.envelope, token);
                self.notify(&rule.method, &format!(r#"{{"{}":{token}}}"#, rule.token))
            }
            Operation::Shutdown { how, .. } => self.shutdown(how, now),
            Operation::Drain { .. }
            | Operation::Arrive { .. }
            | Operation::Hostile { .. }
            | Operation::Wait { .. }
            | Operation::HangUp { .. }
            | Operation::Cut => Ok(()),
        }
    }

    fn call(&mut self, asked: Asked, now: Timestamp) -> Judged {
        let text = asked.params();
        let (raw, params) = (raw(&text), value(&text));
        let parent = asked.parent.and_then(|parent| pick(&self.requests, parent));
        let options = asked.options().parent(parent);
        let parent = parent.map(RequestHandle::number);
        let refusals = self.model.call_refusals(parent);
        let (method, cramped) = (asked.method.name(), self.is_cramped());
        let tag = u32::try_from(self.calls.len()).expect("few calls");
        let result = self
            .command(|stream| stream.connection_mut().call(method, Some(raw), tag, options, now))?;
        let reason = result.as_ref().err().map(|error| error.reason);
        self.judge_refusal("call", reason, &refusals, cramped)?;
        if let Ok(call) = result {
            let number = self.model.call((method, &params), &asked.options(), parent, now);
            Broken::unless(number == call.number(), Guarantee::G1, || {
                format!("call {number} has the number {}", call.number())
            })?;
            self.calls.push(call);
        }
        self.judge()
    }

    fn cancel(&mut self, call: u8, cause: Cause, now: Timestamp) -> Judged {
        let Some(call) = pick(&self.calls, call) else { return Ok(()) };
        let did = self.stream.connection_mut().cancel(call, cause, now);
        let must = self.model.cancel(call.number(), cause, now);
        Broken::unless(did == must, Guarantee::G5, || {
            format!("the cancel of call {} did {did:?}, it must do {must:?}", call.number())
        })?;
        self.judge()
    }

    fn detach(&mut self, call: u8, now: Timestamp) -> Judged {
        let Some(call) = pick(&self.calls, call) else { return Ok(()) };
        self.stream.connection_mut().detach(call, now);
        self.model.detach(call.number(), now);
        self.judge()
    }

    fn respond(&mut self, request: u8, answer: Answering) -> Judged {
        let Some(request) = pick(&self.requests, request) else { return Ok(()) };
        let dialect = &self.config().dialect;
        let (number, text) = (request.number(), answer.result(dialect));
        let result = value(&text);
        let (reply, said) = match answer {
            Answering::Result | Answering::Revision(_) => {
                (Response::Result(raw(&text)), Ok(&result))
            }
            Answering::Error => (Response::Error { code: -1, message: "no", data: None }, Err(-1)),
            Answering::Cancelled => (Response::Cancelled, Err(code::REQUEST_CANCELLED)),
        };
        let awaits_response = self.model.awaits_response(number);
        let refusal = (!awaits_response).then_some(Refusal::AlreadyResponded);
        let cramped = self.is_cramped() && !self.model.withholds(number);
        self.refusable(
            ("respond", refusal, cramped),
            |connection| connection.respond(request, reply).map(|_| ()),
            |model| model.respond(number, said),
        )
    }

    /// The token of an operation is the number of its request, many times.
    fn begin(&mut self, request: u8) -> Judged {
        let Some(request) = pick(&self.requests, request) else { return Ok(()) };
        let number = request.number();
        let byte = u8::try_from(number % 256).expect("it is below 256");
        let token = format!("\"{}\"", format!("{byte:02X}").repeat(16));
        let refusal = self.model.begin_refusal(number, &token);
        self.refusable(
            ("begin_operation", refusal, self.is_cramped()),
            |connection| connection.begin_operation(request, [byte; 16]),
            |model| model.begin(number, token),
        )
    }

    fn send_cancel(&mut self, call: u8) -> Judged {
        let Some(call) = pick(&self.calls, call) else { return Ok(()) };
        let place = self.calls.iter().position(|other| *other == call);
        let place = place.and_then(|place| u32::try_from(place).ok()).expect("it was picked");
        let dialect = &self.config().dialect;
        let id = match self.tokens.get(&place) {
            Some(token) => token.clone(),
            None if dialect.has_operations() => return Ok(()),
            None => {
                let id = reading::our_id(call.number(), dialect.envelope);
                WireId::from_json(&id).expect("it is an id")
            }
        };
        let names = value(id.as_json());
        let refusal = self.model.send_cancel_refusal(&names);
        self.refusable(
            ("send_cancel_request", refusal, self.is_cramped()),
            |connection| connection.send_cancel_request(&id),
            |model| model.send_cancel(names.to_string()),
        )
    }

    /// In ABP, the progress token of the request of that number is its call id.
    fn progress_token(&self, envelope: Envelope, token: u8) -> String {
        let place = usize::from(token).saturating_sub(1);
        let request = self.requests.get(place).filter(|_| envelope == Envelope::Abp);
        let machine = self.stream.connection().machine();
        let id = request.and_then(|request| machine.request_id(*request));
        id.map_or_else(|| token.to_string(), |id| id.as_json().into())
    }

    fn end(&mut self, request: u8) -> Judged {
        let Some(request) = pick(&self.requests, request) else { return Ok(()) };
        let refusal = self.model.end_refusal(request.number());
        self.refusable(
            ("end_request", refusal, self.is_cramped()),
            |connection| connection.end_request(request, None).map(|_| ()),
            |model| model.end(request.number()),
        )
    }

    fn give_up(&mut self, request: u8, now: Timestamp) -> Judged {
        let Some(request) = pick(&self.requests, request) else { return Ok(()) };
        self.stream.connection_mut().cancel_request(request, Cause::Internal, now);
        self.model.cancel_request(request.number(), Cause::Internal, now);
        self.judge()
    }

    fn notify(&mut self, method: &str, params: &str) -> Judged {
        let refusals = self.model.notify_refusals(method, &value(params));
        self.refusable(
            ("notify", refusals, self.is_cramped()),
            |connection| connection.notify(method, Some(raw(params))),
            |model| model.notify(method),
        )
    }

    fn shutdown(&mut self, how: Shutdown, now: Timestamp) -> Judged {
        self.stream.connection_mut().shutdown(how, now);
        self.model.shutdown(how, now);
        self.judge()
    }

    /// Runs a command that may be refused for these reasons, or for lack of room. The model follows unless it was refused.
    fn refusable(
        &mut self,
        (name, refusals, cramped): (&str, impl IntoIterator<Item = Refusal>, bool),
        command: impl FnOnce(&mut Connection<u32>) -> Result<(), Refusal>,
        of_model: impl FnOnce(&mut Model),
    ) -> Judged {
        let refusals: Vec<_> = refusals.into_iter().collect();
        let done = self.command(|stream| command(stream.connection_mut()))?;
        self.judge_refusal(name, done.err(), &refusals, cramped)?;
        if done.is_ok() {
            of_model(&mut self.model);
        }
        self.judge()
    }

    /// Does what may be refused; a refusal must have changed nothing (G10).
    fn command<T, E>(
        &mut self,
        command: impl FnOnce(&mut StreamConnection<u32>) -> Result<T, E>,
    ) -> Result<Result<T, E>, Broken> {
        let before = self.stream.clone();
        let done = command(&mut self.stream);
        if done.is_err() {
            if self.planted == Some(Guarantee::G10) {
                self.stream.connection_mut().shutdown(Shutdown::Drain, Timestamp::ZERO);
            }
            let is_same = fingerprint(&before) == fingerprint(&self.stream);
            Broken::unless(is_same && self.goes_on_as(before), Guarantee::G10, || {
                "a refused command changed something".into()
            })?;
        }
        Ok(done)
    }

    /// Returns whether the connection writes from now on what this one does, to the last byte.
    fn goes_on_as(&self, mut other: StreamConnection<u32>) -> bool {
        let write = |stream: &mut StreamConnection<u32>| {
            let next = stream.connection().next_transmit_len();
            // Also what nobody was told before: the time, for one.
            let _ = stream.connection_mut().notify("probe", None);
            let mut unsent = Vec::new();
            while stream.poll_transmit(&mut unsent).is_some() {}
            (next, unsent)
        };
        // A promised wake-up lets answers leave that are kept back, and nothing else.
        self.model.keeps_answers_back() || write(&mut other) == write(&mut self.stream.clone())
    }
}
