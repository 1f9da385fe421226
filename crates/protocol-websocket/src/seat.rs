//! One client of a listener, from its first byte until its last handler is done.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use async_tungstenite::WebSocketStream;
use futures_io::{AsyncRead, AsyncWrite};
use futures_util::AsyncWriteExt;
use futures_util::future::{Either, join, select};
use protocol_async::{Budgets, Canceller, Incoming, Options, Peer, Timer, connect_messages};
use protocol_core::{Cause, Shutdown};
use tungstenite::handshake::server::Callback;
use tungstenite::http::StatusCode;
use tungstenite::protocol::{Role, WebSocketConfig};

use crate::handshake::{HandshakeError, answer, refusal, shake_hands};
use crate::listener::{Shared, at_once};
use crate::meter::{Aside, Meter, Metered};
use crate::settings;
use crate::socket::Socket;
use crate::watch::Watch;
use crate::watched::Watched;
use crate::work::Work;

/// The place of one client among those that a [`Listener`](crate::Listener) has admitted. It is given
/// back when it is dropped, and when [`serve`](Self::serve) is over.
#[must_use = "dropping it gives it back"]
pub struct Seat<T> {
    shared: Arc<Shared>,
    from: Option<IpAddr>,
    /// The unfinished bytes of its address.
    unfinished: Arc<AtomicUsize>,
    timer: T,
}

/// The reason for which serving a client ended, other than that it went or was drained.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServeError {
    /// There was no WebSocket.
    Handshake(HandshakeError),
    /// Reading or writing ended with this error, which may be an [`Eviction`](crate::Eviction).
    Connection(io::Error),
    /// The grace of [`Listener::drain`](crate::Listener::drain) was over.
    Abandoned,
}

impl<T> Seat<T> {
    pub(crate) const fn new(
        shared: Arc<Shared>,
        from: Option<IpAddr>,
        unfinished: Arc<AtomicUsize>,
        timer: T,
    ) -> Self {
        Self { shared, from, unfinished, timer }
    }
}

impl<T: Timer + Unpin> Seat<T> {
    /// Makes a WebSocket of a stream and serves it, until the conversation is over and all is written.
    /// Everything that the client may take its time for is bounded by the
    /// [`ListenerLimits`](crate::ListenerLimits). Unless the options have an account of their own, it draws
    /// on the listener's.
    ///
    /// The gate is asked whether a client may connect, as [`Origins`](crate::Origins) and
    /// [`BearerToken`](crate::BearerToken) are; who asks for something else than a WebSocket is answered
    /// before that. The conversation is begun with the handles of the connection, and lasts as long as that is
    /// wanted: when its future is over, what is in flight is finished, nothing new is taken, and the connection
    /// ends, whoever still holds a handle. It is dropped when it is abandoned.
    ///
    /// # Errors
    ///
    /// The reason of its end, if it is not that the client went away.
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
        options.account.get_or_insert_with(|| self.shared.account.clone());
        let tail = match self.open(&mut stream, gate).await {
            Ok(tail) => tail,
            Err(error) => {
                self.part(stream, &error).await;
                return Err(ServeError::Handshake(error));
            }
        };
        let (settings, budgets) = (settings(&options.config.limits), options.budgets);
        let (aside, work) = (Aside::new(), Work::default());
        let socket = self.attend(stream, tail, &aside, settings, budgets, &work).await;
        let (peer, incoming, driver) = connect_messages(socket, self.timer.clone(), options);
        work.of(&peer);
        let conversation = conversation(peer.clone(), incoming);
        let conversation = async {
            conversation.await;
            // A handle that is still held keeps nothing open (G5).
            peer.shutdown(Shutdown::Drain);
        };
        let served_all = Canceller::new();
        let lingering = async {
            let sent_away = aside.sent_away().marker();
            // An end that has come already is seen first.
            if let Either::Left(_) =
                select(sent_away.cancelled(), served_all.marker().cancelled()).await
            {
                if let Some(mut stream) = aside.take() {
                    // However that ends, the client was sent away.
                    let _ = at_once(stream.close()).await;
                    let _ = self.shared.linger(&mut stream, &self.timer).await;
                }
            }
        };
        let drained = async {
            for (stage, how) in [
                (self.shared.draining(), Shutdown::Drain),
                (self.shared.cancelling(), Shutdown::CancelAll),
            ] {
                stage.cancelled().await;
                peer.shutdown(how);
            }
            self.shared.abandoned().cancelled().await;
        };
        let served = async {
            let served = join(driver, conversation).await;
            served_all.cancel(Cause::Caller);
            served
        };
        match select(pin!(join(served, lingering)), pin!(drained)).await {
            Either::Left((((ended, ()), ()), _)) => ended.map_err(ServeError::Connection),
            Either::Right(_) => Err(ServeError::Abandoned),
        }
    }

    /// Grants the client its WebSocket in time, or answers why not. Gives what was read behind its request.
    async fn open<S, G>(&self, stream: &mut S, gate: G) -> Result<Vec<u8>, HandshakeError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
        G: Callback,
    {
        let limits = self.shared.limits;
        let refusal = {
            let shaken = pin!(shake_hands(stream, gate, limits.handshake_bytes));
            let late = pin!(self.timer.sleep_until(self.timer.now() + limits.handshake_time));
            let given_up = select(late, self.shared.draining().cancelled());
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
        let _ = at_once(answer(stream, refusal)).await;
        Err(HandshakeError::Refused(status))
    }

    /// Reads on a little after a refusal, in nobody's place: who is refused keeps nobody out (F47).
    async fn part<S: AsyncRead + Unpin>(self, mut stream: S, error: &HandshakeError) {
        let (shared, timer) = (self.shared.clone(), self.timer.clone());
        drop(self);
        if let HandshakeError::Refused(_) = error {
            let lingering = pin!(shared.linger(&mut stream, &timer));
            // However that ends, the client was refused.
            drop(select(lingering, shared.draining().cancelled()).await);
        }
    }

    async fn attend<S>(
        &self,
        stream: S,
        tail: Vec<u8>,
        aside: &Arc<Aside<S>>,
        settings: WebSocketConfig,
        budgets: Budgets,
        work: &Work,
    ) -> Socket<Watched<WebSocketStream<Metered<S>>, T>, T>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let most = settings.max_message_size.unwrap_or(usize::MAX);
        let meter = Meter::new(&self.shared.unfinished, &self.unfinished, most);
        let stream = Metered::new(stream, tail, aside.clone(), meter.clone(), work.clone());
        let socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(settings)).await;
        let watch = Watch::new(self.shared.limits, self.timer.now());
        let watched = Watched::new(socket, meter, watch, work.clone(), self.timer.clone());
        let socket = Socket::new(watched, self.timer.clone(), budgets);
        let socket = socket.going_away(self.shared.draining());
        socket.sending_away(aside.sent_away().clone())
    }
}

impl<T> Drop for Seat<T> {
    fn drop(&mut self) {
        self.shared.leave_seat(self.from);
    }
}

impl<T> fmt::Debug for Seat<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seat").field("from", &self.from).finish_non_exhaustive()
    }
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Handshake(error) => write!(f, "{error}"),
            Self::Connection(error) => write!(f, "{error}"),
            Self::Abandoned => f.write_str("it was not done in time"),
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
