//! `rescind call`: one call to a real server, and its cancel.

mod child;
mod client;
mod opening;
mod operation;
mod report;
mod runtime;
mod server;
mod websocket;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::Args;
use protocol_async::{CallError, RpcError};
use protocol_blocking::threaded::{CancellationHandle, Peer, SentRequest, Wait};
use protocol_core::{CallOptions, CancelOutcome, Grace, Shutdown, code};
use serde_json::value::RawValue;

use crate::address::Address;
use crate::dialect::DialectArgs;
use crate::{duration, note, usage_error};
use opening::{Opened, Opening, Performed};
use report::Report;
use runtime::Runtime;
use server::Server;

/// Call a method of a server, and cancel it
///
/// Spawns COMMAND, opens as the dialect asks for, calls METHOD and prints the result on standard
/// output; everything else goes to standard error. Ctrl-C sends the dialect's cancel and waits for
/// the answer; a second Ctrl-C gives up.
///
/// Without COMMAND the call goes to the built-in peer; `rescind serve --help` lists its methods,
/// which it serves by their names in every dialect. A tool of another MCP server is called by
/// METHOD tools/call and its name among the params. An MCP server that turns out to speak another
/// revision than the dialect's is started again, and spoken to in its own.
///
/// Exit codes: 0 result, 1 error response, 2 usage, 3 cancelled, 4 timed out, 5 connection lost.
#[derive(Debug, Args)]
pub struct CallArgs {
    /// The method to call
    method: String,

    /// Its params: a JSON array or object
    #[arg(value_name = "PARAMS_JSON", value_parser = params)]
    params: Option<Box<RawValue>>,

    #[command(flatten)]
    dialect: DialectArgs,

    /// What moves the bytes
    #[arg(long, value_name = "NAME", default_value = "blocking")]
    runtime: Runtime,

    /// Cancel this long after the call, such as 300ms or 2s; with 0 both leave in one write
    #[arg(long, value_name = "DUR", value_parser = duration)]
    cancel_after: Option<Duration>,

    /// Give the call up after this long, and tell the server
    #[arg(long, value_name = "DUR", value_parser = duration)]
    timeout: Option<Duration>,

    /// Wait at most this long for the answer to a cancel [default: as the dialect does]
    #[arg(long, value_name = "DUR", value_parser = duration)]
    grace: Option<Duration>,

    /// Send the messages of this file, one JSON a line, instead of the dialect's opening. Requests
    /// among them are awaited; notifications after the last request leave together with the call
    /// when --cancel-after is 0
    #[arg(long, value_name = "FILE")]
    open: Option<PathBuf>,

    /// Print every message with its direction and milliseconds
    #[arg(long)]
    trace: bool,

    /// Connect to the WebSocket there, such as `ws://127.0.0.1:8080` or `unix:FILE`, instead of spawning COMMAND
    #[arg(long, value_name = "URL", conflicts_with_all = ["command", "runtime"])]
    connect: Option<Address>,

    /// Show the secret in this file, one line, as a bearer token
    #[arg(long, value_name = "FILE", requires = "connect")]
    token_file: Option<PathBuf>,

    /// The server to spawn, and its arguments [default: the built-in peer]
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

fn params(text: &str) -> Result<Box<RawValue>, String> {
    let value: Box<RawValue> = serde_json::from_str(text).map_err(|error| {
        let before: usize = text.split_inclusive('\n').take(error.line() - 1).map(str::len).sum();
        let reason = error.to_string();
        let reason = reason.split(" at line ").next().unwrap_or_default();
        format!("not JSON at byte {}: {reason}", before + error.column().saturating_sub(1))
    })?;
    match value.get().as_bytes().first() {
        Some(b'{' | b'[') => Ok(value),
        _ => Err("params must be a JSON array or object".into()),
    }
}

/// When, and how often, the call was cancelled.
#[derive(Debug, Default)]
struct Cancels(Mutex<Vec<Instant>>);

impl Cancels {
    fn record(&self, now: Instant) -> usize {
        let mut times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        times.push(now);
        times.len()
    }

    fn first(&self) -> Option<Instant> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).first().copied()
    }

    fn gave_up(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len() > 1
    }
}

/// Runs the command.
#[must_use]
pub fn main(args: CallArgs) -> ExitCode {
    let report = Report::start(args.trace);
    let (server, opened) = match open(&args, &report) {
        Ok(reached) => reached,
        Err(error) => return usage_error(error),
    };
    let outcome = match opened {
        Ok(opened) => call(&args, &opened, &server.peer, &report),
        Err(error) => Called::not_sent(error),
    };
    server.end();
    report.outcome(&args.method, &outcome)
}

