//! The steps from which the scenarios are built.

use std::time::Duration;

use protocol_core::code;
use serde_json::{Value, json};

use super::bench::{Bench, What};
use super::message::{Message, Request, text_id};
use super::target::Side;
use super::work::Work;
use crate::wire::Wire;

/// A scenario at work. What returns an `Option` waits, and is `None` when it waited in vain.
#[derive(Debug)]
pub struct Play<'a> {
    bench: &'a mut Bench,
    caller: Side,
    /// Added to the ids, as the seed wants.
    shift: u64,
}

impl<'a> Play<'a> {
    pub(super) fn new(bench: &'a mut Bench, caller: Side, shift: u64) -> Self {
        Self { bench, caller, shift }
    }

    /// Returns the protocol that the caller speaks.
    pub(super) fn protocol(&self) -> &Wire {
        self.bench.protocol(self.caller)
    }

    fn callee(&self) -> Side {
        self.caller.other()
    }

    /// Returns the text of a request, and the tag that tells it from all others.
    pub(super) fn request_text(&mut self, id: &Value) -> (String, u64) {
        let (method, params) = self.request_parts(self.work());
        (self.protocol().raw_request(id, method, params), self.tag())
    }

    /// Returns the method and the params of the next request of this kind, which has the last tag.
    pub(super) fn request_parts(&mut self, work: Work) -> (&'static str, Value) {
        self.bench.tag += 1;
        work.request(self.protocol().family, self.caller, self.tag())
    }

    /// Returns the tag of the last request.
    pub(super) fn tag(&self) -> u64 {
        self.bench.tag
    }

    /// Returns the kind of request that the caller makes.
    pub(super) fn work(&self) -> Work {
        self.bench.reaches[self.caller as usize].unwrap_or(Work::Unknown)
    }

    pub(super) fn cancel_text(&self, id: &Value) -> String {
        self.cancel_with(&json!({ self.protocol().cancel_member(): id }).to_string())
    }

    /// Returns a cancel with these params.
    pub(super) fn cancel_with(&self, params: &str) -> String {
        self.protocol().cancel_with(params, &self.bench.number().to_string())
    }

    /// Notifies the callee of these, all in one write.
    pub(super) fn notify(&mut self, notes: &[(&str, Value)]) {
        let text = |(method, params): &(&str, Value)| {
            self.protocol().raw_notification(method, params, self.bench.number())
        };
        let texts: Vec<String> = notes.iter().map(text).collect();
        self.send(&texts);
    }

    /// Sends from the caller, all in one write.
    pub(super) fn send(&mut self, messages: &[String]) {
        self.bench.send(self.caller, messages);
    }

    /// Sends from the caller in the bytes given.
    pub(super) fn send_bytes(&mut self, messages: &[String], bytes: Vec<u8>) {
        self.bench.send_bytes(self.caller, messages, bytes);
    }

    /// Calls, and waits until that arrives. Returns the id that it has on the other side.
    pub(super) fn call(&mut self, id: &Value) -> Option<Value> {
        let (text, tag) = self.request_text(id);
        self.send(&[text]);
        self.arrives(tag)
    }

    /// Calls under an id of this number, which the seed shifts. Returns both ids.
    pub(super) fn called(&mut self, number: u64) -> Option<(Value, Value)> {
        let id = self.id(number);
        let far = self.call(&id)?;
        Some((id, far))
    }

    pub(super) fn cancel(&mut self, id: &Value) {
        let text = self.cancel_text(id);
        self.send(&[text]);
    }

    /// Cancels, and waits until that has arrived.
    pub(super) fn cancelled(&mut self, id: &Value) -> Option<()> {
        self.cancel(id);
        self.barrier()
    }

    /// Answers with a result, and waits until the caller has it.
    pub(super) fn complete(&mut self, id: &Value, far: &Value) -> Option<()> {
        self.finish_call(far);
        self.answered(id)
    }

    /// Answers that the request was cancelled, and waits until the caller has that.
    pub(super) fn confirm(&mut self, id: &Value, far: &Value) -> Option<()> {
        self.confirm_cancel(far);
        self.answered(id)
    }

    /// Waits for a request with this tag at the callee, or for one without.
    pub(super) fn arrives(&mut self, tag: impl Into<Option<u64>>) -> Option<Value> {
        let tag = tag.into();
        let is_such = |request: &&Request| request.tag == tag;
        self.wait(self.callee(), |message| Some(message.request().filter(is_such)?.id.clone()))
    }

    /// Returns the same as [`arrives`](Self::arrives), without waiting.
    pub(super) fn arrived(&self, tag: u64) -> Option<Value> {
        self.forwarded(tag).map(|request| request.id.clone())
    }

    /// Returns the progress token under which a request has arrived.
    pub(super) fn token(&self, tag: u64) -> Option<&Value> {
        self.forwarded(tag)?.token()
    }

    fn forwarded(&self, tag: u64) -> Option<&Request> {
        let mut requests = self.bench.arrived(self.callee()).filter_map(Message::request);
        requests.find(|request| request.tag == Some(tag))
    }

