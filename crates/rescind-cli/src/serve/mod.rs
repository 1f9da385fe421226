//! `rescind serve`: a demonstration peer on standard input and output, or on a WebSocket.

mod demo;
#[cfg(unix)]
mod ended;
mod guesses;
mod mcp;
mod methods;
mod operations;
mod outcomes;
mod router;
mod turn;
mod websocket;
mod works;

use std::cell::Cell;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use clap::{Args, ValueEnum};
use protocol_async::{Closed, Incoming, Options, Peer, SharedOperations, Timer};
use protocol_blocking::single::Host;
use protocol_blocking::threaded::Server;
use protocol_core::{CloseReason, Role, Shutdown};
use protocol_tokio::TokioTimer;
use protocol_websocket::{BearerToken, ListenerLimits, Origins};

use crate::address::Address;
use crate::admission::ClientArgs;
use crate::connect::runtime;
use crate::dialect::{DialectArgs, Spoken};
use crate::ending::{Ending, FLUSH, SHORT_GRACE, end_at_once};
use crate::exit::Exit;
use crate::http::Service;
use crate::record::{RecordArgs, Session};
use crate::tls::Acceptor;
use crate::{input, note};
use demo::Demo;
use guesses::Guesses;
use outcomes::Outcomes;
use router::AsyncDemo;

/// Serve demonstration methods on standard input and output, or on a WebSocket.
#[derive(Debug, Args)]
#[command(
    about = "Serve demonstration methods on standard input and output, or on a WebSocket",
    after_help = METHODS
)]
pub struct ServeArgs {
    #[command(flatten)]
    dialect: DialectArgs,

    /// The runtime of the handlers
    #[arg(long, value_name = "NAME", default_value = "blocking")]
    runtime: Runtime,

    /// Serve whoever opens a WebSocket there, such as `ws://127.0.0.1:8080` or
    /// `ws://localhost:0/abp`, over TLS if it begins with `wss://`, or on the Unix socket `unix:FILE`, on tokio. With port 0 the system chooses one. The address is
    /// printed to standard error. Ctrl-C cancels and answers what is in flight, SIGTERM gives it --grace
    /// to finish first; a second signal waits for nothing. `http://127.0.0.1:8080/mcp` is MCP over HTTP, in the
    /// revisions of `--dialect mcp-http`, which is the default there, or one of them. It is ACP with
    /// `--dialect acp` or `acp-v2`. Without a path it is `/mcp`, or `/acp` for ACP
    #[arg(long, value_name = "URL", conflicts_with = "runtime", group = "address")]
    listen: Option<Address>,

    #[command(flatten)]
    clients: ClientArgs,

    /// The certificates that a `wss://` address is served with, its own first, in a file of PEM
    #[arg(long, value_name = "FILE", requires_all = ["listen", "key"])]
    certificate: Option<PathBuf>,

    /// The key of the first certificate, in a file of PEM
    #[arg(long, value_name = "FILE", requires_all = ["listen", "certificate"])]
    key: Option<PathBuf>,

    /// Connections of one address at the same time; one more is answered 429. Behind a proxy all have its
    /// address [default: 64, and no limit for this machine's own, which all of its users share]
    #[arg(long, value_name = "COUNT", requires = "listen")]
    connections_per_address: Option<usize>,

    /// After SIGTERM, how long requests in flight may take to finish before they are cancelled
    #[arg(long, value_name = "DUR", value_parser = crate::duration, default_value = "5s", requires = "listen")]
    grace: Duration,

    /// At the end, write counts of the operations into this file, as Prometheus reads them: of all, of those that
    /// were cancelled, by cause, and the times that those had run (erlmcp)
    #[arg(long, value_name = "FILE")]
    metrics: Option<PathBuf>,

    #[command(flatten)]
    record: RecordArgs,
}

const METHODS: &str = r#"Methods, all of which but `stubborn` stop when they are cancelled:
  echo PARAMS                 answers with its params
  sleep {"ms"}                answers after so many milliseconds
  count {"to", "every_ms"}    sends a progress notification for each number; a cancelled count
                              answers with what it has, where the dialect allows
  stubborn {"ms"}             as sleep, but ignores cancels
  fail {"code", "message"}    answers with that error
  nested {"ms"}               calls the caller's `sleep`, and cancels that when it is cancelled
  outcome {"token"}           says how the MCP call with that progress token ended, to every session:
                              finished, cancelled or unknown

They are called by these names in every dialect; in MCP they are tools too, for `tools/call`.

It also answers what the dialect opens with: `initialize`, and `session/new`, `session/prompt`,
`session/cancel` (acp), `initialized`, `shutdown`, `exit` (lsp), or `ping`, `server/discover`,
`tools/list`, `tools/call` (mcp). In MCP 2025-11-25 a call of `sleep` may become a task. In LSP `count` reports
progress that can be stopped, and a turn of ACP 2 goes on after the response to its prompt.

