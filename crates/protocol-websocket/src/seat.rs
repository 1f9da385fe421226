//! One client of a listener, from its first byte until its last handler is done.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::pin;

use async_tungstenite::WebSocketStream;
use futures_channel::oneshot::{Receiver, channel};
use futures_io::{AsyncRead, AsyncWrite};
use futures_util::future::{Either, join3, select};
use futures_util::{AsyncWriteExt, FutureExt};
use protocol_async::{Budgets, Incoming, Options, Peer, Timer, connect_messages};
use protocol_core::Shutdown;
use tungstenite::handshake::server::Callback;
use tungstenite::http::StatusCode;
use tungstenite::protocol::{Role, WebSocketConfig};

use crate::admission::Admitted;
use crate::handshake::{HandshakeError, refusal, refuse, shake_hands};
use crate::meter::{Charge, Metered};
use crate::settings::settings;
use crate::socket::Socket;
use crate::watch::Watch;
use crate::watched::{MeteredSocket, Watched};
use crate::work::Work;

/// The place of one client among those that a [`Listener`](crate::Listener) has admitted.
///
/// It is free again when it is dropped, and when [`serve`](Self::serve) is over.
#[must_use = "dropping it frees the place"]
pub struct Seat<T> {
    client: Admitted,
    timer: T,
}

/// The reason for which serving a client ended, if it neither went by itself nor was drained.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServeError {
    /// The client got no WebSocket.
    Handshake(HandshakeError),
    /// Reading or writing ended with this error, which may be an [`Eviction`](crate::Eviction).
    Connection(io::Error),
    /// The grace of [`Listener::drain`](crate::Listener::drain) was over.
    Abandoned,
}

impl<T> Seat<T> {
    pub(crate) const fn new(client: Admitted, timer: T) -> Self {
        Self { client, timer }
    }
}

impl<T: Timer + Unpin> Seat<T> {
    /// Makes a WebSocket of a stream and serves it, until the conversation is over and all is written.
    ///
    /// The [`ListenerLimits`](crate::ListenerLimits) bound all that the client may take its time for. Unless the options
    /// have an account of their own, the connection draws on the listener's.
    ///
    /// The gate decides whether a client may connect, as [`Origins`](crate::Origins) and
    /// [`BearerToken`](crate::BearerToken) do. It sees no request for anything but a WebSocket.
    ///
    /// The conversation begins with the handles of the connection. When its future is over, work in flight is finished,
    /// nothing new is taken, and the connection ends, although a handle may be held. The future is dropped when the
    /// connection is abandoned.
    ///
    /// # Errors
    ///
    /// The connection ended for another reason than that the client went away.
    pub async fn serve<S, G, C, W>(
        self,
        mut stream: S,
        gate: G,
        options: impl Into<Options>,
        conversation: C,
    ) -> Result<(), ServeError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
        G: Callback,
        C: FnOnce(Peer, Incoming) -> W,
        W: Future<Output = ()>,
    {
        let mut options = options.into();
        options.account.get_or_insert_with(|| self.client.admission.account.clone());
        let tail = match self.open(&mut stream, gate).await {
            Ok(tail) => tail,
            Err(error) => {
                self.part(stream, &error).await;
                return Err(ServeError::Handshake(error));
            }
        };
        let work = Work::default();
        let (release, released) = channel();
        let (settings, budgets) = (settings(&options.config.limits), options.budgets);
        let socket = self.socket(stream, tail, settings, budgets, &work).await;
        let socket = socket.releasing_to(release);
        let (peer, incoming, driver) = connect_messages(socket, self.timer.clone(), options);
        let driver = driver.counting(Socket::sent);
        work.of(&peer);
        let conversation = conversation(peer.clone(), incoming);
        let conversation = async {
            conversation.await;
            // A handle that is held keeps nothing open (G5).
            peer.shutdown(Shutdown::Drain);
        };
        let served = join3(driver, conversation, self.linger(released));
        match select(pin!(served), pin!(self.drained(&peer))).await {
            Either::Left(((ended, (), ()), _)) => ended.map_err(ServeError::Connection),
            Either::Right(_) => Err(ServeError::Abandoned),
        }
    }

