//! A connection on bytes.

use alloc::vec::Vec;

use crate::cause::CloseReason;
use crate::config::Config;
use crate::connection::{Connection, Received};
use crate::event::Transmit;
use crate::frame::{Deframer, Frame};
use crate::time::Timestamp;

/// A [`Connection`] and the framing of its dialect, for transports that carry bytes.
///
/// Bytes come in by [`receive`](Self::receive) and go out by
/// [`poll_transmit`](Self::poll_transmit); everything else is done on the
/// [`connection`](Self::connection_mut) inside. How bytes were split changes nothing (G11).
///
/// ```
/// use protocol_core::{Config, Dialect, Event, InputBuffer, StreamConnection, Timestamp};
///
/// let now = Timestamp::ZERO;
/// let mut server: StreamConnection<()> = StreamConnection::new(Config::new(Dialect::LSP_3_17));
/// let mut input = InputBuffer::new();
/// input.extend_from_slice(b"Content-Length: 38\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"m\"}");
/// loop {
///     let (used, events) = server.receive(input.unread(), now);
///     for event in events {
///         assert!(matches!(event, Event::Request { id: "7", .. }));
///     }
///     if used == 0 {
///         break; // read more bytes
///     }
///     input.consume(used);
/// }
/// ```
#[derive(Clone, Debug)]
pub struct StreamConnection<O, I = ()> {
    connection: Connection<O, I>,
    deframer: Deframer,
}

impl<O, I: Default> StreamConnection<O, I> {
    /// A connection with nothing in flight.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let deframer = Deframer::new(config.dialect.framing, &config.limits);
        Self { connection: Connection::new(config), deframer }
    }

    /// Takes at most one message from the beginning of the unread bytes; says how many of them it
    /// used, and what the message made happen.
    ///
    /// Call it again with the rest until it uses nothing; then with the same bytes and more.
    #[inline]
    pub fn receive<'b>(&mut self, unread: &'b [u8], now: Timestamp) -> (usize, Received<'b, O>) {
        let mut taken = (0, Received::nothing());
        taken.0 = self.take_next(unread, now, &mut taken.1);
        taken
    }

    fn take_next<'b>(
        &mut self,
        unread: &'b [u8],
        now: Timestamp,
        received: &mut Received<'b, O>,
    ) -> usize {
        // Every host asks once more when it has used all it read.
        if unread.is_empty() || self.connection.machine().is_closed() {
            self.connection.receive_nothing(received);
            return unread.len();
        }
        let found = self.deframer.next(unread);
        self.take(found.frame, now, received);
        found.used
    }

    /// The peer's input has ended, with these bytes unread: every call settles, every request is
    /// marked cancelled, and `Closed` is the last event (G7).
    ///
    /// Whole messages among these bytes are taken first, with all of their events; only a rest that is
    /// no whole message is [`Truncated`](crate::Violation::Truncated). What the end made happen is in
    /// [`poll_event`](Connection::poll_event) afterwards.
    pub fn finish<'b>(&mut self, mut unread: &'b [u8], now: Timestamp) -> Received<'b, O> {
        let mut last = Received::nothing();
        while !unread.is_empty() && !self.connection.machine().is_closed() {
            let found = self.deframer.next(unread);
            if found.used == 0 {
                break;
            }
            self.take(found.frame, now, &mut last);
            unread = &unread[found.used..];
        }
        match self.deframer.finish(unread) {
            // The peer is gone, whatever its last bytes were.
            Frame::Broken(violation) => {
                self.connection.receive_broken(violation, CloseReason::PeerGone, now, &mut last);
            }
            frame => self.take(frame, now, &mut last),
        }
        self.connection.handle_eof(now);
        last
    }

    #[inline]
    fn take<'b>(&mut self, frame: Frame<'b>, now: Timestamp, received: &mut Received<'b, O>) {
        let connection = &mut self.connection;
        match frame {
            Frame::Message(message) => connection.receive_message(message, now, received),
            Frame::Partial => connection.receive_nothing(received),
            Frame::TooLarge => connection.receive_too_large(received),
            Frame::Broken(violation) => {
                let reason = CloseReason::BrokenFraming;
                connection.receive_broken(violation, reason, now, received);
            }
        }
    }

    /// Appends the next message to `out`, framed.
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>) -> Option<Transmit> {
        let framing = self.connection.config().dialect.framing;
        framing.open(self.connection.next_transmit_len()?, out);
        let transmit = self.connection.poll_transmit(out);
        framing.close(out);
        transmit
    }

    /// The connection inside.
    #[must_use]
    pub const fn connection(&self) -> &Connection<O, I> {
        &self.connection
    }

    /// The connection inside, to command it.
    pub const fn connection_mut(&mut self) -> &mut Connection<O, I> {
        &mut self.connection
    }
}
