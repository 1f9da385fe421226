//! `rescind call`: one call to a real server, and its cancel.

mod args;
mod asking;
mod attempt;
mod client;
mod ended;
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

use std::process::{ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use protocol_async::{CallError, RpcError};
use protocol_blocking::threaded::{Peer, SentRequest, Wait};
use protocol_core::{CallOptions, CancelOutcome, Carrier, Dialect, Grace, News, Refusal, code};
use serde_json::value::RawValue;

use crate::dialect::Spoken;
use crate::ending::Cause;
use crate::exit::Exit;
pub use args::CallArgs;
use asking::how_lost;
use attempt::{Attempt, Unreached};
use ended::{Called, Ended};
use interrupts::Interrupts;
use opening::{Opened, Opening, Performed};
use report::Report;
use server::Server;

/// Runs the command.
///
/// # Errors
///
/// The reason that it did not do its work.
pub fn main(args: &CallArgs) -> Result<ExitCode, Exit> {
    let report = Report::start(args.trace);
    let program = args.command.first().map(|program| program.to_string_lossy());
    let recording = args.record.start(program.as_deref())?;
    let notifications =
        args.notify.as_chunks().0.iter().map(notification).collect::<Result<_, _>>()?;
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
        return Err(Exit::output(Cause::OutputGone));
    }
    let (ended, server) = run?;
    report.ended(args, &ended, server)
}

/// Reads a notification that is to be sent.
fn notification([method, given]: &[String; 2]) -> Result<(&str, Box<RawValue>), String> {
    let params = params::read(given).map_err(|error| format!("--notify {method}: {error}"))?;
    Ok((method, params))
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
        let most = server.peer.limits().unsent_bytes;
        self.interrupts.settles();
        let status = server.end();
        self.interrupts.reaches();
        let ended = match outcome {
            // Ctrl-C may have come just before the call.
            _ if self.interrupts.gave_up_opening() => Ended::GaveUp,
            Ok(Called { outcome: Err(CallError::Refused(why)), .. })
            | Err(CallError::Refused(why))
                if matches!(why, Refusal::TooLarge | Refusal::OutboxFull) =>
            {
                return Err(format!("more than {most} bytes can't wait to be sent"));
            }
            Ok(called) => Ended::Called(called),
            Err(CallError::TimedOut { .. }) => Ended::TimedOut(settled),
            Err(error) => Ended::Called(Called::not_sent(error)),
        };
        Ok((ended, status))
    }

    /// Starts the server, and opens the connection as the dialect asks.
    ///
    /// If the server speaks another revision, that one is opened: on the same connection if the dialect settles
    /// revisions there and the server agrees, and else on a new one.
    fn open(&self) -> Result<(Server, Result<Opened, CallError>), Unreached> {
        let mut tried = vec![self.args.dialect.spoken_at(self.args.connect.as_ref())];
        loop {
            let dialect = &tried[tried.len() - 1];
            let opening = self.opening(dialect).map_err(Unreached::Usage)?;
            self.report.reaches();
            let server = Server::reach(dialect.clone(), self)?;
            self.interrupts.opens(&server.peer);
            let other = match opening.perform(self, &server.peer) {
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
                match again.perform(self, &server.peer) {
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

    /// Calls, and cancels when that is due.
    fn call(&self, opened: &Opened, peer: &Peer) -> Result<Called, CallError> {
        let (args, interrupts) = (self.args, self.interrupts);
        let together = args.cancel_after == Some(Duration::ZERO);
        let cork = together.then(|| peer.cork());
        opened.notify(peer).map_err(|refusal| how_lost(peer, refusal.into()))?;
        let options =
            CallOptions::default().timeout(self.left()).grace(args.grace.map(Grace::Settle));
        let dialect = peer.dialect();
        let params = opened.params.as_deref();
        let tool = operation::of_tool(&dialect, &args.method, params);
        let (method, params) = match &tool {
            Some((method, params)) => (&**method, Some(&**params)),
            None => (&*args.method, params),
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
            outcome = operation::cancel(&dialect, peer, answer.clone(), due, self);
        }
        let settled = Instant::now();
        let cancelled = interrupts.first_cancel();
        let took = cancelled.map(|at| settled - at);
        let acknowledged = self.is_acknowledged(&dialect, outcome.as_deref().ok(), took);
        let outcome = outcome.map_err(|error| how_lost(peer, error));
        let gave_up = interrupts.gave_up();
        Ok(Called { outcome, cancelled, sent: begun, settled, gave_up, acknowledged })
    }

    /// Returns whether the server said that it has cancelled a call, given the result, and the time from the cancel
    /// to the end.
    fn is_acknowledged(
        &self,
        dialect: &Dialect,
        result: Option<&RawValue>,
        took: Option<Duration>,
    ) -> bool {
        // A call that settles here does so when the grace is over, and no earlier.
        let is_in_time = |grace| took.is_some_and(|took| took < grace);
        match result {
            Some(result) => says_stopped(dialect, result),
            None => dialect.has_operations() && self.args.grace.is_none_or(is_in_time),
        }
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
