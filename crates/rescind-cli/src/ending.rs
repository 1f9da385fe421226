//! The causes from outside that end a command: signals, and a caller that is gone.
//!
//! Every command that keeps bytes has one path to its end. The first signal is the end of input with short
//! graces. The second signal ends the program at once.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::process;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use protocol_blocking::block_on;
use smol::io::AsyncRead;
use tokio::sync::watch::Sender;

use crate::exit::{self, Exit};
use crate::record::Session;
use crate::{note, terminal};

/// The time that a server has to respond to the cancels which follow a signal.
pub(crate) const SHORT_GRACE: Duration = Duration::from_secs(1);

/// The time that the last responses have to be read once nothing else is to be done.
pub(crate) const FLUSH: Duration = Duration::from_secs(5);

/// A cause from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(unix), allow(dead_code, reason = "only Unix tells all of them"))]
pub(crate) enum Cause {
    /// Ctrl-C: somebody waits at a terminal.
    Interrupt,
    /// `SIGTERM`, or its like on Windows.
    Terminate,
    /// `SIGHUP`: the terminal is gone.
    HangUp,
    /// Nobody reads standard output any more.
    OutputGone,
    /// The process that started this one is gone.
    ParentGone,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Interrupt => "interrupted",
            Self::Terminate => "terminated",
            Self::HangUp => "the terminal hung up",
            Self::OutputGone => "Broken pipe: nobody reads it any more",
            Self::ParentGone => "the program that started this one is gone",
        })
    }
}

/// Handles a cause. It runs on a thread that may wait.
pub(crate) type OnCause = Arc<dyn Fn(Cause) + Send + Sync>;

/// The end of a command: its cause, once it was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Ending(Arc<Sender<Option<Cause>>>);

impl Ending {
    /// Catches signals. The first one asks for the end, and the second one ends the program at once.
    pub(crate) fn catch(command: &'static str, recording: &Session) -> Self {
        let (ending, recording) = (Self(Arc::default()), recording.clone());
        let caught = ending.clone();
        signals(Arc::new(move |cause| caught.ask(command, cause, &recording)));
        ending
    }

    /// Asks for the end, or ends at once if that was asked before. Only the thread of the signals calls it.
    fn ask(&self, command: &str, cause: Cause, recording: &Session) {
        if self.is_asked() {
            end_at_once(cause, recording);
        }
        if cause == Cause::Interrupt {
            note(format_args!("{command}: {cause}; a second signal ends it at once"));
        }
        self.0.send_replace(Some(cause));
    }

    /// Waits until the end is asked for, and returns the cause.
    pub(crate) async fn asked(&self) -> Cause {
        let mut cause = self.0.subscribe();
        let asked = cause.wait_for(Option::is_some).await;
        asked.ok().and_then(|cause| *cause).expect("its sender is here")
    }

    /// Waits as [`asked`](Self::asked) does, by blocking the thread.
    pub(crate) fn wait(&self) -> Cause {
        block_on(self.asked())
    }

    /// Returns whether the end was asked for.
    pub(crate) fn is_asked(&self) -> bool {
        self.0.borrow().is_some()
    }
}

/// Ends the program. Its servers end with it, and its recording has a short time to be written.
pub(crate) fn end_at_once(cause: Cause, recording: &Session) -> ! {
    #[cfg(target_os = "linux")]
    protocol_child::kill_supervised();
    terminal::stop_spinning();
    let code = if cause == Cause::OutputGone { exit::OUTPUT } else { exit::CANCELLED };
    if cause == Cause::OutputGone {
        let _ = Exit::output(cause).report();
    } else {
        note(cause);
    }
    recording.finish();
    terminal::finish();
    process::exit(code.into());
}

/// Catches signals, and watches the caller.
pub(crate) fn watch(on: OnCause) {
    // The watch of the caller asks which signals were ignored before these are caught.
    callers(on.clone());
    signals(on);
}

