//! A spawned server.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use protocol_async::hub::Options;
use protocol_async::{Incoming, Peer};
use tokio::process::Command;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::connect;

/// A connection to a child process over its standard input and output.
#[derive(Debug)]
#[non_exhaustive]
pub struct ChildConnection {
    /// Sends.
    pub peer: Peer,
    /// Receives.
    pub incoming: Incoming,
    /// The task that drives the connection and then sees the process to its end.
    pub exit: JoinHandle<io::Result<ExitStatus>>,
}

/// Spawns a command and connects to it, mostly as its client:
/// [`Config::client`](protocol_core::Config::client).
///
/// When every handle is dropped, its standard input is closed, which asks it to end; a process that
/// has not ended `grace` later is killed. It is killed at once if the runtime goes first.
///
/// # Errors
///
/// Those of spawning.
///
/// # Panics
///
/// Outside a tokio runtime.
pub fn child(
    mut command: Command,
    grace: Duration,
    options: impl Into<Options>,
) -> io::Result<ChildConnection> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut process = command.spawn()?;
    let (stdin, stdout) = process.stdin.take().zip(process.stdout.take()).expect("both are piped");
    let (peer, incoming, driver) = connect(stdout, stdin, options);
    let exit = tokio::spawn(async move {
        // How reading ended changes nothing for the process.
        let _ = driver.await;
        if let Ok(exit) = timeout(grace, process.wait()).await {
            return exit;
        }
        process.kill().await?;
        process.wait().await
    });
    Ok(ChildConnection { peer, incoming, exit })
}
