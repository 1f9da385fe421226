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
    /// The process: its id, its end and the end of its standard error.
    pub process: Process,
}

/// Makes a connection over the standard output and input of a process, as the runtime reads and writes them.
///
/// The caller runs the driver. When that is over or dropped, the process ends.
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
        // The calls settle with the error that ended reading. For the process it changes nothing.
        let _ = driver.await;
    };
    (ChildConnection { peer, incoming, process }, driver)
}
