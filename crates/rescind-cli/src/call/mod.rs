//! `rescind call`: one call to a real server, and its cancel.

mod asking;
mod child;
mod client;
mod http;
mod interrupts;
mod opening;
mod operation;
mod params;
mod report;
mod runtime;
mod server;
mod told;
mod trigger;
mod websocket;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use clap::Args;
use protocol_async::{CallError, RpcError};
use protocol_blocking::threaded::{Peer, SentRequest, Wait};
use protocol_core::{CallOptions, CancelOutcome, Carrier, Dialect, Grace, News, code};
use serde_json::value::RawValue;

use crate::address::Listen;
use crate::dialect::{DialectArgs, Spoken};
use crate::ending::Cause;
use crate::process::ProcessArgs;
use crate::record::{RecordArgs, Session};
use crate::{duration, output_error, usage_error};
use asking::{Asking, how_lost};
use interrupts::Interrupts;
use opening::{Opened, Opening, Performed};
use operation::Limits;
use report::Report;
use runtime::Runtime;
use server::Server;
use trigger::TriggerArgs;
pub(crate) use websocket::handshake;

/// Call a method of a server, and cancel it
///
/// Spawns COMMAND, opens as the dialect asks for, calls METHOD and prints the result on standard
/// output; everything else goes to standard error. Ctrl-C sends the dialect's cancel and waits for
/// the answer; a second Ctrl-C gives up.
///
/// Without COMMAND the call goes to the built-in peer; `rescind serve --help` lists its methods,
/// which it serves by their names in every dialect. A tool of another MCP server is called by
/// METHOD tools/call and its name among the params. An MCP server that turns out to speak another
/// revision than the dialect's is spoken to in its own, and started again if it does not take that.
///
/// Exit codes: 0 result, 1 error response, 2 usage, 3 cancelled, 4 timed out, 5 connection lost,
/// 6 could not start or connect, 7 the result could not be written.
#[derive(Debug, Args)]
pub struct CallArgs {
    /// The method to call
    method: String,

    /// Its params: a JSON array or object, @FILE for one in a file, or - for one on standard input
    #[arg(value_name = "PARAMS_JSON", value_parser = params::read)]
    params: Option<Box<RawValue>>,

    #[command(flatten)]
    dialect: DialectArgs,

    /// What moves the bytes
    #[arg(long, value_name = "NAME", default_value = "blocking")]
    runtime: Runtime,

    /// Cancel this long after the call, such as 300ms or 2s; with 0 both leave in one write
    #[arg(long, value_name = "DUR", value_parser = duration)]
    cancel_after: Option<Duration>,

    /// Stop the work that the call began this long after it, such as 300ms: session/cancel for a prompt of
    /// ACP. A call that began none is cancelled
    #[arg(long, value_name = "DUR", value_parser = duration, conflicts_with_all = ["cancel_after", "cancel_on", "cancel_after_notifications"])]
    stop_after: Option<Duration>,

    #[command(flatten)]
    trigger: TriggerArgs,

    /// Give up after this long, wherever it is: connecting, opening, or calling; a call is cancelled
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

    /// Send this notification before the call, after the opening; again for each
    #[arg(long, num_args = 2, value_names = ["METHOD", "PARAMS_JSON"])]
    notify: Vec<String>,

    /// Print every message with its direction and milliseconds
    #[arg(long)]
    trace: bool,

    /// Print one JSON object on standard output that says what became of the call
    #[arg(long)]
    json: bool,

    /// Connect to the server at URL instead of spawning COMMAND. URL is `unix:FILE`, or begins with `ws://`, `wss://`,
    /// `http://` or `https://`. Over HTTP it is a server of MCP, unless `--dialect` names `acp` or `acp-v2`
    #[arg(long, value_name = "URL", conflicts_with_all = ["command", "runtime", "cwd", "env"])]
    connect: Option<Listen>,

    /// Show the secret in this file, one line, as a bearer token
    #[arg(long, value_name = "FILE", requires = "connect")]
    token_file: Option<PathBuf>,

    /// Of a `wss://` or `https://` server, take only a certificate that is signed by one in this file, of PEM [default:
    /// those that this machine trusts]
    #[arg(long, value_name = "FILE", requires = "connect")]
    ca: Option<PathBuf>,

    #[command(flatten)]
    process: ProcessArgs,

    #[command(flatten)]
    record: RecordArgs,

