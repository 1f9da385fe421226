//! `rescind relay --listen http://…`: MCP or ACP over HTTP in front of servers on standard streams.
//!
//! A session has a server of its own. Requests without a session share one (decision 9).

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use protocol_async::{Account, Arrival, Incoming, Options, Peer, RpcError};
use protocol_child::{ChildConnection, Spawned, spawn};
use protocol_core::{Config, Dialect, Shutdown, code};
use protocol_http::Rules;
use protocol_tokio::TokioTimer;
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

use super::args::RelayArgs;
use super::report::{has_failed, log, noise};
use super::upstream::Upstream;
use crate::ending::{Ending, SHORT_GRACE};
use crate::http::Service;
use crate::lock::lock;
use crate::noise::Noises;
use crate::record::Session;

/// Everything that the servers of one listener have in common.
pub(super) struct Bridge {
    pub(super) args: RelayArgs,
    /// The name of the program that a server runs.
    pub(super) program: String,
    pub(super) account: Account,
    pub(super) recording: Session,
    pub(super) noises: Arc<Noises>,
    /// The room for servers. One keeps its place until its process has ended.
    pub(super) places: Arc<Semaphore>,
    /// The number of the next server.
    pub(super) next: AtomicU64,
    /// Whether no server is waited for any more. Each has a receiver until it is gone.
    pub(super) is_abandoned: watch::Sender<bool>,
    /// The server of all requests without a session.
    pub(super) shared: Mutex<Option<Arc<Upstream>>>,
}

impl Bridge {
    /// Serves until the end is asked for, and all servers are gone.
    pub(super) async fn serve(
        self: Arc<Self>,
        mut service: Service,
        ending: &Ending,
    ) -> Result<(), String> {
        service.options.is_proxy = true;
        let (bridge, cancel) = (self.clone(), self.args.grace.min(SHORT_GRACE));
        let times = (Duration::ZERO, cancel + SHORT_GRACE);
        let served = service.listen(ending, times, move |peer, incoming| {
            let bridge = bridge.clone();
            async move { bridge.client(&peer, &incoming).await }
        });
        // A server that does not respond to the cancels is given up, so that its clients get a response.
        let abandoned = async {
            ending.asked().await;
            sleep(cancel).await;
            self.is_abandoned.send_replace(true);
            pending::<Infallible>().await
        };
        let served = tokio::select! {
            biased;
            served = served => served,
            never = abandoned => match never {},
        };
        let shared = lock(&self.shared).take();
        drop(shared.inspect(|server| server.peer.shutdown(Shutdown::CancelAll)));
        // The last messages to the servers have to be written before their input closes.
        if timeout(SHORT_GRACE, self.is_abandoned.closed()).await.is_err() {
            self.is_abandoned.send_replace(true);
            self.is_abandoned.closed().await;
        }
        served
    }

    /// Serves one session, or one request without a session.
    async fn client(&self, peer: &Peer, incoming: &Incoming) {
        let name = peer.dialect().name;
        let rules = Rules::PRESETS.iter().find(|rules| rules.dialect.name == name);
        let served = async {
            if rules.is_none_or(|rules| rules.has_sessions) {
                return self.session(peer, incoming).await;
            }
            self.shared()?.forward(peer, incoming).await;
            Ok(())
        };
        let served = tokio::select! {
            biased;
            served = served => served,
            // A notification of it may be waiting for room at the server, for ever.
            _ = peer.closed() => return,
        };
        let Err(error) = served else { return };
        log(format_args!("can't start {}: {error}", self.program));
        while let Ok(arrival) = incoming.receive().await {
            let Arrival::Request(_, responder) = arrival else { continue };
            let error = RpcError::new(code::INTERNAL_ERROR, "the server can't be started");
            responder.respond_with_failure(error);
        }
    }

    async fn session(&self, peer: &Peer, incoming: &Incoming) -> io::Result<()> {
        let server = self.start(self.args.dialect.behind_http(), Some(peer.clone()))?;
        tokio::select! {
            // A request that has come has a response, even if the server has just ended.
            biased;
            () = server.forward(peer, incoming) => {}
            // It has ended. So does the session, once nobody has a handle of it.
            () = server.pump() => {}
        }
        Ok(())
    }

    /// Returns the server that is shared, and starts one if there is none or it has ended.
    fn shared(&self) -> io::Result<Arc<Upstream>> {
        let mut shared = lock(&self.shared);
        if let Some(server) = shared.as_ref().filter(|server| !server.peer.is_closed()) {
            return Ok(server.clone());
        }
        let server = Arc::new(self.start(Dialect::MCP_2026_07_28, None)?);
        // One that has ended has responses to give, though another is in its place.
        let pumped = server.clone();
        tokio::spawn(async move { pumped.pump().await });
        *shared = Some(server.clone());
        Ok(server)
    }

    fn start(&self, dialect: Dialect, only: Option<Peer>) -> io::Result<Upstream> {
        let place = self.places.clone().try_acquire_owned();
        let place = place.map_err(|_| io::Error::other("too many servers run (--servers)"))?;
        let number = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let mut options = Options::new(Config::client(dialect));
        options.config.abandoned_grace = self.args.grace;
        options.account = Some(self.account.clone());
        options.noise = Some(noise(self.noises.clone()));
        let options = self.recording.connection(&format!("server {number}"), options);

        let Spawned { owner, stdin, stdout, .. } = spawn(self.args.server())?;
        let stdout = ChildStdout::from_std(stdout)?.compat();
        let stdin = ChildStdin::from_std(stdin)?.compat_write();
        let (connection, driver) =
            protocol_child::connect(owner, stdout, stdin, TokioTimer::start(), options);
        let ChildConnection { peer, incoming, process, .. } = connection;
        let (mut is_abandoned, program) = (self.is_abandoned.subscribe(), self.program.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = driver => {}
                _ = is_abandoned.wait_for(|is_abandoned| *is_abandoned) => {}
            }
            has_failed(&program, &process.exit().await, process.pushed());
            drop(place);
        });
        Ok(Upstream::new(peer, incoming, self.args.guard.guard(), only))
    }
}
