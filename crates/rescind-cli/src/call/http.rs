//! A server of MCP over HTTP.

use std::fmt::Display;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use protocol_async::{Incoming, Options, Peer};
use protocol_http::connect::{ClientOptions, Target, connect};

use crate::address::{Address, Place};

/// The time in which a server has to take a connection.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connection, and the thread that drives it.
type Opened = (Peer, Incoming, JoinHandle<io::Result<()>>);

/// Makes a connection to the server there, if it takes one now.
pub(super) fn open(
    address: &Address,
    secret: Option<String>,
    endpoint: Options,
    deadline: Option<Instant>,
) -> Result<Opened, String> {
    let url = address.to_string().replacen("ws://", "http://", 1);
    let refused = |why: &dyn Display| format!("can't connect to {url}: {why}");
    let target: Target = url.parse().map_err(|error| refused(&error))?;
    if let Place::Tcp(host, port) = &address.place {
        reach(host, *port, deadline).map_err(|error| refused(&error))?;
    }
    let mut options = ClientOptions::default();
    options.token = secret;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| refused(&error))?;
    let entered = runtime.enter();
    let (peer, incoming, driver) = connect(target, endpoint, options);
    drop(entered);
    Ok((peer, incoming, thread::spawn(move || runtime.block_on(driver))))
}

/// Opens a connection to one of the addresses of a host, and closes it.
fn reach(host: &str, port: u16, deadline: Option<Instant>) -> io::Result<()> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in (host, port).to_socket_addrs()? {
        let left = deadline.map_or(PATIENCE, |at| at.saturating_duration_since(Instant::now()));
        match TcpStream::connect_timeout(&address, left.max(Duration::from_millis(1))) {
            Ok(_) => return Ok(()),
            Err(error) => last = error,
        }
    }
    Err(last)
}
