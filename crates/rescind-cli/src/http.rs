//! `--listen http://…`: a listener of MCP or ACP over HTTP, for whatever serves its sessions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use protocol_async::{Account, AccountLimits, Incoming, Options, Peer};
use protocol_core::{Config, Dialect};
use protocol_http::server::{Server, ServerOptions};
use protocol_record::Recorder;
use tokio::net::TcpListener;

use crate::address::{Address, Place};
use crate::admission::ClientArgs;
use crate::dialect::Spoken;
use crate::ending::{Cause as Asked, Ending};
use crate::freed;
use crate::terminal::note;

/// The bytes of a session beside those that it is charged for, at most: its tasks, and behind a relay those of its server.
const SESSION: usize = 256 << 10;

/// A listener, and the clients that may use it.
pub(crate) struct Service {
    address: Address,
    clients: ClientArgs,
    pub(crate) options: ServerOptions,
}

impl Service {
    /// Makes a listener for these clients. Each session may be recorded.
    pub(crate) fn new(
        spoken: &Spoken,
        address: &Address,
        clients: &ClientArgs,
        recorder: Option<Recorder>,
    ) -> Result<Self, String> {
        let revisions = spoken.http_revisions()?;
        if address.is_secure {
            return Err("TLS over HTTP is for a proxy in front of an http:// address".into());
        }
        let address = revisions.first().map_or_else(|| address.clone(), |it| address.of_rules(it));
        if address.path().is_some_and(|path| path.contains('?')) {
            return Err("a server listens on a path, and not on a query behind it".into());
        }
        let mut options = ServerOptions::default();
        options.gate.revisions = revisions;
        options.gate.origins.clone_from(&clients.allow_origin);
        options.token = clients.token()?;
        options.connections = clients.connections;
        options.path = address.path().unwrap_or("/").into();
        options.account = Account::new(AccountLimits::within(clients.memory_bytes()));
        options.endpoint = endpoint(recorder);
        Ok(Self { address, clients: clients.clone(), options })
    }

    /// Describes the most memory that all sessions hold, and what the limits of one and of a request add up to.
    pub(crate) fn memory(&self) -> String {
        const MIB: usize = 1 << 20;
        let endpoint = Options::socket(Config::server(Dialect::MCP_HTTP));
        let members = self.options.sessions.saturating_add(self.options.connections);
        let all = AccountLimits::of(self.clients.memory_bytes()).memory(members);
        let session = self.options.memory(&endpoint).total();
        let request = self.options.request_memory(&endpoint);
        let (session, request, all) = (session / MIB, request / MIB, all / MIB);
        format!(
            "memory: at most {all} MiB for all; the limits of a session add up to {session} MiB, those of a request to {request} MiB"
        )
    }

    /// Serves until the end is asked for. What is in flight may finish for `grace` then, unless somebody waits at a
    /// terminal, and has the time `cancel` to respond once it is cancelled.
    pub(crate) async fn listen<F>(
        self,
        ending: &Ending,
        (grace, cancel): (Duration, Duration),
        handler: impl Fn(Peer, Incoming) -> F + Send + Sync + 'static,
    ) -> Result<(), String>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let Self { address, clients, mut options } = self;
        let refused = |error| format!("can't listen on {address}: {error}");
        let Place::Tcp(host, port) = &address.place else { return Err("it has no port".into()) };
        let listener = TcpListener::bind((host.as_str(), *port)).await.map_err(refused)?;
        let bound = listener.local_addr().map_err(refused)?;
        clients.check(bound).map_err(|why| format!("{address}: {why}"))?;
        if !bound.ip().to_canonical().is_loopback() || options.token.is_some() {
            // Others, or a proxy's clients, know it by names that we don't. They have the secret, or need none.
            options.gate.hosts.push("*".into());
        }
        note(format_args!("listening on {}", address.with_port(bound.port())));

        let account = options.account.clone();
        let server = Server::new(options, handler);
        let (finish, served) = tokio::select! {
            asked = ending.asked() => {
                (if asked == Asked::Interrupt { Duration::ZERO } else { grace }, Ok(()))
            }
            served = server.serve(listener) => (Duration::ZERO, served.map_err(refused)),
            never = freed::release(|| account.used() + server.sessions() * SESSION) => match never {},
        };
        server.drain(finish, cancel).await;
        served
    }
}

/// Returns what makes the options of an endpoint, which may be recorded.
fn endpoint(recorder: Option<Recorder>) -> Arc<dyn Fn(Dialect) -> Options + Send + Sync> {
    let sessions = AtomicU64::new(0);
    Arc::new(move |dialect| {
        let options = Options::socket(Config::server(dialect));
        let Some(recorder) = &recorder else { return options };
        let number = sessions.fetch_add(1, Ordering::Relaxed) + 1;
        recorder.connection(&format!("session {number}"), options)
    })
}
