//! A server behind a listener, on each runtime, and clients of it that do what the test says.

use std::future::Future;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::pin::{Pin, pin};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use futures_util::future::{Either, select};
use protocol_async::{Canceller, Incoming, Options, Peer, Timer};
use protocol_core::{Cause, Config, Dialect};
use protocol_router::{Context, Router};
use protocol_smol::SmolTimer;
use protocol_tokio::TokioTimer;
use protocol_websocket::{Listener, ListenerLimits, Origins, ServeError};
use tokio_util::compat::TokioAsyncReadCompatExt;

use crate::support::{PATIENCE, Raw, Runtime, eventually};

/// The result of serving one client.
pub(crate) type Ended = Result<(), ServeError>;

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A server that is drained when the test says so.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    /// The number of connections, and the bytes that are charged to the account.
    counts: Box<dyn Fn() -> (usize, usize)>,
    drain: smol::channel::Sender<(Duration, Duration)>,
    pub(crate) ended: Receiver<Ended>,
    thread: JoinHandle<()>,
}

impl Server {
    pub(crate) fn start(runtime: Runtime, limits: ListenerLimits) -> Self {
        let bound = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = bound.local_addr().unwrap();
        bound.set_nonblocking(true).unwrap();
        let (drain, drained) = smol::channel::bounded(1);
        let (tell, ended) = channel();
        let (counts, thread): (Box<dyn Fn() -> (usize, usize)>, _) = match runtime {
            Runtime::Tokio => {
                let listener = Listener::new(limits, TokioTimer::start());
                let counted = listener.clone();
                let thread = thread::spawn(move || {
                    let build = tokio::runtime::Builder::new_multi_thread().enable_all().build();
                    build.unwrap().block_on(async {
                        let bound = &tokio::net::TcpListener::from_std(bound).unwrap();
                        let accept = async || {
                            let (stream, from) = bound.accept().await?;
                            Ok((stream.compat(), from))
                        };
                        let spawn = |task: Task| drop(tokio::spawn(task));
                        serve(listener, accept, spawn, &tell, drained).await;
                    });
                });
                (Box::new(move || (counted.connections(), counted.account().used())), thread)
            }
            Runtime::Smol => {
                let listener = Listener::new(limits, SmolTimer::start());
                let counted = listener.clone();
                let thread = thread::spawn(move || {
                    smol::block_on(async {
                        let bound = &smol::Async::new(bound).unwrap();
                        let accept = async || bound.accept().await;
                        let spawn = |task: Task| smol::spawn(task).detach();
                        serve(listener, accept, spawn, &tell, drained).await;
                    });
                });
                (Box::new(move || (counted.connections(), counted.account().used())), thread)
            }
        };
        Self { address, counts, drain, ended, thread }
    }

    pub(crate) fn connections(&self) -> usize {
        (self.counts)().0
    }

    pub(crate) fn charged(&self) -> usize {
        (self.counts)().1
    }

    /// Connects a client that has its WebSocket.
    pub(crate) fn open(&self) -> Raw {
        self.try_open().unwrap()
    }

    pub(crate) fn try_open(&self) -> Result<Raw, tungstenite::Error> {
        match tungstenite::client(format!("ws://{}/", self.address), self.stream()) {
            Ok((raw, _)) => Ok(raw),
            Err(tungstenite::HandshakeError::Failure(error)) => Err(error),
            Err(other) => panic!("{other}"),
        }
    }

    /// Makes a connection that has sent nothing. Its reading fails rather than waits for ever.
    pub(crate) fn stream(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends these bytes, and returns everything that comes back.
    pub(crate) fn answer(&self, request: &[u8]) -> String {
        let mut stream = self.stream();
        stream.write_all(request).unwrap();
        all(&mut stream)
    }

    pub(crate) fn drain(&self, finish: Duration, cancel: Duration) {
        self.drain.send_blocking((finish, cancel)).unwrap();
    }

    /// Waits for the end of the drain, and returns the result of serving each client.
    pub(crate) fn end(self) -> Vec<Ended> {
        eventually(|| self.thread.is_finished());
        self.thread.join().unwrap();
        self.ended.iter().collect()
    }

    pub(crate) fn next_end(&self) -> Ended {
        self.ended.recv_timeout(PATIENCE).unwrap()
    }
}

/// Reads everything up to the end.
pub(crate) fn all(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

async fn serve<S, T>(
    listener: Listener<T>,
    mut accept: impl AsyncFnMut() -> io::Result<(S, SocketAddr)>,
    spawn: impl Fn(Task),
    tell: &std::sync::mpsc::Sender<Ended>,
    drained: smol::channel::Receiver<(Duration, Duration)>,
) where
    S: futures_util::AsyncRead + futures_util::AsyncWrite + Send + Unpin + 'static,
    T: Timer<Sleep: Send> + Unpin,
{
    // Handles that outlive their conversations.
    let held = Arc::new(Mutex::new(Vec::new()));
    let (finish, cancel) = loop {
        let accepted = pin!(accept());
        let (stream, from) = match select(accepted, pin!(drained.recv())).await {
            Either::Left((accepted, _)) => accepted.unwrap(),
            Either::Right((times, _)) => break times.unwrap(),
        };
        match listener.admit(Some(from.ip())) {
            Ok(seat) => {
                let (tell, held) = (tell.clone(), held.clone());
                spawn(Box::pin(async move {
                    let config = Config::server(Dialect::ACP_V1);
                    let talk = async |peer: Peer, incoming: Incoming| {
                        held.lock().unwrap().push(peer);
                        talk(&incoming).await;
                    };
                    let gate = Origins::local();
                    let served = seat.serve(stream, &gate, Options::new(config), talk);
                    // Nobody may ask any more.
                    let _ = tell.send(served.await);
                }));
            }
            Err(refused) => {
                let listener = listener.clone();
                spawn(Box::pin(async move { drop(listener.turn_away(stream, refused).await) }));
            }
        }
    };
    listener.drain(finish, cancel).await;
}

async fn talk(incoming: &Incoming) {
    let over = Canceller::new();
    let hold = over.clone();
    let router = Router::new()
        .request("echo", async |params: serde_json::Value, _cx| Ok(params))
        .request("work", async |(): (), cx: Context| {
            cx.cancellation().unless_cancelled(std::future::pending::<()>()).await?;
            Ok(())
        })
        .request("long", async |(): (), _cx| Ok("x".repeat(4 << 20)))
        .request("hold", async move |(): (), _cx| {
            hold.cancel(Cause::Caller);
            Ok(())
        })
        .request("stubborn", async |(): (), _cx| {
            std::future::pending::<()>().await;
            Ok(())
        });
    // Over with its connection, or with a request for that.
    select(pin!(router.serve(incoming)), over.marker().cancelled()).await;
}
