//! The transitions, as data.
//!
//! Everything that a call, a request or the connection's life can do is a cell of one of three
//! tables: [`CALL_TABLE`], [`REQUEST_TABLE`] and [`LIFE_TABLE`].
//! [`Machine`](super::Machine) looks cells up and carries their steps out; it decides nothing else.
//! `docs/state-machine.md` is drawn from this file, which therefore uses nothing of the others.

/// One cell: the phase after it and what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Transition<P, S> {
    /// The phase afterwards; `None` when the row is gone.
    pub(super) next: Option<P>,
    /// What it does.
    pub(super) step: S,
}

const fn to<P: Copy, S: Copy>(next: P, step: S) -> Transition<P, S> {
    Transition { next: Some(next), step }
}

const fn done<P: Copy, S: Copy>(step: S) -> Transition<P, S> {
    Transition { next: None, step }
}

/// Where one of our calls is. A settled call is in no phase: its row is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallPhase {
    /// Its request waits in the outbox; nothing of it has left.
    Queued,
    /// Its request has left.
    Sent,
    /// Its cancel waits in the outbox, and its answer is awaited.
    CancelQueued,
    /// Its cancel has left, and its answer is awaited.
    Cancelling,
    /// It is cancelled; the cancel follows when the answer brings the token of its operation.
    AwaitingToken,
    /// The token came, and the cancel that names it waits in the outbox.
    TokenCancelQueued,
    /// The cancel that names the token has left, and its acknowledgement is awaited.
    AwaitingAcknowledgement,
}

/// What can happen to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallInput {
    /// The transport took the message of this call that waited in the outbox.
    Transmitted,
    /// It is cancelled on the wire.
    Cancel,
    /// As `Cancel`, where cancels name the token of an operation.
    CancelOperation,
    /// It is cancelled, but consent or the dialect rules a cancel on the wire out.
    CancelRefused,
    /// It is given up without telling the peer: the dialect has no cancel, it was cancelled and nobody
    /// waits any more, or the connection is lost.
    Forget,
    /// The peer answered with a result, an error other than -32800, or something that is no response
    /// (B1).
    Answered,
    /// The peer answered with a result that holds the token of an operation.
    Token,
    /// The peer answered with error -32800.
    CancelError,
    /// The peer answered our cancel, which is a request, with a result.
    Acknowledged,
    /// The peer answered our cancel, which is a request, with an error or with something that is no
    /// response.
    CancelFailed,
    /// The peer ended it, where the dialect lets it.
    PeerEnds,
}

/// What a transition of a call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallStep {
    /// No more than the next phase says.
    Nothing,
    /// Takes the request out of the outbox, and settles with the recorded cause (G4, B24).
    Withdraw,
    /// Sends the cancel; never a second one (G4).
    SendCancel,
    /// Waits for the token; the cancel follows when it comes.
    AwaitToken,
    /// Settles with the recorded cause; the cancel follows when the token comes.
    AwaitTokenAndSettle,
    /// Settles with the recorded cause; a late answer is recognised (G12).
    Settle,
    /// Settles with what the peer answered (B23).
    Complete,
    /// As `Complete`, and takes the cancel out of the outbox.
    WithdrawAndComplete,
    /// Settles as cancelled, as the peer confirmed.
    CompleteCancelled,
    /// As `CompleteCancelled`, and takes the cancel out of the outbox.
    WithdrawAndCompleteCancelled,
    /// Refuses to cancel; the call goes on.
    Refuse,
    /// Notes that the peer acknowledged the cancel; the call's own answer settles it.
    NoteAcknowledgement,
    /// Reports an answer to a message that never left (B31).
    Stray,
    /// Reports a second answer.
    Duplicate,
}

