//! The report of a call: lines for a person on standard error, and a result on standard output.

use std::process::{ExitCode, ExitStatus};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};
use protocol_async::{CallError, Noise, RpcError};
use protocol_blocking::threaded::Trace;
use protocol_core::{Cause, Dialect, Violation, WireId};

use super::args::CallArgs;
use super::ended::{Called, Ended};
use super::told::{ServerEnd, Told};
use crate::exit::{self, Exit};
use crate::lock::lock;
use crate::noise::Noises;
use crate::terminal::{Line, pass_on, print_json, say, show, spin, stop_spinning};
use crate::trace::Traced;

const DIM: Style = Style::new().dimmed();
const GOOD: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Green)));
const BAD: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Red)));
const WARN: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Yellow)));

/// Reports to standard error, around the spinner if there is one.
#[derive(Clone, Debug)]
pub(super) struct Report {
    begun: Instant,
    is_tracing: bool,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// The thing that is being waited for.
    waits_for: Mutex<String>,
    /// Answers that named no request of ours.
    answers_without_id: AtomicU64,
    notifications: AtomicU64,
    noises: Noises,
}

impl Report {
    pub(super) fn start(is_tracing: bool) -> Self {
        Self { begun: Instant::now(), is_tracing, shared: Arc::default() }
    }

    /// Returns the function that the connection calls for each message.
    pub(super) fn trace(&self, dialect: &Dialect) -> Option<Trace> {
        let mut traced = Traced::new(dialect, self.begun);
        self.is_tracing.then(|| {
            Box::new(move |way, message: &[u8]| show(traced.line("", way, message))) as Trace
        })
    }

    /// Returns the function that the connection calls for bytes that are no message.
    pub(super) fn noise(&self) -> Noise {
        let shared = self.shared.clone();
        Box::new(move |violation, bytes| {
            shared.noises.count();
            let line = Line::new().styled(WARN, "no message on the server's output:").text(" ");
            say(line.value(bytes).styled(DIM, format_args!(" ({violation})")));
        })
    }

    /// The server is started again, for it speaks another dialect.
    pub(super) fn opens_again(&self, dialect: &Dialect) {
        say(Line::new().styled(DIM, format_args!("opening again, as {}", dialect.name)));
    }

    /// From now on this is waited for.
    fn waits(&self, what: String) {
        *lock(&self.shared.waits_for) = what;
    }

    /// The server is being started or connected to.
    pub(super) fn reaches(&self) {
        self.waits("the connection".into());
        spin("connecting (Ctrl-C ends it)");
    }

    /// A request of the opening has been sent.
    pub(super) fn opens(&self, method: &str) {
        self.waits(format!("the answer to {method}"));
        spin(format_args!("opening: waiting for the answer to {method} (Ctrl-C gives up)"));
    }

    /// Reports that something is waited for. A server that is silent may be older.
    pub(super) fn still_waits(&self, may_be_older: bool) {
        let waits = format!("still waiting for {}", self.waits_for());
        let hint = match may_be_older {
            true => " (--dialect mcp-2025-11-25 opens an older server at once)",
            false => " (is it the right --dialect?)",
        };
        say(Line::new().styled(DIM, waits).styled(DIM, hint));
    }

    /// The call is about to be sent.
    pub(super) fn calls(&self, method: &str) {
        self.waits(method.into());
    }

    /// The call has been sent.
    pub(super) fn sent(&self, method: &str) {
        spin(format_args!("{method} (Ctrl-C cancels)"));
    }

    /// The call was cancelled, and its answer is awaited.
    pub(super) fn cancelling(&self) {
        spin(format_args!("cancelling {} (Ctrl-C gives up)", self.waits_for()));
    }

    fn waits_for(&self) -> String {
        lock(&self.shared.waits_for).clone()
    }

    /// The server notified us.
    pub(super) fn notification(&self, method: &str, params: &str) {
        self.shared.notifications.fetch_add(1, Ordering::Relaxed);
        if !self.is_tracing {
            let shown = Line::new().text(method).text(" ").value(params.as_bytes());
            pass_on(shown.all_styled(DIM));
        }
    }

    /// The server broke a rule.
    pub(super) fn violation(&self, violation: Violation, id: Option<&WireId>) {
        let is_unknown = violation == Violation::UnknownResponse;
        if is_unknown && id.is_none_or(|id| id.as_json() == "null") {
            self.shared.answers_without_id.fetch_add(1, Ordering::Relaxed);
        }
        let line = Line::new().styled(WARN, "the server broke a rule:").text(" ");
        say(line.about(id).text(violation));
    }

    /// Returns the number of responses that named no request at all.
    pub(super) fn answers_without_id(&self) -> u64 {
        self.shared.answers_without_id.load(Ordering::Relaxed)
    }

    /// Nothing more comes from the server.
    pub(super) fn ends(&self) {
        stop_spinning();
        if let Some(line) = self.shared.noises.total() {
            say(Line::new().text("the server's output: ").text(line));
        }
    }

