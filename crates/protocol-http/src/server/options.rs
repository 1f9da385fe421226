//! The options of a server, and the most memory of a session and of a request, as code.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use protocol_async::{Account, AccountLimits, Memory, Options};
use protocol_core::{Config, Dialect};

use super::link::FRAME;
use crate::endpoint::{STREAM_WINDOW, debug};
use crate::gate::Gate;
use crate::session::SessionOptions;
use crate::store::SHORT_RESPONSE;

/// The bytes that hyper buffers of one response, and those of a head.
pub(super) const BUFFER_BYTES: usize = 64 << 10;
/// The requests of one connection of HTTP/2 at the same time.
pub(super) const STREAMS: u32 = 100;

/// The bytes of the rows, maps and times of one exchange, beside its ids and tokens.
const EXCHANGE: usize = 2 << 10;
/// A small event that is kept has a place in a queue that doubles. A client that asks for it again gets a copy of it,
/// which is then framed, and waits as a piece.
const EVENT_COPIES: usize = 12;

/// The options of a [`Server`](super::Server).
#[derive(Clone)]
#[non_exhaustive]
pub struct ServerOptions {
    /// The path of the endpoint; `/mcp`.
    pub path: String,
    /// The origins, hosts and revisions that are admitted; those of this machine, and all revisions.
    pub gate: Gate,
    /// The secret that a client shows as a bearer token; none.
    pub token: Option<String>,
    /// The options of each session.
    pub session: SessionOptions,
    /// Makes the options of each endpoint, for the dialect that it begins with.
    pub endpoint: Arc<dyn Fn(Dialect) -> Options + Send + Sync>,
    /// Whether the handlers pass requests on; false.
    ///
    /// Their first turn does not tell then whether a method is known. So the head of a response waits for its first
    /// message, though not longer than [`Rules::head_after`](crate::Rules::head_after).
    pub is_proxy: bool,
    /// The sessions at the same time, and the requests without a session; 1,024. One more gets status 503. All clients
    /// share them, so one client may hold them all. [`SessionOptions::idle_time`] frees a session that nobody uses.
    pub sessions: usize,
    /// The connections at the same time; 1,024. One more waits to be accepted.
    pub connections: usize,
    /// The account that sessions and connections draw on; one of its own [within](AccountLimits::within) 256 MiB. Clones
    /// of the options share it.
    ///
    /// A connection holds the bodies that are read and the responses that wait. A session holds the rest. A process may have
    /// one account for this server and for other connections. Options of an endpoint that have an account keep it.
    pub account: Account,
    /// The bytes of a body; 4 MiB, and never more than a message may have. A longer one gets status 413.
    pub body_bytes: usize,
    /// The time in which a head has to come, and then a body; 30 s each.
    ///
    /// A connection of HTTP/2 without a stream is ended after this time, or twice that at most.
    pub receive_time: Duration,
    /// The bytes that may wait for the client of one response, with the places of their pieces; 256 KiB.
    ///
    /// Above them, the session sends nothing more to anybody until they are taken. In ACP it does so only above
    /// [`SessionOptions::store_bytes`] of all such responses.
    pub response_bytes: usize,
    /// The time for which a client may read nothing of a response that is finished, or of which more than
    /// `response_bytes` waits; 30 s.
    ///
    /// Then the response is lost. Its connection is ended if it reads no other response. This may take twice as long.
    pub patience: Duration,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            path: "/mcp".into(),
            gate: Gate::default(),
            token: None,
            session: SessionOptions::default(),
            endpoint: Arc::new(|dialect| Options::socket(Config::server(dialect))),
            is_proxy: false,
            sessions: 1_024,
            connections: 1_024,
            account: Account::new(AccountLimits::within(AccountLimits::DEFAULT.pool_bytes)),
            body_bytes: 4 << 20,
            receive_time: Duration::from_secs(30),
            response_bytes: 256 << 10,
            patience: Duration::from_secs(30),
        }
    }
}

impl ServerOptions {
    /// Returns the most bytes of heap that one session holds whose endpoint has these options.
    ///
    /// It is the bound of G8. Its bodies and responses are part of [`request_memory`](Self::request_memory).
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
    pub fn request_memory(&self, endpoint: &Options) -> usize {
        // A buffer that doubles has both copies for a moment, and a method may be all of a body.
        let body = self.body_bytes.saturating_mul(4);
        let response = self.response_bytes.saturating_add(endpoint.config.limits.unsent_bytes);
        let buffers = 4 * BUFFER_BYTES + FRAME + STREAM_WINDOW as usize;
        body.saturating_add(response.saturating_mul(2)).saturating_add(buffers)
    }
}

debug!(ServerOptions, path, gate, session);

/// The work of a handler.
pub(super) type Work = Pin<Box<dyn Future<Output = ()> + Send>>;
