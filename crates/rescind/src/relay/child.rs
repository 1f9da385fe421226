//! The spawned server, on each runtime.

use std::io;
use std::process::{Command, Stdio};

use protocol_async::relay::Options;
use protocol_smol::SmolTimer;
use protocol_tokio::TokioTimer;
use smol::Unblock;

use super::{Ended, GRACE, Watch, within};

/// How relaying ended, and how the server did.
pub(super) type Relayed = (io::Result<()>, io::Result<Ended>);

/// Spawns the server and relays on tokio.
///
/// # Errors
///
/// Those of spawning.
pub(super) fn on_tokio(command: Command, options: Options, watch: Watch) -> io::Result<Relayed> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let relayed = runtime.block_on(async {
        let timer = TokioTimer::start();
        let mut command = tokio::process::Command::from(command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn()?;
        let streams = process.stdout.take().zip(process.stdin.take()).expect("both are piped");
        let stdio = (tokio::io::stdin(), tokio::io::stdout());
        let driver = protocol_tokio::relay(stdio, streams, options);
        let relayed = watch.over(driver, timer).await;
        let ended = match within(GRACE, timer, process.wait()).await {
            Some(exit) => exit.map(Ended::ByItself),
            None => process.kill().await.map(|()| Ended::Killed),
        };
        Ok((relayed, ended))
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
pub(super) fn on_smol(command: Command, options: Options, watch: Watch) -> io::Result<Relayed> {
    smol::block_on(async {
        let timer = SmolTimer::start();
        let mut command = smol::process::Command::from(command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn()?;
        let streams = process.stdout.take().zip(process.stdin.take()).expect("both are piped");
        let stdio = (Unblock::new(io::stdin()), Unblock::new(io::stdout()));
        let driver = protocol_smol::relay(stdio, streams, options);
        let relayed = watch.over(driver, timer).await;
        let ended = match within(GRACE, timer, process.status()).await {
            Some(exit) => exit.map(Ended::ByItself),
            None => process.kill().map(|()| Ended::Killed),
        };
        Ok((relayed, ended))
    })
}
