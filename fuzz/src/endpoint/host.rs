//! The host of a scene, which knows of each of its values where it is.

use std::mem;

use protocol_core::{RequestHandle, Response, Timestamp};
use protocol_endpoint::{Arrived, Call, Effect, Line, Options, Place};
use serde_json::value::{RawValue, to_raw_value};

use super::values::{Mark, Waiter, inside};
use super::{Endpoint, MOST, Scene};

/// The host's state. Its memory does not count as the endpoint's.
pub(super) struct Host {
    /// The number of waiters so far.
    waiters: u32,
    pub(super) calls: Vec<Kept>,
    /// Calls that are over.
    pub(super) over: Vec<Call>,
    pub(super) at_work: Vec<RequestHandle>,
    /// Requests that were responded to.
    pub(super) stale: Vec<RequestHandle>,
    /// Requests whose marks the endpoint has.
    pub(super) marks: Vec<RequestHandle>,
    /// Requests whose operations are still to begin.
    pub(super) to_begin: Vec<RequestHandle>,
    /// Waiters in a queue, in its order.
    pub(super) places: Vec<Standing>,
    /// The waiter for output that was not woken.
    pub(super) output: Option<u32>,
    /// The waiter for the timer that was not woken.
    pub(super) timer: Option<u32>,
    /// The time that it waits for.
    pub(super) armed: Option<Timestamp>,
    pub(super) is_served: bool,
    pub(super) corks: usize,
    /// The number of operations that were begun, or not.
    pub(super) operations: u8,
    /// Arrivals but requests: those taken, and those counted.
    pub(super) arrivals: usize,
    pub(super) values: [Box<RawValue>; 4],
    pub(super) methods: [String; 3],
}

/// A call whose outcome is still to be taken.
pub(super) struct Kept {
    pub(super) call: Call,
    pub(super) interest: Interest,
}

#[derive(PartialEq, Eq)]
pub(super) enum Interest {
    /// It is asked for, or its waiter was woken.
    Later,
    Asleep(u32),
    HandOver(u32),
}

pub(super) struct Standing {
    pub(super) line: Line,
    pub(super) place: Place,
    /// The waiter, unless it was woken.
    pub(super) asleep: Option<u32>,
}

impl Host {
    pub(super) fn new() -> Self {
        let text = |len| to_raw_value(&"x".repeat(len)).expect("text is a value");
        let list = |len| to_raw_value(&["x".repeat(len)]).expect("it is a value");
        let room = 64 * MOST;
        Self {
            waiters: 0,
            calls: Vec::with_capacity(room),
            over: Vec::with_capacity(room),
            at_work: Vec::with_capacity(room),
            stale: Vec::with_capacity(room),
            marks: Vec::with_capacity(room),
            to_begin: Vec::with_capacity(room),
            places: Vec::with_capacity(room),
            output: None,
            timer: None,
            armed: None,
            is_served: true,
            corks: 0,
            operations: 0,
            arrivals: 0,
            values: [text(1), text(300), text(9_000), list(100)],
            methods: [1, 20, 300].map(|length| "x".repeat(length)),
        }
    }

    pub(super) fn waiter(&mut self) -> Waiter {
        self.waiters += 1;
        Waiter::new(self.waiters)
    }