/// Catches the signals that end a program. One that was ignored from the start, as by `nohup`, stays so.
#[cfg(unix)]
fn signals(on: OnCause) {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use signal_hook::iterator::Signals;

    let wanted = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !is_ignored(*signal));
    let caught = Signals::new(wanted).and_then(|mut signals| {
        spawn("signals", move || {
            for signal in signals.forever() {
                on(match signal {
                    SIGINT => Cause::Interrupt,
                    SIGHUP => Cause::HangUp,
                    _ => Cause::Terminate,
                });
            }
        })
    });
    caught.unwrap_or_else(|error| note(format_args!("signals can't be caught: {error}")));
}

/// Catches Ctrl-C. Windows ends a program for any other reason without asking it.
#[cfg(not(unix))]
fn signals(on: OnCause) {
    if let Err(error) = ctrlc::set_handler(move || on(Cause::Interrupt)) {
        note(format_args!("Ctrl-C can't be caught: {error}"));
    }
}

/// Watches the caller of a command whose input does not tell that it is gone.
///
/// The death of the parent is no cause where `SIGHUP` or `SIGINT` was ignored from the start. `nohup`
/// and a script's `&` ask for that, so that the command goes on.
#[cfg(unix)]
fn callers(on: OnCause) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::getppid;
    use signal_hook::consts::{SIGHUP, SIGINT};

    /// The longest time until the death of the parent is noticed.
    const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };

    let goes_on = is_ignored(SIGHUP) || is_ignored(SIGINT);
    let parent = getppid();
    let watch = move || {
        let stdout = io::stdout();
        let mut is_read = true;
        loop {
            let mut output = [PollFd::new(&stdout, PollFlags::empty())];
            let watched = if is_read { &mut output[..] } else { &mut [] };
            // A signal is no reason to stop, and without `poll` the pause is all that is missing.
            let _ = poll(watched, Some(&LOOK));
            if is_read && output[0].revents().intersects(PollFlags::ERR | PollFlags::HUP) {
                is_read = false;
                on(Cause::OutputGone);
            }
            if !goes_on && getppid() != parent {
                return on(Cause::ParentGone);
            }
        }
    };
    // Without a thread nobody is watched, and signals still end the command.
    let _ = spawn("callers", watch);
}

/// Watches nobody: Windows does not tell who started a program.
#[cfg(not(unix))]
fn callers(_: OnCause) {}

#[cfg(unix)]
fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.into()).spawn(run).map(drop)
}

/// Returns whether a signal is ignored. It is asked before any is caught.
#[cfg(target_os = "linux")]
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Returns `false`: only Linux tells this to a program without code of its own for it.
#[cfg(all(unix, not(target_os = "linux")))]
fn is_ignored(_: i32) -> bool {
    false
}

/// A stream whose reader meets its end when the stream ends, or when a future is ready.
pub(crate) struct Until<'a, R> {
    stream: R,
    /// The result of every read once it is ready. `Ok` ends the input, and its peer may still read. An error means that the
    /// peer is as good as gone, and nothing is kept waiting for it.
    end: Option<LocalBoxFuture<'a, Result<(), io::ErrorKind>>>,
    ended: Option<Result<(), io::ErrorKind>>,
}

impl<'a, R> Until<'a, R> {
    pub(crate) fn new(
        stream: R,
        end: impl Future<Output = Result<(), io::ErrorKind>> + 'a,
    ) -> Self {
        Self { stream, end: Some(Box::pin(end)), ended: None }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Until<'_, R> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if let Some(end) = &mut this.end
            && let Poll::Ready(end) = end.as_mut().poll(cx)
        {
            (this.end, this.ended) = (None, Some(end));
        }
        match this.ended {
            None => Pin::new(&mut this.stream).poll_read(cx, buffer),
            Some(ended) => Poll::Ready(ended.map(|()| 0).map_err(Into::into)),
        }
    }
}
