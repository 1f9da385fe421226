//! The settings of a WebSocket that go with the limits of its connection, and the memory that these bound.

use protocol_core::Limits;
use tungstenite::protocol::WebSocketConfig;

/// Bytes of one read, for which each connection has room at all times.
pub(crate) const READ_BYTES: usize = 16 << 10;
/// Bytes that one connection reads before others have their turn: those of one read. Beside a flood, others wait for
/// such turns most of the time.
pub(crate) const TURN_BYTES: usize = READ_BYTES;
/// Bytes of one frame that we send. A longer message leaves in several frames, each when the one before is on its way,
/// so the write buffer is bounded by this.
pub(crate) const FRAME_BYTES: usize = 64 << 10;
/// Room for one frame at least, whatever the limits: what is sent above them is no longer.
const SMALLEST_FRAME: usize = 4 << 10;

/// The most bytes of heap that rustls keeps for one connection with `set_buffer_limit(Some(16 << 10))`.
///
/// Bytes that wait to be sent have 16 KiB as text and 16 KiB encrypted. A handshake that is not whole has 64 KiB, and two
/// records that are decrypted have 16 KiB each.
pub const TLS_BYTES: usize = 128 << 10;

/// Returns the settings of a WebSocket that go with these limits.
///
/// A message that is longer than [`Limits::message_bytes`] is refused, as on any other transport, and the connection
/// lives. One that is over twice as long ends the connection, because tungstenite can't skip it.
/// tungstenite's own limits are 64 MiB for a message, but 16 MiB for one frame; browsers send a message in one frame.
///
/// The buffers are bounded too, whatever the length of a message. That for reading has 16 KiB. That for writing has four
/// times [`Limits::unsent_bytes`], at least 16 KiB and at most 256 KiB. A peer that sends pings and reads nothing gets no
/// more pongs once that is full, but for the latest. tungstenite's own settings have no such bound.
#[must_use]
pub fn settings(limits: &Limits) -> WebSocketConfig {
    let frame = limits.unsent_bytes.clamp(SMALLEST_FRAME, FRAME_BYTES);
    let read = Some(limits.message_bytes.saturating_mul(2));
    WebSocketConfig::default()
        .max_message_size(read)
        .max_frame_size(read)
        .read_buffer_size(READ_BYTES)
        .write_buffer_size(frame)
        .max_write_buffer_size(4 * frame)
}

/// Returns the most bytes of heap that a WebSocket with these [`settings`] keeps below the messages of a connection.
///
/// One message that is on its way in is included. It is what [`Memory::over`](protocol_async::Memory::over) asks for.
/// Over TLS there are [`TLS_BYTES`] more.
///
/// ```
/// use protocol_async::Options;
/// use protocol_core::{Config, Dialect};
/// use protocol_websocket::{TLS_BYTES, memory};
///
/// let options = Options::new(Config::server(Dialect::MCP_2025_11_25));
/// let secure = options.memory().over(memory(&options.config.limits) + TLS_BYTES);
/// println!("{secure}");
/// ```
#[must_use]
pub fn memory(limits: &Limits) -> usize {
    let settings = settings(limits);
    // A message of at most twice `message_bytes`, held up to three times while its frames are joined.
    let coming = settings.max_message_size.unwrap_or(usize::MAX).saturating_mul(3);
    let buffers = settings.read_buffer_size + settings.max_write_buffer_size;
    coming.saturating_add(buffers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g08_the_sum_is_that_of_docs_memory_md() {
        let mut limits = Limits::DEFAULT;
        (limits.message_bytes, limits.unsent_bytes) = (4 << 10, 4 << 10);
        assert_eq!(memory(&limits), 6 * (4 << 10) + (16 << 10) + 4 * (4 << 10));
    }

    #[test]
    fn g08_one_frame_may_hold_more_than_a_message_may_so_that_it_can_be_refused() {
        let limits = Limits::DEFAULT;
        let WebSocketConfig { max_frame_size, max_message_size, .. } = settings(&limits);
        assert!(max_frame_size > Some(limits.message_bytes));
        assert_eq!(max_frame_size, max_message_size);
    }
}
