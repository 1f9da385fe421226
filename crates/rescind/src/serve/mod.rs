//! `rescind serve`: a demonstration peer on standard input and output, or on a WebSocket.

mod demo;
mod mcp;
mod methods;
mod operations;
mod router;
mod signals;
mod websocket;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use protocol_async::{Closed, Options, SharedOperations};
use protocol_blocking::single::{Host, Transport};
use protocol_blocking::threaded::Server;
use protocol_core::{CloseReason, Role};
use protocol_websocket::{BearerToken, ListenerLimits, Origins};

use crate::address::Address;
use crate::dialect::{DialectArgs, Spoken};
use crate::record::{RecordArgs, Session};
use crate::tls::Acceptor;
use crate::{note, output_error, token, usage_error};
pub(crate) use demo::Demo;
use router::AsyncDemo;
use websocket::{Admission, Service};

/// Serve demonstration methods on standard input and output, or on a WebSocket.
#[derive(Debug, Args)]
#[command(
    about = "Serve demonstration methods on standard input and output, or on a WebSocket",
    after_help = METHODS
)]
pub struct ServeArgs {
    #[command(flatten)]
    dialect: DialectArgs,

    /// What runs the handlers
    #[arg(long, value_name = "NAME", default_value = "blocking")]
    runtime: Runtime,

    /// Serve whoever opens a WebSocket there, such as `ws://127.0.0.1:8080` or
    /// `ws://localhost:0/abp`, over TLS if it begins with `wss://`, or on the Unix socket `unix:FILE`, on tokio. With port 0 the system chooses one. The address is
    /// printed to standard error. Ctrl-C cancels and answers what is in flight, SIGTERM gives it --grace
    /// to finish first; a second signal waits for nothing
    #[arg(long, value_name = "URL", conflicts_with = "runtime")]
    listen: Option<Address>,

    /// Let web pages of this origin connect too, such as `https://example.com`; `null` for local
    /// files, `*` for every page [default: pages of this machine, and programs, which have no
    /// origin]
    #[arg(long, value_name = "ORIGIN", requires = "listen")]
    allow_origin: Vec<String>,

    /// Serve only who knows the secret in this file, one line, and shows it as a bearer token. Web
    /// pages can't
    #[arg(long, value_name = "FILE", requires = "listen")]
    token_file: Option<PathBuf>,

    /// Let whoever can reach this machine call, without a token
    #[arg(long, requires = "listen", conflicts_with = "token_file")]
    allow_anyone: bool,

    /// The certificates that a `wss://` address is served with, its own first, in a file of PEM
    #[arg(long, value_name = "FILE", requires_all = ["listen", "key"])]
    certificate: Option<PathBuf>,

    /// The key of the first certificate, in a file of PEM
    #[arg(long, value_name = "FILE", requires_all = ["listen", "certificate"])]
    key: Option<PathBuf>,

    /// Connections at the same time; one more is answered 503
    #[arg(long, value_name = "COUNT", default_value_t = ListenerLimits::DEFAULT.connections, requires = "listen")]
    connections: usize,

    /// Connections of one address at the same time; one more is answered 429. Behind a proxy all have its
    /// address
    #[arg(long, value_name = "COUNT", default_value_t = ListenerLimits::DEFAULT.connections_per_address, requires = "listen")]
    connections_per_address: usize,

    /// After SIGTERM, how long requests in flight may take to finish before they are cancelled
    #[arg(long, value_name = "DUR", value_parser = crate::duration, default_value = "5s", requires = "listen")]
    grace: Duration,

