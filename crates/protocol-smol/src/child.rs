//! A spawned server.

use std::io;

use protocol_async::Options;
use protocol_child::{ChildCommand, ChildConnection, Spawned};
#[cfg(unix)]
use smol::Async;
#[cfg(not(unix))]
use smol::Unblock;

use crate::timer::SmolTimer;

/// Spawns a command and connects to it, mostly as its client:
/// [`Config::client`](protocol_core::Config::client).
///
/// The process is ours until it is gone. It ends, with everything it started, when every handle is
/// dropped, when it dies, and when this program ends. [`protocol_child`] says how.
///
/// # Errors
///
/// Those of [`spawn`](protocol_child::spawn).
pub fn child(
    command: impl Into<ChildCommand>,
    options: impl Into<Options>,
) -> io::Result<ChildConnection> {
    let Spawned { owner, stdin, stdout, .. } = protocol_child::spawn(command)?;
    let options = options.into();
    #[cfg(unix)]
    let (stdout, stdin) = (Async::new(stdout)?, Async::new(stdin)?);
    #[cfg(not(unix))]
    let (stdout, stdin) = {
        let pipe_bytes = options.pipe_bytes.max(1);
        (Unblock::with_capacity(pipe_bytes, stdout), Unblock::with_capacity(pipe_bytes, stdin))
    };
    let timer = SmolTimer::start();
    let (connection, driver) = protocol_child::connect(owner, stdout, stdin, timer, options);
    smol::spawn(driver).detach();
    Ok(connection)
}
