//! The runtimes that move the bytes of a call.

use std::io;
use std::thread;

use clap::ValueEnum;
use protocol_blocking::threaded::{self, Incoming, Options, Peer};
use protocol_child::{BlockingOutput, Output, Owner, Spawned};
use protocol_smol::SmolTimer;
use protocol_tokio::TokioTimer;
#[cfg(unix)]
use smol::Async;
#[cfg(not(unix))]
use smol::Unblock;
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

/// The runtime that moves the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Runtime {
    /// Blocking threads, without an executor
    Blocking,
    /// tokio's current-thread runtime
    Tokio,
    /// The executor of smol
    Smol,
}

impl Runtime {
    /// Connects to a server. The handles are the same whatever moves the bytes.
    pub(super) fn connect(
        self,
        spawned: Spawned,
        options: Options,
    ) -> io::Result<(Peer, Incoming, Owner)> {
        let Spawned { owner, stdin, stdout, .. } = spawned;
        let process = owner.process();
        let (peer, incoming) = match self {
            Self::Blocking => {
                threaded::connect(BlockingOutput::new(stdout, process)?, stdin, options)
            }
            Self::Tokio => {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                let entered = runtime.enter();
                let stdout = tokio::process::ChildStdout::from_std(stdout)?.compat();
                let stdin = tokio::process::ChildStdin::from_std(stdin)?.compat_write();
                let timer = TokioTimer::start();
                let stdout = Output::new(stdout, process, timer);
                let (peer, incoming, driver) =
                    protocol_async::connect(stdout, stdin, timer, options);
                drop(entered);
                thread::spawn(move || runtime.block_on(driver));
                (peer, incoming)
            }
            Self::Smol => {
                #[cfg(unix)]
                let (stdout, stdin) = (Async::new(stdout)?, Async::new(stdin)?);
                #[cfg(not(unix))]
                let (stdout, stdin) = {
                    let bytes = options.pipe_bytes.max(1);
                    (Unblock::with_capacity(bytes, stdout), Unblock::with_capacity(bytes, stdin))
                };
                let stdout = Output::new(stdout, process, SmolTimer::start());
                let connection = protocol_smol::spawn(stdout, stdin, options);
                connection.driver.detach();
                (connection.peer, connection.incoming)
            }
        };
        Ok((peer, incoming, owner))
    }
}