    /// Checks that each waiter that was not woken is in its place, and that none sleeps while it could go on.
    pub(super) fn judge(&self, endpoint: &Endpoint, options: &Options) {
        let is_room = !endpoint.is_full() || endpoint.closed().is_some();
        let has_no_room_line = self.places.iter().all(|place| place.line != Line::Room);
        let (mut is_first, mut is_first_ready) = (true, has_no_room_line);
        for Standing { line, asleep, .. } in &self.places {
            let is_there = match line {
                Line::Room => mem::replace(&mut is_first, false) && is_room,
                Line::Ready => mem::replace(&mut is_first_ready, false) && is_room,
                Line::Flushed => endpoint.is_flushed(),
                Line::Arrival | Line::End => endpoint.closed().is_some(),
            };
            assert!(!is_there || asleep.is_none(), "{line:?} is there, and its waiter sleeps");
        }
        assert_eq!(self.output, endpoint.waiting_for_output().map(|waiter| waiter.id));
        assert_eq!(self.timer, endpoint.waiting_for_timer().map(|waiter| waiter.id));
        let is_over = endpoint.is_over();
        assert!(self.output.is_none() || !is_over, "whoever writes sleeps at the end");
        let (due, armed) = (endpoint.due(), self.armed);
        // One that fires too early finds that its time has moved.
        let is_late = match (due, armed) {
            (Some(due), Some(armed)) => due < armed,
            (due, None) => due.is_some(),
            (None, Some(_)) => false,
        };
        let is_stale = is_late || is_over;
        assert!(self.timer.is_none() || !is_stale, "{due:?} is due, and {armed:?} is waited for");
        let is_at_work = |request| endpoint.core().machine().request_phase(request).is_some();
        let at_work = self.at_work.iter().filter(|request| is_at_work(**request)).count();
        assert!(at_work <= options.work_requests, "G8: {at_work} are at work");
        // One request that is alone, and one count of what was not kept, are above the limit.
        let most = options.inbox_bytes / size_of::<Arrived>() + 2;
        assert!(endpoint.arrivals() <= most, "G8: more than {most} arrivals wait");
        for &request in &self.marks {
            let cause = endpoint.cause(request);
            assert!(cause.is_none(), "its mark is kept, and it was cancelled: {cause:?}");
            let is_in_flight = endpoint.core().machine().request_phase(request);
            assert!(is_in_flight.is_some(), "its mark is kept, and it is over");
        }
    }
}

impl Kept {
    /// Returns whether nothing waits for the outcome.
    pub(super) fn is_later(&self) -> bool {
        self.interest == Interest::Later
    }
}

// Effects
impl Scene {
    pub(super) fn carry_out(&mut self, effect: Effect<Waiter, Mark>) {
        let host = &mut self.host;
        match effect {
            Effect::Wake(waiter) => host.wake(waiter.id),
            Effect::HandOver(waiter, _) => {
                let wanted = Interest::HandOver(waiter.id);
                let at = host.calls.iter().position(|kept| kept.interest == wanted);
                let kept = host.calls.swap_remove(at.expect("G1: it was handed over before"));
                host.over.push(kept.call);
            }
            Effect::Cancel(mark, _) | Effect::DropMark(mark) => host.mark_is_back(&mark),
            Effect::Drop(waiter) => assert!(!host.is_asleep(waiter.id), "nobody gave it up"),
            Effect::BeginOperation(request, _) => {
                host.operations = host.operations.wrapping_add(1);
                match host.operations % 8 {
                    0 => {
                        let response = Response::Error { code: -1, message: "no", data: None };
                        self.respond_with(request, response);
                    }
                    1 => host.to_begin.push(request),
                    _ => self.begin(request),
                }
            }
            _ => {}
        }
    }

    fn begin(&mut self, request: RequestHandle) {
        // Tokens repeat at times.
        let entropy = [self.host.operations % 64; 16];
        let Self { endpoint, effects, .. } = self;
        let _ = inside(|| endpoint.begin_operation(request, entropy, effects));
        self.settle();
    }

    /// Begins the operations that were put off.
    pub(super) fn begin_all(&mut self) {
        while let Some(request) = self.host.to_begin.pop() {
            self.begin(request);
        }
    }
}

impl Host {
    fn wake(&mut self, id: u32) {
        if self.output == Some(id) {
            self.output = None;
        } else if self.timer == Some(id) {
            self.timer = None;
        } else if let Some(place) = self.places.iter_mut().find(|it| it.asleep == Some(id)) {
            place.asleep = None;
        } else {
            let wanted = Interest::Asleep(id);
            let kept = self.calls.iter_mut().find(|kept| kept.interest == wanted);
            kept.expect("nobody waits with it").interest = Interest::Later;
        }
    }

    fn is_asleep(&self, id: u32) -> bool {
        let ids =
            [self.output, self.timer].into_iter().chain(self.places.iter().map(|it| it.asleep));
        let calls = |kept: &Kept| matches!(kept.interest, Interest::Asleep(it) | Interest::HandOver(it) if it == id);
        ids.flatten().any(|it| it == id) || self.calls.iter().any(calls)
    }

    pub(super) fn mark_is_back(&mut self, mark: &Mark) {
        let at = self.marks.iter().position(|request| *request == mark.request);
        self.marks.swap_remove(at.expect("the mark came back before"));
    }
}
