//! The most memory that a server holds, as code.

use protocol_async::{AccountLimits, Memory, Options};

use super::options::ServerOptions;
use super::stream::FRAME;
use crate::session::SessionOptions;
use crate::store::SHORT_RESPONSE;

/// The bytes that hyper buffers of one response, and those of a head.
pub(super) const BUFFER_BYTES: usize = 64 << 10;
/// The requests of one connection of HTTP/2 at the same time.
pub(super) const STREAMS: u32 = 100;
/// The bytes of one body that a client of HTTP/2 may send ahead of us.
pub(super) const STREAM_WINDOW: u32 = 64 << 10;
/// The same for all bodies of a connection.
pub(super) const CONNECTION_WINDOW: u32 = 1 << 20;

/// The bytes of the rows, maps and times of one exchange, beside its ids and tokens.
const EXCHANGE: usize = 2 << 10;
/// A small event that is kept has a place in a queue that doubles. A client that asks for it again gets a copy of it,
/// which is then framed, and waits as a piece.
const EVENT_COPIES: usize = 12;

impl ServerOptions {
    /// Returns the most bytes of heap that one session holds whose endpoint has these options.
    ///
    /// It is the bound of G8. Its bodies and responses are part of [`request_memory`](Self::request_memory).
    #[must_use]
    pub fn memory(&self, endpoint: &Options) -> Memory {
        let SessionOptions { exchanges, store_bytes, .. } = self.session;
        let limits = &endpoint.config.limits;
        // With batches, twice as many messages as exchanges may be open.
        let exchange = EXCHANGE.saturating_add(limits.id_bytes.saturating_mul(8)).saturating_mul(2);
        // The latest event is kept before older ones are dropped. Streams that are not read may hold as much as the store.
        let kept = store_bytes.saturating_mul(EVENT_COPIES + 1).saturating_add(limits.unsent_bytes);
        // Short responses are kept beside.
        let short = SHORT_RESPONSE.saturating_add(limits.id_bytes).saturating_mul(4);
        let kept = kept.saturating_add(exchanges.saturating_mul(short));
        endpoint.memory().over(exchanges.saturating_mul(exchange).saturating_add(kept))
    }

    /// Returns the most bytes of heap that one HTTP request holds beside its session.
    ///
    /// They are its body as it is read, its response until it is written, and the buffers of hyper.
    #[must_use]
    pub fn request_memory(&self, endpoint: &Options) -> usize {
        // A buffer that doubles has both copies for a moment, and a method may be all of a body.
        let body = self.body_bytes.saturating_mul(4);
        let response = self.response_bytes.saturating_add(endpoint.config.limits.unsent_bytes);
        let buffers = 4 * BUFFER_BYTES + FRAME + STREAM_WINDOW as usize;
        body.saturating_add(response.saturating_mul(2)).saturating_add(buffers)
    }

    /// Returns the most bytes that all sessions and connections hold together.
    #[must_use]
    pub const fn total_memory(&self) -> usize {
        let members = self.sessions.saturating_add(self.connections);
        AccountLimits::of(self.memory_bytes).memory(members)
    }
}