    /// The server to spawn, and its arguments [default: the built-in peer]
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs the command.
#[must_use]
pub fn main(args: &CallArgs) -> ExitCode {
    let report = Report::start(args.trace);
    let program = args.command.first().map(|program| program.to_string_lossy());
    let recording = match args.record.start(program.as_deref()) {
        Ok(recording) => recording,
        Err(error) => return usage_error(error),
    };
    let notifications = match args.notify.chunks_exact(2).map(notification).collect() {
        Ok(notifications) => notifications,
        Err(error) => return usage_error(error),
    };
    let interrupts = Interrupts::catch(&report, &recording);
    let deadline = args.timeout.map(|timeout| Instant::now() + timeout);
    let attempt = Attempt {
        args,
        notifications,
        report: &report,
        recording: &recording,
        interrupts: &interrupts,
        deadline,
    };
    let run = attempt.run();
    report.ends();
    recording.finish();
    if interrupts.output_is_gone() {
        return output_error(Cause::OutputGone);
    }
    match run {
        Ok((ended, server)) => report.ended(args, &ended, server),
        Err(usage) => usage_error(usage),
    }
}

/// Reads a notification that is to be sent.
fn notification(words: &[String]) -> Result<(&str, Box<RawValue>), String> {
    let [method, given] = words else { return Err("--notify takes METHOD and PARAMS_JSON".into()) };
    let params = params::read(given).map_err(|error| format!("--notify {method}: {error}"))?;
    Ok((method, params))
}

/// The end of one run.
enum Ended {
    /// There is no server to talk to.
    Failed(String),
    /// The time was over before the call could be sent.
    TimedOut(Instant),
    /// Ctrl-C came before the call could be sent.
    GaveUp,
    Called(Called),
}

/// One run of the command.
struct Attempt<'a> {
    args: &'a CallArgs,
    /// The notifications that are sent just before the call.
    notifications: Vec<(&'a str, Box<RawValue>)>,
    report: &'a Report,
    recording: &'a Session,
    interrupts: &'a Interrupts,
    /// When the time is over.
    deadline: Option<Instant>,
}

/// The reason that there is no server to talk to.
enum Unreached {
    Usage(String),
    Failed(String),
    TimedOut,
    /// Ctrl-C came between two servers.
    GaveUp,
}

impl Attempt<'_> {
    /// Opens, calls, and sees the server to its end.
    fn run(&self) -> Result<(Ended, Option<ExitStatus>), String> {
        let (server, opened) = match self.open() {
            Ok(reached) => reached,
            Err(Unreached::Usage(error)) => return Err(error),
            Err(Unreached::Failed(error)) => return Ok((Ended::Failed(error), None)),
            Err(Unreached::TimedOut) => return Ok((Ended::TimedOut(Instant::now()), None)),
            Err(Unreached::GaveUp) => return Ok((Ended::GaveUp, None)),
        };
        let outcome = opened.and_then(|opened| self.call(&opened, &server.peer));
        let settled = Instant::now();
        let status = server.end();
        let ended = match outcome {
            // Ctrl-C may have come just before the call.
            _ if self.interrupts.gave_up_opening() => Ended::GaveUp,
            Ok(called) => Ended::Called(called),
            Err(CallError::TimedOut { .. }) => Ended::TimedOut(settled),
            Err(error) => Ended::Called(Called::not_sent(error)),
        };
        Ok((ended, status))
    }

    /// Starts the server and opens as the dialect asks for. Where the server turns out to speak another
    /// revision of it, it is opened in that: on the same connection, if that takes on what the peers
    /// agree on; else, and where the server does not take that, with a new one.
    fn open(&self) -> Result<(Server, Result<Opened, CallError>), Unreached> {
        let mut tried = vec![self.args.dialect.spoken_at(self.args.connect.as_ref())];
        loop {
            let dialect = &tried[tried.len() - 1];
            let opening = self.opening(dialect).map_err(Unreached::Usage)?;
            self.report.reaches();
            let server = Server::reach(dialect.clone(), self)?;
            self.interrupts.opens(&server.peer);
            let other = match self.perform(opening, &server.peer) {
                Ok(Performed::Opened(opened)) => return Ok((server, Ok(opened))),
                Ok(Performed::Speaks(other)) => *other,
                Err(error) => return Ok((server, Err(error))),
            };
            if tried.contains(&other) {
                let error = RpcError::new(code::INTERNAL_ERROR, "no revision can be agreed on");
                return Ok((server, Err(CallError::Error(error))));
            }
            if dialect.is_negotiated() && !server.peer.is_closed() {
                let again = self.opening(&other).map_err(Unreached::Usage)?;
                match self.perform(again, &server.peer) {
                    Ok(Performed::Opened(opened)) => return Ok((server, Ok(opened))),
                    Err(error) if self.is_over() => return Ok((server, Err(error))),
                    Ok(Performed::Speaks(_)) | Err(_) => {}
                }
            }
            server.end();
            // Before it is asked whether Ctrl-C came: one that comes later ends the program.
            self.interrupts.reaches();
            if self.interrupts.gave_up_opening() {
                return Err(Unreached::GaveUp);
            }
            if self.is_over() {
                return Err(Unreached::TimedOut);
            }
            self.report.opens_again(&other.dialect);
            tried.push(other);
        }
    }

