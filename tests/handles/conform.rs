//! `rescind conform` on servers that are made of the libraries alone, in this process, one for each runtime.
//!
//! With `RESCIND_EVERY_RUNTIME=1` in every dialect, and in one of them without.

use std::env;
use std::net::TcpStream;
use std::time::Duration;

use protocol_async::{Incoming, RpcError, Timer};
use protocol_blocking::{Answer, Request, Responder, block_on, threaded};
use protocol_core::{CallOptions, Config, Dialect, Framing, code};
use protocol_router::LocalRouter;
use rescind_conform::{InProcess, Options, Report, Request as Asked, Verdict, run};
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

/// The params of a request that takes its time.
#[derive(Deserialize)]
struct Work {
    ms: u64,
}

impl Work {
    const fn duration(&self) -> Duration {
        Duration::from_millis(self.ms)
    }
}

/// Returns the result that opens a session: all that a client may have to know of any of these dialects.
fn welcome() -> Value {
    json!({
        "protocolVersion": 1,
        "supportedVersions": ["2026-07-28"],
        "capabilities": {},
        "supportsCancelRequest": true,
        "agentCapabilities": { "cancellation": { "request": true } },
    })
}

/// `sleep` works, and `nested` has the client work.
async fn serve<T: Timer + Clone + 'static>(incoming: &Incoming, timer: T) {
    let router = LocalRouter::new()
        .request("initialize", async |_: Value, _| Ok(welcome()))
        .request("server/discover", async |_: Value, _| Ok(welcome()))
        .request("sleep", async move |work: Work, cx| {
            let sleep = timer.sleep_until(timer.now() + work.duration());
            cx.cancellation().unless_cancelled(sleep).await?;
            Ok(work.ms)
        })
        .request("nested", async |work: Value, cx| {
            Ok(cx.call::<Box<RawValue>>("sleep", work).await?)
        });
    router.serve(incoming).await;
}

/// The same on threads, or on one.
fn handle(request: &Request, responder: &mut dyn Responder) -> Answer {
    match request.method.as_str() {
        "initialize" | "server/discover" => Ok(to_raw_value(&welcome())?),
        "sleep" => {
            let work: Work = request.params()?;
            responder.sleep(work.duration())?;
            Ok(to_raw_value(&work.ms)?)
        }
        "nested" => {
            Ok(responder.call_raw("sleep", request.params.as_deref(), CallOptions::default())?)
        }
        _ => Err(RpcError::new(code::METHOD_NOT_FOUND, "method not found").into()),
    }
}

fn on_tokio(stream: TcpStream, config: Config) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        stream.set_nonblocking(true).unwrap();
        let stream = tokio::net::TcpStream::from_std(stream).unwrap();
        let connection = protocol_tokio::tcp(stream, config).unwrap();
        serve(&connection.incoming, protocol_tokio::TokioTimer::start()).await;
        connection.peer.closed().await;
    });
}

fn on_smol(stream: TcpStream, config: Config) {
    smol::block_on(async {
        let stream = smol::net::TcpStream::try_from(stream).unwrap();
        let connection = protocol_smol::tcp(stream, config).unwrap();
        serve(&connection.incoming, protocol_smol::SmolTimer::start()).await;
        connection.peer.closed().await;
    });
}

fn on_threads(stream: TcpStream, config: Config) {
    const WORKERS: usize = 8;
    let (peer, incoming) = threaded::tcp(stream, config).unwrap();
    threaded::serve(&incoming, WORKERS, &handle);
    block_on(peer.closed());
}

#[cfg(unix)]
fn on_a_single_thread(stream: TcpStream, config: Config) {
    use protocol_blocking::single::{FdTransport, Host};

    Host::new(FdTransport::new(&stream, &stream), config).run(&handle).unwrap();
}

/// The dialect that is tested by default: both sides cancel in it.
const SAMPLE: &str = "acp";

/// Those whose servers can't ask, or must not.
const ASKS_NOTHING: [&str; 6] = ["jsonrpc", "mcp", "mcp-2026-07-28", "abp", "dap", "erlmcp"];

/// Tests a server in each dialect, and returns the reports.
fn reports(serve: fn(TcpStream, Config), patience: Duration) -> Vec<(String, Report)> {
    // A stream does not show the changes that HTTP makes to a dialect.
    let is_tried = |dialect: &&Dialect| match env::var_os("RESCIND_EVERY_RUNTIME") {
        Some(_) => !dialect.name.ends_with("-http"),
        None => dialect.name == SAMPLE,
    };
    let report = |dialect: &Dialect| {
        let mut spoken = dialect.clone();
        // On a stream what transports would frame is a line.
        if spoken.framing == Framing::Whole {
            spoken.framing = Framing::Newline;
        }
        let mut options = Options::new(spoken.clone());
        options.slow = Some(Asked::new("sleep", json!({ "ms": "$MS" })));
        options.slow_ms = 500;
        options.suite.patience = patience;
        options.reverse = (!ASKS_NOTHING.contains(&&*dialect.name))
            .then(|| Asked::new("nested", json!({ "ms": "$MS" })));
        let config = Config::server(spoken);
        let target = InProcess(move |stream: TcpStream| serve(stream, config.clone()));
        (dialect.name.to_string(), run(&target, &options, |_| {}).unwrap())
    };
    Dialect::PRESETS.iter().filter(is_tried).map(report).collect()
}

/// The time that the tester waits for a message.
const PATIENCE: Duration = Duration::from_secs(10);

/// Reasons for an open check: these servers open no session and report no progress.
const UNTRIED: [&str; 2] = ["reports no progress", "no session is opened: session/new"];
/// The reasons for open checks of a server that does one thing at a time.
const SERIAL: [&str; 5] = [
    "without the cancel the same is seen",
    "answers nothing else while it is at work",
    "passed without an answer to the next request",
    "passed without a request of the server",
    "the server asked nothing of us",
];

#[track_caller]
fn passes(serve: fn(TcpStream, Config), patience: Duration, open: &[&str]) {
    for (dialect, report) in reports(serve, patience) {
        for outcome in &report.outcomes {
            let is_good = match &outcome.verdict {
                Verdict::Pass | Verdict::NotApplicable => true,
                Verdict::NotExercised { why } | Verdict::Unclear { why } => {
                    UNTRIED.iter().chain(open).any(|open| why.contains(open))
                }
                Verdict::Fail { .. } => false,
            };
            assert!(is_good, "{dialect}, {}: {:?}", outcome.id, outcome.verdict);
        }
        assert!(report.count("pass") > 5, "{dialect}: {}", report.summary());
    }
}

#[test]
fn a_server_on_tokio_passes() {
    passes(on_tokio, PATIENCE, &[]);
}

#[test]
fn a_server_on_smol_passes() {
    passes(on_smol, PATIENCE, &[]);
}

#[test]
fn a_server_on_threads_passes() {
    passes(on_threads, PATIENCE, &[]);
}

#[cfg(unix)]
#[test]
fn a_server_on_a_single_thread_passes_what_can_be_tried() {
    // It leaves much open, and each such check waits for as long.
    passes(on_a_single_thread, Duration::from_secs(2), &SERIAL);
}
