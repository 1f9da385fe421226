//! The tests of handles and routers, which are the same above each adapter. They run on an executor that is made by hand, on
//! tokio with many threads, and on threads.

mod calls;
mod flow;
mod hostile;
mod keep_alive;
mod markers;
mod operations;
mod proxies;
mod requests;
mod router;
mod served;
mod undo;

use protocol_async::{Incoming, Peer};
use protocol_core::{Config, Dialect};

use super::suite::*;
use crate::pipe::pipe;

/// Two ends of one connection.
fn pair() -> ((Peer, Incoming), (Peer, Incoming)) {
    let (near_reader, far_writer) = pipe(4 << 10);
    let (far_reader, near_writer) = pipe(4 << 10);
    let server = Config::server(Dialect::ACP_V1);
    (connect(near_reader, near_writer, acp()), connect(far_reader, far_writer, server))
}
