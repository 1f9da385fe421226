//! A connection on bytes.

use alloc::vec::Vec;

use crate::cause::CloseReason;
use crate::config::Config;
use crate::connection::Connection;
use crate::event::{Event, Transmit};
use crate::frame::{Deframer, Frame};
use crate::time::Timestamp;

/// A [`Connection`] with the framing of its dialect, for transports that carry bytes.
///
/// Bytes come in by [`receive`](Self::receive) and go out by
/// [`poll_transmit`](Self::poll_transmit). Everything else is done on the
/// [`connection`](Self::connection_mut) inside. It does not matter how the bytes were split (G11).
///
/// ```
/// use protocol_core::{Config, Dialect, Event, InputBuffer, StreamConnection, Timestamp};
///
/// let now = Timestamp::ZERO;
/// let mut server: StreamConnection<()> = StreamConnection::new(Config::server(Dialect::LSP_3_17));
/// let mut input = InputBuffer::new();
/// input.extend_from_slice(b"Content-Length: 38\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"m\"}");
/// loop {
///     let received = server.receive(input.unread(), now);
///     let (consumed, mut next) = (received.consumed, received.event);
///     while let Some(event) = next {
///         assert!(matches!(event, Event::Request { id, .. } if id == "7"));
///         next = server.connection_mut().poll_event();
///     }
///     if consumed == 0 {
///         break; // read more bytes
///     }
///     input.consume(consumed);
/// }
/// ```
#[derive(Clone, Debug)]
pub struct StreamConnection<O, I = ()> {
    connection: Connection<O, I>,
    deframer: Deframer,
    /// The outline of the last message over the limit, unless it was taken.
    outline: Option<Vec<u8>>,
}

/// The result of [`StreamConnection::receive`], and of other types that read one message at a time.
///
/// The event is delivered only here. To ignore it loses the message, and with it the data of a call
/// that has settled, so it does not compile under `deny(unused_must_use)`:
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// # use protocol_core::{Config, Dialect, StreamConnection, Timestamp};
/// # let mut connection: StreamConnection<()> = StreamConnection::new(Config::client(Dialect::ACP_V1));
/// # let (message, now) = (b"{}", Timestamp::ZERO);
/// connection.receive(message, now);
/// ```
#[derive(Debug)]
#[must_use = "the event is delivered only here: ignoring it loses the data of a call that has settled"]
#[non_exhaustive]
pub struct Received<'b, E> {
    /// The number of bytes that were consumed from the beginning of the unread ones.
    pub consumed: usize,
    /// The message that was read, without framing, for traces.
    pub message: Option<&'b [u8]>,
    /// The oldest event that waits; the others come from `poll_event`.
    pub event: Option<E>,
}

impl<'b, E> Received<'b, E> {
    /// Creates the result of a type that wraps a [`StreamConnection`] and has events of its own.
    pub const fn new(consumed: usize, message: Option<&'b [u8]>, event: Option<E>) -> Self {
        Self { consumed, message, event }
    }
}

impl<O, I: Default> StreamConnection<O, I> {
    /// Creates a connection with nothing in flight.
    pub fn new(config: Config) -> Self {
        let Config { dialect, limits, .. } = &config;
        let deframer = Deframer::new(dialect.framing, dialect.envelope.levels_of_ids(), limits);
        Self { connection: Connection::new(config), deframer, outline: None }
    }