/// A row for each [`CallPhase`], a column for each [`CallInput`]. A row has, in this order: transmitted;
/// cancelled on the wire; refused, or forgotten; answered; the cancel answered; ended by the peer.
#[rustfmt::skip]
pub(super) const CALL_TABLE: [[Transition<CallPhase, CallStep>; CallInput::PeerEnds as usize + 1]; CallPhase::AwaitingAcknowledgement as usize + 1] = {
    use CallPhase::*;
    use CallStep::*;
    [
        // Queued: it can be taken back, and no answer to it can be genuine.
        [
            to(Sent, Nothing),
            done(Withdraw), done(Withdraw),
            done(Withdraw), done(Withdraw),
            to(Queued, Stray), to(Queued, Stray), to(Queued, Stray),
            to(Queued, Stray), to(Queued, Stray),
            to(Queued, Nothing),
        ],
        // Sent: the first answer settles it; -32800 is an error, for we did not ask.
        [
            to(Sent, Nothing),
            to(CancelQueued, SendCancel), to(AwaitingToken, AwaitToken),
            to(Sent, Refuse), done(Settle),
            done(Complete), done(Complete), done(Complete),
            to(Sent, Stray), to(Sent, Stray),
            done(Settle),
        ],
        // CancelQueued: no second cancel; an answer leaves the first with nothing to cancel.
        [
            to(Cancelling, Nothing),
            to(CancelQueued, Nothing), to(CancelQueued, Nothing),
            to(CancelQueued, Nothing), done(Settle),
            done(WithdrawAndComplete), done(WithdrawAndComplete),
            done(WithdrawAndCompleteCancelled),
            to(CancelQueued, Stray), to(CancelQueued, Stray),
            done(Settle),
        ],
        // Cancelling: no second cancel; a result that won the race is a result (B23).
        [
            to(Cancelling, Nothing),
            to(Cancelling, Nothing), to(Cancelling, Nothing),
            to(Cancelling, Nothing), done(Settle),
            done(Complete), done(Complete), done(CompleteCancelled),
            to(Cancelling, NoteAcknowledgement), to(Cancelling, NoteAcknowledgement),
            done(Settle),
        ],
        // AwaitingToken: there is nothing to name in a cancel yet.
        [
            to(AwaitingToken, Nothing),
            to(AwaitingToken, AwaitToken), to(AwaitingToken, AwaitToken),
            to(AwaitingToken, AwaitToken), done(AwaitTokenAndSettle),
            done(Complete), to(TokenCancelQueued, SendCancel), done(CompleteCancelled),
            to(AwaitingToken, Stray), to(AwaitingToken, Stray),
            done(Settle),
        ],
        // TokenCancelQueued: its answer has come, and its cancel has not left.
        [
            to(AwaitingAcknowledgement, Nothing),
            to(TokenCancelQueued, Nothing), to(TokenCancelQueued, Nothing),
            to(TokenCancelQueued, Nothing), done(Settle),
            to(TokenCancelQueued, Duplicate), to(TokenCancelQueued, Duplicate),
            to(TokenCancelQueued, Duplicate),
            to(TokenCancelQueued, Stray), to(TokenCancelQueued, Stray),
            done(Settle),
        ],
        // AwaitingAcknowledgement: its answer has come, and the answer to its cancel settles it.
        [
            to(AwaitingAcknowledgement, Nothing),
            to(AwaitingAcknowledgement, Nothing), to(AwaitingAcknowledgement, Nothing),
            to(AwaitingAcknowledgement, Nothing), done(Settle),
            to(AwaitingAcknowledgement, Duplicate), to(AwaitingAcknowledgement, Duplicate),
            to(AwaitingAcknowledgement, Duplicate),
            done(CompleteCancelled), done(Complete),
            done(Settle),
        ],
    ]
};

/// Where a peer's request is. A request that was answered and whose calls have all settled is in
/// no phase: its row is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RequestPhase {
    /// The host owes an answer.
    Running,
    /// It is marked cancelled; the host still owes an answer (B12).
    Cancelled,
    /// It was answered with the token of its operation, which goes on.
    Operation,
    /// Its operation is marked cancelled; the host still has to end it.
    OperationCancelled,
    /// It is over, and calls made on its behalf are still in flight (G6).
    Responded,
}

/// What can happen to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestInput {
    /// Our own side cancels it.
    Cancel,
    /// The peer's cancel names its id.
    PeerCancel,
    /// The peer's cancel names the token of its operation.
    PeerCancelsOperation,
    /// The peer's cancel names it, and consent or the dialect rules that out.
    PeerCancelRefused,
    /// The host answers it with the token of an operation.
    BeginOperation,
    /// The host answers, in a dialect that answers cancelled requests.
    Respond,
    /// The host answers, in a dialect that wants silence after a cancel (B11).
    RespondUnlessCancelled,
    /// The host answers, in a dialect that acknowledges cancels and has no partial results.
    RespondAsCancelled,
    /// Our side ends it without an answer, as the dialect lets it.
    End,
}

