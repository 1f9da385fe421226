//! The spawned server, on each runtime.

use std::io;
use std::process::{Command, ExitStatus};

use protocol_async::Timer;
use protocol_async::relay::Options;
use protocol_child::{Output, Owner, Pushed, Spawned, spawn};
use protocol_smol::SmolTimer;
use protocol_tokio::TokioTimer;
#[cfg(unix)]
use smol::Async;
use smol::Unblock;
use smol::io::{AsyncRead, AsyncWrite};
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

use super::stdout::{AT_ONCE, Lost, Stdout};

/// How relaying ended, and how the server did.
pub(super) struct Relayed {
    pub(super) relayed: io::Result<()>,
    pub(super) exit: io::Result<ExitStatus>,
    pub(super) pushed: Pushed,
    /// Why the client could not be told everything.
    pub(super) lost: Lost,
}

/// Spawns the server and relays on tokio.
///
/// # Errors
///
/// Those of spawning.
pub(super) fn on_tokio(command: Command, options: Options) -> io::Result<Relayed> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let relayed = runtime.block_on(async {
        let Spawned { owner, stdin, stdout, .. } = spawn(command)?;
        let stdout = tokio::process::ChildStdout::from_std(stdout)?.compat();
        let stdin = tokio::process::ChildStdin::from_std(stdin)?.compat_write();
        let up = (tokio::io::stdin().compat(), tokio::io::stdout().compat_write());
        let timer = TokioTimer::start();
        Ok(relay(up, (owner, stdout, stdin), timer, options).await)
    });
    // Its thread may be waiting for standard input for ever.
    runtime.shutdown_background();
    relayed
}

/// Spawns the server and relays on smol.
///
/// # Errors
///
/// Those of spawning.
pub(super) fn on_smol(command: Command, options: Options) -> io::Result<Relayed> {
    let Spawned { owner, stdin, stdout, .. } = spawn(command)?;
    #[cfg(unix)]
    let (stdout, stdin) = (Async::new(stdout)?, Async::new(stdin)?);
    #[cfg(not(unix))]
    let (stdout, stdin) = (Unblock::new(stdout), Unblock::new(stdin));
    let up = (Unblock::new(io::stdin()), Unblock::with_capacity(AT_ONCE, io::stdout()));
    let timer = SmolTimer::start();
    Ok(smol::block_on(relay(up, (owner, stdout, stdin), timer, options)))
}

/// Relays to the end, and sees the server to its.
async fn relay<R, W, S, X>(
    (input, stream): (R, W),
    (owner, stdout, stdin): (Owner, S, X),
    timer: impl Timer + Unpin,
    options: Options,
) -> Relayed
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
    S: AsyncRead + Unpin,
    X: AsyncWrite + Unpin,
{
    let process = owner.process().clone();
    let lost = Lost::default();
    let up = (input, Stdout { stream, lost: lost.clone() });
    let down = (Output::new(stdout, &process, timer.clone()), stdin);
    let relayed = protocol_async::relay(up, down, timer, options).await;
    drop(owner);
    let exit = process.exit().await;
    Relayed { relayed, exit, pushed: process.pushed(), lost }
}