    /// At the end, write counts of the operations into this file, as Prometheus reads them: how many
    /// there were, how many were cancelled and why, how long those had run (erlmcp)
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

They are called by these names in every dialect; in MCP they are tools too, for `tools/call`.

It also answers what the dialect opens with: `initialize`, and `session/new`, `session/prompt`,
`session/cancel` (acp), `initialized`, `shutdown`, `exit` (lsp), or `ping`, `server/discover`,
`tools/list`, `tools/call` (mcp).

Examples:
  printf '%s\n' '{"jsonrpc":"2.0","id":1,"method":"echo","params":[1]}' | rescind serve
  rescind serve --listen ws://127.0.0.1:8080
  rescind call --connect ws://127.0.0.1:8080 --cancel-after 300ms sleep '{"ms":10000}'"#;

/// What runs the handlers.
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
/// How long the last answers may take to be read once nothing else is to be done.
const FLUSH: Duration = Duration::from_secs(5);

/// How a connection ended.
struct Ended {
    reason: CloseReason,
    /// What reading or writing failed with.
    error: Option<String>,
    /// Whether LSP's `shutdown` was asked for.
    was_shut_down: bool,
}

/// Runs the command.
#[must_use]
pub fn main(args: &ServeArgs) -> ExitCode {
    let operations = operations::operations(&args.dialect.spoken().dialect);
    let recording = match args.record.start(None) {
        Ok(recording) => recording,
        Err(error) => return usage_error(error),
    };
    let status = match &args.listen {
        Some(address) => serve_websockets(args, address, &operations, &recording),
        None => serve_stdio(args, &operations, &recording),
    };
    recording.finish();
    operations::write_metrics(args.metrics.as_deref(), &operations);
    status
}

fn serve_stdio(args: &ServeArgs, operations: &SharedOperations, recording: &Session) -> ExitCode {
    let spoken = args.dialect.spoken();
    let mut options = operations::options(spoken.on_stdio(Role::Server), operations);
    options.patience = FLUSH;
    let options = recording.connection("client", options);
    let ended = match args.runtime {
        Runtime::Blocking => Ok(serve_threaded(spoken, options)),
        Runtime::Single => {
            let demo = Demo::new(spoken.clone());
            let served = serve_single(options, &demo);
            served.map(|(reason, error)| Ended {
                reason,
                error,
                was_shut_down: demo.was_shut_down(),
            })
        }
        Runtime::Tokio => serve_on_tokio(spoken, options),
        Runtime::Smol => Ok(serve_on_smol(spoken, options)),
    };
    match ended {
        Ok(Ended { error: Some(error), .. }) => output_error(error),
        Ok(Ended { reason: CloseReason::PeerGone, .. }) => ExitCode::SUCCESS,
        // LSP: `exit` without `shutdown` before it is a failure.
        Ok(Ended { reason: CloseReason::Shutdown, was_shut_down: true, .. }) => ExitCode::SUCCESS,
        Ok(Ended { reason, .. }) => {
            note(format_args!("rescind serve: the connection closed: {reason}"));
            ExitCode::FAILURE
        }
        Err(error) => {
            note(format_args!("rescind serve: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn serve_websockets(
    args: &ServeArgs,
    address: &Address,
    operations: &SharedOperations,
    recording: &Session,
) -> ExitCode {
    let secret = match token::read(args.token_file.as_deref()) {
        Ok(secret) => secret,
        Err(error) => return usage_error(error),
    };
    let tls = match (address.is_secure, &args.certificate, &args.key) {
        (true, Some(certificate), Some(key)) => match Acceptor::new(certificate, key) {
            Ok(acceptor) => Some(acceptor),
            Err(error) => return usage_error(error),
        },
        (true, ..) => {
            return usage_error("a wss:// address needs --certificate FILE and --key FILE");
        }
        (false, None, None) => None,
        (false, ..) => return usage_error("a certificate is for a wss:// address"),
    };
    let admission = Admission {
        origins: args.allow_origin.iter().fold(Origins::local(), Origins::allow),
        token: secret.map(BearerToken::new),
        is_for_anyone: args.allow_anyone,
    };
    let (address, operations) = (address.clone(), operations.clone());
    let (spoken, grace) = (args.dialect.spoken().clone(), args.grace);
    let recorder = recording.recorder();
    let mut limits = ListenerLimits::DEFAULT;
    limits.connections = args.connections;
    limits.connections_per_address = args.connections_per_address;
    let service = Service { spoken, address, tls, admission, limits, grace, operations, recorder };
    match service.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => usage_error(error),
    }
}

fn serve_threaded(spoken: &Spoken, options: Options) -> Ended {
    let demo = Arc::new(Demo::new(spoken.clone()));
    let server = Server::new(options).workers(WORKERS).immediate(methods::IMMEDIATE);
    let Closed { reason, error, .. } = server.stdio(demo.clone()).wait();
    let error = error.map(|error| error.to_string());
    Ended { reason, error, was_shut_down: demo.was_shut_down() }
}

fn serve_on_tokio(spoken: &Spoken, options: Options) -> io::Result<Ended> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(async {
        let demo = AsyncDemo::new(spoken.clone(), protocol_tokio::TokioTimer::start());
        let connection = protocol_tokio::stdio(options);
        let reason = demo.serve(&connection.incoming).await;
        let error = connection.peer.closed().await.error.map(|error| error.to_string());
        Ended { reason, error, was_shut_down: demo.was_shut_down() }
    });
    // Its thread may be waiting for standard input for ever.
    runtime.shutdown_background();
    Ok(ended)
}

fn serve_on_smol(spoken: &Spoken, options: Options) -> Ended {
    smol::block_on(async {
        let demo = AsyncDemo::new(spoken.clone(), protocol_smol::SmolTimer::start());
        let connection = protocol_smol::stdio(options);
        let reason = demo.serve(&connection.incoming).await;
        let error = connection.peer.closed().await.error.map(|error| error.to_string());
        Ended { reason, error, was_shut_down: demo.was_shut_down() }
    })
}

#[cfg(unix)]
fn serve_single(options: Options, demo: &Demo) -> io::Result<Served> {
    use protocol_blocking::single::FdTransport;

    run_single(FdTransport::new(std::io::stdin(), std::io::stdout()), options, demo)
}

#[cfg(not(unix))]
fn serve_single(options: Options, demo: &Demo) -> io::Result<Served> {
    use protocol_blocking::single::PlainTransport;

    run_single(PlainTransport::new(std::io::stdin(), std::io::stdout()), options, demo)
}

/// How one thread served, and what reading or writing failed with.
type Served = (CloseReason, Option<String>);

fn run_single(transport: impl Transport, options: Options, demo: &Demo) -> io::Result<Served> {
    let mut host = Host::new(transport, options);
    let reason = host.run(demo)?;
    Ok((reason, host.error().map(ToString::to_string)))
}
