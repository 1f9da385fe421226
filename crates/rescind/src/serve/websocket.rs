//! `rescind serve --listen`: the demonstration methods for whoever opens a WebSocket.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use protocol_async::SharedOperations;
use protocol_core::{Config, Role};
use protocol_tokio::TokioTimer;
use protocol_websocket::{BearerToken, Listener, ListenerLimits, Origins};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::sleep;
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

/// How long no connection is accepted when the system has no room for one.
const PAUSE: Duration = Duration::from_millis(100);

/// What is served, and to whom.
pub(super) struct Service {
    pub(super) spoken: Spoken,
    pub(super) address: Address,
    pub(super) admission: Admission,
    /// How long what is in flight may take to be done after `SIGTERM`.
    pub(super) grace: Duration,
    pub(super) operations: SharedOperations,
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
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| format!("there is no runtime: {error}"))?;
        LocalSet::new().block_on(&runtime, self.listen())
    }

    async fn listen(self) -> Result<(), String> {
        let refused = |error| format!("can't listen on {}: {error}", self.address);
        let bound = TcpListener::bind(self.address.socket()).await.map_err(refused)?;
        let address = bound.local_addr().map_err(refused)?;
        self.admission.check(address).map_err(|why| format!("{}: {why}", self.address))?;
        let mut signals = Signals::catch().map_err(|error| format!("no signals: {error}"))?;
        note(format_args!("listening on {}", self.address.with_port(address.port())));

        let service = Rc::new(self);
        let listener = Listener::new(ListenerLimits::DEFAULT, TokioTimer::start());
        let ending = loop {
            tokio::select! {
                // A flood of connections must not keep a signal from being seen.
                biased;
                ending = signals.next() => break ending,
                accepted = bound.accept() => match accepted {
                    Ok((stream, from)) => service.clone().admit(stream, from, &listener).await,
                    Err(error) => {
                        note(format_args!("rescind serve: {error}"));
                        sleep(PAUSE).await;
                    }
                },
            }
        };
        drop(bound);
        let finish = match ending {
            Ending::Interrupted => Duration::ZERO,
            Ending::Terminated => service.grace,
        };
        tokio::select! {
            () = listener.drain(finish, FLUSH) => {}
            _ = signals.next() => {}
        }
        Ok(())
    }

    /// Serves a connection in a task of its own, if there is room for it.
    async fn admit(
        self: Rc<Self>,
        stream: TcpStream,
        from: SocketAddr,
        listener: &Listener<TokioTimer>,
    ) {
        match listener.admit(Some(from.ip())) {
            Ok(seat) => drop(spawn_local(async move {
                let demo = AsyncDemo::new(self.spoken.clone(), TokioTimer::start());
                let options = options(self.config(), &self.operations);
                let talk = async |_peer, incoming| {
                    demo.serve(&incoming).await;
                };
                // Without it some answers would be late; they arrive all the same.
                let _ = stream.set_nodelay(true);
                let served = seat.serve(stream.compat(), &*self, options, talk);
                if let Err(error) = served.await {
                    note(format_args!("rescind serve: {from}: {error}"));
                }
            })),
            // A client that can't be told has gone.
            Err(refused) => drop(refused.answer(&mut stream.compat()).await),
        }
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
