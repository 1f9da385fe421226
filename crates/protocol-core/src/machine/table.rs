//! The transitions, as data.
//!
//! Everything a call or a request can do is a row of [`CALL_TABLE`] or [`REQUEST_TABLE`];
//! `docs/state-machine.md` is generated from them. [`Machine`](super::Machine) looks a transition
//! up and carries out its step; it decides nothing on its own.

/// Where one of our calls is. A settled call is in no phase: its entry is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallPhase {
    /// Its request waits in the outbox; nothing of it has left.
    Queued,
    /// Its request has left.
    Sent,
    /// Its cancel was sent, and we wait for the answer.
    Cancelling,
}

/// What can happen to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallInput {
    /// The transport took the request.
    Transmitted,
    /// Cancelled, and the answer is awaited.
    Cancel,
    /// Cancelled, and nobody waits: a timer, or a grace of zero.
    CancelNow,
    /// Given up without telling the peer: no cancel in this dialect, the grace is over, the
    /// connection is lost.
    Forget,
    /// The peer answered with a result.
    Result,
    /// The peer answered with an error that is not -32800.
    Error,
    /// The peer answered with error -32800.
    CancelError,
    /// The peer answered with something that is no response (B1).
    Malformed,
    /// The peer ended a call that the dialect lets it end.
    PeerEnds,
}

/// What a transition of a call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallStep {
    /// Nothing.
    Nothing,
    /// Takes the request out of the outbox and settles (G4).
    Withdraw,
    /// Sends the cancel.
    SendCancel,
    /// Sends the cancel and settles with the recorded cause.
    SendCancelAndSettle,
    /// Settles with the recorded cause.
    Settle,
    /// Settles with what the peer answered.
    Complete,
    /// Settles as cancelled, as the peer confirmed.
    CompleteCancelled,
    /// Reports an answer to a request that never left.
    Stray,
}

/// Where a peer's request is. A request that was answered and whose calls have all settled is in
/// no phase: its entry is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RequestPhase {
    /// The host owes an answer.
    Running,
    /// Marked cancelled; the host still owes an answer.
    Cancelled,
    /// Answered; calls made on its behalf are still in flight (G6).
    Answered,
}

/// What can happen to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RequestInput {
    /// The peer, or our own side, cancels it.
    Cancel,
    /// The host answers, in a dialect that answers cancelled requests.
    Respond,
    /// The host answers, in a dialect that wants silence after a cancel.
    RespondUnlessCancelled,
    /// Our side ends it without an answer, as the dialect lets it.
    End,
}

/// What a transition of a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RequestStep {
    /// Nothing: a second cancel, or a cancel after the answer (G2).
    Nothing,
    /// Sets the cancelled mark and cancels the calls made on its behalf.
    MarkCancelled,
    /// Sends the answer.
    SendResponse,
    /// Ends the request without an answer.
    Withhold,
    /// Refuses a second answer.
    Refuse,
}

/// One cell: the phase after it (`None` is settled) and what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Transition<P, S> {
    /// The phase afterwards; `None` when the entry is gone.
    pub next: Option<P>,
    /// What it does.
    pub step: S,
}

const fn to<P: Copy, S: Copy>(next: P, step: S) -> Transition<P, S> {
    Transition { next: Some(next), step }
}

const fn done<P: Copy, S: Copy>(step: S) -> Transition<P, S> {
    Transition { next: None, step }
}

