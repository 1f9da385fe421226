//! The parts that clients and servers share: windows, observer and dialect.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use protocol_async::hub::{Alarm, Hub};
use protocol_async::{Incoming, Options, Peer, Timer, Verdict};
use protocol_core::{Cause, Dialect, Framing, MessageOrder};
use protocol_tokio::TokioTimer;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

/// The bytes of one body that the peer may send ahead of us over HTTP/2.
pub(crate) const STREAM_WINDOW: u32 = 64 << 10;
/// The same for all bodies of a connection.
pub(crate) const CONNECTION_WINDOW: u32 = 1 << 20;
/// The silence of a peer after which TCP asks whether it is there. It asks again in each third of that time.
const SILENCE: Duration = Duration::from_secs(30);

/// Implements `Debug` with these fields alone, and so without secrets.
macro_rules! debug {
    ($name:ident $(, $field:ident)*) => {
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut shown = f.debug_struct(stringify!($name));
                shown$(.field(stringify!($field), &self.$field))*.finish_non_exhaustive()
            }
        }
    };
}

pub(crate) use debug;

/// Makes an endpoint whose driver sees each verdict before the host does, and the alarm of that driver.
pub(crate) fn observed(
    mut options: Options,
    tell: impl Fn(&Verdict) + Send + 'static,
) -> (Hub, Peer, Incoming, Alarm<TokioTimer>) {
    let (clock, mut host) = (TokioTimer::start(), options.observer.take());
    options.observer = Some(Box::new(move |verdict| {
        tell(verdict);
        host.iter_mut().for_each(|host| host(verdict));
    }));
    let (hub, peer, incoming) = Hub::new(options, move || clock.now());
    (hub, peer, incoming, Alarm::new(clock))
}

/// Fits a dialect to a session whose messages come on several connections.
///
/// They may overtake each other. The input ends with the session and not with a stream, so that end cancels what is in
/// flight. The same holds for the revisions that the session may settle.
pub(crate) fn over_streams(dialect: &mut Dialect) {
    dialect.framing = Framing::Whole;
    dialect.order = MessageOrder::MayChange;
    dialect.closed_stream.get_or_insert(Cause::PeerGone);
    dialect.revisions.to_mut().iter_mut().for_each(|(_, revision)| over_streams(revision));
}

/// Makes each write leave at once, and TCP ask a peer that is silent for 30 s whether it is there.
///
/// Without that, small messages would be late, and a peer that went without a word would never be missed. A stream
/// that refuses an option stays as it is.
pub fn set_tcp_options(stream: &TcpStream) {
    let asking = TcpKeepalive::new().with_time(SILENCE).with_interval(SILENCE / 3);
    let _ = (stream.set_nodelay(true), SockRef::from(stream).set_tcp_keepalive(&asking));
}

/// Bytes that hold something until they are dropped.
pub(crate) struct Held<B, T>(pub(crate) B, pub(crate) T);

impl<B: AsRef<[u8]>, T> AsRef<[u8]> for Held<B, T> {
    fn as_ref(&self) -> &[u8] {
        self.0.as_ref()
    }
}

/// Locks what no panic leaves half done.
pub(crate) fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}