    /// Reads at most one message from the beginning of the unread bytes.
    ///
    /// Call it again with the rest until it consumes nothing. Then call it with the same bytes and more.
    /// The event is the one that [`Connection::receive`] returns.
    #[inline]
    #[must_use = "the event is delivered only here: ignoring it loses the data of a call that has settled"]
    pub fn receive<'b>(&mut self, unread: &'b [u8], now: Timestamp) -> Received<'b, Event<'b, O>> {
        // Every host asks once more when it has consumed all that it read.
        if unread.is_empty() || self.connection.machine().is_closed() {
            return Received::new(unread.len(), None, self.connection.poll_event());
        }
        let (consumed, frame) = self.deframer.next(unread);
        self.receive_frame(consumed, frame, CloseReason::BrokenFraming, now)
    }

    /// Ends the peer's input, with these bytes unread, and returns the last message in them.
    ///
    /// Whole messages in the unread bytes are received first. Then every call settles, and every request is
    /// cancelled as [`Dialect::closed_stream`](crate::Dialect::closed_stream) says. The last event is
    /// [`Event::Closed`]. All events wait in [`poll_event`](Connection::poll_event).
    ///
    /// A host calls [`receive`](Self::receive) first until it consumes nothing. Otherwise the events of all
    /// whole messages wait at once, which [`Connection::memory`] does not count.
    ///
    /// The message is without framing, for traces. After [`receive`](Self::receive) has consumed all it
    /// could, that is at most a line without its end.
    pub fn handle_eof<'b>(&mut self, unread: &'b [u8], now: Timestamp) -> Option<&'b [u8]> {
        let (mut rest, mut last) = (unread, None);
        while !rest.is_empty() && !self.connection.machine().is_closed() {
            let Received { consumed, message, event } = self.receive(rest, now);
            last = message.or(last);
            self.connection.insert_event(0, event);
            if consumed == 0 {
                break;
            }
            rest = &rest[consumed..];
        }
        if !self.connection.machine().is_closed() {
            // The peer is gone, whatever its last bytes were.
            let frame = self.deframer.finish(rest);
            let received = self.receive_frame(rest.len(), frame, CloseReason::PeerGone, now);
            last = received.message.or(last);
            self.connection.insert_event(0, received.event);
        }
        self.connection.handle_eof(now);
        last
    }

    #[inline]
    fn receive_frame<'b>(
        &mut self,
        consumed: usize,
        frame: Frame<'b>,
        reason: CloseReason,
        now: Timestamp,
    ) -> Received<'b, Event<'b, O>> {
        let connection = &mut self.connection;
        match frame {
            Frame::Message(message) => {
                return Received::new(consumed, Some(message), connection.receive(message, now));
            }
            Frame::Partial => {}
            Frame::TooLarge => {
                let outline = self.deframer.end_outline();
                connection.receive_outline(&outline, now);
                self.outline = Some(outline);
            }
            Frame::Broken(violation) => {
                connection.report_violation(violation, None);
                connection.close(reason, now);
            }
        }
        Received::new(consumed, None, connection.poll_event())
    }

    /// Appends the next message to `out`, framed.
    ///
    /// A long message may replace an empty `out` by its buffer, as [`Connection::poll_transmit`] says. A
    /// framing with headers leaves `out` in its place.
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>) -> Option<Transmit> {
        let framing = self.connection.config().dialect.framing;
        framing.open(self.connection.next_transmit_len()?, out);
        let transmit = self.connection.poll_transmit(out);
        framing.close(out);
        transmit
    }

    /// Returns all that was kept of the last message over [`Limits::message_bytes`](crate::Limits), for records.
    ///
    /// That is the message without strings of over 256 bytes, and without what its members hold:
    /// `{"id":1,"result":{"a":[0]}}` becomes `{"id":1,"result":{}}`. In ABP it is kept two levels deeper. It is
    /// at most 1 KiB long, and returned once.
    pub fn take_outline(&mut self) -> Option<Vec<u8>> {
        self.outline.take()
    }

    /// Returns the connection inside.
    pub const fn connection(&self) -> &Connection<O, I> {
        &self.connection
    }

    /// Returns the connection inside, to command it.
    pub const fn connection_mut(&mut self) -> &mut Connection<O, I> {
        &mut self.connection
    }
}

/// Checks that no event can be ignored by mistake. This compiles:
///
/// ```
/// #![deny(unused_must_use)]
/// # use protocol_core::{Config, Connection, Dialect, StreamConnection, Timestamp};
/// # let config = Config::client(Dialect::ACP_V1);
/// let mut stream: StreamConnection<()> = StreamConnection::new(config.clone());
/// let mut connection: Connection<()> = Connection::new(config);
/// let _ = stream.receive(b"{}", Timestamp::ZERO);
/// let _ = connection.receive(b"{}", Timestamp::ZERO);
/// let _ = connection.poll_event();
/// ```
///
/// Neither of these does:
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// # use protocol_core::{Config, Connection, Dialect, Timestamp};
/// let mut connection: Connection<()> = Connection::new(Config::client(Dialect::ACP_V1));
/// connection.receive(b"{}", Timestamp::ZERO);
/// ```
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// # use protocol_core::{Config, Connection, Dialect, Timestamp};
/// let mut connection: Connection<()> = Connection::new(Config::client(Dialect::ACP_V1));
/// connection.poll_event();
/// ```
#[cfg(doctest)]
struct IgnoredEvents;
