//! A server's listener, which admits clients and ends their connections.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_io::{AsyncRead, AsyncWrite};
use futures_util::future::{Either, select};
use protocol_async::{Account, Timer};
use protocol_core::Cause;

use crate::admission::{Admission, Refused};
use crate::handshake::{refusal, refuse};
use crate::limits::ListenerLimits;
use crate::seat::Seat;

/// A bound on all clients of a server together: their number, their time and their end. Clones are the same listener.
///
/// It opens no sockets and names no runtime. The host accepts streams, of TCP, TLS or a Unix socket, and
/// [admits](Self::admit) each. The [`Seat`] that it gets makes the WebSocket and serves it.
///
/// ```
/// use futures_io::{AsyncRead, AsyncWrite};
/// use protocol_async::{Options, Timer};
/// use protocol_router::Router;
/// use protocol_core::{Config, Dialect};
/// use protocol_websocket::{Listener, Origins};
/// # use std::net::IpAddr;
///
/// /// Serves one stream that was accepted; to be run in a task of its own.
/// async fn serve<S, T>(listener: Listener<T>, stream: S, from: IpAddr)
/// where
///     S: AsyncRead + AsyncWrite + Unpin,
///     T: Timer + Unpin,
/// {
///     let seat = match listener.admit(Some(from)) {
///         Ok(seat) => seat,
///         Err(refused) => return drop(listener.turn_away(stream, refused).await),
///     };
///     let options = Options::new(Config::server(Dialect::ACP_V1));
///     let gate = Origins::local();
///     let served = seat.serve(stream, &gate, options, async |_peer, incoming| {
///         let router = Router::new().request("echo", async |params: (String,), _cx| Ok(params));
///         router.serve(&incoming).await;
///     });
///     if let Err(error) = served.await {
///         eprintln!("{from}: {error}");
///     }
/// }
/// ```
///
/// At the end the host accepts no more and waits for [`drain`](Self::drain).
pub struct Listener<T> {
    admission: Arc<Admission>,
    timer: T,
}

/// The time that clients have to go once nobody waits for them: a turn of their tasks.
const LAST: Duration = Duration::from_secs(1);

impl<T: Timer> Listener<T> {
    /// Creates a listener without clients.
    #[must_use]
    pub fn new(limits: ListenerLimits, timer: T) -> Self {
        Self { admission: Arc::new(Admission::new(limits)), timer }
    }

    /// Returns the account that all of its connections draw on. Connections of other kinds may draw on it too.
    #[must_use]
    pub fn account(&self) -> &Account {
        &self.admission.account
    }

    /// Admits a stream, if there is room for one more. A stream that has no address, such as that of a Unix socket,
    /// counts among all only.
    ///
    /// # Errors
    ///
    /// The stream is not admitted. [`turn_away`](Self::turn_away) tells the client.
    pub fn admit(&self, from: Option<IpAddr>) -> Result<Seat<T>, Refused> {
        Ok(Seat::new(self.admission.admit(from)?, self.timer.clone()))
    }

    /// Tells a client that it was not admitted. The host runs this in a task of its own.
    ///
    /// The response does not wait for room, because a new stream has enough. The stream is then read on, so that a
    /// client that still writes gets to read the response. That lasts until a second of silence, for ten seconds at
    /// most, and for 64 clients at a time.
    ///
    /// # Errors
    ///
    /// The error of a read or a write.
    pub async fn turn_away<S>(&self, mut stream: S, refused: Refused) -> io::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        refuse(&mut stream, refusal(refused.status()))?;
        self.admission.lingering.linger(&mut stream, &self.timer).await
    }

    /// Returns the number of clients that are there.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.admission.connections()
    }

    /// Ends every connection, and waits until all are gone. From now on nobody is admitted.
    ///
    /// Connections take nothing new. Requests and calls in flight have the time `finish`. Then they are cancelled, and
    /// have the time `cancel` for their responses. Then all connections are abandoned, and have a second to go. A
    /// [`Seat`] that is held and never served takes all of these times and no more.
    ///
    /// May be called more than once: the earlier time holds.
    pub async fn drain(&self, finish: Duration, cancel: Duration) {
        self.admission.begin_to_drain();
        for (time, then) in [
            (finish, Some(&self.admission.cancelling)),
            (cancel, Some(&self.admission.abandoned)),
            (LAST, None),
        ] {
            let empty = self.admission.empty.marker().cancelled();
            let over = pin!(self.timer.sleep_until(self.timer.now() + time));
            if let Either::Left(_) = select(empty, over).await {
                return;
            }
            then.inspect(|then| then.cancel(Cause::Shutdown));
        }
    }
}

impl<T: Clone> Clone for Listener<T> {
    fn clone(&self) -> Self {
        Self { admission: self.admission.clone(), timer: self.timer.clone() }
    }
}

impl<T> fmt::Debug for Listener<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener")
            .field("limits", &self.admission.limits)
            .field("connections", &self.admission.connections())
            .finish_non_exhaustive()
    }
}
