//! Steps of the host, which does anything in any order.

use heap::aside;
use protocol_core::{CallOptions, Cause, Refusal, RequestHandle, Response, ResponseRule, Shutdown};
use protocol_endpoint::{Arrived, Call, CallOutcome, Line};
use serde_json::value::RawValue;

use crate::bytes::Bytes;

use super::Scene;
use super::host::{Interest, Kept, Standing};
use super::values::{Mark, inside};

impl Scene {
    pub(super) fn act(&mut self, kind: u8, bytes: &mut Bytes<'_>) {
        match kind % 32 {
            18 | 19 => {
                for _ in 0..bytes.byte() % 4 {
                    self.take(bytes.byte().is_multiple_of(2));
                }
            }
            20 | 21 => self.respond(bytes),
            22 | 23 => self.call(bytes),
            24 => self.end_call(bytes),
            25 => self.notify_peer(bytes),
            26 | 27 => self.wait(bytes),
            28 => self.cork(bytes),
            29 => self.change_request(bytes),
            30 if kind > 220 => self.shut_down(bytes),
            30 => self.wait_for_transport(bytes),
            _ => {
                self.begin_all();
                aside(|| drop(self.endpoint.in_flight(3, self.now)));
            }
        }
    }

    /// Takes an arrival. Returns whether there was one.
    pub(super) fn take(&mut self, watches: bool) -> bool {
        let Self { endpoint, effects, host, .. } = self;
        let arrived = inside(|| endpoint.take(effects));
        let mut waiting = host.places.iter().filter(|it| it.line == Line::Arrival).peekable();
        let is_asleep = waiting.peek().is_some() && waiting.all(|it| it.asleep.is_some());
        assert!(arrived.is_none() || !is_asleep, "an arrival was there, and all waiters slept");
        match arrived {
            None => {
                self.settle();
                return false;
            }
            Some(Arrived::Request(request, _)) => {
                let is_new = !host.at_work.contains(&request) && !host.stale.contains(&request);
                assert!(is_new, "F122: a request was taken that has its response");
                if watches && endpoint.cause(request).is_none() {
                    let mark = Mark::new(request);
                    let refused = inside(|| endpoint.watch(request, mark));
                    assert!(refused.is_ok(), "a request that was just taken is in flight");
                    host.marks.push(request);
                }
                host.at_work.push(request);
            }
            Some(Arrived::Missed(count)) => host.arrivals += count,
            Some(_) => host.arrivals += 1,
        }
        self.settle();
        true
    }

    fn respond(&mut self, bytes: &mut Bytes<'_>) {
        let (place, how) = (usize::from(bytes.byte()), bytes.byte());
        let many = bytes.pick(&[1, 1, 10]);
        for _ in 0..many {
            let Some(place) = place.checked_rem(self.host.at_work.len()) else { break };
            let request = self.host.at_work.remove(place);
            self.respond_so(request, how);
        }
        if how > 240 {
            // Once more, to one that may have its response.
            let place = place.checked_rem(self.host.stale.len());
            let Some(request) = place.map(|place| self.host.stale[place]) else { return };
            self.respond_so(request, how);
        }
    }

    pub(super) fn respond_so(&mut self, request: RequestHandle, how: u8) {
        let value = self.host.values[usize::from(how / 8 % 3)].clone();
        match how % 8 {
            0 => {
                let Self { endpoint, effects, .. } = self;
                let mark = inside(|| endpoint.respond_for_worker(request, effects));
                self.is_responded(request, mark);
            }
            1 => self.respond_with(request, Response::Cancelled),
            2 => {
                let (message, data) = ("no", Some(&*value));
                self.respond_with(request, Response::Error { code: -1, message, data });
            }
            _ => self.respond_with(request, Response::Result(&value)),
        }
    }

    pub(super) fn respond_with(&mut self, request: RequestHandle, response: Response<'_>) {
        let Self { endpoint, effects, .. } = self;
        let mark = inside(|| endpoint.respond(request, response, effects));
        self.is_responded(request, mark);
    }

