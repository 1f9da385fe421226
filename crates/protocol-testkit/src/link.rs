//! One direction of a simulated line.

use std::collections::VecDeque;

use protocol_core::MessageOrder;

/// One direction of a line: whole framed messages on their way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Link {
    /// The messages on their way, in the order in which they were sent.
    messages: VecDeque<Vec<u8>>,
    order: MessageOrder,
    capacity: usize,
    state: State,
}

/// Something that arrives at the end of a line.
pub(crate) enum Arrival {
    Message(Vec<u8>),
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    Open,
    /// Nothing more is taken; the end arrives after what is on its way.
    Ended,
    /// The end has arrived.
    Over,
}

impl Link {
    /// An empty line that takes messages while fewer than `capacity` bytes are on it. Each message
    /// is a stream of its own, and overtakes others, where `order` says that they may.
    pub(crate) const fn new(order: MessageOrder, capacity: usize) -> Self {
        Self { messages: VecDeque::new(), order, capacity, state: State::Open }
    }

    /// Whether the sender can write now: else it feels back-pressure.
    pub(crate) fn has_room(&self) -> bool {
        let bytes: usize = self.messages.iter().map(Vec::len).sum();
        self.state == State::Open && bytes < self.capacity
    }

    /// Puts a framed message on its way. What is sent to an end that is gone is lost.
    pub(crate) fn send(&mut self, message: Vec<u8>) {
        if self.state == State::Open {
            self.messages.push_back(message);
        }
    }

    /// Returns the number of messages that may arrive next: only the first, where order is kept.
    pub(crate) fn choices(&self) -> usize {
        match self.order {
            MessageOrder::MayChange => self.messages.len(),
            _ => self.messages.len().min(1),
        }
    }

    /// The places of what may arrive next: messages, or the end, which has the first place.
    pub(crate) fn arrivals(&self) -> std::ops::Range<u8> {
        let places = self.choices().max(usize::from(self.is_at_end()));
        0..u8::try_from(places).unwrap_or(u8::MAX)
    }

    /// Takes the message or the end at `place`, if any may arrive. Places beyond the last wrap around.
    pub(crate) fn arrive(&mut self, place: u8) -> Option<Arrival> {
        if let Some(place) = usize::from(place).checked_rem(self.choices()) {
            return self.messages.remove(place).map(Arrival::Message);
        }
        self.is_at_end().then(|| {
            self.state = State::Over;
            Arrival::End
        })
    }

    /// The sender hangs up: the end arrives after what is on its way.
    pub(crate) fn end(&mut self) {
        if self.state == State::Open {
            self.state = State::Ended;
        }
    }

    /// The line is cut: what is on its way is lost, and the end arrives next.
    pub(crate) fn cut(&mut self) {
        self.messages.clear();
        self.end();
    }

    /// Whether the end may arrive next.
    pub(crate) fn is_at_end(&self) -> bool {
        self.state == State::Ended && self.messages.is_empty()
    }

    /// Whether nothing more is taken.
    pub(crate) fn is_ended(&self) -> bool {
        self.state != State::Open
    }
}
