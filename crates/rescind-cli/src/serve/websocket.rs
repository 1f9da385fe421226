//! `rescind serve --listen`: the demonstration methods for whoever opens a WebSocket.

use std::cell::Cell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use protocol_async::{AccountLimits, Cancellation, Canceller, Options, SharedOperations};
use protocol_core::{Cause, Config, Role};
use protocol_record::Recorder;
use protocol_tokio::TokioTimer;
use protocol_websocket::{BearerToken, Listener, ListenerLimits, Origins};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::compat::TokioAsyncReadCompatExt;
use tungstenite::handshake::server::{Callback, ErrorResponse, Request, Response};
use tungstenite::http::StatusCode;
use tungstenite::http::uri::PathAndQuery;

use super::guesses::Guesses;
use super::operations::options;
use super::router::AsyncDemo;
use crate::address::Address;
use crate::admission::ClientArgs;
use crate::dialect::Spoken;
use crate::ending::{Cause as Asked, Ending, FLUSH};
use crate::freed;
use crate::note;
use crate::socket::{Bound, Stream};
use crate::tls::Acceptor;

/// The time without a new connection when the system has no room for one.
const PAUSE: Duration = Duration::from_millis(100);

/// Turns of connections between two looks at their sockets. A connection that is flooded always has work,
/// and all others would wait for so many turns of it; with tokio's default, 61. A `LocalSet` takes as many
/// in one turn of the runtime, so there is none here: all connections are one task.
const EVENT_INTERVAL: u32 = 1;

/// A service, and the clients that may use it.
pub(super) struct Service<'a> {
    pub(super) spoken: Spoken,
    pub(super) address: &'a Address,
    /// The certificate and key of TLS.
    pub(super) tls: Option<Acceptor>,
    pub(super) clients: &'a ClientArgs,
    pub(super) origins: Origins,
    /// The secret that everybody has to know.
    pub(super) token: Option<BearerToken>,
    pub(super) limits: ListenerLimits,
    /// Whether this machine's own address is limited as any other is. If not, only the limit on all connections holds:
    /// one neighbour would shut all others out.
    pub(super) is_local_limited: bool,
    pub(super) guesses: Guesses,
    /// The time that requests in flight have to be done after `SIGTERM`.
    pub(super) grace: Duration,
    pub(super) operations: &'a SharedOperations,
    pub(super) recorder: Option<Recorder>,
    /// The number of connections of clients without an address, which a Unix socket has.
    pub(super) nameless: Cell<u64>,
}