    fn is_responded(&mut self, request: RequestHandle, mark: Option<Mark>) {
        if let Some(mark) = mark {
            self.host.mark_is_back(&mark);
        }
        self.host.stale.push(request);
        self.settle();
    }

    fn call(&mut self, bytes: &mut Bytes<'_>) {
        let method = self.host.methods[usize::from(bytes.byte() % 3)].clone();
        let value = self.host.values[3].clone();
        let params = bytes.pick(&[false, true]).then_some(&*value);
        let mut options = CallOptions::default();
        if bytes.byte() < 30 {
            options = options.grace(None);
        }
        for _ in 0..bytes.pick(&[1, 1, 4]) {
            self.call_with(&method, params, options);
        }
    }

    pub(super) fn call_with(
        &mut self,
        method: &str,
        params: Option<&RawValue>,
        options: CallOptions,
    ) -> Option<Call> {
        let Self { endpoint, effects, now, .. } = self;
        let call = inside(|| endpoint.call(method, params, options, *now, effects)).ok();
        if let Some(call) = call {
            let is_new = self.host.calls.iter().all(|kept| kept.call != call);
            assert!(is_new, "G5: another call has that name");
            self.host.calls.push(Kept { call, interest: Interest::Later });
        }
        self.settle();
        call
    }

    fn end_call(&mut self, bytes: &mut Bytes<'_>) {
        let place = usize::from(bytes.byte());
        let Some(place) = place.checked_rem(self.host.calls.len()) else { return };
        let Self { endpoint, effects, host, now, .. } = self;
        let call = host.calls[place].call;
        let is_handed_over = matches!(host.calls[place].interest, Interest::HandOver(_));
        match bytes.byte() % 8 {
            0 => {
                host.calls.remove(place);
                inside(|| endpoint.drop_call(call, *now, effects));
                host.over.push(call);
            }
            1 => {
                host.calls.remove(place);
                inside(|| endpoint.detach(call, *now, effects));
                host.over.push(call);
            }
            2 => drop(inside(|| endpoint.cancel(call.id, Cause::Caller, None, *now, effects))),
            3 if !is_handed_over => {
                let waiter = host.waiter();
                host.calls[place].interest = Interest::HandOver(waiter.id);
                let handed = inside(|| endpoint.hand_over(call, waiter, effects));
                if let Err((_, outcome)) = handed {
                    drop(outcome);
                    host.over.push(host.calls.swap_remove(place).call);
                }
            }
            4 => {
                // A call that is over stays so.
                let Some(&over) = host.over.last() else { return };
                let mut waiter = Some(host.waiter());
                assert!(inside(|| endpoint.poll_outcome(over, &mut waiter)).is_none(), "G1");
                assert!(waiter.is_some(), "a call that is over took a waiter");
                inside(|| endpoint.drop_call(over, *now, effects));
            }
            _ if is_handed_over => {}
            _ => drop(self.poll(place)),
        }
        self.settle();
    }

    /// Takes the outcome of a call, or waits for it.
    pub(super) fn poll(&mut self, place: usize) -> Option<CallOutcome> {
        let Self { endpoint, host, .. } = self;
        let (call, new) = (host.calls[place].call, host.waiter());
        let (id, mut waiter) = (new.id, Some(new));
        let outcome = inside(|| endpoint.poll_outcome(call, &mut waiter));
        let kept = &mut host.calls[place];
        if outcome.is_some() {
            assert!(
                kept.interest == Interest::Later,
                "its outcome was there, and its waiter slept"
            );
            host.over.push(host.calls.swap_remove(place).call);
        } else {
            let before = match kept.interest {
                Interest::Asleep(before) => Some(before),
                _ => None,
            };
            assert_eq!(waiter.map(|waiter| waiter.id), before, "the one before comes back");
            kept.interest = Interest::Asleep(id);
            assert_eq!(endpoint.waiting_for(call).map(|waiter| waiter.id), Some(id));
        }
        outcome
    }

