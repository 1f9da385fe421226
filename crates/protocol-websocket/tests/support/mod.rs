//! Sides of connections, on each runtime, and a peer that is not ours.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use protocol_async::{Incoming, Options, Peer, Timer};
use protocol_core::{Config, Role};
use protocol_smol::SmolTimer;
use protocol_tokio::TokioTimer;
use protocol_websocket::{Driver, Origins, connect, settings};
use serde_json::{Value, json};
use tungstenite::client::IntoClientRequest;
use tungstenite::http::HeaderValue;
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{Error, HandshakeError, Message, WebSocket};

/// Longer than anything takes on a loaded machine. A wait of this length would never end.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
const URL: &str = "ws://localhost/";

/// A peer of the crate tungstenite itself, which does what the test says.
pub(crate) type Raw = WebSocket<TcpStream>;

/// The runtime of one side.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Runtime {
    /// With tokio-tungstenite.
    Tokio,
    /// With async-tungstenite.
    Smol,
}

/// One side of a connection, whose driver has a thread of its own.
pub(crate) struct Side {
    peer: Peer,
    pub(crate) incoming: Incoming,
    driver: JoinHandle<io::Result<()>>,
}

impl Side {
    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Drops every handle, and returns the thread of the driver.
    pub(crate) fn let_go(self) -> JoinHandle<io::Result<()>> {
        self.driver
    }

    /// Waits for the driver, which only the peer ends.
    #[allow(dead_code, reason = "most tests end it themselves")]
    pub(crate) fn ended_by_peer(self) -> io::Result<()> {
        let Self { peer: _peer, incoming: _incoming, driver } = self;
        eventually(|| driver.is_finished());
        driver.join().unwrap()
    }

    /// Drops every handle, and waits for the driver.
    pub(crate) fn end(self) -> io::Result<()> {
        self.let_go().join().unwrap()
    }
}

/// Drives a connection on this thread once its handles are passed on.
fn drive<S, T>(
    (peer, incoming, driver): (Peer, Incoming, Driver<S, T>),
    handles: &std::sync::mpsc::Sender<(Peer, Incoming)>,
) -> Driver<S, T>
where
    T: Timer + Unpin,
{
    handles.send((peer, incoming)).unwrap();
    driver
}

impl Runtime {
    pub(crate) const ALL: [Self; 2] = [Self::Tokio, Self::Smol];

    fn start(self, stream: TcpStream, role: Role, mut options: Options) -> Starting {
        options.config.role = role;
        let (send, handles) = std::sync::mpsc::channel();
        let settings = settings(&options.config.limits);
        let driver = thread::spawn(move || match self {
            Self::Tokio => on_tokio(async {
                let socket = tokio_socket(role, stream, settings).await;
                drive(connect(socket, TokioTimer::start(), options), &send).await
            }),
            Self::Smol => smol::block_on(async {
                let socket = smol_socket(role, stream, settings).await;
                drive(connect(socket, SmolTimer::start(), options), &send).await
            }),
        });
        Starting { handles, driver }
    }
}

