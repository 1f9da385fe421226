//! Stands in for TLS where it is not spoken: rustls's cryptography is C, for which a build for Windows has no compiler.

use std::io;
use std::path::{Path, PathBuf};

use protocol_http::connect::ServerStream;

use crate::address::Address;
use crate::socket::Stream;

const ABSENT: &str = "TLS is not spoken on this system; a proxy in front can";

/// There is none.
pub(crate) enum Acceptor {}

impl Acceptor {
    pub(crate) fn new(_certificates: &Path, _key: &Path) -> Result<Self, String> {
        Err(ABSENT.into())
    }

    pub(crate) async fn accept(&self, _stream: Box<dyn Stream>) -> io::Result<Box<dyn Stream>> {
        match *self {}
    }
}

/// The issuers whose certificates a client would take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    System,
    Only(PathBuf),
}

impl Trust {
    pub(crate) fn of(file: Option<&Path>, _address: &Address) -> Result<Self, String> {
        Ok(file.map_or(Self::System, |file| Self::Only(file.into())))
    }

    pub(crate) fn client(&self, _protocols: &[&[u8]]) -> io::Result<Client> {
        Err(io::Error::other(ABSENT))
    }
}

/// There is none.
pub(crate) enum Client {}

impl Client {
    pub(crate) async fn connect(
        &self,
        _host: &str,
        _stream: Box<dyn Stream>,
    ) -> io::Result<ServerStream> {
        match *self {}
    }
}
