//! A spawned server.

use std::io;

use protocol_async::Options;
use protocol_child::{ChildCommand, ChildConnection, Spawned};
use tokio::process::{ChildStdin, ChildStdout};
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

use crate::timer::TokioTimer;

/// Spawns a command and connects to it, mostly as its client:
/// [`Config::client`](protocol_core::Config::client).
///
/// The process is ours until it is gone. It ends, with everything it started, when every handle is
/// dropped, when it dies, and when the runtime or this program ends. [`protocol_child`] says how.
///
/// ```no_run
/// use protocol_core::{Config, Dialect};
/// use protocol_tokio::{ChildCommand, Stderr};
/// use std::process::Command;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let agent = ChildCommand::new(Command::new("agent")).stderr(Stderr::Last { bytes: 4096 });
/// let agent = protocol_tokio::child(agent, Config::client(Dialect::ACP_V1))?;
/// let opened = agent.peer.call::<serde_json::Value>("initialize", ()).await;
///
/// drop((agent.peer, agent.incoming));
/// println!("{}: {}", agent.process.exit().await?, agent.process.stderr_tail());
/// # opened?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// Those of [`spawn`](protocol_child::spawn).
///
/// # Panics
///
/// Outside a tokio runtime.
pub fn child(
    command: impl Into<ChildCommand>,
    options: impl Into<Options>,
) -> io::Result<ChildConnection> {
    let Spawned { owner, stdin, stdout, .. } = protocol_child::spawn(command)?;
    let stdout = ChildStdout::from_std(stdout)?.compat();
    let stdin = ChildStdin::from_std(stdin)?.compat_write();
    let timer = TokioTimer::start();
    let (connection, driver) = protocol_child::connect(owner, stdout, stdin, timer, options.into());
    tokio::spawn(driver);
    Ok(connection)
}
