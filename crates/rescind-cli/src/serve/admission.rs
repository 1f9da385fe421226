//! The clients that may use a service.

use std::net::SocketAddr;

use protocol_websocket::{BearerToken, Origins};

use crate::terminal::note;

/// The rules by which clients may connect.
pub(super) struct Admission {
    pub(super) origins: Origins,
    /// The secret that everybody has to know.
    pub(super) token: Option<BearerToken>,
    /// Whether other machines may connect without knowing anything.
    pub(super) is_for_anyone: bool,
}

impl Admission {
    /// Whether the address may be served so: who can reach it from another machine has to know a secret.
    pub(super) fn check(&self, address: SocketAddr) -> Result<(), &'static str> {
        if address.ip().to_canonical().is_loopback() || self.token.is_some() {
            return Ok(());
        }
        if !self.is_for_anyone {
            return Err("other machines can reach it: --token-file FILE has them know a secret, \
                        --allow-anyone lets them all in");
        }
        note("warning: whoever can reach this machine may call (--allow-anyone)");
        Ok(())
    }
}