/// A row for each [`CallPhase`], a column for each [`CallInput`].
pub const CALL_TABLE: [[Transition<CallPhase, CallStep>; 9]; 3] = {
    use CallPhase::{Cancelling, Queued, Sent};
    use CallStep::{
        Complete, CompleteCancelled, Nothing, SendCancel, SendCancelAndSettle, Settle, Stray,
        Withdraw,
    };
    [
        // Queued: it can be taken back, and no answer to it can be genuine.
        [
            to(Sent, Nothing),   // Transmitted
            done(Withdraw),      // Cancel
            done(Withdraw),      // CancelNow
            done(Withdraw),      // Forget
            to(Queued, Stray),   // Result
            to(Queued, Stray),   // Error
            to(Queued, Stray),   // CancelError
            to(Queued, Stray),   // Malformed
            to(Queued, Nothing), // PeerEnds
        ],
        // Sent: the first answer settles it; -32800 is an error, for we did not ask.
        [
            to(Sent, Nothing),          // Transmitted
            to(Cancelling, SendCancel), // Cancel
            done(SendCancelAndSettle),  // CancelNow
            done(Settle),               // Forget
            done(Complete),             // Result
            done(Complete),             // Error
            done(Complete),             // CancelError
            done(Complete),             // Malformed
            done(Settle),               // PeerEnds
        ],
        // Cancelling: no second cancel; a result that won the race is a result (B23).
        [
            to(Cancelling, Nothing), // Transmitted
            to(Cancelling, Nothing), // Cancel
            done(Settle),            // CancelNow
            done(Settle),            // Forget
            done(Complete),          // Result
            done(Complete),          // Error
            done(CompleteCancelled), // CancelError
            done(Complete),          // Malformed
            done(Settle),            // PeerEnds
        ],
    ]
};

/// A row for each [`RequestPhase`], a column for each [`RequestInput`].
pub const REQUEST_TABLE: [[Transition<RequestPhase, RequestStep>; 4]; 3] = {
    use RequestPhase::{Answered, Cancelled};
    use RequestStep::{MarkCancelled, Nothing, Refuse, SendResponse, Withhold};
    [
        // Running
        [
            to(Cancelled, MarkCancelled), // Cancel
            to(Answered, SendResponse),   // Respond
            to(Answered, SendResponse),   // RespondUnlessCancelled
            to(Answered, Withhold),       // End
        ],
        // Cancelled: whatever the handler made of it is the answer.
        [
            to(Cancelled, Nothing),     // Cancel
            to(Answered, SendResponse), // Respond
            to(Answered, Withhold),     // RespondUnlessCancelled
            to(Answered, Withhold),     // End
        ],
        // Answered: only its calls are left.
        [
            to(Answered, Nothing), // Cancel
            to(Answered, Refuse),  // Respond
            to(Answered, Refuse),  // RespondUnlessCancelled
            to(Answered, Refuse),  // End
        ],
    ]
};

impl CallPhase {
    /// Every phase, in the order of the table's rows.
    pub const ALL: [Self; 3] = [Self::Queued, Self::Sent, Self::Cancelling];

    /// Looks up what `input` does in this phase.
    #[must_use]
    pub const fn on(self, input: CallInput) -> Transition<Self, CallStep> {
        CALL_TABLE[self as usize][input as usize]
    }
}

impl CallInput {
    /// Every input, in the order of the table's columns.
    pub const ALL: [Self; 9] = [
        Self::Transmitted,
        Self::Cancel,
        Self::CancelNow,
        Self::Forget,
        Self::Result,
        Self::Error,
        Self::CancelError,
        Self::Malformed,
        Self::PeerEnds,
    ];
}

impl RequestPhase {
    /// Every phase, in the order of the table's rows.
    pub const ALL: [Self; 3] = [Self::Running, Self::Cancelled, Self::Answered];

    /// Whether the host owes an answer.
    #[must_use]
    pub const fn is_unanswered(self) -> bool {
        matches!(self, Self::Running | Self::Cancelled)
    }

    /// Looks up what `input` does in this phase.
    #[must_use]
    pub const fn on(self, input: RequestInput) -> Transition<Self, RequestStep> {
        REQUEST_TABLE[self as usize][input as usize]
    }
}

impl RequestInput {
    /// Every input, in the order of the table's columns.
    pub const ALL: [Self; 4] =
        [Self::Cancel, Self::Respond, Self::RespondUnlessCancelled, Self::End];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_in_table_order() {
        for (row, phase) in CallPhase::ALL.into_iter().enumerate() {
            assert_eq!(phase as usize, row);
        }
        for (column, input) in CallInput::ALL.into_iter().enumerate() {
            assert_eq!(input as usize, column);
        }
        for (row, phase) in RequestPhase::ALL.into_iter().enumerate() {
            assert_eq!(phase as usize, row);
        }
        for (column, input) in RequestInput::ALL.into_iter().enumerate() {
            assert_eq!(input as usize, column);
        }
    }
}