    /// Answers from the callee. `answer` is `{"result": …}` or `{"error": …}`.
    pub(super) fn answer(&mut self, far: &Value, answer: &Value) {
        let text = self.answer_text(far, answer);
        self.swapped().send(&[text]);
    }

    pub(super) fn answer_text(&self, far: &Value, answer: &Value) -> String {
        let mut requests = self.bench.arrived(self.callee()).rev().filter_map(Message::request);
        let asked = requests.find(|request| request.id == *far);
        let method = asked.map_or("work", |request| &request.method);
        let protocol = self.bench.protocol(self.callee());
        protocol.respond(far, method, answer, self.bench.number())
    }

    /// Answers with a result of the judge's.
    pub(super) fn finish_call(&mut self, far: &Value) {
        self.answer(far, &json!({ "result": self.result(far) }));
    }

    /// Returns a result of what the caller has asked for.
    pub(super) fn result(&self, far: &Value) -> Value {
        self.work().result(self.protocol().family, self.caller, far)
    }

    /// Answers that the request was cancelled, where its protocol wants that.
    pub(super) fn confirm_cancel(&mut self, far: &Value) {
        if self.bench.protocol(self.callee()).answers_cancelled() {
            self.answer(far, &Wire::error(code::REQUEST_CANCELLED, "Request cancelled"));
        }
    }

    /// Waits for an answer at the caller. Where a cancelled request gets none, it waits for what is under way.
    pub(super) fn answered(&mut self, id: &Value) -> Option<()> {
        let is_silent = !self.protocol().answers_cancelled();
        let mut done = self.bench.log.iter().filter(|entry| entry.side == self.caller);
        if is_silent && done.any(|it| matches!(&it.what, What::Sent(sent, _) if sent.cancels(id))) {
            return self.barrier();
        }
        self.wait(self.caller, |message| message.answer_to(id).map(drop))
    }

    /// Sends a request each way and back, unless a side has hung up. What was sent before has arrived by then.
    pub(super) fn barrier(&mut self) -> Option<()> {
        if self.bench.log.iter().any(|entry| matches!(entry.what, What::Closed)) {
            return Some(());
        }
        for caller in [self.caller, self.callee()] {
            if self.bench.reaches[caller as usize].is_some() {
                self.barrier_of(caller)?;
            }
        }
        Some(())
    }

    /// Sends a request of this side through the relay and back.
    pub(super) fn barrier_of(&mut self, caller: Side) -> Option<()> {
        let mut play = self.by(caller);
        let id = play.text_id(&format!("barrier-{}", play.tag()));
        let far = play.call(&id)?;
        play.complete(&id, &far)
    }

    /// Finds the kind of request that this side can make through the relay, so that the answers come back.
    pub(super) fn reaches(&mut self, caller: Side, works: &[Work]) -> Option<Work> {
        works.iter().copied().find(|work| {
            self.bench.reaches[caller as usize] = Some(*work);
            self.barrier_of(caller).is_some()
        })
    }

    /// Returns whether both sides' requests arrive on the other.
    pub(super) fn is_both_ways(&self) -> bool {
        self.bench.reaches.iter().all(Option::is_some)
    }

    /// Returns the same scenario's helpers with the roles swapped.
    pub(super) fn swapped(&mut self) -> Play<'_> {
        self.by(self.callee())
    }

    fn by(&mut self, caller: Side) -> Play<'_> {
        Play { caller, shift: self.shift, bench: &mut *self.bench }
    }

    /// Returns an id, which the seed shifts.
    pub(super) fn id(&self, number: u64) -> Value {
        json!(number + self.shift)
    }

    /// Returns the id that is this text, or a number that no other has where ids are no texts.
    pub(super) fn text_id(&self, text: &str) -> Value {
        text_id(self.protocol(), text, || self.bench.number())
    }

    /// Closes the caller's output.
    pub(super) fn hang_up(&mut self) {
        self.bench.close(self.caller);
    }

    /// Waits until a cancel for that id arrives at the callee, or its end.
    pub(super) fn cancelled_or_ended(&mut self, far: &Value) -> Option<()> {
        let callee = self.callee();
        let cancelled = self.wait(callee, |message| message.cancels(far).then_some(()));
        cancelled.or_else(|| self.bench.ended(callee).then_some(()))
    }

    /// Ends both sides as a client that is done would, and reads what is left: not for long of a relay that
    /// does not end by that.
    pub(super) fn finish(&mut self, quiet: Duration) {
        self.bench.push(Side::Near, What::Over);
        // A machine that is late from now on hides nothing: what was to be seen was seen.
        let was_late = self.bench.was_late;
        for side in [Side::Near, Side::Far] {
            self.bench.close(side);
            self.bench.wait(side.other(), quiet, |_| None::<()>);
        }
        self.bench.was_late = was_late;
    }

    fn wait<T>(&mut self, side: Side, wanted: impl Fn(&Message) -> Option<T>) -> Option<T> {
        let found = self.bench.arrived(side).find_map(&wanted);
        found.or_else(|| self.bench.wait(side, self.bench.patience, wanted))
    }
}
