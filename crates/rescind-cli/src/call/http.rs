//! A server of MCP or ACP over HTTP.

use std::io;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use protocol_async::{Incoming, Options, Peer};
use protocol_http::connect::connect;

use crate::address::Address;
use crate::http;
use crate::http_client::{PATIENCE, reach};
use crate::tls::Trust;

/// A connection, and the thread that drives it.
type Opened = (Peer, Incoming, JoinHandle<io::Result<()>>);

/// Makes a connection to the server there, if it takes one now.
pub(super) fn open(
    address: &Address,
    trust: &Trust,
    secret: Option<String>,
    endpoint: Options,
    deadline: Option<Instant>,
) -> Result<Opened, String> {
    let left = deadline.map_or(PATIENCE, |at| at.saturating_duration_since(Instant::now()));
    let (runtime, (peer, incoming, driver)) = http::open(async {
        let dialect = &endpoint.config.dialect;
        let (target, options) = reach(address, dialect, trust, secret, left).await?;
        Ok::<_, String>(connect(target, endpoint, options))
    })?;
    Ok((peer, incoming, thread::spawn(move || runtime.block_on(driver))))
}