    /// The result on standard output, or with `--json` everything; what happened on standard error, in
    /// one line.
    pub(super) fn ended(
        &self,
        args: &CallArgs,
        ended: &Ended,
        server: Option<ExitStatus>,
    ) -> Result<ExitCode, Exit> {
        let waits_for = self.waits_for();
        let exit_code = match ended {
            Ended::Failed(error) => {
                let _ = Exit::new(exit::UNREACHABLE, error).report();
                exit::UNREACHABLE
            }
            Ended::TimedOut(at) => {
                let after = milliseconds(*at - self.begun);
                let line = format_args!("timed out after {after}, waiting for {waits_for}");
                say(Line::new().styled(WARN, line));
                exit::TIMED_OUT
            }
            Ended::GaveUp => {
                say(Line::new().styled(WARN, format_args!("gave up, waiting for {waits_for}")));
                exit::CANCELLED
            }
            Ended::Called(called) => self.called(&args.method, called),
        };
        let printed = match ended {
            _ if args.json => {
                let told = Told {
                    method: &args.method,
                    notifications: self.shared.notifications.load(Ordering::Relaxed),
                    server: server.and_then(ServerEnd::of),
                    exit_code,
                    ..Told::of(ended, self.begun, &waits_for)
                };
                print_json(&serde_json::to_string(&told).expect("it is JSON"))
            }
            Ended::Called(Called { outcome: Ok(result), .. }) => print_json(result.get()),
            _ => Ok(()),
        };
        printed.map_err(Exit::output)?;
        Ok(exit_code.into())
    }

    /// Says in one line what became of a call, unless that is just a result.
    fn called(&self, method: &str, called: &Called) -> u8 {
        let (style, text, code) = match &called.outcome {
            Ok(_) => (GOOD, String::new(), 0),
            Err(error) => failure(method, called, self.begun, error),
        };
        match called.cancelled {
            Some(cancelled) => {
                let after = milliseconds(cancelled - called.sent);
                let took = milliseconds(called.settled - cancelled);
                let line = Line::new().styled(style, format_args!("cancelled {method}"));
                say(line.text(format_args!(" after {after}; {} {took} later", answer(called))));
            }
            None if !text.is_empty() => say(Line::new().styled(style, text)),
            None => {}
        }
        code
    }
}

/// Returns the story of a call that failed, and its exit code.
fn failure(
    method: &str,
    called: &Called,
    begun: Instant,
    error: &CallError,
) -> (Style, String, u8) {
    // A time-out is over everything.
    let after = milliseconds(called.settled - begun);
    match error {
        CallError::Error(error) => (BAD, format!("error: {}", describe(error)), exit::ERROR),
        CallError::Malformed => (BAD, "error: the response was malformed".into(), exit::ERROR),
        CallError::Cancelled { .. } => (GOOD, format!("{method} was cancelled"), exit::CANCELLED),
        _ if called.gave_up => (WARN, format!("gave {method} up"), exit::CANCELLED),
        CallError::TimedOut { .. } => {
            (WARN, format!("{method} timed out after {after}"), exit::TIMED_OUT)
        }
        CallError::ConnectionLost { how: Some(how), .. } => {
            (BAD, format!("error: the connection was lost: {how}"), exit::LOST)
        }
        other => (BAD, format!("error: {other}"), exit::LOST),
    }
}

/// Returns the story of a cancelled call's response.
fn answer(called: &Called) -> String {
    match &called.outcome {
        Err(CallError::Cancelled { error: None, .. }) if called.acknowledged => {
            "acknowledged".into()
        }
        Ok(_) if called.acknowledged => "the result says so,".into(),
        Ok(_) => "answered with a result all the same,".into(),
        Err(CallError::Error(error)) => format!("answered with error {},", describe(error)),
        Err(CallError::Cancelled { error: Some(error), .. }) => {
            format!("answered with {},", describe(error))
        }
        Err(CallError::Cancelled { error: None, .. }) => "settled here, without an answer,".into(),
        Err(CallError::TimedOut { .. }) => "timed out without an answer,".into(),
        Err(CallError::ConnectionLost { cause: Cause::Shutdown, .. }) => {
            "given up without an answer,".into()
        }
        Err(CallError::ConnectionLost { how: Some(how), .. }) => {
            format!("the connection was lost: {how},")
        }
        Err(CallError::ConnectionLost { .. }) => "the connection was lost".into(),
        Err(other) => format!("{other},"),
    }
}

fn describe(error: &RpcError) -> String {
    let data = error.data.as_deref().map_or(String::new(), |data| format!(" {}", data.get()));
    format!("{} \"{}\"{data}", error.code, error.message)
}

fn milliseconds(duration: Duration) -> String {
    format!("{:.1} ms", duration.as_secs_f64() * 1e3)
}
