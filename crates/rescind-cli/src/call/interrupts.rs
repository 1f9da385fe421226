//! The effect of a signal on a call, which depends on how far the call is.

use std::mem;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use protocol_blocking::threaded::{CancellationHandle, Peer};
use protocol_core::Shutdown;

use super::report::Report;
use crate::ending::{self, Cause};
use crate::lock::lock;
use crate::record::Session;

/// The longest time that a server has to respond to the cancel of a first signal. Then the call is given up,
/// as by a second signal.
const PATIENCE: Duration = Duration::from_secs(5);

/// The times at which the call was cancelled, and the effect of the next signal.
#[derive(Clone, Default)]
pub(super) struct Interrupts(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// Of the call.
    cancels: Vec<Instant>,
    /// Whether the opening was given up.
    gave_up_opening: bool,
    /// Whether nobody reads standard output any more.
    output_is_gone: bool,
    /// Whether a cause from outside came while the call was in flight.
    has_cause: bool,
    /// Whether that was a caller that is gone. If Ctrl-C ended that one, ours is still to come.
    by_caller: bool,
    next: Next,
}

/// The effect of the next signal.
#[derive(Clone, Default)]
enum Next {
    /// Ends the program, and with it what it has started.
    #[default]
    End,
    /// Gives the opening up.
    Close(Peer),
    /// Cancels the call.
    Cancel(Peer, CancellationHandle),
    /// Kills the server, which takes its time to end. The outcome is there.
    #[cfg(target_os = "linux")]
    Kill,
}

impl Interrupts {
    /// Catches signals from now on, and notices a caller that is gone.
    pub(super) fn catch(report: &Report, recording: &Session) -> Self {
        let interrupts = Self::default();
        let (caught, report, recording) = (interrupts.clone(), report.clone(), recording.clone());
        ending::watch(Arc::new(move |cause| caught.interrupt(cause, &report, &recording)));
        interrupts
    }

    fn interrupt(&self, cause: Cause, report: &Report, recording: &Session) {
        let mut state = lock(&self.0);
        state.output_is_gone |= cause == Cause::OutputGone;
        let next = state.next.clone();
        if let Next::Cancel(..) = next {
            // In a pipeline Ctrl-C ends the callers too, and that is no second signal.
            let is_caller = matches!(cause, Cause::OutputGone | Cause::ParentGone);
            if state.has_cause && (is_caller || mem::take(&mut state.by_caller)) {
                return;
            }
            (state.has_cause, state.by_caller) = (true, is_caller);
            state.cancels.push(Instant::now());
        }
        let is_first = state.cancels.len() == 1;
        match next {
            Next::Cancel(peer, call) if is_first => {
                drop(state);
                call.cancel();
                report.cancelling();
                let caught = self.clone();
                let give_up = move || {
                    thread::sleep(PATIENCE);
                    lock(&caught.0).cancels.push(Instant::now());
                    peer.shutdown(Shutdown::Abandon);
                };
                // Without a thread only a second signal gives it up.
                let _ = thread::Builder::new().name("interrupted".into()).spawn(give_up);
            }
            Next::Close(peer) | Next::Cancel(peer, _) => {
                state.gave_up_opening = state.cancels.is_empty();
                state.next = Next::End;
                drop(state);
                peer.shutdown(Shutdown::Abandon);
            }
            #[cfg(target_os = "linux")]
            Next::Kill => {
                state.next = Next::End;
                drop(state);
                protocol_child::kill_supervised();
            }
            Next::End => {
                drop(state);
                ending::end_at_once(cause, recording);
            }
        }
    }

    /// There is no connection yet, or no more.
    pub(super) fn reaches(&self) {
        lock(&self.0).next = Next::End;
    }

    /// The call has its outcome, and the server's end is awaited.
    pub(super) fn settles(&self) {
        #[cfg(target_os = "linux")]
        let next = Next::Kill;
        #[cfg(not(target_os = "linux"))]
        let next = Next::End;
        lock(&self.0).next = next;
    }

    /// This connection is being opened.
    pub(super) fn opens(&self, peer: &Peer) {
        lock(&self.0).next = Next::Close(peer.clone());
    }

    /// This call is about to leave.
    pub(super) fn calls(&self, peer: &Peer, call: CancellationHandle) {
        lock(&self.0).next = Next::Cancel(peer.clone(), call);
    }

    /// The call is cancelled at this time, unless it was before: to ask once more is not to give up.
    pub(super) fn cancelled(&self, now: Instant) {
        let mut state = lock(&self.0);
        if state.cancels.is_empty() {
            state.cancels.push(now);
        }
    }

    /// Whether the call may have left.
    pub(super) fn is_calling(&self) -> bool {
        matches!(lock(&self.0).next, Next::Cancel(..))
    }

    /// Cancels the call as the first Ctrl-C does, if nobody has.
    pub(super) fn cancel(&self, report: &Report) {
        let mut state = lock(&self.0);
        let Next::Cancel(_, call) = state.next.clone() else { return };
        if state.cancels.is_empty() {
            state.cancels.push(Instant::now());
            drop(state);
            call.cancel();
            report.cancelling();
        }
    }

    /// When the call was first cancelled.
    pub(super) fn first_cancel(&self) -> Option<Instant> {
        lock(&self.0).cancels.first().copied()
    }

    /// Whether Ctrl-C came before the call.
    pub(super) fn gave_up_opening(&self) -> bool {
        lock(&self.0).gave_up_opening
    }

    /// Returns whether nobody reads standard output any more.
    pub(super) fn output_is_gone(&self) -> bool {
        lock(&self.0).output_is_gone
    }

    /// Returns whether the call was given up.
    pub(super) fn gave_up(&self) -> bool {
        lock(&self.0).cancels.len() > 1
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::net::{TcpListener, TcpStream};

    use protocol_blocking::threaded::tcp;
    use protocol_core::{Config, Dialect};

    use super::*;

    #[test]
    fn f104_a_reader_that_goes_with_ctrl_c_gives_nothing_up() {
        for caller in [Cause::OutputGone, Cause::ParentGone] {
            for causes in [[caller, Cause::Interrupt], [Cause::Interrupt, caller]] {
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
                let (peer, _incoming) = tcp(near, Config::client(Dialect::ACP_V1)).unwrap();
                let mut lines = BufReader::new(listener.accept().unwrap().0).lines();
                let call = peer.call::<()>("work", ());
                // What has not left is withdrawn without a cancel.
                assert!(lines.next().unwrap().unwrap().contains("work"));
                let interrupts = Interrupts::default();
                interrupts.calls(&peer, call.cancellation_handle());
                let (report, recording) = (Report::start(false), Session::default());
                for cause in causes {
                    interrupts.interrupt(cause, &report, &recording);
                }
                assert!(!interrupts.gave_up(), "{causes:?}");
                assert!(lines.any(|line| line.unwrap().contains("$/cancel_request")), "{causes:?}");
                interrupts.interrupt(Cause::Interrupt, &report, &recording);
                assert!(interrupts.gave_up(), "a second signal");
            }
        }
    }

    #[test]
    fn f104_a_reader_that_goes_ends_a_call_that_was_cancelled_before() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (peer, _incoming) = tcp(near, Config::client(Dialect::ACP_V1)).unwrap();
        let call = peer.call::<()>("work", ());
        let interrupts = Interrupts::default();
        interrupts.calls(&peer, call.cancellation_handle());
        interrupts.cancelled(Instant::now());
        interrupts.interrupt(Cause::OutputGone, &Report::start(false), &Session::default());
        assert!(interrupts.gave_up());
    }
}