    /// Grants the client its WebSocket in time, or refuses it. Returns the bytes that were read behind its request.
    async fn open<S, G>(&self, stream: &mut S, gate: G) -> Result<Vec<u8>, HandshakeError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
        G: Callback,
    {
        let limits = self.client.admission.limits;
        let refusal = {
            let shaken = pin!(shake_hands(stream, gate, limits.handshake_bytes));
            let late = pin!(self.timer.sleep_until(self.timer.now() + limits.handshake_time));
            let given_up = select(late, self.client.admission.draining.marker().cancelled());
            match select(shaken, given_up).await {
                Either::Left((shaken, _)) => match shaken? {
                    Ok(tail) => return Ok(tail),
                    Err(refusal) => refusal,
                },
                Either::Right((Either::Left(_), _)) => refusal(StatusCode::REQUEST_TIMEOUT),
                Either::Right((Either::Right(_), _)) => refusal(StatusCode::SERVICE_UNAVAILABLE),
            }
        };
        let status = refusal.status();
        // A client that can't be told has gone, and was refused all the same.
        let _ = refuse(stream, refusal);
        Err(HandshakeError::Refused(status))
    }

    /// Reads on a little after a refusal, once the place is free: a client that is refused keeps nobody out (F47).
    async fn part<S: AsyncRead + Unpin>(self, mut stream: S, error: &HandshakeError) {
        let Self { client, timer } = self;
        let admission = client.admission.clone();
        drop(client);
        if let HandshakeError::Refused(_) = error {
            let lingering = pin!(admission.lingering.linger(&mut stream, &timer));
            // Whether or not that fails, the client was refused.
            drop(select(lingering, admission.draining.marker().cancelled()).await);
        }
    }

    async fn socket<S>(
        &self,
        stream: S,
        tail: Vec<u8>,
        settings: WebSocketConfig,
        budgets: Budgets,
        work: &Work,
    ) -> Socket<Watched<MeteredSocket<S>, T>, T>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let admission = &self.client.admission;
        let most = settings.max_message_size.unwrap_or(usize::MAX);
        let charge =
            Charge::new(&admission.unfinished, &self.client.unfinished, work.clone(), most);
        let stream = Metered::new(stream, tail, charge);
        let socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(settings)).await;
        let watch = Watch::new(admission.limits, self.timer.now());
        let watched = Watched::new(socket, watch, work.clone(), self.timer.clone());
        let socket = Socket::new(watched, self.timer.clone(), budgets);
        socket.going_away(admission.draining.marker())
    }

    /// Closes the stream of a WebSocket that is released, which TLS asks for. Then reads on a little if the client was
    /// sent away, so that it gets to read the goodbye (F47).
    async fn linger<S>(&self, released: Receiver<(Watched<MeteredSocket<S>, T>, bool)>)
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        // The driver drops the other end if it gives the client up.
        if let Ok((socket, was_sent_away)) = released.await {
            let mut stream = socket.into_stream();
            // Whether or not that fails, the conversation is over.
            let _ = stream.close().now_or_never();
            if was_sent_away {
                let _ = self.client.admission.lingering.linger(&mut stream, &self.timer).await;
            }
        }
    }

    /// Shuts the connection down as the listener drains, and ends when it abandons its clients.
    async fn drained(&self, peer: &Peer) {
        let admission = &self.client.admission;
        for (stage, how) in
            [(&admission.draining, Shutdown::Drain), (&admission.cancelling, Shutdown::CancelAll)]
        {
            stage.marker().cancelled().await;
            peer.shutdown(how);
        }
        admission.abandoned.marker().cancelled().await;
    }
}

impl<T> fmt::Debug for Seat<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seat").field("from", &self.client.from).finish_non_exhaustive()
    }
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Handshake(error) => write!(f, "{error}"),
            Self::Connection(error) => write!(f, "{error}"),
            Self::Abandoned => f.write_str("the connection did not end in time"),
        }
    }
}

impl Error for ServeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Handshake(error) => Some(error),
            Self::Connection(error) => Some(error),
            Self::Abandoned => None,
        }
    }
}