/// What a transition of a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RequestStep {
    /// Nothing: a second cancel of our own, or one after the answer (B10).
    Nothing,
    /// Sets the cancelled mark, and cancels the calls made on its behalf (G3, G6).
    MarkCancelled,
    /// Says that it was cancelled before.
    CancelledBefore,
    /// Says that nothing of that name can be cancelled.
    NotFound,
    /// Says that it is not cancelled for the peer.
    Ignore,
    /// Says that it was over before.
    Completed,
    /// Sends the token; it is cancelled by that from now on.
    SendToken,
    /// Sends the answer.
    SendResponse,
    /// Sends that it was cancelled, whatever the host answered: the acknowledgement said so.
    SendCancelled,
    /// Ends it without an answer, and tells the peer as the dialect does.
    SendEnd,
    /// Ends it without an answer.
    Withhold,
    /// Refuses a second answer (G2).
    Refuse,
}

/// A row for each [`RequestPhase`], a column for each [`RequestInput`]. A row has, in this order:
/// cancelled by us; cancelled by the peer; begun as an operation; answered; ended.
#[rustfmt::skip]
pub(super) const REQUEST_TABLE: [[Transition<RequestPhase, RequestStep>; RequestInput::End as usize + 1]; RequestPhase::Responded as usize + 1] = {
    use RequestPhase::*;
    use RequestStep::*;
    [
        // Running
        [
            to(Cancelled, MarkCancelled),
            to(Cancelled, MarkCancelled), to(Running, NotFound), to(Running, Ignore),
            to(Operation, SendToken),
            to(Responded, SendResponse), to(Responded, SendResponse), to(Responded, SendResponse),
            to(Responded, SendEnd),
        ],
        // Cancelled: whatever the handler made of it is the answer, where there is one.
        [
            to(Cancelled, Nothing),
            to(Cancelled, CancelledBefore), to(Cancelled, NotFound), to(Cancelled, Ignore),
            to(OperationCancelled, SendToken),
            to(Responded, SendResponse), to(Responded, Withhold), to(Responded, SendCancelled),
            to(Responded, Withhold),
        ],
        // Operation: its token was its answer.
        [
            to(OperationCancelled, MarkCancelled),
            to(Operation, NotFound), to(OperationCancelled, MarkCancelled), to(Operation, Ignore),
            to(Operation, Refuse),
            to(Responded, Withhold), to(Responded, Withhold), to(Responded, Withhold),
            to(Responded, Withhold),
        ],
        // OperationCancelled
        [
            to(OperationCancelled, Nothing),
            to(OperationCancelled, NotFound), to(OperationCancelled, CancelledBefore),
            to(OperationCancelled, Ignore),
            to(OperationCancelled, Refuse),
            to(Responded, Withhold), to(Responded, Withhold), to(Responded, Withhold),
            to(Responded, Withhold),
        ],
        // Responded: only its calls are left.
        [
            to(Responded, Nothing),
            to(Responded, Completed), to(Responded, Completed), to(Responded, Completed),
            to(Responded, Refuse),
            to(Responded, Refuse), to(Responded, Refuse), to(Responded, Refuse),
            to(Responded, Refuse),
        ],
    ]
};

/// How far the connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Life {
    /// The session is yet to be opened. Without one, everything is taken from the beginning.
    Opening,
    /// Everything is taken.
    Open,
    /// Shutting down: nothing new, and closed once nothing is in flight.
    Draining,
    /// Nothing comes in any more; what the host still answers is sent.
    Closed,
    /// Nothing comes in or goes out any more.
    Abandoned,
}

/// What can happen to the connection as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LifeInput {
    /// The host wants to make a call.
    NewCall,
    /// The host wants to make a call on behalf of an unanswered request.
    NewNestedCall,
    /// The peer sent a request.
    NewRequest,
    /// The peer sent the request whose answer opens the session.
    OpeningRequest,
    /// The session is open.
    OpenSession,
    /// The host shuts down, and lets what is in flight finish.
    Drain,
    /// The host shuts down, and cancels what is in flight.
    CancelAll,
    /// The host gives everything up.
    Abandon,
    /// Nothing comes in any more: the end of input, or a peer that broke the rules.
    Lose,
    /// Nothing is in flight.
    Idle,
}

