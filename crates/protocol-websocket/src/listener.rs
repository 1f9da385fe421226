//! The admission of clients, and its end.

use std::collections::HashMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::pin::pin;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use futures_io::{AsyncRead, AsyncWrite};
use futures_util::AsyncReadExt;
use futures_util::future::{Either, select};
use protocol_async::{Account, AccountLimits, Cancellation, Canceller, Timer};
use protocol_core::Cause;
use tungstenite::http::StatusCode;

use crate::READ_BYTES;
use crate::handshake::{answer, refusal};
use crate::limits::ListenerLimits;
use crate::meter::Unfinished;
use crate::seat::Seat;

/// Bounds what the clients of a server may ask of it together: how many there are, how long they take,
/// and how all of them end. Clones are the same listener.
///
/// It opens no sockets and names no runtime. The host accepts streams, of TCP, TLS or a Unix socket, and
/// [admits](Self::admit) each; the [`Seat`] that it gets makes the WebSocket and serves it.
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
    shared: Arc<Shared>,
    timer: T,
}

/// The state that a listener and its seats share.
pub(crate) struct Shared {
    pub(crate) limits: ListenerLimits,
    pub(crate) unfinished: Arc<Unfinished>,
    pub(crate) account: Account,
    seats: Mutex<Seats>,
    /// Set when the listener drains.
    draining: Canceller,
    /// Set when what is in flight has had its time to finish.
    cancelling: Canceller,
    /// Set when nobody is waited for any more.
    abandoned: Canceller,
    /// Set when the listener drains and nobody is left.
    empty: Canceller,
}

/// The longest time that the stream of a client that was sent away is read on while it is not silent.
const LINGER: Duration = Duration::from_secs(10);
const SILENCE: Duration = Duration::from_secs(1);
const LINGERING: usize = 64;
/// The time that clients have to go once nobody waits for them: a turn of their tasks.
const LAST: Duration = Duration::from_secs(1);

/// A place among those who are read on.
struct Lingering<'a>(&'a Shared);

/// The clients that are there.
#[derive(Default)]
struct Seats {
    all: usize,
    by_address: HashMap<IpAddr, Neighbours>,
    is_draining: bool,
    /// Those who were not admitted and are still read.
    lingering: usize,
}

/// Those of one address.
#[derive(Default)]
struct Neighbours {
    there: usize,
    /// Their unfinished bytes, which are counted among all too.
    unfinished: Arc<AtomicUsize>,
}

/// The reason for which a stream was not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// There are [`ListenerLimits::connections`].
    Full,
    /// There are [`ListenerLimits::connections_per_address`] of its address.
    AddressFull,
    /// The listener drains.
    Draining,
}

impl<T: Timer> Listener<T> {
    /// A listener that has nobody yet.
    #[must_use]
    pub fn new(limits: ListenerLimits, timer: T) -> Self {
        let shared = Shared {
            limits,
            unfinished: Unfinished::new(limits.unfinished_bytes),
            account: Account::new(AccountLimits::within(limits.memory_bytes)),
            seats: Mutex::default(),
            draining: Canceller::new(),
            cancelling: Canceller::new(),
            abandoned: Canceller::new(),
            empty: Canceller::new(),
        };
        Self { shared: Arc::new(shared), timer }
    }

    /// Returns the account that all of its connections draw on. Connections of other kinds may draw on it too.
    #[must_use]
    pub fn account(&self) -> &Account {
        &self.shared.account
    }

    /// Takes a stream in, if there is room for one more. A stream that has no address, such as that of a
    /// Unix socket, counts among all only.
    ///
    /// # Errors
    ///
    /// Why it was not admitted: [`turn_away`](Self::turn_away) says so to the client.
    pub fn admit(&self, from: Option<IpAddr>) -> Result<Seat<T>, Refused> {
        let from = from.map(charged);
        let unfinished = self.shared.take_seat(from)?;
        Ok(Seat::new(self.shared.clone(), from, unfinished, self.timer.clone()))
    }

    /// Tells a client that it was not admitted. A new stream has room for so few bytes, so this waits for
    /// nothing but, for a second of silence or ten in all and with 64 clients at the same time, the client's
    /// last bytes: who still writes may not get to read the answer. To be run in a task of its own.
    ///
    /// # Errors
    ///
    /// The error of a read or a write.
    pub async fn turn_away<S>(&self, mut stream: S, refused: Refused) -> io::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        at_once(answer(&mut stream, refusal(refused.status()))).await?;
        self.shared.linger(&mut stream, &self.timer).await
    }

    /// Returns the number of clients that are there.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.seats().all
    }

    /// Ends every connection, and waits until all are gone. Nobody is admitted any more, and nothing new
    /// is taken from those who are there. What is in flight has the time `finish` to be done; then it is
    /// cancelled and has the time `cancel` to be answered; then nobody is waited for any more, but for a second
    /// in which they are let go. A [`Seat`] that is held and never served takes all of these times and no more.
    ///
    /// May be called more than once: the earlier time holds.
    pub async fn drain(&self, finish: Duration, cancel: Duration) {
        self.shared.begin_to_drain();
        for (time, then) in [
            (finish, Some(&self.shared.cancelling)),
            (cancel, Some(&self.shared.abandoned)),
            (LAST, None),
        ] {
            let empty = self.shared.empty.marker().cancelled();
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
        Self { shared: self.shared.clone(), timer: self.timer.clone() }
    }
}