fn on_tokio<R>(work: impl Future<Output = R>) -> R {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// A side before its handshake.
struct Starting {
    handles: std::sync::mpsc::Receiver<(Peer, Incoming)>,
    driver: JoinHandle<io::Result<()>>,
}

impl Starting {
    fn wait(self) -> Side {
        let (peer, incoming) = self.handles.recv_timeout(PATIENCE).unwrap();
        Side { peer, incoming, driver: self.driver }
    }
}

async fn tokio_socket(
    role: Role,
    stream: TcpStream,
    settings: WebSocketConfig,
) -> tokio_tungstenite::WebSocketStream<tokio::net::TcpStream> {
    use tokio_tungstenite::{accept_hdr_async_with_config, client_async_with_config};
    stream.set_nonblocking(true).unwrap();
    let (stream, settings) = (tokio::net::TcpStream::from_std(stream).unwrap(), Some(settings));
    match role {
        Role::Client => client_async_with_config(URL, stream, settings).await.unwrap().0,
        Role::Server => {
            accept_hdr_async_with_config(stream, &Origins::local(), settings).await.unwrap()
        }
    }
}

async fn smol_socket(
    role: Role,
    stream: TcpStream,
    settings: WebSocketConfig,
) -> async_tungstenite::WebSocketStream<smol::net::TcpStream> {
    use async_tungstenite::{accept_hdr_async_with_config, client_async_with_config};
    let stream = smol::net::TcpStream::from(smol::Async::new(stream).unwrap());
    match role {
        Role::Client => client_async_with_config(URL, stream, Some(settings)).await.unwrap().0,
        Role::Server => {
            accept_hdr_async_with_config(stream, &Origins::local(), Some(settings)).await.unwrap()
        }
    }
}

/// Connects a client and a server.
pub(crate) fn connected(client: Runtime, server: Runtime, config: Config) -> (Side, Side) {
    let (near, far) = sockets();
    let client = client.start(near, Role::Client, Options::new(config.clone()));
    let server = server.start(far, Role::Server, Options::new(config));
    (client.wait(), server.wait())
}

/// Connects a side in this role and a peer that is not ours. Its reading fails rather than waits for ever.
pub(crate) fn facing(runtime: Runtime, role: Role, options: Options) -> (Side, Raw) {
    let (near, far) = sockets();
    near.set_read_timeout(Some(PATIENCE)).unwrap();
    let side = runtime.start(far, role, options);
    let settings = Some(WebSocketConfig::default().max_frame_size(None));
    let raw = match role {
        Role::Server => tungstenite::client::client_with_config(URL, near, settings).unwrap().0,
        Role::Client => tungstenite::accept_with_config(near, settings).unwrap(),
    };
    (side.wait(), raw)
}

/// Returns the status that the page of an origin sees.
pub(crate) fn status_for(runtime: Runtime, origin: Option<&'static str>, allowed: &str) -> u16 {
    let (near, far) = sockets();
    let origins = Origins::local().allow(allowed);
    // The client sees what became of it.
    let server = thread::spawn(move || match runtime {
        Runtime::Tokio => on_tokio(async {
            far.set_nonblocking(true).unwrap();
            let stream = tokio::net::TcpStream::from_std(far).unwrap();
            tokio_tungstenite::accept_hdr_async(stream, &origins).await.is_ok()
        }),
        Runtime::Smol => smol::block_on(async {
            let stream = smol::net::TcpStream::from(smol::Async::new(far).unwrap());
            async_tungstenite::accept_hdr_async(stream, &origins).await.is_ok()
        }),
    });
    let mut request = URL.into_client_request().unwrap();
    if let Some(origin) = origin {
        request.headers_mut().insert("origin", HeaderValue::from_static(origin));
    }
    let status = match tungstenite::client(request, near) {
        Ok((_, response)) => response.status(),
        Err(HandshakeError::Failure(Error::Http(response))) => response.status(),
        Err(error) => panic!("{error}"),
    };
    assert_eq!(server.join().unwrap(), status == 101);
    status.as_u16()
}

fn sockets() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (far, _) = listener.accept().unwrap();
    (near, far)
}

pub(crate) fn request(id: u64) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "work" })
}

pub(crate) fn cancel(id: u64) -> Value {
    json!({ "jsonrpc": "2.0", "method": "$/cancel_request", "params": { "requestId": id } })
}

/// Returns the next message, which must be text.
pub(crate) fn read(raw: &mut Raw) -> Value {
    match raw.read().unwrap() {
        Message::Text(text) => serde_json::from_str(&text).unwrap(),
        other => panic!("{other:?} is no text"),
    }
}

/// Waits until something is so.
pub(crate) fn eventually(check: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !check() {
        assert!(Instant::now() < deadline, "it never is so");
        thread::sleep(Duration::from_millis(1));
    }
}
