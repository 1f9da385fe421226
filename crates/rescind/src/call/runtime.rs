//! What moves the bytes of a call.

use std::io;
use std::process::{ChildStdin, ChildStdout};
use std::thread;

use clap::ValueEnum;
use protocol_blocking::threaded::{self, Incoming, Options, Peer};

/// What moves the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Runtime {
    /// Blocking threads
    Blocking,
    /// tokio's current-thread runtime
    Tokio,
    /// smol
    Smol,
}

impl Runtime {
    /// Connects to a server's output and input. The handles are the same whatever moves the bytes.
    pub(super) fn connect(
        self,
        stdout: ChildStdout,
        stdin: ChildStdin,
        options: Options,
    ) -> io::Result<(Peer, Incoming)> {
        match self {
            Self::Blocking => Ok(threaded::connect(stdout, stdin, options)),
            Self::Tokio => {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                let entered = runtime.enter();
                let stdout = tokio::process::ChildStdout::from_std(stdout)?;
                let stdin = tokio::process::ChildStdin::from_std(stdin)?;
                let (peer, incoming, driver) = protocol_tokio::connect(stdout, stdin, options);
                drop(entered);
                thread::spawn(move || runtime.block_on(driver));
                Ok((peer, incoming))
            }
            Self::Smol => {
                let (stdout, stdin) = (smol::Async::new(stdout)?, smol::Async::new(stdin)?);
                let connection = protocol_smol::spawn(stdout, stdin, options);
                connection.driver.detach();
                Ok((connection.peer, connection.incoming))
            }
        }
    }
}