impl<T> fmt::Debug for Listener<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener")
            .field("limits", &self.shared.limits)
            .field("connections", &self.shared.seats().all)
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the unfinished bytes of the address. What has none is alone.
    fn take_seat(&self, from: Option<IpAddr>) -> Result<Arc<AtomicUsize>, Refused> {
        let mut seats = self.seats();
        if seats.is_draining {
            return Err(Refused::Draining);
        }
        if seats.all >= self.limits.connections {
            return Err(Refused::Full);
        }
        let mut unfinished = Arc::default();
        if let Some(from) = from {
            let there = seats.by_address.get(&from).map_or(0, |neighbours| neighbours.there);
            if there >= self.limits.connections_per_address {
                return Err(Refused::AddressFull);
            }
            let neighbours = seats.by_address.entry(from).or_default();
            neighbours.there += 1;
            unfinished = neighbours.unfinished.clone();
        }
        seats.all += 1;
        Ok(unfinished)
    }

    pub(crate) fn leave_seat(&self, from: Option<IpAddr>) {
        let mut seats = self.seats();
        seats.all -= 1;
        if let Some(from) = from {
            match seats.by_address.get_mut(&from) {
                Some(neighbours) if neighbours.there > 1 => neighbours.there -= 1,
                _ => drop(seats.by_address.remove(&from)),
            }
        }
        let is_empty = seats.is_draining && seats.all == 0;
        drop(seats);
        if is_empty {
            self.empty.cancel(Cause::Shutdown);
        }
    }

    fn begin_to_drain(&self) {
        let mut seats = self.seats();
        seats.is_draining = true;
        let is_empty = seats.all == 0;
        drop(seats);
        self.draining.cancel(Cause::Shutdown);
        if is_empty {
            self.empty.cancel(Cause::Shutdown);
        }
    }

    /// Reads on after an answer that ends it, until the client is silent or its time is over, with 64 clients
    /// at most: a connection that is closed with unread bytes in it may take back what was sent. What is read
    /// is kept nowhere.
    pub(crate) async fn linger<S, T>(&self, stream: &mut S, timer: &T) -> io::Result<()>
    where
        S: AsyncRead + Unpin,
        T: Timer,
    {
        let Some(_place) = Lingering::begin(self) else { return Ok(()) };
        let mut room = vec![0; READ_BYTES];
        let begun = timer.now();
        while timer.now().since(begun) < LINGER {
            let silent = pin!(timer.sleep_until(timer.now() + SILENCE));
            match select(stream.read(&mut room), silent).await {
                Either::Left((Ok(1..), _)) => give_way().await,
                Either::Left((Err(error), _)) => return Err(error),
                Either::Left((Ok(0), _)) | Either::Right(_) => break,
            }
        }
        Ok(())
    }

    /// Set when the listener drains.
    pub(crate) fn draining(&self) -> Cancellation {
        self.draining.marker()
    }

    /// Set when what is in flight has had its time to finish.
    pub(crate) fn cancelling(&self) -> Cancellation {
        self.cancelling.marker()
    }

    /// Set when nobody is waited for any more.
    pub(crate) fn abandoned(&self) -> Cancellation {
        self.abandoned.marker()
    }
}

impl<'a> Lingering<'a> {
    fn begin(shared: &'a Shared) -> Option<Self> {
        let mut seats = shared.seats();
        let has_room = seats.lingering < LINGERING;
        seats.lingering += usize::from(has_room);
        // Made only if it is to be: its end takes the same lock.
        has_room.then(|| Self(shared))
    }
}

impl Drop for Lingering<'_> {
    fn drop(&mut self) {
        self.0.seats().lingering -= 1;
    }
}

impl Refused {
    /// The status that the client is answered with.
    #[must_use]
    pub const fn status(self) -> StatusCode {
        match self {
            Self::Full | Self::Draining => StatusCode::SERVICE_UNAVAILABLE,
            Self::AddressFull => StatusCode::TOO_MANY_REQUESTS,
        }
    }
}

/// Lets other tasks have their turn.
async fn give_way() {
    let mut is_over = false;
    poll_fn(|cx| {
        if is_over {
            return Poll::Ready(());
        }
        is_over = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Polls a future once.
pub(crate) async fn at_once(work: impl Future<Output = io::Result<()>>) -> io::Result<()> {
    match select(pin!(work), std::future::ready(())).await {
        Either::Left((done, _)) => done,
        Either::Right(_) => Err(io::ErrorKind::WouldBlock.into()),
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "there are too many connections (limits.connections)",
            Self::AddressFull => {
                "there are too many connections of this address (limits.connections_per_address)"
            }
            Self::Draining => "no connection is taken any more",
        })
    }
}

impl std::error::Error for Refused {}

/// Returns the address that is charged. A network of 64 bits is one customer's.
fn charged(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)))
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f47_who_finds_no_place_among_those_who_are_read_on_holds_nobody_up() {
        let listener = Listener::new(ListenerLimits::DEFAULT, protocol_smol::SmolTimer::start());
        let shared = &listener.shared;
        let mut there: Vec<_> = (0..LINGERING).map_while(|_| Lingering::begin(shared)).collect();
        assert_eq!(there.len(), LINGERING);
        assert!(Lingering::begin(shared).is_none());
        there.pop();
        assert!(Lingering::begin(shared).is_some(), "a place is free");
    }

    #[test]
    fn f47_addresses_of_one_network_are_one() {
        let charged = |address: &str| charged(address.parse().unwrap()).to_string();
        assert_eq!(charged("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(charged("::ffff:192.0.2.1"), "192.0.2.1");
        assert_eq!(charged("192.0.2.1"), "192.0.2.1");
        assert_eq!(charged("::1"), "::");
    }
}
