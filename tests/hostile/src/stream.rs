//! The byte stream of a client: a socket, TLS on one, or the pipes of a process.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::{ChildStdin, ChildStdout};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionbio;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::PATIENCE;

/// One of them.
#[derive(Debug)]
pub enum Stream {
    /// A TCP socket.
    Tcp(TcpStream),
    /// TLS on a socket.
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
    /// Standard input and output of a process.
    Pipes {
        /// It never blocks.
        stdin: Option<ChildStdin>,
        /// Nothing, if it is read beside.
        stdout: Option<ChildStdout>,
        /// The time that a write may take.
        patience: Duration,
    },
}

impl Stream {
    /// TLS whose handshake is done.
    pub(crate) fn tls(mut socket: TcpStream, trust: Arc<ClientConfig>) -> io::Result<Self> {
        let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
        let mut tls = ClientConnection::new(trust, name).map_err(io::Error::other)?;
        while tls.is_handshaking() {
            tls.complete_io(&mut socket)?;
        }
        Ok(Self::Tls(Box::new(StreamOwned::new(tls, socket))))
    }

    pub(crate) fn pipes(stdin: ChildStdin, stdout: ChildStdout) -> io::Result<Self> {
        ioctl_fionbio(&stdin, true)?;
        Ok(Self::Pipes { stdin: Some(stdin), stdout: Some(stdout), patience: PATIENCE })
    }

    /// The socket, if there is one.
    #[must_use]
    pub const fn socket(&self) -> Option<&TcpStream> {
        match self {
            Self::Tcp(socket) => Some(socket),
            Self::Tls(tls) => Some(&tls.sock),
            Self::Pipes { .. } => None,
        }
    }

    /// Sets the time that a write may wait for the reader.
    ///
    /// # Errors
    ///
    /// It is no socket.
    pub fn set_write_timeout(&mut self, time: Duration) -> io::Result<()> {
        if let Self::Pipes { patience, .. } = self {
            *patience = time;
        }
        self.socket().map_or(Ok(()), |socket| socket.set_write_timeout(Some(time)))
    }

    /// The same for a read, of a socket.
    ///
    /// # Errors
    ///
    /// It is no socket.
    pub fn set_read_timeout(&self, time: Duration) -> io::Result<()> {
        self.socket().map_or(Ok(()), |socket| socket.set_read_timeout(Some(time)))
    }

    /// Says that nothing more comes.
    ///
    /// # Errors
    ///
    /// The socket is gone.
    pub fn end(&mut self) -> io::Result<()> {
        if let Self::Pipes { stdin, .. } = self {
            *stdin = None;
        }
        self.socket().map_or(Ok(()), |socket| socket.shutdown(Shutdown::Write))
    }

    /// Has everything read from now on, and forgotten. Below TLS that is no more than bytes.
    pub(crate) fn read_beside(&mut self) -> io::Result<()> {
        let mut reader: Box<dyn Read + Send> = match self {
            Self::Pipes { stdout, .. } => match stdout.take() {
                Some(stdout) => Box::new(stdout),
                None => return Ok(()),
            },
            Self::Tcp(socket) => Box::new(socket.try_clone()?),
            Self::Tls(tls) => Box::new(tls.sock.try_clone()?),
        };
        thread::spawn(move || io::copy(&mut reader, &mut io::sink()));
        Ok(())
    }
}

impl Read for Stream {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.read(room),
            Self::Tls(tls) => tls.read(room),
            Self::Pipes { stdout, .. } => stdout.as_mut().map_or(Ok(0), |stdout| stdout.read(room)),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (stdin, patience) = match self {
            Self::Tcp(socket) => return socket.write(bytes),
            Self::Tls(tls) => return tls.write(bytes),
            Self::Pipes { stdin: None, .. } => return Err(ErrorKind::BrokenPipe.into()),
            Self::Pipes { stdin: Some(stdin), patience, .. } => (stdin, patience),
        };
        loop {
            match stdin.write(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                written => return written,
            }
            let time = Timespec::try_from(*patience).map_err(io::Error::other)?;
            if poll(&mut [PollFd::new(&*stdin, PollFlags::OUT)], Some(&time))? == 0 {
                return Err(ErrorKind::TimedOut.into());
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tls(tls) => tls.flush(),
            Self::Tcp(_) | Self::Pipes { .. } => Ok(()),
        }
    }
}
