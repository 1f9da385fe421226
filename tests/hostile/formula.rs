//! The most that may be held: the sums of docs/memory.md and docs/decisions/0024-listener.md, as code.

use protocol_async::Options;
use protocol_core::{Config, Connection, Dialect};
use protocol_websocket::{TLS_BYTES, settings};
use rescind_hostile_suite::KIB;

/// Returns the most that TLS may take of so many connections.
pub(crate) fn tls(many: usize) -> usize {
    many * (PLACE + TLS_BYTES)
}

/// An allowance for the rows of a socket's task, and for the work of serving it.
const PLACE: usize = 24 * KIB;
/// The part of an unfinished message that counts for nothing.
const FREE: usize = 64 * KIB;

/// One connection, and what its requests ask while they are worked at. A handler has its params once more, and makes
/// an answer of them.
pub(crate) fn connection() -> usize {
    let options = Options::new(Config::server(Dialect::ACP_V1));
    let limits = options.config.limits;
    Connection::<(), ()>::memory(&limits)
        + limits.unsent_bytes
        + options.inbox_bytes
        + 3 * options.work_bytes
        + options.response_bytes
        + 3 * limits.message_bytes
}

/// So many open sockets whose clients ask for nothing.
pub(crate) fn websockets(many: usize) -> usize {
    let settings = settings(&Config::server(Dialect::ACP_V1).limits);
    many * (PLACE + settings.read_buffer_size + settings.max_write_buffer_size)
}

/// So many who have not asked for a WebSocket yet.
pub(crate) fn half_open(many: usize, handshake_bytes: usize) -> usize {
    many * (PLACE + handshake_bytes)
}

/// Unfinished messages of so many connections, of which this is counted, held up to three times while their frames are
/// joined.
pub(crate) fn unfinished(many: usize, counted: usize) -> usize {
    websockets(many) + 3 * (many * FREE + counted)
}
