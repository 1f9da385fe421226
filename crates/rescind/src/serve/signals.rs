//! What asks a server to end.

use std::io;

use tokio::signal;

/// How a server is asked to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Ctrl-C: somebody waits for it.
    Interrupted,
    /// `SIGTERM`: whoever started it can wait for what is in flight.
    Terminated,
}

/// Waits for signals.
pub(super) struct Signals {
    #[cfg(unix)]
    interrupt: signal::unix::Signal,
    #[cfg(unix)]
    terminate: signal::unix::Signal,
    #[cfg(windows)]
    interrupt: signal::windows::CtrlC,
    #[cfg(windows)]
    terminate: signal::windows::CtrlShutdown,
}

impl Signals {
    /// From now on none is missed.
    pub(super) fn catch() -> io::Result<Self> {
        #[cfg(unix)]
        {
            use signal::unix::{SignalKind, signal};
            let (interrupt, terminate) = (SignalKind::interrupt(), SignalKind::terminate());
            Ok(Self { interrupt: signal(interrupt)?, terminate: signal(terminate)? })
        }
        #[cfg(windows)]
        {
            use signal::windows::{ctrl_c, ctrl_shutdown};
            Ok(Self { interrupt: ctrl_c()?, terminate: ctrl_shutdown()? })
        }
    }

    /// The next one.
    pub(super) async fn next(&mut self) -> Ending {
        tokio::select! {
            _ = self.interrupt.recv() => Ending::Interrupted,
            _ = self.terminate.recv() => Ending::Terminated,
        }
    }
}
