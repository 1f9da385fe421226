//! The peer's answers to our calls, and to our cancels where those are requests.

use serde_json::value::RawValue;

use super::rows::Outgoing;
use super::{Connection, outcome};
use crate::dialect::{CancelRule, Envelope, Role};
use crate::event::Event;
use crate::machine::{Action, Answer, Completion};
use crate::violation::{EnvelopeProblem, Violation};
use crate::wire::abp::{self, Asked};
use crate::wire::decode::{self, Response};
use crate::wire::encode::Value;

impl<O, I: Default> Connection<O, I> {
    #[inline]
    pub(super) fn take_response<'m>(
        &mut self,
        id: Option<&'m str>,
        asked: Option<Asked>,
        answer: Result<Response<'m>, EnvelopeProblem>,
    ) -> Option<Event<'m, O>> {
        let number = id.and_then(|id| self.number_in(id)).filter(|&it| self.asked(it, asked));
        let kind = self.kind_of(&answer);
        let (action, stray) = match number {
            Some(number) => self.machine.receive_response(number, kind),
            None => (None, Some(Violation::UnknownResponse)),
        };
        let problem = answer.as_ref().err();
        let violation = stray.or(problem.map(|&problem| Violation::MalformedResponse { problem }));
        if let Some(violation) = violation {
            let id = id.and_then(|id| self.readable(id));
            self.report(violation, id);
        }
        let done = match action {
            Some(Action::Complete(done)) => done,
            Some(Action::Withdraw(done)) => {
                self.unsent.outbox.withdraw(done.data.ticket);
                done
            }
            action => {
                // The cancel of an operation follows, now that the answer brings its token.
                let sends = (action, self.token_in(&answer));
                if let (Some(Action::SendCancel { call, number }), Some(token)) = sends {
                    self.send_cancel_naming(Value::Token(token.get()), call, number, None);
                }
                self.follow();
                return None;
            }
        };
        if answer.is_err() {
            // What was wrong with it is told first.
            self.complete(done);
            self.follow();
            return None;
        }
        let Completion { call, settlement, cause, data: Outgoing { data, opening, .. } } = done;
        if let Ok(Response::Result(result)) = answer {
            let conclusion = self.open(opening, Role::Client, result);
            self.conclude(conclusion);
        }
        self.follow();
        Some(Event::Settled { call, outcome: outcome(settlement, cause, answer.ok()), data })
    }

    /// The usable token of an operation that an answer brings.
    #[inline]
    fn token_in<'m>(&self, answer: &Result<Response<'m>, EnvelopeProblem>) -> Option<&'m RawValue> {
        let CancelRule::Operation { token, .. } = &self.config().dialect.cancel else {
            return None;
        };
        let Ok(Response::Result(result)) = answer else { return None };
        let token = decode::param(Some(result), token)?;
        let is_usable = self.readable(token.get()).is_some() && token.get() != "null";
        is_usable.then_some(token)
    }

    fn kind_of(&self, answer: &Result<Response<'_>, EnvelopeProblem>) -> Answer {
        match answer {
            Ok(Response::Result(_)) if self.token_in(answer).is_some() => Answer::Token,
            Ok(Response::Result(_)) => Answer::Result,
            Ok(Response::Error(error)) if decode::confirms_cancel(error) => Answer::CancelError,
            Ok(Response::Error(_)) => Answer::Error,
            Err(_) => Answer::Malformed,
        }
    }

    /// Whether the message of ours with this number asked for what a response says it answers.
    #[inline]
    fn asked(&self, number: u32, answered: Option<Asked>) -> bool {
        let Some(answered) = answered else { return true };
        let call = self.machine.call_numbered(number);
        match call.and_then(|call| self.machine.call_data(call)) {
            Some(outgoing) => outgoing.asked == answered,
            None => !self.machine.is_cancel(number) || answered == Asked::Other,
        }
    }

    /// The number of the message of ours whose id this token is.
    pub(super) fn number_in(&self, id: &str) -> Option<u32> {
        match self.config().dialect.envelope {
            Envelope::JsonRpc | Envelope::Dap => number_of(id),
            Envelope::Abp => abp::number(id),
        }
    }

    /// Whether a message without method, result and error can only be a response.
    pub(super) fn is_in_flight(&self, id: Option<&str>) -> bool {
        id.and_then(number_of).is_some_and(|number| self.machine.expects_response(number))
    }
}

/// The number that an id token says, if it is one of ours: decimal, nothing else (B14).
pub(super) fn number_of(token: &str) -> Option<u32> {
    // No JSON begins with a plus, which is all else that this reads.
    token.parse().ok()
}
