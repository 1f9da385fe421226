//! Arrivals that wait to be taken.

use alloc::borrow::Cow;
use alloc::collections::VecDeque;

use protocol_core::{RequestHandle, Violation, WireId};
use serde_json::value::RawValue;

use crate::message::{Notification, Request, payload};
use crate::method::MethodName;

/// The number of arrivals for which an empty inbox keeps room.
const KEPT: usize = 64;

/// An arrival: a message of the peer's, or a rule that it broke.
#[derive(Debug)]
// The tag is a word, because a tag of one byte splits the words that are moved with it.
#[repr(usize)]
pub enum Arrived {
    /// A request that waits to be served.
    Request(RequestHandle, Request),
    /// A notification that waits to be taken.
    Notification(Notification),
    /// The peer broke a rule.
    Violation(Violation, Option<WireId>),
    /// The number of notifications and violations in this place that were not kept.
    Missed(usize),
}

/// A queue of arrivals, bounded in bytes.
///
/// A notification or a violation that does not fit is counted, and the count is delivered in its place. So
/// nothing is dropped in silence (G8). Requests are always taken: the caller checks that there is
/// [room](Self::has_room_for), and responds to a request that has none.
#[derive(Debug)]
pub(crate) struct Inbox {
    queue: VecDeque<Arrived>,
    bytes: usize,
    limit: usize,
}

impl Inbox {
    /// Returns the most bytes of heap that an inbox with this limit holds, beside one message that is alone.
    pub(crate) const fn memory(limit: usize) -> usize {
        // The whole limit may be places in a queue that grows. The smallest queue has four places.
        limit.saturating_mul(3).saturating_add(4 * size_of::<Arrived>())
    }

    /// Returns an empty inbox with this limit in bytes.
    pub(crate) const fn new(limit: usize) -> Self {
        Self { queue: VecDeque::new(), bytes: 0, limit }
    }

    /// Takes a request.
    #[inline]
    pub(crate) fn take_request(
        &mut self,
        request: RequestHandle,
        method: MethodName,
        params: Option<Cow<'_, RawValue>>,
        options: Option<Cow<'_, RawValue>>,
    ) {
        let (params, options) = (params.map(Cow::into_owned), options.map(Cow::into_owned));
        let arrived = Arrived::Request(request, Request { method, params, options });
        self.bytes += size(&arrived);
        self.queue.push_back(arrived);
    }

    /// Returns whether a request fits. One that waits alone always does.
    pub(crate) fn has_room_for(
        &self,
        method: &str,
        params: Option<&RawValue>,
        options: Option<&RawValue>,
    ) -> bool {
        let payload = payload(method, params, options);
        self.queue.is_empty() || self.bytes + size_of::<Arrived>() + payload <= self.limit
    }

    /// Returns the oldest arrival's request, if it is one.
    pub(crate) fn next_request(&self) -> Option<RequestHandle> {
        match self.queue.front()? {
            Arrived::Request(request, _) => Some(*request),
            _ => None,
        }
    }

    /// Returns the number of arrivals that wait.
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Returns the bytes that are held.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns whether no arrival waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Takes the oldest arrival.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Arrived> {
        // Its size is read before the move, because then it is moved in whole words.
        self.bytes -= size(self.queue.front()?);
        let arrived = self.queue.pop_front();
        if self.queue.is_empty() && self.queue.capacity() > KEPT {
            self.queue.shrink_to(KEPT);
        }
        arrived
    }

    /// Takes the oldest notification with this method, from any place in the queue.
    pub(crate) fn take_notification(&mut self, method: &str) -> Option<Notification> {
        let wanted = |arrived: &Arrived| matches!(arrived, Arrived::Notification(notification) if notification.method == method);
        let at = self.queue.iter().position(wanted)?;
        let arrived = self.queue.remove(at)?;
        self.bytes -= size(&arrived);
        match arrived {
            Arrived::Notification(notification) => Some(notification),
            _ => None,
        }
    }

    /// Takes a notification or a violation.
    pub(crate) fn push(&mut self, arrived: Arrived) {
        let size = size(&arrived);
        if self.bytes + size <= self.limit {
            self.bytes += size;
            self.queue.push_back(arrived);
        } else if let Some(Arrived::Missed(count)) = self.queue.back_mut() {
            *count += 1;
        } else {
            let missed = Arrived::Missed(1);
            self.bytes += self::size(&missed);
            self.queue.push_back(missed);
        }
    }
}

fn size(arrived: &Arrived) -> usize {
    let payload = match arrived {
        Arrived::Request(_, Request { method, params, options }) => {
            payload(method, params.as_deref(), options.as_deref())
        }
        Arrived::Notification(Notification { method, params }) => {
            payload(method, params.as_deref(), None)
        }
        Arrived::Violation(_, id) => id.as_ref().map_or(0, |id| id.as_json().len()),
        Arrived::Missed(_) => 0,
    };
    size_of::<Arrived>() + payload
}

#[cfg(test)]
mod tests {
    use std::format;

    use super::*;

    fn notification() -> Arrived {
        Arrived::Notification(Notification { method: "x".into(), params: None })
    }

    #[test]
    fn g08_what_does_not_fit_is_counted_in_its_place() {
        let mut inbox = Inbox::new(2 * size_of::<Arrived>() + 2);
        for _ in 0..5 {
            inbox.push(notification());
        }
        assert!(matches!(inbox.pop(), Some(Arrived::Notification(_))));
        assert!(matches!(inbox.pop(), Some(Arrived::Notification(_))));
        assert!(matches!(inbox.pop(), Some(Arrived::Missed(3))));
        assert_eq!((inbox.pop().is_none(), inbox.bytes), (true, 0));
    }

    #[test]
    fn g08_options_of_a_request_count() {
        let mut inbox = Inbox::new(size_of::<Arrived>() + 100);
        inbox.push(notification());
        let text = serde_json::value::to_raw_value(&"y".repeat(200)).unwrap();
        assert!(!inbox.has_room_for("m", Some(&text), None));
        assert!(!inbox.has_room_for("m", None, Some(&text)));
        inbox.pop();
        assert!(inbox.has_room_for("m", None, Some(&text)), "one that waits alone always fits");
    }

    #[test]
    fn f48_ids_of_violations_count() {
        let violation = Violation::BatchRefused;
        let id = WireId::from_json(&format!("\"{}\"", "x".repeat(500)));
        assert!(id.is_some());
        let mut inbox = Inbox::new(2 * size_of::<Arrived>() + 600);
        for _ in 0..2 {
            inbox.push(Arrived::Violation(violation, id.clone()));
        }
        assert!(matches!(inbox.pop(), Some(Arrived::Violation(..))));
        assert!(matches!(inbox.pop(), Some(Arrived::Missed(1))));
        assert_eq!(inbox.bytes, 0);
    }
}
