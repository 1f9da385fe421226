//! A connection on bytes.

use alloc::vec::Vec;

use crate::cause::CloseReason;
use crate::config::Config;
use crate::connection::Connection;
use crate::event::{Event, Transmit};
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
/// let mut server: StreamConnection<()> = StreamConnection::new(Config::server(Dialect::LSP_3_17));
/// let mut input = InputBuffer::new();
/// input.extend_from_slice(b"Content-Length: 38\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"m\"}");
/// loop {
///     let taken = server.receive(input.unread(), now);
///     if let Some(event) = taken.event {
///         assert!(matches!(event, Event::Request { id, .. } if id == "7"));
///     }
///     if taken.used == 0 {
///         break; // read more bytes
///     }
///     input.consume(taken.used);
///     while let Some(event) = server.connection_mut().poll_event() {
///         // What else happened.
///     }
/// }
/// ```
#[derive(Clone, Debug)]
pub struct StreamConnection<O, I = ()> {
    connection: Connection<O, I>,
    deframer: Deframer,
}

/// What [`StreamConnection::receive`] took from the unread bytes.
#[derive(Debug)]
#[non_exhaustive]
pub struct Taken<'b, O> {
    /// How many of the bytes are used up.
    pub used: usize,
    /// The message that was taken, without framing, for traces.
    pub message: Option<&'b [u8]>,
    /// The oldest event that the host has not been told, as [`Connection::receive`] gives it.
    pub event: Option<Event<'b, O>>,
}

impl<O, I: Default> StreamConnection<O, I> {
    /// A connection with nothing in flight.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let deframer = Deframer::new(config.dialect.framing, &config.limits);
        Self { connection: Connection::new(config), deframer }
    }

    /// Takes at most one message from the beginning of the unread bytes.
    ///
    /// Call it again with the rest until it uses nothing; then with the same bytes and more.
    #[inline]
    pub fn receive<'b>(&mut self, unread: &'b [u8], now: Timestamp) -> Taken<'b, O> {
        // Every host asks once more when it has used all it read.
        if unread.is_empty() || self.connection.machine().is_closed() {
            let event = self.connection.poll_event();
            return Taken { used: unread.len(), message: None, event };
        }
        let (used, frame) = self.deframer.next(unread);
        self.take(used, frame, CloseReason::BrokenFraming, now)
    }

    /// The peer's input has ended, with these bytes unread: whole messages in them are taken, then every
    /// call settles, every request is marked cancelled, and `Closed` is told (G7). What it all made
    /// happen is in [`poll_event`](Connection::poll_event).
    ///
    /// Gives the last message, without framing, for traces: a line is one without its end. Whoever
    /// wants to trace all messages calls [`receive`](Self::receive) first until it uses nothing.
    pub fn finish<'b>(&mut self, unread: &'b [u8], now: Timestamp) -> Option<&'b [u8]> {
        let (mut rest, mut last) = (unread, None);
        while !rest.is_empty() && !self.connection.machine().is_closed() {
            let taken = self.receive(rest, now);
            last = taken.message.or(last);
            self.connection.put_back(taken.event);
            if taken.used == 0 {
                break;
            }
            rest = &rest[taken.used..];
        }
        if !self.connection.machine().is_closed() {
            // The peer is gone, whatever its last bytes were.
            let frame = self.deframer.finish(rest);
            let taken = self.take(rest.len(), frame, CloseReason::PeerGone, now);
            last = taken.message.or(last);
            self.connection.put_back(taken.event);
        }
        self.connection.handle_eof(now);
        last
    }

    #[inline]
    fn take<'b>(
        &mut self,
        used: usize,
        frame: Frame<'b>,
        reason: CloseReason,
        now: Timestamp,
    ) -> Taken<'b, O> {
        let connection = &mut self.connection;
        match frame {
            Frame::Message(message) => {
                let event = connection.receive(message, now);
                return Taken { used, message: Some(message), event };
            }
            Frame::Partial => {}
            Frame::TooLarge => connection.refuse_too_large(),
            Frame::Broken(violation) => {
                connection.report(violation, None);
                connection.close(reason, now);
            }
        }
        Taken { used, message: None, event: connection.poll_event() }
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
