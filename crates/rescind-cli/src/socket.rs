//! The sockets under a WebSocket: TCP's, and those of Unix.

use std::io;
use std::net::SocketAddr;

pub(crate) use protocol_http::connect::Stream;
use protocol_http::set_tcp_options;
use tokio::net::TcpListener;
#[cfg(unix)]
use tokio::net::UnixListener;

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
                set_tcp_options(&stream);
                Ok((Box::new(stream), Some(from)))
            }
            #[cfg(unix)]
            Self::Unix { bound, .. } => Ok((Box::new(bound.accept().await?.0), None)),
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs::read_to_string;

    use super::*;
    use crate::connect::connect_with;

    /// Linux shows the timers of connections: one of kind 2 is that of TCP's keep-alive.
    #[tokio::test]
    async fn tcp_asks_a_silent_peer_whether_it_is_there_on_both_sides() {
        let address: Address = "ws://127.0.0.1:0".parse().unwrap();
        let bound = Bound::bind(&address).await.unwrap();
        let port = bound.address().unwrap().unwrap().port();
        let address = address.with_port(port);
        let (near, far) = tokio::join!(connect_with(&address, None), bound.accept());
        let _open = (near.unwrap(), far.unwrap());
        let (port, table) = (format!(":{port:04X}"), read_to_string("/proc/net/tcp").unwrap());
        let lines = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let open =
            lines.filter(|it| it[3] == "01" && it[1..3].iter().any(|at| at.ends_with(&port)));
        let kinds: Vec<_> = open.map(|it| it[5][..2].to_owned()).collect();
        assert_eq!(kinds, ["02", "02"]);
    }
}
