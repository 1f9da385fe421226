//! The effect of a signal on a call, which depends on how far the call is.

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
