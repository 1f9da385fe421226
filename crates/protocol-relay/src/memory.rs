//! The most memory that a relay may hold: the formula of G8, as code.

use protocol_core::{CallId, Connection, Limits, RequestHandle, WorkId};

use crate::event::{RelayEvent, Side};
use crate::relay::Relay;
use crate::responses::OwnResponse;

/// A queue that doubles holds at most so many places for each of its entries, counted while it moves.
const QUEUE: usize = 3;
/// A request, or a member of a batch, leads to at most so many events in one call of a method.
const EVENTS: usize = 2;

impl Relay {
    /// Returns the most bytes of heap that a relay holds at any moment, from the limits towards the
    /// client and those towards the server.
    ///
    /// This is [`Connection::memory`] of both sides and the relay's own part. Its own part is the responses
    /// of its own that wait for room, its events, and one message while it is translated.
    ///
    /// It holds for a host that polls all events after each call of a method. It counts neither the
    /// patterns of a [`Guard`](crate::Guard) nor the buffers that a host reads into.
    #[must_use]
    pub fn memory(up: &Limits, down: &Limits) -> usize {
        let parts = [
            Connection::<RequestHandle, Option<CallId>>::memory(up),
            Connection::<RequestHandle, Option<CallId>>::memory(down),
            Self::own_bytes(up, down),
            Self::own_bytes(down, up),
        ];
        parts.into_iter().fold(0, usize::saturating_add)
    }

    /// Returns the relay's own part for the peer of one side. The names in the events of a batch, and a
    /// message that is translated, are copied from one message.
    fn own_bytes(near: &Limits, far: &Limits) -> usize {
        let events = EVENTS * QUEUE * size_of::<(Side, RelayEvent)>();
        // An id points to its token, and may point to the same without escapes.
        let ids = EVENTS * 2 * near.id_bytes;
        let parts = [
            (near.requests, QUEUE * size_of::<OwnResponse>() + events + ids),
            (near.batch_members, events),
            (far.calls, QUEUE * size_of::<CallId>()),
            // Stops that wait for room, before and after more do, and names while they are looked for.
            (far.works, 2 * QUEUE * size_of::<WorkId>()),
            (near.works, QUEUE * size_of::<[usize; 3]>()),
            (near.message_bytes, 2 * EVENTS),
        ];
        parts.iter().fold(0, |sum, (times, row)| times.saturating_mul(*row).saturating_add(sum))
    }
}