/// Starts the server and opens as the dialect asks for; and again in another revision of it, if that
/// is what the server turns out to speak: a connection keeps the rules that it was made with.
fn open(args: &CallArgs, report: &Report) -> Result<(Server, Result<Opened, CallError>), String> {
    let mut tried = vec![args.dialect.spoken().clone()];
    loop {
        let dialect = &tried[tried.len() - 1];
        let opening = match &args.open {
            None => Opening::of(dialect, &args.method, args.params.as_deref()),
            Some(path) => Opening::read(path)?,
        };
        let server = Server::reach(dialect.clone(), args, report)?;
        let other = match opening.perform(&server.peer, args.params.as_deref()) {
            Ok(Performed::Opened(opened)) => return Ok((server, Ok(opened))),
            Ok(Performed::Speaks(other)) => *other,
            Err(error) => return Ok((server, Err(error))),
        };
        if tried.contains(&other) {
            let error = RpcError::new(code::INTERNAL_ERROR, "no revision can be agreed on");
            return Ok((server, Err(CallError::Error(error))));
        }
        server.end();
        report.opens_again(&other.dialect);
        tried.push(other);
    }
}

/// What became of the call.
struct Called {
    outcome: Result<Box<RawValue>, CallError>,
    /// When its cancel was sent, and when it settled.
    cancelled: Option<Instant>,
    sent: Instant,
    settled: Instant,
    gave_up: bool,
    acknowledged: Acknowledged,
}

/// Whether a call that settles as cancelled without an error does so because the server said so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Acknowledged {
    No,
    Yes,
}

impl Called {
    fn not_sent(error: CallError) -> Self {
        let now = Instant::now();
        Self {
            outcome: Err(error),
            cancelled: None,
            sent: now,
            settled: now,
            gave_up: false,
            acknowledged: Acknowledged::No,
        }
    }
}

fn call(args: &CallArgs, opened: &Opened, peer: &Peer, report: &Report) -> Called {
    let together = args.cancel_after == Some(Duration::ZERO);
    let cancels = Arc::new(Cancels::default());
    let cork = together.then(|| peer.cork());
    if let Err(refusal) = opened.notify(peer) {
        return Called::not_sent(refusal.into());
    }
    let options = CallOptions::default().timeout(args.timeout).grace(args.grace.map(Grace::Settle));
    let dialect = peer.dialect();
    let tool = operation::of_tool(&dialect, &args.method, opened.params());
    let (method, params) = match &tool {
        Some((method, params)) => (&**method, Some(&**params)),
        None => (&*args.method, opened.params()),
    };
    let prepared = peer.prepare(method, params, options);
    // Before the call is sent: whoever sees it leave may press Ctrl-C.
    on_interrupt(peer, prepared.cancellation_handle(), &cancels);
    let begun = Instant::now();
    let mut sent: SentRequest = prepared.publish();
    report.sent(&args.method);
    if together {
        cancel(&sent, &cancels);
    }
    drop(cork);

    let early = args.cancel_after.and_then(|after| {
        let outcome = sent.wait_timeout(after);
        if outcome.is_none() && !together {
            cancel(&sent, &cancels);
        }
        outcome
    });
    let mut outcome = early.unwrap_or_else(|| sent.wait());
    if let (Some(after), Ok(answer)) = (args.cancel_after, &outcome) {
        outcome = operation::cancel(&dialect, peer, answer.clone(), begun + after, &cancels);
    }
    let is_acknowledged = dialect.has_operations() && args.grace.is_none();
    Called {
        outcome,
        cancelled: cancels.first(),
        sent: begun,
        settled: Instant::now(),
        gave_up: cancels.gave_up(),
        acknowledged: if is_acknowledged { Acknowledged::Yes } else { Acknowledged::No },
    }
}

fn cancel(sent: &SentRequest, cancels: &Cancels) {
    let now = Instant::now();
    // Ctrl-C may have come first; to ask once more is not to give up.
    if !matches!(sent.cancel(), CancelOutcome::AlreadySettled | CancelOutcome::AlreadySent) {
        cancels.record(now);
    }
}

/// The first Ctrl-C cancels, the second gives up.
fn on_interrupt(peer: &Peer, handle: CancellationHandle, cancels: &Arc<Cancels>) {
    let (peer, cancels) = (peer.clone(), cancels.clone());
    let handler = move || {
        if cancels.record(Instant::now()) > 1 {
            peer.shutdown(Shutdown::Abandon);
        } else {
            handle.cancel();
        }
    };
    if let Err(error) = ctrlc::set_handler(handler) {
        note(format_args!("Ctrl-C can't be caught: {error}"));
    }
}
