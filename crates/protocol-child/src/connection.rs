//! A connection to a process.

use std::future::Future;

use futures_io::{AsyncRead, AsyncWrite};
use protocol_async::{Incoming, Options, Peer, Timer};

use crate::output::Output;
use crate::process::{Owner, Process};

/// A connection to a child process over its standard input and output.
#[derive(Debug)]
#[non_exhaustive]
pub struct ChildConnection {
    /// The handle that sends calls and notifications to the process.
    pub peer: Peer,
    /// The stream of requests and notifications from the process.
    pub incoming: Incoming,
    /// Tells how the process is.
    pub process: Process,
}

/// Makes a connection over the standard output and input of a process, as the runtime reads and writes
/// them. The caller runs the driver, which ends the process when it is over, or dropped.
pub fn connect<R, W, T>(
    owner: Owner,
    stdout: R,
    stdin: W,
    timer: T,
    options: Options,
) -> (ChildConnection, impl Future<Output = ()>)
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
    T: Timer + Unpin,
{
    let process = owner.process().clone();
    let stdout = Output::new(stdout, &process, timer.clone());
    let (peer, incoming, driver) = protocol_async::connect(stdout, stdin, timer, options);
    let driver = async move {
        let _owner = owner;
        // The calls are told why reading ended. For the process it changes nothing.
        let _ = driver.await;
    };
    (ChildConnection { peer, incoming, process }, driver)
}