    fn opening(&self, dialect: &Spoken) -> Result<Opening, String> {
        let opening = match &self.args.open {
            None => Opening::of(dialect, &self.args.method, self.args.params.as_deref()),
            Some(path) => Opening::read(path)?,
        };
        Ok(opening.and_notify(&self.notifications))
    }

    fn perform(&self, opening: Opening, peer: &Peer) -> Result<Performed, CallError> {
        let asking = Asking { peer, attempt: self };
        opening.perform(&asking, self.args.params.as_deref())
    }

    /// Whether nothing more is to be asked: the time is over, or the user has given up.
    fn is_over(&self) -> bool {
        self.deadline.is_some_and(|at| at <= Instant::now()) || self.interrupts.gave_up_opening()
    }

    /// Returns the time that is left, if it is limited.
    fn left(&self) -> Option<Duration> {
        self.deadline.map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// Calls, and cancels when that is due.
    fn call(&self, opened: &Opened, peer: &Peer) -> Result<Called, CallError> {
        let (args, interrupts) = (self.args, self.interrupts);
        let together = args.cancel_after == Some(Duration::ZERO);
        let cork = together.then(|| peer.cork());
        opened.notify(peer).map_err(|refusal| how_lost(peer, refusal.into()))?;
        let options =
            CallOptions::default().timeout(self.left()).grace(args.grace.map(Grace::Settle));
        let dialect = peer.dialect();
        let tool = operation::of_tool(&dialect, &args.method, opened.params());
        let (method, params) = match &tool {
            Some((method, params)) => (&**method, Some(&**params)),
            None => (&*args.method, opened.params()),
        };
        let prepared = peer.prepare(method, params, options);
        // Before the call is sent: whoever sees it leave may press Ctrl-C.
        self.report.calls(&args.method);
        interrupts.calls(peer, prepared.cancellation_handle());
        let begun = Instant::now();
        let mut sent: SentRequest = prepared.publish();
        if interrupts.first_cancel().is_none() {
            self.report.sent(&args.method);
        }
        if together {
            self.cancel(&sent);
        }
        drop(cork);

        let early = args.cancel_after.or(args.stop_after).and_then(|after| {
            let outcome = sent.wait_timeout(after);
            if outcome.is_none() && !together {
                self.cancel(&sent);
            }
            outcome
        });
        let mut outcome = early.unwrap_or_else(|| sent.wait());
        let is_to_be_cancelled = args.cancel_after.is_some() || args.trigger.is_set();
        if let (true, Ok(answer)) = (is_to_be_cancelled, &outcome) {
            let due = args.cancel_after.map(|after| begun + after);
            let limits = Limits { due, deadline: self.deadline, grace: args.grace };
            let told = (interrupts, self.report);
            outcome = operation::cancel(&dialect, peer, answer.clone(), limits, told);
        }
        let settled = Instant::now();
        let cancelled = interrupts.first_cancel();
        // What settles here does so when the grace is over, and no earlier.
        let is_in_time = |grace| cancelled.is_some_and(|at| settled - at < grace);
        let is_acknowledged = match &outcome {
            Ok(result) => says_stopped(&dialect, result),
            Err(_) => dialect.has_operations() && args.grace.is_none_or(is_in_time),
        };
        Ok(Called {
            outcome: outcome.map_err(|error| how_lost(peer, error)),
            cancelled,
            sent: begun,
            settled,
            gave_up: interrupts.gave_up(),
            acknowledged: if is_acknowledged { Acknowledged::Yes } else { Acknowledged::No },
        })
    }

    /// Cancels the call, or stops the work that it began.
    fn cancel(&self, sent: &SentRequest) {
        let now = Instant::now();
        let outcome = if self.args.stop_after.is_some() { sent.stop() } else { sent.cancel() };
        // Ctrl-C or a notification may have come first.
        use CancelOutcome::{AlreadySent, AlreadySettled, NotStopped};
        if !matches!(outcome, AlreadySettled | AlreadySent | NotStopped) {
            self.interrupts.cancelled(now);
            self.report.cancelling();
        }
    }
}

/// Returns whether a result says that the work of its request was stopped.
fn says_stopped(dialect: &Dialect, result: &RawValue) -> bool {
    let mut signs = dialect.work.iter().flat_map(|rule| rule.signs.iter());
    signs.any(|sign| {
        let begins = sign.carrier == Carrier::Request && sign.news == News::Begun;
        begins && sign.stopped.as_ref().is_some_and(|mark| mark.is_in(result))
    })
}

/// The outcome of the call.
struct Called {
    outcome: Result<Box<RawValue>, CallError>,
    /// When its cancel was sent, and when it settled.
    cancelled: Option<Instant>,
    sent: Instant,
    settled: Instant,
    gave_up: bool,
    acknowledged: Acknowledged,
}

/// Whether the server said that it has cancelled a call which settles without an error.
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