/// What a transition of the connection does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LifeStep {
    /// No more than the next phase says.
    Nothing,
    /// Takes it.
    Accept,
    /// Refuses it: the session is not open.
    RefuseUninitialized,
    /// Refuses it: the connection is shutting down.
    RefuseShuttingDown,
    /// Refuses it: the connection is closed.
    RefuseClosed,
    /// Cancels every request and every call, cause `shutdown`.
    CancelEverything,
    /// Cancels every request, cause `shutdown`.
    CancelRequests,
    /// Settles every call as lost, cancels every request, cause `shutdown`, and closes.
    AbandonEverything,
    /// Settles every call as lost, cancels the requests as the dialect's closed stream says, and
    /// closes (G7).
    LoseEverything,
    /// Closes.
    Close,
}

/// A row for each [`Life`], a column for each [`LifeInput`]. A row has, in this order: new calls;
/// new requests; the session; shutdowns; the end of input; nothing in flight.
#[rustfmt::skip]
pub(super) const LIFE_TABLE: [[Transition<Life, LifeStep>; LifeInput::Idle as usize + 1]; Life::Abandoned as usize + 1] = {
    use Life::*;
    use LifeStep::*;
    [
        // Opening: our own calls need no session.
        [
            to(Opening, Accept), to(Opening, Accept),
            to(Opening, RefuseUninitialized), to(Opening, Accept), to(Open, Nothing),
            to(Draining, Nothing), to(Draining, CancelEverything), to(Abandoned, AbandonEverything),
            to(Closed, LoseEverything),
            to(Opening, Nothing),
        ],
        // Open
        [
            to(Open, Accept), to(Open, Accept),
            to(Open, Accept), to(Open, Accept), to(Open, Nothing),
            to(Draining, Nothing), to(Draining, CancelEverything), to(Abandoned, AbandonEverything),
            to(Closed, LoseEverything),
            to(Open, Nothing),
        ],
        // Draining: what is in flight may still make calls of its own.
        [
            to(Draining, RefuseShuttingDown), to(Draining, Accept),
            to(Draining, RefuseShuttingDown), to(Draining, RefuseShuttingDown), to(Draining, Nothing),
            to(Draining, Nothing), to(Draining, CancelEverything), to(Abandoned, AbandonEverything),
            to(Closed, LoseEverything),
            to(Closed, Close),
        ],
        // Closed: the end of input may have left requests running, for a peer that comes back.
        [
            to(Closed, RefuseClosed), to(Closed, RefuseClosed),
            to(Closed, RefuseClosed), to(Closed, RefuseClosed), to(Closed, Nothing),
            to(Closed, Nothing), to(Closed, CancelRequests), to(Abandoned, CancelRequests),
            to(Closed, Nothing),
            to(Closed, Nothing),
        ],
        // Abandoned
        [
            to(Abandoned, RefuseClosed), to(Abandoned, RefuseClosed),
            to(Abandoned, RefuseClosed), to(Abandoned, RefuseClosed), to(Abandoned, Nothing),
            to(Abandoned, Nothing), to(Abandoned, CancelRequests), to(Abandoned, CancelRequests),
            to(Abandoned, Nothing),
            to(Abandoned, Nothing),
        ],
    ]
};

impl CallPhase {
    /// Looks up what `input` does in this phase.
    pub(super) const fn on(self, input: CallInput) -> Transition<Self, CallStep> {
        CALL_TABLE[self as usize][input as usize]
    }
}

impl RequestPhase {
    /// Looks up what `input` does in this phase.
    pub(super) const fn on(self, input: RequestInput) -> Transition<Self, RequestStep> {
        REQUEST_TABLE[self as usize][input as usize]
    }

    /// Whether the host has yet to answer it, or to end its operation.
    #[must_use]
    pub const fn awaits_response(self) -> bool {
        !matches!(self, Self::Responded)
    }

    /// Whether it is marked cancelled.
    #[must_use]
    pub const fn is_cancelled(self) -> bool {
        matches!(self, Self::Cancelled | Self::OperationCancelled)
    }

    /// Whether it was answered with the token of its operation.
    #[must_use]
    pub const fn is_operation(self) -> bool {
        matches!(self, Self::Operation | Self::OperationCancelled)
    }
}

impl Life {
    /// Looks up what `input` does in this phase.
    pub(super) const fn on(self, input: LifeInput) -> Transition<Self, LifeStep> {
        LIFE_TABLE[self as usize][input as usize]
    }
}