impl Service<'_> {
    /// Serves until the end is asked for.
    pub(super) fn run(self, ending: &Ending) -> Result<(), String> {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().event_interval(EVENT_INTERVAL).build();
        let runtime = runtime.map_err(|error| format!("there is no runtime: {error}"))?;
        runtime.block_on(self.listen(ending))
    }

    async fn listen(self, ending: &Ending) -> Result<(), String> {
        let refused = |error| format!("can't listen on {}: {error}", self.address);
        let bound = Bound::bind(self.address).await.map_err(refused)?;
        let mut address = self.address.clone();
        if let Some(bound) = bound.address().map_err(refused)? {
            address = address.with_port(bound.port());
            self.clients.check(bound).map_err(|why| format!("{}: {why}", self.address))?;
        }
        note(format_args!("listening on {address}"));
        note(format_args!("rescind serve: {}", self.memory()));

        let listener = Listener::new(self.limits, TokioTimer::start());
        let closing = Canceller::new();
        let mut connections = FuturesUnordered::new();
        let mut accept_at = Instant::now();
        let mut freed = pin!(freed::release(|| listener.account().used()));
        let asked = loop {
            // Only who comes waits for room: clients and signals don't.
            let accept = async {
                sleep_until(accept_at).await;
                bound.accept().await
            };
            tokio::select! {
                asked = ending.asked() => break asked,
                accepted = accept => match accepted {
                    Ok((stream, from)) => {
                        connections.push(self.serve(stream, from, &listener, closing.marker()));
                    }
                    Err(error) => {
                        note(format_args!("rescind serve: {error}"));
                        accept_at = Instant::now() + PAUSE;
                    }
                },
                Some(()) = connections.next() => {}
                never = &mut freed => match never {},
            }
        };
        drop(bound);
        closing.cancel(Cause::Shutdown);
        // At a terminal somebody waits. Others can wait for what is in flight.
        let finish = if asked == Asked::Interrupt { Duration::ZERO } else { self.grace };
        tokio::select! {
            () = listener.drain(finish, FLUSH) => {}
            () = async { while connections.next().await.is_some() {} } => {}
        }
        Ok(())
    }

    /// Serves one connection, from its first byte to its last.
    async fn serve(
        &self,
        stream: Box<dyn Stream>,
        from: Option<SocketAddr>,
        listener: &Listener<TokioTimer>,
        closing: Cancellation,
    ) {
        let ip = from.map(|from| from.ip());
        let from = from.map_or_else(|| self.nameless_client(), |from| from.to_string());
        let is_limited = |ip: &IpAddr| self.is_local_limited || !ip.to_canonical().is_loopback();
        let seat = match listener.admit(ip.filter(is_limited)) {
            Ok(seat) => seat,
            // One that speaks TLS could not read why.
            Err(_) if self.tls.is_some() => return,
            // A client that can't be told has gone.
            Err(refused) => return drop(listener.turn_away(stream.compat(), refused).await),
        };
        let stream = match self.secure(stream, &closing).await {
            Ok(stream) => stream,
            Err(error) => return note(format_args!("rescind serve: {from}: no TLS: {error}")),
        };
        let demo = AsyncDemo::new(self.spoken.clone(), TokioTimer::start());
        let mut options = options(Options::socket(self.config()), self.operations);
        if let Some(recorder) = &self.recorder {
            options = recorder.connection(&from, options);
        }
        let talk = async |_peer, incoming| {
            demo.serve(&incoming).await;
        };
        let now = Instant::now().into_std();
        // A guess is waited for, on the seat of its connection.
        let pause = sleep(self.guesses.pause(ip, now));
        if closing.unless_cancelled(pause).await.is_err() {
            return;
        }
        let handshake = Handshake { service: self, from: ip };
        if let Err(error) = seat.serve(stream.compat(), handshake, options, talk).await {
            note(format_args!("rescind serve: {from}: {error}"));
        }
    }

    /// Names a client that has no address. A recording tells open connections apart by their names.
    fn nameless_client(&self) -> String {
        self.nameless.update(|number| number + 1);
        format!("client {}", self.nameless.get())
    }

    /// Speaks TLS, if that is spoken there, with a client that takes no longer for it than for its request,
    /// and does not hold up the end of the server.
    async fn secure(
        &self,
        stream: Box<dyn Stream>,
        closing: &Cancellation,
    ) -> io::Result<Box<dyn Stream>> {
        let Some(acceptor) = &self.tls else { return Ok(stream) };
        let accepted = timeout(self.limits.handshake_time, acceptor.accept(stream));
        match closing.unless_cancelled(accepted).await {
            Ok(accepted) => accepted?,
            Err(_) => Err(io::Error::other("the server ends")),
        }
    }

    /// Describes the most memory that all connections hold, and what the limits of one add up to.
    fn memory(&self) -> String {
        const MIB: usize = 1 << 20;
        let config = self.config();
        let socket = protocol_websocket::memory(&config.limits);
        let tls = self.tls.as_ref().map_or(0, |_| protocol_websocket::TLS_BYTES);
        let one = Options::socket(config).memory().over(socket + tls).total();
        let account = AccountLimits::of(self.limits.memory_bytes);
        let all = account.memory(self.limits.connections);
        let (one, all) = (one / MIB, all / MIB);
        format!(
            "memory: at most {all} MiB for all connections; the limits of one add up to {one} MiB"
        )
    }

    fn config(&self) -> Config {
        self.spoken.config(Role::Server)
    }
}

/// A request for a WebSocket, from an address.
struct Handshake<'a> {
    service: &'a Service<'a>,
    from: Option<IpAddr>,
}

impl Callback for Handshake<'_> {
    fn on_request(self, request: &Request, response: Response) -> Result<Response, ErrorResponse> {
        let Self { service, from } = self;
        let asked = request.uri().path_and_query().map(PathAndQuery::as_str);
        if service.address.path().is_some_and(|path| asked != Some(path)) {
            let mut refusal = ErrorResponse::new(Some("nothing is served there\n".into()));
            *refusal.status_mut() = StatusCode::NOT_FOUND;
            return Err(refusal);
        }
        let response = service.origins.on_request(request, response)?;
        let Some(token) = &service.token else { return Ok(response) };
        let shown = token.on_request(request, response);
        if shown.is_err() {
            service.guesses.wrong(from, Instant::now().into_std());
        }
        shown
    }
}