Examples:
  printf '%s\n' '{"jsonrpc":"2.0","id":1,"method":"echo","params":[1]}' | rescind serve
  rescind serve --listen ws://127.0.0.1:8080
  rescind serve --listen http://127.0.0.1:8080/mcp
  rescind serve --listen http://127.0.0.1:8080/acp --dialect acp
  rescind call --connect ws://127.0.0.1:8080 --cancel-after 300ms sleep '{"ms":10000}'"#;

/// The runtime that runs the handlers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Runtime {
    /// Threads that read, write and keep time, and a small pool of workers
    Blocking,
    /// One synchronous thread, whose handlers can be cancelled while they run
    Single,
    /// Async handlers on tokio's current-thread runtime
    Tokio,
    /// Async handlers on smol
    Smol,
}

/// Requests that are served at the same time; others wait for their turn.
const WORKERS: usize = 8;

/// The end of a connection.
struct Ended {
    reason: CloseReason,
    /// The error of reading or writing.
    error: Option<String>,
    /// Whether LSP's `shutdown` was asked for.
    was_shut_down: bool,
}

/// Runs the command.
///
/// # Errors
///
/// The reason that it did not do its work.
pub fn main(args: &ServeArgs) -> Result<ExitCode, Exit> {
    let operations = operations::operations(&args.dialect.spoken_at(args.listen.as_ref()).dialect);
    let recording = args.record.start(None)?;
    let status = match &args.listen {
        Some(address) if address.is_http => serve_http(args, address, &recording),
        Some(address) => serve_websockets(args, address, &operations, &recording),
        None => serve_stdio(args, &operations, &recording),
    };
    recording.finish();
    operations::write_metrics(args.metrics.as_deref(), &operations);
    status
}

fn serve_stdio(
    args: &ServeArgs,
    operations: &SharedOperations,
    recording: &Session,
) -> Result<ExitCode, Exit> {
    input::check_standard()?;
    let spoken = &args.dialect.spoken();
    let mut options = operations::options(spoken.on_stdio(Role::Server), operations);
    options.patience = FLUSH;
    let options = recording.connection("client", options);
    let until = Until { ending: Ending::catch("rescind serve", recording), recording };
    let ended = match args.runtime {
        Runtime::Blocking => Ok(serve_threaded(spoken, options, &until)),
        Runtime::Single => serve_single(spoken, options, &until),
        Runtime::Tokio => serve_on_tokio(spoken, options, &until),
        Runtime::Smol => Ok(serve_on_smol(spoken, options, &until)),
    };
    let why = match ended {
        Ok(Ended { error: Some(error), .. }) => return Err(Exit::output(error)),
        Ok(Ended { reason: CloseReason::PeerGone, .. }) => return Ok(ExitCode::SUCCESS),
        // LSP: `exit` without `shutdown` before it is a failure.
        Ok(Ended { reason: CloseReason::Shutdown, was_shut_down, .. })
            if was_shut_down || until.ending.is_asked() =>
        {
            return Ok(ExitCode::SUCCESS);
        }
        Ok(Ended { reason, .. }) => format!("the connection closed: {reason}"),
        Err(error) => error.to_string(),
    };
    note(format_args!("rescind serve: {why}"));
    Ok(ExitCode::FAILURE)
}

fn serve_websockets(
    args: &ServeArgs,
    address: &Address,
    operations: &SharedOperations,
    recording: &Session,
) -> Result<ExitCode, Exit> {
    let token = args.clients.token()?;
    let tls = match (address.is_secure, &args.certificate, &args.key) {
        (true, Some(certificate), Some(key)) => Some(Acceptor::new(certificate, key)?),
        (true, ..) => return Err("a wss:// address needs --certificate FILE and --key FILE".into()),
        (false, None, None) => None,
        (false, ..) => return Err("a certificate is for a wss:// address".into()),
    };
    let mut limits = ListenerLimits::DEFAULT;
    limits.connections = args.clients.connections;
    limits.memory_bytes = args.clients.memory_bytes();
    let named = args.connections_per_address;
    limits.connections_per_address = named.unwrap_or(limits.connections_per_address);
    let service = websocket::Service {
        nameless: Cell::default(),
        spoken: args.dialect.spoken(),
        address,
        tls,
        clients: &args.clients,
        origins: args.clients.allow_origin.iter().fold(Origins::local(), Origins::allow),
        token: token.map(BearerToken::new),
        limits,
        is_local_limited: named.is_some(),
        guesses: Guesses::default(),
        grace: args.grace,
        operations,
        recorder: recording.recorder(),
    };
    service.run(&Ending::catch("rescind serve", recording))?;
    Ok(ExitCode::SUCCESS)
}

