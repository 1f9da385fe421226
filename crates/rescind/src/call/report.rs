//! What a person reads on standard error, and a program on standard output.

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use protocol_async::{CallError, RpcError};
use protocol_blocking::threaded::{Trace, Way};
use protocol_core::{Cause, Dialect, Violation, WireId};

use super::{Acknowledged, Called};
use crate::note;

/// Exit codes beside 0, a result, and 2, usage.
mod exit {
    pub(super) const ERROR: u8 = 1;
    pub(super) const CANCELLED: u8 = 3;
    pub(super) const TIMED_OUT: u8 = 4;
    pub(super) const LOST: u8 = 5;
}

const DIM: Style = Style::new().dimmed();
const GOOD: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Green)));
const BAD: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Red)));
const WARN: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Yellow)));

/// Longer params of a notification are cut, for people; `--trace` shows all.
const SHOWN: usize = 200;

/// Reports to standard error, around the spinner if there is one.
#[derive(Clone, Debug)]
pub(super) struct Report {
    begun: Instant,
    tracing: Tracing,
    spinner: Arc<ProgressBar>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tracing {
    Off,
    On,
}

impl Report {
    pub(super) fn start(trace: bool) -> Self {
        // Draws nothing where standard error is no terminal.
        let spinner = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}");
        spinner.set_style(style.expect("the template is valid"));
        let tracing = if trace { Tracing::On } else { Tracing::Off };
        Self { begun: Instant::now(), tracing, spinner: Arc::new(spinner) }
    }

    /// What the connection calls for each message.
    pub(super) fn trace(&self) -> Option<Trace> {
        let report = self.clone();
        (self.tracing == Tracing::On).then(|| {
            Box::new(move |way, message: &[u8]| {
                let arrow = match way {
                    Way::Sent => "-->",
                    Way::Received => "<--",
                };
                let elapsed = report.begun.elapsed().as_secs_f64() * 1e3;
                let message = String::from_utf8_lossy(message);
                report.line(&format!("{DIM}{elapsed:10.3} ms{DIM:#} {arrow} {message}"));
            }) as Trace
        })
    }

    fn line(&self, line: &str) {
        self.spinner.suspend(|| note(line));
    }

    /// The server is started again, for it speaks another dialect.
    pub(super) fn opens_again(&self, dialect: &Dialect) {
        self.line(&format!("{DIM}opening again, as {}{DIM:#}", dialect.name));
    }

    /// The call has been sent.
    pub(super) fn sent(&self, method: &str) {
        self.spinner.set_message(format!("{method} (Ctrl-C cancels)"));
        self.spinner.enable_steady_tick(Duration::from_millis(100));
    }

    /// The server notified us.
    pub(super) fn notification(&self, method: &str, params: &str) {
        if self.tracing == Tracing::Off {
            let shown: String = params.chars().take(SHOWN).collect();
            let cut = if shown.len() < params.len() { "…" } else { "" };
            self.line(&format!("{DIM}{method} {shown}{cut}{DIM:#}"));
        }
    }

    /// The server broke a rule.
    pub(super) fn violation(&self, violation: Violation, id: Option<&WireId>) {
        let id = id.map_or(String::new(), |id| format!("id {id}: "));
        self.line(&format!("{WARN}the server broke a rule:{WARN:#} {id}{violation}"));
    }

    /// The result on standard output, the rest on standard error.
    pub(super) fn outcome(&self, method: &str, called: &Called) -> ExitCode {
        self.spinner.finish_and_clear();
        if let Some(cancelled) = called.cancelled {
            let after = milliseconds(cancelled - called.sent);
            let took = milliseconds(called.settled - cancelled);
            let answer = answer(called);
            self.line(&format!("cancelled {method} after {after}; {answer} {took} later"));
        }
        match &called.outcome {
            Ok(result) => {
                // A closed pipe is not worth a panic: whoever closed it has seen enough.
                let _ = writeln!(std::io::stdout(), "{}", result.get());
                ExitCode::SUCCESS
            }
            Err(error) => self.failure(method, called, error),
        }
    }

    fn failure(&self, method: &str, called: &Called, error: &CallError) -> ExitCode {
        let after = milliseconds(called.settled - called.sent);
        let (style, text, code) = match error {
            CallError::Error(error) => (BAD, format!("error: {}", describe(error)), exit::ERROR),
            CallError::Malformed => (BAD, "error: the response was malformed".into(), exit::ERROR),
            CallError::Cancelled { .. } => {
                (GOOD, format!("{method} was cancelled"), exit::CANCELLED)
            }
            _ if called.gave_up => (WARN, format!("gave {method} up"), exit::CANCELLED),
            CallError::TimedOut { .. } => {
                (WARN, format!("{method} timed out after {after}"), exit::TIMED_OUT)
            }
            other => (BAD, format!("error: {other}"), exit::LOST),
        };
        self.line(&format!("{style}{text}{style:#}"));
        ExitCode::from(code)
    }
}

/// How a cancelled call was answered.
fn answer(called: &Called) -> String {
    match &called.outcome {
        Err(CallError::Cancelled { error: None, .. })
            if called.acknowledged == Acknowledged::Yes =>
        {
            "acknowledged".into()
        }
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
