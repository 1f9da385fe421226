//! The clients that may use a service.

use std::net::SocketAddr;
use std::path::PathBuf;

use bytesize::ByteSize;
use clap::Args;
use protocol_websocket::ListenerLimits;

use crate::credentials;
use crate::terminal::note;

/// The clients of a listener, and their limits. The command has an argument `listen`, in a group `address`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ClientArgs {
    /// Let web pages of this origin connect too, such as `https://example.com`; `null` for local
    /// files, `*` for every page [default: pages of this machine, and programs, which have no
    /// origin]
    #[arg(long, value_name = "ORIGIN", requires = "listen")]
    pub(crate) allow_origin: Vec<String>,

    /// Serve only clients that show the secret in this file (one line) as a bearer token. Web pages can't do
    /// that over a WebSocket
    #[arg(long, value_name = "FILE", requires = "address")]
    token_file: Option<PathBuf>,

    /// Let whoever can reach this machine call, without a token
    #[arg(long, requires = "listen", conflicts_with = "token_file")]
    allow_anyone: bool,

    /// Connections at the same time; one more is answered 503, or waits over HTTP
    #[arg(long, value_name = "COUNT", default_value_t = ListenerLimits::DEFAULT.connections, requires = "listen")]
    pub(crate) connections: usize,

    /// Memory that all connections hold together. When it runs out, those that hold more than their share
    /// are limited, and at last one is ended
    #[arg(long, value_name = "SIZE", default_value = "256MiB", requires = "listen")]
    memory: ByteSize,
}

impl ClientArgs {
    /// Returns the secret that everybody has to know, if there is one.
    pub(crate) fn token(&self) -> Result<Option<String>, String> {
        credentials::token(self.token_file.as_deref())
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        usize::try_from(self.memory.as_u64()).unwrap_or(usize::MAX)
    }

    /// Whether the address may be served so: who can reach it from another machine has to know a secret.
    pub(crate) fn check(&self, address: SocketAddr) -> Result<(), &'static str> {
        if address.ip().to_canonical().is_loopback() || self.token_file.is_some() {
            return Ok(());
        }
        if !self.allow_anyone {
            return Err("other machines can reach it: --token-file FILE has them know a secret, \
                        --allow-anyone lets them all in");
        }
        note("warning: whoever can reach this machine may call (--allow-anyone)");
        Ok(())
    }
}
