//! The sockets under a WebSocket: TCP's, and those of Unix.

use std::io;
use std::net::SocketAddr;

pub(crate) use protocol_http::connect::Stream;
#[cfg(unix)]
use tokio::net::UnixListener;
use tokio::net::{TcpListener, TcpStream};

use crate::address::{Address, Place};
#[cfg(unix)]
use crate::socket_file::SocketFile;

/// A socket that others connect to.
pub(crate) enum Bound {
    Tcp(TcpListener),
    #[cfg(unix)]
    Unix {
        /// It goes first: as long as the socket is there, no other file can be taken for its own.
        #[expect(dead_code, reason = "it is there to be dropped")]
        file: SocketFile,
        bound: UnixListener,
    },
}

impl Bound {
    /// A Unix socket is its owner's only.
    pub(crate) async fn bind(address: &Address) -> io::Result<Self> {
        match &address.place {
            Place::Tcp(host, port) => {
                Ok(Self::Tcp(TcpListener::bind((host.as_str(), *port)).await?))
            }
            #[cfg(unix)]
            Place::File(file) => {
                let (bound, file) = SocketFile::bind(file)?;
                bound.set_nonblocking(true)?;
                Ok(Self::Unix { file, bound: UnixListener::from_std(bound)? })
            }
            #[cfg(not(unix))]
            Place::File(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Returns its address, if others than those of this machine may be able to reach it.
    pub(crate) fn address(&self) -> io::Result<Option<SocketAddr>> {
        match self {
            Self::Tcp(bound) => bound.local_addr().map(Some),
            #[cfg(unix)]
            Self::Unix { .. } => Ok(None),
        }
    }

    /// Takes a client, and returns its address if it has one.
    pub(crate) async fn accept(&self) -> io::Result<(Box<dyn Stream>, Option<SocketAddr>)> {
        match self {
            Self::Tcp(bound) => {
                let (stream, from) = bound.accept().await?;
                Ok((at_once(stream), Some(from)))
            }
            #[cfg(unix)]
            Self::Unix { bound, .. } => Ok((Box::new(bound.accept().await?.0), None)),
        }
    }
}

/// Each write leaves at once. Without that some would be late; they arrive all the same.
pub(crate) fn at_once(stream: TcpStream) -> Box<dyn Stream> {
    let _ = stream.set_nodelay(true);
    Box::new(stream)
}
