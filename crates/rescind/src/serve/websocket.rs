//! `rescind serve --listen`: the demonstration methods for whoever opens a WebSocket.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use protocol_async::SharedOperations;
use protocol_core::{Config, Role};
use protocol_record::Recorder;
use protocol_tokio::TokioTimer;
use protocol_websocket::{BearerToken, Listener, ListenerLimits, Origins};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::compat::TokioAsyncReadCompatExt;
use tungstenite::handshake::server::{Callback, ErrorResponse, Request, Response};
use tungstenite::http::StatusCode;
use tungstenite::http::uri::PathAndQuery;

use super::FLUSH;
use super::operations::options;
use super::router::AsyncDemo;
use super::signals::{Ending, Signals};
use crate::address::Address;
use crate::dialect::Spoken;
use crate::note;
use crate::socket::{Bound, From, Stream};
use crate::tls::Acceptor;

/// How long no connection is accepted when the system has no room for one.
const PAUSE: Duration = Duration::from_millis(100);

/// Turns of connections between two looks at their sockets. A connection that is flooded always has work,
/// and all others would wait for so many turns of it; with tokio's default, 61. A `LocalSet` takes as many
/// in one turn of the runtime, so there is none here: all connections are one task.
const EVENT_INTERVAL: u32 = 1;

/// What is served, and to whom.
pub(super) struct Service {
    pub(super) spoken: Spoken,
    pub(super) address: Address,
    /// What TLS is spoken with.
    pub(super) tls: Option<Acceptor>,
    pub(super) admission: Admission,
    pub(super) limits: ListenerLimits,
    /// How long what is in flight may take to be done after `SIGTERM`.
    pub(super) grace: Duration,
    pub(super) operations: SharedOperations,
    pub(super) recorder: Option<Recorder>,
}

/// Who may connect.
pub(super) struct Admission {
    pub(super) origins: Origins,
    /// What everybody has to know.
    pub(super) token: Option<BearerToken>,
    /// Whether other machines may connect without knowing anything.
    pub(super) is_for_anyone: bool,
}

impl Service {
    /// Serves until a signal, which ends it in an orderly way; a second one waits for nothing.
    pub(super) fn run(self) -> Result<(), String> {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().event_interval(EVENT_INTERVAL).build();
        let runtime = runtime.map_err(|error| format!("there is no runtime: {error}"))?;
        runtime.block_on(self.listen())
    }

    async fn listen(self) -> Result<(), String> {
        let refused = |error| format!("can't listen on {}: {error}", self.address);
        let bound = Bound::bind(&self.address).await.map_err(refused)?;
        let mut address = self.address.clone();
        if let Some(bound) = bound.address().map_err(refused)? {
            address = address.with_port(bound.port());
            self.admission.check(bound).map_err(|why| format!("{}: {why}", self.address))?;
        }
        let mut signals = Signals::catch().map_err(|error| format!("no signals: {error}"))?;
        note(format_args!("listening on {address}"));

        let listener = Listener::new(self.limits, TokioTimer::start());
        let mut connections = FuturesUnordered::new();
        let mut accept_at = Instant::now();
        let ending = loop {
            // Only who comes waits for room: clients and signals don't.
            let accept = async {
                sleep_until(accept_at).await;
                bound.accept().await
            };
            tokio::select! {
                ending = signals.next() => break ending,
                accepted = accept => match accepted {
                    Ok((stream, from)) => connections.push(self.serve(stream, from, &listener)),
                    Err(error) => {
                        note(format_args!("rescind serve: {error}"));
                        accept_at = Instant::now() + PAUSE;
                    }
                },
                Some(()) = connections.next() => {}
            }
        };
        drop(bound);
        let finish = match ending {
            Ending::Interrupted => Duration::ZERO,
            Ending::Terminated => self.grace,
        };
        tokio::select! {
            () = listener.drain(finish, FLUSH) => {}
            () = async { while connections.next().await.is_some() {} } => {}
            _ = signals.next() => {}
        }
        Ok(())
    }

    /// Serves one connection, from its first byte to its last.
    async fn serve(&self, stream: Box<dyn Stream>, from: From, listener: &Listener<TokioTimer>) {
        let seat = match listener.admit(from.ip()) {
            Ok(seat) => seat,
            // One that speaks TLS could not read why.
            Err(_) if self.tls.is_some() => return,
            // A client that can't be told has gone.
            Err(refused) => return drop(listener.turn_away(stream.compat(), refused).await),
        };
        let stream = match self.secure(stream).await {
            Ok(stream) => stream,
            Err(error) => return note(format_args!("rescind serve: {from}: no TLS: {error}")),
        };
        let demo = AsyncDemo::new(self.spoken.clone(), TokioTimer::start());
        let mut options = options(self.config(), &self.operations);
        if let Some(recorder) = &self.recorder {
            options = recorder.connection(&from.to_string(), options);
        }
        let talk = async |_peer, incoming| {
            demo.serve(&incoming).await;
        };
        if let Err(error) = seat.serve(stream.compat(), self, options, talk).await {
            note(format_args!("rescind serve: {from}: {error}"));
        }
    }

    /// Speaks TLS, if that is spoken there, with a client that takes no longer for it than for its request.
    async fn secure(&self, stream: Box<dyn Stream>) -> io::Result<Box<dyn Stream>> {
        let Some(acceptor) = &self.tls else { return Ok(stream) };
        timeout(self.limits.handshake_time, acceptor.accept(stream)).await?
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
        let response = self.admission.origins.on_request(request, response)?;
        match &self.admission.token {
            Some(token) => token.on_request(request, response),
            None => Ok(response),
        }
    }
}

impl Admission {
    /// Whether the address may be served so: who can reach it from another machine has to know a secret.
    fn check(&self, address: SocketAddr) -> Result<(), &'static str> {
        if address.ip().to_canonical().is_loopback() || self.token.is_some() {
            return Ok(());
        }
        if !self.is_for_anyone {
            return Err("other machines can reach it: --token-file FILE has them know a secret, \
                        --allow-anyone lets them all in");
        }
        note("warning: whoever can reach this machine may call (--allow-anyone)");
        Ok(())
    }
}
