//! A server of MCP or ACP over HTTP.

use std::io;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use protocol_async::{Incoming, Options, Peer};
use protocol_http::connect::connect;

use crate::address::Address;
use crate::http::runtime;
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
    let runtime = runtime()?;
    let reached = reach(address, &endpoint.config.dialect, trust, secret, left);
    let (target, options) = match runtime.block_on(reached) {
        Ok(reached) => reached,
        Err(why) => {
            // A thread of it may still be looking the name up.
            runtime.shutdown_background();
            return Err(why);
        }
    };
    let entered = runtime.enter();
    let (peer, incoming, driver) = connect(target, endpoint, options);
    drop(entered);
    Ok((peer, incoming, thread::spawn(move || runtime.block_on(driver))))
}