fn serve_http(args: &ServeArgs, address: &Address, recording: &Session) -> Result<ExitCode, Exit> {
    if args.certificate.is_some() {
        return Err("TLS over HTTP is for a proxy in front of an http:// address".into());
    }
    if args.connections_per_address.is_some() {
        return Err("--connections-per-address is for a WebSocket".into());
    }
    let spoken = args.dialect.spoken_at(args.listen.as_ref());
    let service = Service::new(&spoken, address, &args.clients, recording.recorder())?;
    let ending = Ending::catch("rescind serve", recording);
    let outcomes = Outcomes::default();
    note(format_args!("rescind serve: {}", service.memory()));
    runtime()?.block_on(service.listen(&ending, (args.grace, FLUSH), move |_peer, incoming| {
        let (timer, outcomes) = (TokioTimer::start(), outcomes.clone());
        let demo = AsyncDemo::with_outcomes(spoken.clone(), timer, outcomes);
        async move {
            demo.serve(&incoming).await;
        }
    }))?;
    Ok(ExitCode::SUCCESS)
}

/// The end of a server on standard input that a signal asks for.
struct Until<'a> {
    ending: Ending,
    recording: &'a Session,
}

impl Until<'_> {
    /// Cancels what is in flight once the end is asked for. A handler that ignores this ends with the program after
    /// six seconds. By then a peer that does not read is given up.
    fn shut_down(&self, cancel: impl FnOnce() + Send + 'static) {
        let (ending, recording) = (self.ending.clone(), self.recording.clone());
        let watch = move || {
            let cause = ending.wait();
            cancel();
            thread::sleep(FLUSH + SHORT_GRACE);
            end_at_once(cause, &recording);
        };
        // Without a thread a second signal ends the program.
        let _ = thread::Builder::new().name("ending".into()).spawn(watch);
    }

    fn shut_down_peer(&self, peer: &Peer) {
        let peer = peer.clone();
        self.shut_down(move || peer.shutdown(Shutdown::CancelAll));
    }
}

fn serve_threaded(spoken: &Spoken, options: Options, until: &Until<'_>) -> Ended {
    let demo = Arc::new(Demo::new(spoken.clone(), true));
    let server = Server::new(options).workers(WORKERS).immediate(demo.methods.immediate());
    let served = server.stdio(demo.clone());
    // A turn reports to this peer after its response. There is one connection.
    let _ = demo.methods.works.peer.set(served.peer().clone());
    until.shut_down_peer(served.peer());
    let Closed { reason, error, .. } = served.wait();
    let error = error.map(|error| error.to_string());
    Ended { reason, error, was_shut_down: demo.methods.was_shut_down() }
}

fn serve_on_tokio(spoken: &Spoken, options: Options, until: &Until<'_>) -> io::Result<Ended> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(async {
        let demo = AsyncDemo::new(spoken.clone(), TokioTimer::start());
        let connection = protocol_tokio::stdio(options);
        until.shut_down_peer(&connection.peer);
        // A task wakes another directly. The future of `block_on` would be woken through the reactor.
        let served =
            async move { serve_async(&demo, &connection.peer, &connection.incoming).await };
        tokio::spawn(served).await
    });
    // Its thread may be waiting for standard input for ever.
    runtime.shutdown_background();
    Ok(ended?)
}

fn serve_on_smol(spoken: &Spoken, options: Options, until: &Until<'_>) -> Ended {
    let demo = AsyncDemo::new(spoken.clone(), protocol_smol::SmolTimer::start());
    let pipe_bytes = options.pipe_bytes;
    let (stdin, stdout) = (protocol_smol::stdin(pipe_bytes), protocol_smol::stdout(pipe_bytes));
    let (peer, incoming, driver) = protocol_smol::connect(stdin, stdout, options);
    // Driver and server are tasks of one executor. They wake each other without the reactor, and without a thread.
    let executor = smol::LocalExecutor::new();
    executor.spawn(driver).detach();
    until.shut_down_peer(&peer);
    let served = executor.spawn(serve_async(&demo, &peer, &incoming));
    smol::block_on(executor.run(served))
}

async fn serve_async<T: Timer<Sleep: Send>>(
    demo: &AsyncDemo<T>,
    peer: &Peer,
    incoming: &Incoming,
) -> Ended {
    let reason = demo.serve(incoming).await;
    peer.flushed().await;
    let error = peer.closed().await.error.map(|error| error.to_string());
    Ended { reason, error, was_shut_down: demo.methods.was_shut_down() }
}

fn serve_single(spoken: &Spoken, options: Options, until: &Until<'_>) -> io::Result<Ended> {
    use std::io::{stdin, stdout};

    until.shut_down(|| ());
    #[cfg(unix)]
    let transport = {
        let transport = protocol_blocking::single::FdTransport::new(stdin(), stdout());
        ended::EndedTransport { transport, ending: until.ending.clone() }
    };
    #[cfg(not(unix))]
    let transport = protocol_blocking::single::PlainTransport::new(stdin(), stdout());
    let demo = Demo::new(spoken.clone(), false);
    let mut host = Host::new(transport, options);
    let reason = host.run(&demo)?;
    let error = host.error().map(ToString::to_string);
    Ok(Ended { reason, error, was_shut_down: demo.methods.was_shut_down() })
}
