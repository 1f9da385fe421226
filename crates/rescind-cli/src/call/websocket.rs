//! A server at the other end of a WebSocket.

use std::fmt::Display;
use std::io;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use protocol_blocking::threaded::{Incoming, Options, Peer};
use protocol_tokio::TokioTimer;
use protocol_websocket::{connect, settings};
use tokio::time::timeout_at;

use super::attempt::Unreached;
use crate::address::Address;
use crate::connect::{handshake, open};
use crate::tls::Trust;

/// The time that a server has to say goodbye once we have.
const GRACE: Duration = Duration::from_millis(500);

/// The thread that drives the connection.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) driver: JoinHandle<io::Result<()>>,
}

impl Socket {
    /// Opens a WebSocket there.
    pub(super) fn open(
        address: &Address,
        trust: &Trust,
        secret: Option<String>,
        options: Options,
        deadline: Option<Instant>,
    ) -> Result<(Peer, Incoming, Self), Unreached> {
        let failed =
            |why: &dyn Display| Unreached::Failed(format!("can't connect to {address}: {why}"));
        let opening = handshake(address, trust, secret, settings(&options.config.limits));
        let (runtime, (peer, incoming, driver)) = open(async {
            let opened = match deadline {
                Some(at) => timeout_at(at.into(), opening).await,
                None => Ok(opening.await),
            };
            let socket = opened.map_err(|_| Unreached::TimedOut)?.map_err(|it| failed(&it))?;
            Ok::<_, Unreached>(connect(socket, TokioTimer::start(), options))
        })?;
        Ok((peer, incoming, Self { driver: thread::spawn(move || runtime.block_on(driver)) }))
    }

    /// Waits for the end, which the connection's shutdown asks for.
    pub(super) fn end(self) {
        self.end_within(GRACE);
    }

    fn end_within(self, grace: Duration) {
        let patience = Instant::now() + grace;
        while !self.driver.is_finished() && Instant::now() < patience {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use protocol_core::{Config, Dialect, Shutdown};

    use super::*;

    /// A wait for the grace would last a day, and the test with it.
    #[test]
    fn f114_a_call_that_is_over_waits_no_longer_than_for_the_goodbye_of_its_server() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let url = format!("ws://{}", listener.local_addr().expect("it listens"));
        let server = thread::spawn(move || {
            let (stream, _) = listener.accept().expect("a client connects");
            let mut socket = tungstenite::accept(stream).expect("it opens a WebSocket");
            while socket.read().is_ok() {}
        });
        let address = url.parse().expect("it is an address");
        let options = Options::new(Config::client(Dialect::JSON_RPC));
        let opened = Socket::open(&address, &Trust::System, None, options, None);
        let Ok((peer, _incoming, socket)) = opened else { panic!("it can't be reached") };
        peer.shutdown(Shutdown::CancelAll);
        socket.end_within(Duration::from_secs(24 * 3_600));
        server.join().expect("the server has ended");
    }
}
