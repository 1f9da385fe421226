//! Steps in which the host waits for something, and looks before it does.

use std::mem;

use protocol_core::Refusal;
use protocol_endpoint::Line;

use crate::bytes::Bytes;

use super::Scene;
use super::host::Standing;
use super::values::inside;

const LINES: [Line; 5] = [Line::Arrival, Line::Room, Line::Flushed, Line::End, Line::Ready];

impl Scene {
    pub(super) fn wait(&mut self, bytes: &mut Bytes<'_>) {
        let (how, at) = (bytes.byte(), usize::from(bytes.byte()));
        let place = at.checked_rem(self.host.places.len());
        match (how % 4, place) {
            (0, Some(at)) => self.leave(at),
            (1, Some(at)) => self.wait_again(at),
            _ => self.wait_in(LINES[usize::from(how / 4 % 5)]),
        }
    }

    fn leave(&mut self, at: usize) {
        let Self { endpoint, effects, host, .. } = self;
        let Standing { line, place, .. } = host.places.remove(at);
        inside(|| endpoint.leave(line, &place, effects));
        self.settle();
    }

    /// Waits again for an event that has not come.
    fn wait_again(&mut self, at: usize) {
        let line = self.host.places[at].line;
        if line == Line::Room {
            return self.send_again(at);
        }
        let new = self.host.waiter();
        let (id, mut waiter) = (new.id, Some(new));
        let is_there = match line {
            Line::Ready => self.endpoint.has_room(Some(&self.host.places[at].place)),
            _ => self.is_there(line),
        };
        if is_there {
            return;
        }
        let Self { endpoint, effects, host, .. } = self;
        let Standing { place, asleep, .. } = host.places.remove(at);
        assert_eq!(endpoint.waiting(line, Some(&place)).map(|waiter| waiter.id), asleep);
        let mut place = Some(place);
        inside(|| endpoint.wait(line, &mut place, &mut waiter, effects));
        assert_eq!(waiter.map(|waiter| waiter.id), asleep, "the one before comes back");
        let place = place.expect("it waits");
        host.places.insert(at, Standing { line, place, asleep: Some(id) });
        self.settle();
    }

    /// Sends the notification of a waiter for room, which waits again if there is none.
    fn send_again(&mut self, at: usize) {
        let Self { endpoint, effects, host, .. } = self;
        let value = host.values[0].clone();
        let place = Some(&host.places[at].place);
        let sent = inside(|| endpoint.notify_at(place, "note", Some(&value), effects));
        // Its own waiter may be woken, too.
        self.settle();
        let Self { endpoint, effects, host, .. } = self;
        let Standing { line, place, asleep } = host.places.remove(at);
        if sent == Err(Refusal::OutboxFull) {
            let new = host.waiter();
            let (id, mut waiter, mut place) = (new.id, Some(new), Some(place));
            inside(|| endpoint.wait(line, &mut place, &mut waiter, effects));
            assert_eq!(waiter.map(|waiter| waiter.id), asleep, "the one before comes back");
            let place = place.expect("it waits");
            host.places.insert(at, Standing { line, place, asleep: Some(id) });
        } else {
            inside(|| endpoint.leave(line, &place, effects));
        }
        self.settle();
    }

    fn wait_in(&mut self, line: Line) {
        if self.is_there(line) || self.host.places.len() == self.host.places.capacity() {
            return;
        }
        let Self { endpoint, effects, host, .. } = self;
        let new = host.waiter();
        let (id, mut waiter, mut place) = (new.id, Some(new), None);
        inside(|| endpoint.wait(line, &mut place, &mut waiter, effects));
        assert!(waiter.is_none(), "a new place has no waiter");
        let place = place.expect("it waits");
        host.places.push(Standing { line, place, asleep: Some(id) });
        self.settle();
    }

    /// Returns whether a host that looks before it waits finds something.
    fn is_there(&mut self, line: Line) -> bool {
        match line {
            Line::Arrival => self.take(true) || self.endpoint.closed().is_some(),
            Line::Room => {
                let waits = self.host.places.iter().any(|place| place.line == Line::Room);
                !waits && !self.endpoint.is_full() || self.endpoint.closed().is_some()
            }
            Line::Ready => self.endpoint.has_room(None),
            Line::Flushed => self.endpoint.is_flushed(),
            Line::End => self.endpoint.closed().is_some(),
        }
    }

    pub(super) fn leave_all(&mut self) {
        while !self.host.places.is_empty() {
            self.leave(0);
        }
    }

    pub(super) fn wait_for_transport(&mut self, bytes: &mut Bytes<'_>) {
        let is_output = bytes.pick(&[true, false]);
        self.time();
        if (is_output && self.read()) || self.endpoint.is_over() {
            return;
        }
        let Self { endpoint, host, .. } = self;
        let new = host.waiter();
        let (id, mut waiter) = (Some(new.id), Some(new));
        let before = if is_output {
            inside(|| endpoint.wait_for_output(&mut waiter));
            mem::replace(&mut host.output, id)
        } else {
            host.armed = inside(|| endpoint.wait_for_timer(&mut waiter));
            mem::replace(&mut host.timer, id)
        };
        assert_eq!(waiter.map(|waiter| waiter.id), before, "the one before comes back");
    }
}
