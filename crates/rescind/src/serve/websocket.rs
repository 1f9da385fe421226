//! `rescind serve --listen`: the demonstration methods for whoever opens a WebSocket.

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use protocol_async::{Cancellation, Canceller, SharedOperations};
use protocol_core::{Cause, Config, Role, Shutdown};
use protocol_record::Recorder;
use protocol_tokio::TokioTimer;
use protocol_websocket::{Origins, connect, settings};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{sleep, timeout};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async_with_config};
use tungstenite::handshake::server::{Callback, ErrorResponse, Request, Response};
use tungstenite::http::StatusCode;
use tungstenite::http::uri::PathAndQuery;

use super::FLUSH;
use super::operations::options;
use super::router::AsyncDemo;
use crate::address::Address;
use crate::dialect::Spoken;
use crate::note;

/// How long a client may take to ask for a WebSocket.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long no connection is accepted when the system has no room for one.
const PAUSE: Duration = Duration::from_millis(100);

/// What is served, and to whom.
pub(super) struct Service {
    pub(super) spoken: Spoken,
    pub(super) address: Address,
    pub(super) origins: Origins,
    pub(super) operations: SharedOperations,
    pub(super) recorder: Option<Recorder>,
}

impl Service {
    /// Serves until Ctrl-C, which cancels and answers what is in flight; a second one waits for
    /// nothing.
    pub(super) fn run(self) -> Result<(), String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| format!("there is no runtime: {error}"))?;
        LocalSet::new().block_on(&runtime, self.listen())
    }

    async fn listen(self) -> Result<(), String> {
        let refused = |error| format!("can't listen on {}: {error}", self.address);
        let listener = TcpListener::bind(self.address.socket()).await.map_err(refused)?;
        let port = listener.local_addr().map_err(refused)?.port();
        note(format_args!("listening on {}", self.address.with_port(port)));

        let service = Rc::new(self);
        let stop = Canceller::new();
        let mut connections = JoinSet::new();
        // One for the whole loop: it would miss what comes between two.
        let mut interrupted = pin!(tokio::signal::ctrl_c());
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, from)) => {
                        let (service, stop) = (service.clone(), stop.marker());
                        connections.spawn_local(async move {
                            service.converse(stream, from, stop).await;
                        });
                    }
                    Err(error) => {
                        note(format_args!("rescind serve: {error}"));
                        sleep(PAUSE).await;
                    }
                },
                Some(_) = connections.join_next() => {}
                caught = &mut interrupted => {
                    caught.map_err(|error| format!("Ctrl-C can't be caught: {error}"))?;
                    break;
                }
            }
        }
        drop(listener);
        stop.cancel(Cause::Shutdown);
        let answered = async { while connections.join_next().await.is_some() {} };
        tokio::select! {
            _ = timeout(FLUSH, answered) => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        Ok(())
    }

    /// One connection, from its first byte to its last.
    async fn converse(&self, stream: TcpStream, from: SocketAddr, stop: Cancellation) {
        let accepted = timeout(HANDSHAKE, self.accept(stream));
        let socket = match stop.unless_cancelled(accepted).await {
            Ok(Ok(Ok(socket))) => socket,
            Ok(Ok(Err(error))) => return note(format_args!("rescind serve: {from}: {error}")),
            Ok(Err(_)) | Err(_) => return,
        };
        let demo = AsyncDemo::new(self.spoken.clone(), TokioTimer::start());
        let mut options = options(self.config(), &self.operations);
        if let Some(recorder) = &self.recorder {
            options = recorder.connection(&from.to_string(), options);
        }
        let (peer, incoming, driver) = connect(socket, TokioTimer::start(), options);
        let conversation = async { tokio::join!(driver, demo.serve(&incoming)).0 };
        let stopped = async {
            stop.cancelled().await;
            peer.shutdown(Shutdown::CancelAll);
            pending().await
        };
        let ended = tokio::select! {
            ended = conversation => ended,
            ended = stopped => ended,
        };
        if let Err(error) = ended {
            note(format_args!("rescind serve: {from}: {error}"));
        }
    }

    async fn accept(&self, stream: TcpStream) -> io::Result<WebSocketStream<TcpStream>> {
        stream.set_nodelay(true)?;
        let settings = Some(settings(&self.config().limits));
        accept_hdr_async_with_config(stream, self, settings).await.map_err(io::Error::other)
    }

    fn config(&self) -> Config {
        self.spoken.config(Role::Server)
    }
}

/// What a request for a WebSocket is answered.
impl Callback for &Service {
    fn on_request(self, request: &Request, response: Response) -> Result<Response, ErrorResponse> {
        let asked = request.uri().path_and_query().map(PathAndQuery::as_str);
        if self.address.path().is_some_and(|path| asked != Some(path)) {
            let mut refusal = ErrorResponse::new(Some("nothing is served there\n".into()));
            *refusal.status_mut() = StatusCode::NOT_FOUND;
            return Err(refusal);
        }
        self.origins.on_request(request, response)
    }
}