    fn notify_peer(&mut self, bytes: &mut Bytes<'_>) {
        let value = self.host.values[usize::from(bytes.byte() % 3)].clone();
        let waits = bytes.pick(&[true, false]);
        for _ in 0..bytes.pick(&[1, 1, 8]) {
            let Self { endpoint, effects, host, .. } = self;
            if waits {
                let (mut place, waiter) = (None, host.waiter());
                let (id, mut waiter) = (waiter.id, Some(waiter));
                inside(|| {
                    let sent = endpoint.notify_at(None, "note", Some(&value), effects);
                    if sent == Err(Refusal::OutboxFull) {
                        endpoint.wait(Line::Room, &mut place, &mut waiter, effects);
                    }
                });
                if let Some(place) = place {
                    host.places.push(Standing { line: Line::Room, place, asleep: Some(id) });
                }
            } else {
                let _ = inside(|| endpoint.try_notify("note", Some(&value), effects));
            }
            self.settle();
        }
    }

    fn cork(&mut self, bytes: &mut Bytes<'_>) {
        if self.host.corks > 0 && bytes.pick(&[true, false]) {
            return self.uncork();
        }
        self.endpoint.cork();
        self.host.corks += 1;
    }

    pub(super) fn uncork(&mut self) {
        let Self { endpoint, effects, host, .. } = self;
        host.corks -= 1;
        inside(|| endpoint.uncork(effects));
        self.settle();
    }

    fn change_request(&mut self, bytes: &mut Bytes<'_>) {
        let (at, how) = (usize::from(bytes.byte()), bytes.byte());
        let from = if how > 200 { &self.host.stale } else { &self.host.at_work };
        let Some(request) = at.checked_rem(from.len()).map(|at| from[at]) else { return };
        let Self { endpoint, effects, host, now, .. } = self;
        let dialect = endpoint.dialect();
        let is_silent = dialect.response != ResponseRule::Required;
        let id = endpoint.core().machine().request_id(request).cloned();
        match how % 4 {
            0 | 1 => {
                let cause = [Cause::Internal, Cause::Peer][usize::from(how % 4)];
                if let (Cause::Peer, true, Some(id)) = (cause, is_silent, &id) {
                    aside(|| self.account.allow_silence(id.as_json()));
                }
                inside(|| endpoint.cancel_request(request, cause, *now, effects));
            }
            2 => {
                let entropy = [host.operations; 16];
                let begun = inside(|| endpoint.begin_operation(request, entropy, effects));
                if begun.is_err_and(|refusal| refusal != Refusal::AlreadyResponded) {
                    // It has got an error, or will.
                    host.at_work.retain(|other| *other != request);
                    host.stale.push(request);
                }
            }
            _ => {
                let ended = inside(|| endpoint.end_request(request, None, effects));
                if let Ok(mark) = ended {
                    if let Some(mark) = mark {
                        host.mark_is_back(&mark);
                    }
                    host.at_work.retain(|other| *other != request);
                    host.stale.push(request);
                    if let Some(id) = &id {
                        aside(|| self.account.allow_silence(id.as_json()));
                    }
                }
            }
        }
        self.settle();
    }

    fn shut_down(&mut self, bytes: &mut Bytes<'_>) {
        let Self { endpoint, effects, now, account, .. } = self;
        let how = bytes.byte() % 5;
        if [2, 4].contains(&how) {
            account.allow_all_silence();
            self.is_gone = true;
        }
        match how {
            0 => inside(|| endpoint.shutdown(Shutdown::Drain, *now, effects)),
            1 => inside(|| endpoint.shutdown(Shutdown::CancelAll, *now, effects)),
            2 => inside(|| endpoint.shutdown(Shutdown::Abandon, *now, effects)),
            3 => inside(|| endpoint.stop_serving(effects)),
            _ => inside(|| endpoint.stop_writing("it broke", *now, effects)),
        }
        self.host.is_served &= how != 3;
        self.settle();
    }
}
