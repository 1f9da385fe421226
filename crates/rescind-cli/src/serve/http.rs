//! `rescind serve --listen http://…`: the demonstration methods as a server of MCP over HTTP.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use protocol_async::Options;
use protocol_core::{Config, Dialect};
use protocol_http::server::{Server, ServerOptions};
use protocol_record::Recorder;
use protocol_tokio::TokioTimer;
use tokio::net::TcpListener;

use super::admission::Admission;
use super::router::AsyncDemo;
use crate::address::{Address, Place};
use crate::dialect::Spoken;
use crate::ending::{Cause as Asked, Ending};
use crate::terminal::note;

/// A service, and the clients that may use it.
pub(super) struct Service {
    pub(super) spoken: Spoken,
    pub(super) address: Address,
    pub(super) admission: Admission,
    pub(super) options: ServerOptions,
    /// The time that requests in flight have to be done after `SIGTERM`.
    pub(super) grace: Duration,
    pub(super) recorder: Option<Recorder>,
}

impl Service {
    /// Serves until the end is asked for. The last responses have the time `flush` to be read.
    pub(super) fn run(self, ending: &Ending, flush: Duration) -> Result<(), String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| format!("there is no runtime: {error}"))?;
        runtime.block_on(self.listen(ending, flush))
    }

    async fn listen(self, ending: &Ending, flush: Duration) -> Result<(), String> {
        let Self { spoken, address, admission, mut options, grace, recorder } = self;
        let url = |address: &Address| address.to_string().replacen("ws://", "http://", 1);
        let refused = |error| format!("can't listen on {}: {error}", url(&address));
        let Place::Tcp(host, port) = &address.place else { return Err("it has no port".into()) };
        let listener = TcpListener::bind((host.as_str(), *port)).await.map_err(refused)?;
        let bound = listener.local_addr().map_err(refused)?;
        admission.check(bound).map_err(|why| format!("{}: {why}", url(&address)))?;
        if !bound.ip().to_canonical().is_loopback() {
            // Others know it by names that we don't. They have the secret, or need none.
            options.gate.hosts.push("*".into());
        }
        options.path = address.path().unwrap_or("/").into();
        options.endpoint = endpoint(recorder);
        note(format_args!("listening on {}", url(&address.with_port(bound.port()))));
        note(format_args!("rescind serve: {}", memory(&options)));

        let server = Server::new(options, move |_peer, incoming| {
            let demo = AsyncDemo::new(spoken.clone(), TokioTimer::start());
            async move {
                demo.serve(&incoming).await;
            }
        });
        let asked = tokio::select! {
            asked = ending.asked() => asked,
            served = server.serve(listener) => return served.map_err(refused),
        };
        // At a terminal somebody waits. Others can wait for what is in flight.
        let finish = if asked == Asked::Interrupt { Duration::ZERO } else { grace };
        server.drain(finish, flush).await;
        Ok(())
    }
}

/// Describes the most memory that a session, a request and all of them hold.
fn memory(options: &ServerOptions) -> String {
    const MIB: usize = 1 << 20;
    let endpoint = Options::socket(Config::server(Dialect::MCP_HTTP));
    let (session, all) = (options.memory(&endpoint).total(), options.total_memory());
    let request = options.request_memory(&endpoint);
    format!(
        "memory: at most {} MiB for one session, {} MiB for one request beside it, {} MiB for all",
        session / MIB,
        request / MIB,
        all / MIB
    )
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
