//! The end of a scene: everybody keeps the rules, and the accounts are judged.

use std::time::Duration;

use protocol_core::CallOptions;
use protocol_endpoint::{CallError, Request};

use super::words::response;
use super::{MOST, Scene};

impl Scene {
    /// Takes, responds to and reads everything. Returns the number of probes that the endpoint stood.
    pub(super) fn calm(&mut self) -> usize {
        while self.host.corks > 0 {
            self.uncork();
        }
        self.serve_all();
        self.judge();
        self.take_outcomes();
        self.leave_all();
        if self.is_gone {
            return 0;
        }
        let left = self.endpoint.core().requests_in_flight();
        assert_eq!(left, 0, "F122: so many requests are never responded to");
        assert_eq!(self.endpoint.arrivals(), 0, "F122: so many arrivals are never taken");
        assert!(self.endpoint.is_flushed(), "nothing is left to be written");
        assert!(!self.endpoint.is_full(), "all is written, and there is no room");
        self.account.judge();
        if self.endpoint.closed().is_some() || !self.host.is_served || self.is_wild {
            return 0;
        }
        let (here, said) = (self.host.arrivals, self.account.notes + self.account.violations);
        assert!(here >= said, "G8: of {said} notifications and violations, {here} arrived");
        usize::from(self.probe_work()) + usize::from(self.probe_results())
    }

    fn serve_all(&mut self) {
        for _ in 0..MOST {
            self.begin_all();
            while self.read() {}
            while self.take(false) {}
            while let Some(request) = self.host.at_work.pop() {
                self.respond_so(request, 4);
            }
            let is_served = self.endpoint.core().requests_in_flight() == 0;
            if is_served && self.endpoint.arrivals() == 0 && self.endpoint.is_flushed() {
                return;
            }
        }
    }

    /// Takes all outcomes that are there: together they are under the limit, or one is alone.
    fn take_outcomes(&mut self) {
        let (mut at, mut count, mut bytes) = (0, 0, 0);
        while at < self.host.calls.len() {
            let outcome = match self.host.calls[at].is_later() {
                true => self.poll(at),
                false => None,
            };
            match outcome {
                Some(Ok(result)) => (count, bytes) = (count + 1, bytes + result.get().len()),
                Some(Err(_)) => {}
                None => at += 1,
            }
        }
        let limit = self.options.result_bytes;
        assert!(count <= 1 || bytes <= limit, "G8: {bytes} bytes of outcomes waited");
    }

    /// Asks as many requests as may be at work: all of them are taken.
    fn probe_work(&mut self) -> bool {
        let each = size_of::<Request>() + "m".len() + r#"{"a":""}"#.len();
        let by_bytes = (self.options.work_bytes / each).max(1);
        let most = self.options.config.limits.requests.min(self.options.work_requests);
        for nth in 0..most.min(by_bytes) {
            let before = self.account.violations;
            self.ask(5, 0);
            self.settle();
            // The core refuses some, such as those before the session is open.
            let is_refused = self.account.violations > before || self.endpoint.closed().is_some();
            if is_refused || !self.is_heard(1_000) {
                self.serve_all();
                return false;
            }
            let count = self.host.at_work.len();
            while self.take(false) {}
            assert_eq!(self.host.at_work.len(), count + 1, "{nth} are at work, and one is refused");
        }
        self.serve_all();
        true
    }

    /// Calls the peer, which responds with the longest result that has room.
    fn probe_results(&mut self) -> bool {
        while let Some(kept) = self.host.calls.pop() {
            let Self { endpoint, effects, now, .. } = self;
            super::inside(|| endpoint.drop_call(kept.call, *now, effects));
            self.settle();
        }
        self.now = self.now + Duration::from_secs(60);
        self.time();
        let limits = &self.options.config.limits;
        let length = self.options.result_bytes.min(limits.message_bytes - 150).max(3) - 2;
        if !self.is_heard(length + 200) {
            return false;
        }
        let Some(call) = self.call_with("m", None, CallOptions::default()) else { return false };
        while self.read() {}
        let number = call.id.number();
        self.say_other(|dialect| response(number, length, dialect).into_bytes());
        if self.endpoint.closed().is_some() {
            return false;
        }
        let place = self.host.calls.iter().position(|kept| kept.call == call);
        let outcome = self.poll(place.expect("it was made")).expect("G1: its outcome is lost");
        let is_untaken = matches!(outcome.map_err(|error| *error), Err(CallError::Untaken));
        assert!(!is_untaken, "there was no room for the only outcome");
        true
    }

    /// Everybody goes: the peer, then the host.
    pub(super) fn end(&mut self) {
        self.end_input();
        for _ in 0..MOST {
            self.serve_all();
            self.now = self.now + Duration::from_secs(1);
            self.time();
            self.read();
            if self.is_over {
                break;
            }
        }
        assert!(self.is_over && self.endpoint.is_over(), "the connection never ends");
        while !self.host.calls.is_empty() {
            let outcome = self.poll(0);
            assert!(outcome.is_some(), "G1: a call never settled");
        }
        if !self.is_gone {
            self.account.judge();
        }
    }
}
