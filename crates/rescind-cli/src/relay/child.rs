//! The spawned server, on each runtime.

use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::process::ExitStatus;

use futures_util::future::{Either, pending, select, try_join};
use protocol_async::Timer;
use protocol_async::relay::Options;
use protocol_child::{ChildCommand, Output, Owner, Pushed, Spawned, spawn};
use protocol_relay::Side;
use protocol_smol::SmolTimer;
use protocol_tokio::TokioTimer;
#[cfg(unix)]
use smol::Async;
#[cfg(not(unix))]
use smol::Unblock;
use smol::io::{AsyncRead, AsyncWrite};
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

use super::fault::Plan;
use super::stdout::{AT_ONCE, Lost, Stdout};
use super::stuck::Watch;
use crate::ending::{Ending, SHORT_GRACE, Until};
use crate::record::Session;

/// The end of a relay, and that of its server.
pub(super) struct Relayed {
    pub(super) relayed: io::Result<()>,
    pub(super) exit: io::Result<ExitStatus>,
    pub(super) pushed: Pushed,
    /// The error that kept responses from the client.
    pub(super) lost: Lost,
    /// The file of the recording, which is complete before the server's end is waited for.
    pub(super) recorded: Option<PathBuf>,
}

/// Spawns the server and relays on tokio.
///
/// # Errors
///
/// Those of spawning.
pub(super) fn on_tokio(command: ChildCommand, options: (Options, Extras)) -> io::Result<Relayed> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let relayed = runtime.block_on(async {
        let Spawned { owner, stdin, stdout, .. } = spawn(command)?;
        let stdout = tokio::process::ChildStdout::from_std(stdout)?.compat();
        let stdin = tokio::process::ChildStdin::from_std(stdin)?.compat_write();
        let up = (protocol_tokio::stdin().compat(), protocol_tokio::stdout().compat_write());
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
pub(super) fn on_smol(command: ChildCommand, options: (Options, Extras)) -> io::Result<Relayed> {
    let Spawned { owner, stdin, stdout, .. } = spawn(command)?;
    #[cfg(unix)]
    let (stdout, stdin) = (Async::new(stdout)?, Async::new(stdin)?);
    #[cfg(not(unix))]
    let (stdout, stdin) =
        (Unblock::with_capacity(AT_ONCE, stdout), Unblock::with_capacity(AT_ONCE, stdin));
    let up = (protocol_smol::stdin(AT_ONCE), protocol_smol::stdout(AT_ONCE));
    let timer = SmolTimer::start();
    Ok(smol::block_on(relay(up, (owner, stdout, stdin), timer, options)))
}

/// The parts of a relay beside its pipes.
pub(super) struct Extras {
    pub(super) faults: Option<Plan>,
    pub(super) watch: Option<Watch>,
    pub(super) ending: Ending,
    pub(super) recording: Session,
}

/// Relays to the end, and sees the server to its.
async fn relay(
    (input, stream): (impl AsyncRead + Unpin, impl AsyncWrite + Unpin),
    (owner, stdout, stdin): (Owner, impl AsyncRead + Unpin, impl AsyncWrite + Unpin),
    timer: impl Timer + Unpin,
    (options, Extras { faults, watch, ending, recording }): (Options, Extras),
) -> Relayed {
    let process = owner.process().clone();
    let lost = Lost::default();
    let stream = Stdout { stream, lost: lost.clone() };
    let stdout = Output::new(stdout, &process, timer.clone());
    // A signal is the end of what the client says. The server has a short time to respond to the cancels.
    let grace = options.up.abandoned_grace.min(SHORT_GRACE);
    let input = Until::new(input, async {
        ending.asked().await;
        Err(io::ErrorKind::ConnectionReset)
    });
    let stdout = Until::new(stdout, async {
        ending.asked().await;
        timer.sleep_until(timer.now() + grace).await;
        Ok(())
    });
    let mut owner = Some(owner);
    let relayed = async {
        let (up, down) = ((input, stream), (stdout, stdin));
        match &faults {
            Some(faults) => relay_with(faults, up, down, &timer, options).await,
            None => protocol_async::relay(up, down, timer.clone(), options).await,
        }
    };
    let watched = async {
        match watch {
            Some(watch) => watch.run(timer.clone(), &mut owner).await,
            None => pending().await,
        }
    };
    let relayed = match select(pin!(relayed), pin!(watched)).await {
        Either::Left((relayed, _)) => relayed,
        Either::Right(((), relayed)) => relayed.await,
    };
    drop(owner);
    // The sender of a signal may not wait as long as the server takes.
    let recorded = recording.finish();
    let exit = process.exit().await;
    Relayed { relayed, exit, pushed: process.pushed(), lost, recorded }
}

/// Relays with these faults on the ways to the client and to the server.
async fn relay_with(
    faults: &Plan,
    (input, stream): (impl AsyncRead + Unpin, impl AsyncWrite + Unpin),
    (stdout, stdin): (impl AsyncRead + Unpin, impl AsyncWrite + Unpin),
    timer: &(impl Timer + Unpin),
    options: Options,
) -> io::Result<()> {
    let patience = options.patience;
    let (stream, to_client) = faults.pipe(Side::Up, stream, timer.clone());
    let (stdin, to_server) = faults.pipe(Side::Down, stdin, timer.clone());
    let relay = protocol_async::relay((input, stream), (stdout, stdin), timer.clone(), options);
    // Messages on their way when the relay is done are waited for as the relay would.
    let relay = async {
        let relayed = relay.await;
        (relayed, timer.now() + faults.longest() + patience)
    };
    // A client that is cut off is gone: nobody is left to relay for.
    let to_client = async {
        match to_client.await {
            Ok(true) => Err(()),
            _ => Ok(()),
        }
    };
    let to_server = async {
        // The relay notices by itself.
        let _ = to_server.await;
        Ok(())
    };
    let (carried, relay) = (pin!(try_join(to_client, to_server)), pin!(relay));
    match select(relay, carried).await {
        Either::Left(((relayed, until), carried)) => {
            select(carried, pin!(timer.sleep_until(until))).await;
            relayed
        }
        Either::Right((Ok(_), relay)) => relay.await.0,
        Either::Right((Err(()), _)) => Ok(()),
    }
}
