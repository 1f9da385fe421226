//! Every transition of a call, of a request and of the connection's life.
//!
//! Each is an arm of one of three matches, which have no wildcard: [`CallPhase::on`],
//! [`RequestPhase::on`] and [`Life::on`]. `commands.rs` and `inputs.rs` classify what happened as an
//! input. `steps.rs` and `permits.rs` carry most steps out on the row. [`grace`], at the end, is no
//! transition, nor are the rules in `receive_late_response` and `work_steps.rs`.
//!
//! `docs/state-machine.md` is drawn from this file, so the file uses nothing of the others.

use core::time::Duration;

/// The result of one input: the phase afterwards and the step to carry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Transition<P, S> {
    /// The phase afterwards. That of a call is `None` once its row is gone.
    pub(super) next: P,
    /// The step to carry out.
    pub(super) step: S,
}

/// Goes on to a phase.
#[track_caller]
fn to<P, N: From<P>, S>(next: P, step: S) -> Transition<N, S> {
    taken(Transition { next: next.into(), step })
}

/// Ends the row.
#[track_caller]
fn end<P, S>(step: S) -> Transition<Option<P>, S> {
    taken(Transition { next: None, step })
}

/// Notes, in tests, the line of the arm that was taken.
#[inline]
#[track_caller]
fn taken<P, S>(transition: Transition<P, S>) -> Transition<P, S> {
    #[cfg(test)]
    arms::take(core::panic::Location::caller().line());
    transition
}

/// The phase of one of our calls. A settled call has none, because its row is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallPhase {
    /// Its request waits in the outbox, and nothing of it has left.
    Queued,
    /// Its request has left.
    Sent,
    /// Its cancel waits in the outbox, and its response is awaited.
    CancelQueued,
    /// Its cancel has left, or its work was stopped. Its response is awaited.
    Cancelling,
    /// It is cancelled. The cancel follows once the response brings the token of its operation.
    AwaitingToken,
    /// The token came, and the cancel that names it waits in the outbox.
    TokenCancelQueued,
    /// The cancel that names the token has left, and its acknowledgement is awaited.
    AwaitingAcknowledgement,
}

/// An input to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallInput {
    /// The transport took the message of this call that waited in the outbox.
    Transmitted,
    /// It is cancelled on the wire.
    Cancel,
    /// It is cancelled where cancels name the token of an operation.
    CancelOperation,
    /// It is cancelled, but the dialect or a missing consent rules out a cancel on the wire.
    CancelRefused,
    /// It ends without a response. Nobody waits any more, the dialect has no cancel, no response can come, or the
    /// peer ended it. Nothing is sent. A call that times out gets its cancel first, as an input of its own.
    GiveUp,
    /// The peer responded with a result, with an error other than -32800, or malformed (B1).
    Response,
    /// The peer responded with a result that holds the token of an operation.
    TokenResponse,
    /// The peer responded with error -32800.
    CancelledResponse,
    /// The peer responded to our cancel, which is a request, with a result or with error -32800.
    Acknowledged,
    /// The peer responded to our cancel, which is a request, with another error, or malformed.
    CancelFailed,
    /// The work that it began was stopped by its name.
    Stop,
}

/// The step that a transition of a call asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallStep {
    /// Does no more than enter the next phase.
    Nothing,
    /// Takes the request out of the outbox and settles with the recorded cause (G4, B24).
    Withdraw,
    /// Sends the cancel, of which there is never a second (G4).
    SendCancel,
    /// Waits for the token, and sends the cancel when it comes.
    AwaitToken,
    /// Settles with the recorded cause, and sends the cancel when the token comes.
    AwaitTokenAndSettle,
    /// Settles with the recorded cause; a late response is recognised (G12).
    Settle,
    /// Settles with the peer's response (B23).
    Complete,
    /// Settles with the peer's response, and takes the cancel out of the outbox.
    WithdrawAndComplete,
    /// Settles as cancelled, which the peer confirmed.
    CompleteCancelled,
    /// Settles as cancelled, and takes the cancel out of the outbox.
    WithdrawAndCompleteCancelled,
    /// Refuses to cancel; the call goes on.
    Refuse,
    /// Notes the acknowledgement; the call's own response settles it.
    NoteAcknowledgement,
    /// Reports a response to a message that never left (B31).
    Stray,
    /// Reports a second response.
    Duplicate,
    /// Does nothing: this input can't come in this phase.
    Impossible,
}

impl CallPhase {
    /// Looks up what `input` does in this phase.
    #[inline]
    pub(super) fn on(self, input: CallInput) -> Transition<Option<Self>, CallStep> {
        use {CallInput::*, CallPhase::*, CallStep::*};
        match (self, input) {
            // The message that waited in the outbox has left.
            (Queued, Transmitted) => to(Sent, Nothing),
            (CancelQueued, Transmitted) => to(Cancelling, Nothing),
            (TokenCancelQueued, Transmitted) => to(AwaitingAcknowledgement, Nothing),
            // Nothing of the call has left, so it can be taken back, however it is cancelled.
            (Queued, Cancel | CancelOperation | CancelRefused | GiveUp | Stop) => end(Withdraw),
            // The first cancel of a call that has left goes out now, or with the token.
            (Sent, Cancel) => to(CancelQueued, SendCancel),
            (Sent, CancelOperation) => to(AwaitingToken, AwaitToken),
            // A stop is the cancel here. It names the work, and nothing takes it back.
            (Sent, Stop) => to(Cancelling, Nothing),
            // A cancel that is ruled out changes nothing.
            (Sent, CancelRefused) => to(Sent, Refuse),
            // There is never a second cancel.
            (
                CancelQueued | Cancelling | TokenCancelQueued | AwaitingAcknowledgement,
                Cancel | CancelOperation | CancelRefused | Stop,
            ) => to(self, Nothing),
            // There is still nothing that a cancel could name.
            (AwaitingToken, Cancel | CancelOperation | CancelRefused | Stop) => {
                to(self, AwaitToken)
            }

            // No response is awaited any more. A cancel on its way stays on its way.
            (
                Sent | CancelQueued | Cancelling | TokenCancelQueued | AwaitingAcknowledgement,
                GiveUp,
            ) => end(Settle),
            // The operation is cancelled all the same, once its token is known.
            (AwaitingToken, GiveUp) => end(AwaitTokenAndSettle),
            // No response to a message that has not left can be genuine.
            (Queued, Response | TokenResponse | CancelledResponse) => to(Queued, Stray),
            // The first response settles the call. We did not cancel, so -32800 is an error too.
            (Sent, Response | TokenResponse | CancelledResponse) => end(Complete),
            // The response leaves the unsent cancel with nothing to cancel.
            (CancelQueued, Response | TokenResponse) => end(WithdrawAndComplete),
            (CancelQueued, CancelledResponse) => end(WithdrawAndCompleteCancelled),
            // A result that won the race is a result (B23).
            (Cancelling, Response | TokenResponse) => end(Complete),
            (Cancelling | AwaitingToken, CancelledResponse) => end(CompleteCancelled),
            // The request was over without an operation.
            (AwaitingToken, Response) => end(Complete),
            // The cancel can name the operation now.
            (AwaitingToken, TokenResponse) => to(TokenCancelQueued, SendCancel),
            // The token was the response, so this is a second one.
            (
                TokenCancelQueued | AwaitingAcknowledgement,
                Response | TokenResponse | CancelledResponse,
            ) => to(self, Duplicate),
            // The cancel has not left, so the peer guessed its number.
            (CancelQueued | TokenCancelQueued, Acknowledged | CancelFailed) => to(self, Stray),
            // The call's own response has the last word.
            (Cancelling, Acknowledged | CancelFailed) => to(Cancelling, NoteAcknowledgement),
            // The acknowledgement has the last word on an operation.
            (AwaitingAcknowledgement, Acknowledged) => end(CompleteCancelled),
            (AwaitingAcknowledgement, CancelFailed) => end(Complete),
            // No message of the call waits, or none of its cancels has a number.
            (Sent | Cancelling | AwaitingToken | AwaitingAcknowledgement, Transmitted)
            | (Queued | Sent | AwaitingToken, Acknowledged | CancelFailed) => to(self, Impossible),
        }
    }
}

/// The phase of one of the peer's requests. One with its response and no calls in flight has none: its row is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RequestPhase {
    /// The host owes a response.
    Running,
    /// It is marked cancelled, and the host still owes a response.
    Cancelled,
    /// It is marked cancelled, and its response will be withheld: the peer asked for silence, or
    /// the connection was abandoned.
    Silenced,
    /// Its response was the token of its operation, which goes on.
    Operation,
    /// Its operation is marked cancelled, and the host still has to end it.
    OperationCancelled,
    /// It had its response, had that withheld, or was ended. Calls made on its behalf are in flight.
    Responded,
}

/// An input to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestInput {
    /// The peer, our side or the end of the connection cancels it.
    Cancel,
    /// The peer cancels it in a dialect that wants silence afterwards, or the host abandons it.
    CancelSilently,
    /// The peer cancels it, but the dialect or a missing consent rules that out.
    CancelRefused,
    /// The peer cancels it after its response; the phase is the one it had before.
    LateCancel,
    /// The host responds with the token of an operation.
    BeginOperation,
    /// The host responds.
    Respond,
    /// The host responds in a dialect that acknowledges cancels and has no partial results.
    RespondAcknowledged,
    /// Our side ends it without a response.
    End,
    /// Our side gives it up, because no response to it can ever be sent.
    Release,
}

/// The step that a transition of a request asks for. If a cancel is acknowledged, its step says how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RequestStep {
    /// Sets the cancelled mark, and cancels the calls made on its behalf.
    MarkCancelled,
    /// Changes no mark, because an earlier cancellation has marked the request.
    CancelledBefore,
    /// Does not obey the cancel.
    Ignore,
    /// Changes nothing, because the request was over before.
    Completed,
    /// Sends the token, which names the operation from now on.
    SendToken,
    /// Sends the response.
    SendResponse,
    /// Sends that it was cancelled, whatever the host responded, because the acknowledgement said so.
    SendCancelled,
    /// Ends it without a response, and tells the peer as the dialect does.
    SendEnd,
    /// Ends it, or begins its operation, without a message.
    Withhold,
    /// Refuses a second response.
    RefuseResponded,
    /// Does nothing: this input can't come in this phase.
    Impossible,
}

impl RequestPhase {
    /// Looks up what `input` does in this phase.
    #[inline]
    pub(super) fn on(self, input: RequestInput) -> Transition<Self, RequestStep> {
        use {RequestInput::*, RequestPhase::*, RequestStep::*};
        match (self, input) {
            // The first cancellation marks the request.
            (Running, Cancel) => to(Cancelled, MarkCancelled),
            (Running, CancelSilently) => to(Silenced, MarkCancelled),
            (Operation, Cancel | CancelSilently) => to(OperationCancelled, MarkCancelled),
            // A later one keeps the mark and the cause.
            (Cancelled, Cancel) => to(self, CancelledBefore),
            (Silenced | OperationCancelled, Cancel | CancelSilently) => to(self, CancelledBefore),
            // A peer that cancels what we had cancelled still gets the silence it asks for.
            (Cancelled, CancelSilently) => to(Silenced, CancelledBefore),
            // A cancellation that crosses the response comes too late.
            (Responded, Cancel | CancelSilently) => to(self, Completed),
            // A cancel that is ruled out changes nothing.
            (Running | Cancelled | Silenced | Operation | OperationCancelled, CancelRefused) => {
                to(self, Ignore)
            }
            // The acknowledgement of a late cancel depends on what the request had come to.
            (Running, LateCancel) => to(self, Completed),
            (Cancelled | Silenced, LateCancel) => to(self, CancelledBefore),
            // The token is the response. A cancel has to show it from now on.
            (Running, BeginOperation) => to(Operation, SendToken),
            (Cancelled, BeginOperation) => to(OperationCancelled, SendToken),
            // Nothing is sent for a silenced request.
            (Silenced, BeginOperation) => to(OperationCancelled, Withhold),

            // A running request gets the response of its host.
            (Running, Respond | RespondAcknowledged) => to(Responded, SendResponse),
            // So does a cancelled one: a result that was ready is a result (B23).
            (Cancelled, Respond) => to(Responded, SendResponse),
            // The acknowledgement has announced this response.
            (Cancelled, RespondAcknowledged) => to(Responded, SendCancelled),
            // A silenced request gets none, and its peer hears of no end.
            (Silenced, Respond | RespondAcknowledged | End) => to(Responded, Withhold),
            // The token was the response. The host only ends the operation.
            (Operation | OperationCancelled, Respond | RespondAcknowledged | End) => {
                to(Responded, Withhold)
            }
            // The peer still waits, so it is told of the end.
            (Running | Cancelled, End) => to(Responded, SendEnd),
            // No response fits, whatever the host tries.
            (Running | Cancelled | Silenced | Operation | OperationCancelled, Release) => {
                to(Responded, Withhold)
            }

            // There is one response, and a token is one.
            (Operation | OperationCancelled, BeginOperation) => to(self, RefuseResponded),
            (Responded, BeginOperation | Respond | RespondAcknowledged | End | Release) => {
                to(self, RefuseResponded)
            }

            // A request that had its response is found under no name any more. Only the phase of one that
            // was no operation is remembered.
            (Responded, CancelRefused)
            | (Operation | OperationCancelled | Responded, LateCancel) => to(self, Impossible),
        }
    }

    /// Returns whether the host has yet to respond to it, or to end its operation.
    pub const fn awaits_response(self) -> bool {
        !matches!(self, Self::Responded)
    }

    /// Returns whether it is marked cancelled.
    pub const fn is_cancelled(self) -> bool {
        matches!(self, Self::Cancelled | Self::Silenced | Self::OperationCancelled)
    }

    /// Returns whether its response was the token of its operation.
    pub const fn is_operation(self) -> bool {
        matches!(self, Self::Operation | Self::OperationCancelled)
    }
}

/// The phase of the connection as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Life {
    /// The session is yet to be opened. A dialect without sessions begins `Open`.
    Opening,
    /// Everything is taken.
    Open,
    /// Nothing new is taken, and the connection closes once nothing is in flight.
    Draining,
    /// Nothing comes in any more. Responses of the host are still sent, unless it abandoned the connection.
    Closed,
}

/// An input to the connection as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LifeInput {
    /// The host makes a call.
    NewCall,
    /// The host makes a call on behalf of a request that awaits its response.
    NewNestedCall,
    /// The peer sent a request.
    NewRequest,
    /// The peer sent the request whose result opens the session.
    OpeningRequest,
    /// The request that opens the session has its result.
    OpenSession,
    /// The host shuts down, and lets everything in flight finish.
    Drain,
    /// The host shuts down, and cancels everything in flight.
    CancelAll,
    /// The host gives everything up.
    Abandon,
    /// Nothing comes in any more: the input ended, or the peer broke a rule that ends the connection.
    Lose,
    /// Nothing is in flight.
    Idle,
}

/// The step that a transition of the connection asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LifeStep {
    /// Does no more than enter the next phase.
    Nothing,
    /// Accepts the call or the request.
    Accept,
    /// Refuses the request: the session is not open.
    RefuseUninitialized,
    /// Refuses the call or the request: the connection is shutting down.
    RefuseShuttingDown,
    /// Refuses the call or the request: the connection is closed.
    RefuseClosed,
    /// Cancels every request and every call, cause `shutdown`.
    CancelEverything,
    /// Cancels every request, cause `shutdown`.
    CancelRequests,
    /// Cancels and silences every request, cause `shutdown`.
    SilenceRequests,
    /// Settles every call as lost, cancels and silences every request, and closes.
    AbandonEverything,
    /// Settles every call as lost, cancels every request, and closes. If the peer is gone, the dialect's
    /// `closed_stream` may leave the requests as they are (G7).
    LoseEverything,
    /// Closes, because nothing is in flight.
    Close,
    /// Does nothing: this input can't come in this phase.
    Impossible,
}

impl Life {
    /// Looks up what `input` does in this phase.
    #[inline]
    pub(super) fn on(self, input: LifeInput) -> Transition<Self, LifeStep> {
        use {Life::*, LifeInput::*, LifeStep::*};
        match (self, input) {
            // Our own calls need no session.
            (Opening | Open, NewCall | NewNestedCall | OpeningRequest) => to(self, Accept),
            (Opening, NewRequest) => to(self, RefuseUninitialized),
            (Open, NewRequest) => to(self, Accept),
            // A request that is in flight may still need calls of its own.
            (Draining, NewNestedCall) => to(self, Accept),
            (Draining, NewCall | NewRequest | OpeningRequest) => to(self, RefuseShuttingDown),
            // The rest of a batch may follow the member that closed the connection.
            (Closed, NewCall | NewNestedCall | NewRequest | OpeningRequest) => {
                to(Closed, RefuseClosed)
            }

            (Opening, OpenSession) => to(Open, Nothing),
            // A shutdown or a second opening request came first.
            (Open | Draining | Closed, OpenSession) => to(self, Nothing),

            (Opening | Open | Draining, Drain) => to(Draining, Nothing),
            (Opening | Open | Draining, CancelAll) => to(Draining, CancelEverything),
            (Opening | Open | Draining, Abandon) => to(Closed, AbandonEverything),
            (Closed, Drain) => to(Closed, Nothing),
            // The end of input may have left requests running, for a peer that comes back. A silenced one
            // stays silenced.
            (Closed, CancelAll) => to(Closed, CancelRequests),
            (Closed, Abandon) => to(Closed, SilenceRequests),

            (Opening | Open | Draining, Lose) => to(Closed, LoseEverything),
            // The end comes once.
            (Closed, Lose) => to(Closed, Nothing),

            (Draining, Idle) => to(Closed, Close),
            // Only a connection that drains waits to be idle.
            (Opening | Open | Closed, Idle) => to(self, Impossible),
        }
    }
}

/// Returns how long a cancelled call waits for its response; `None` is for ever.
///
/// `chosen` is the grace of the call or of its dialect. A call that nobody awaits is never without a
/// limit, so a dropped call waits at most for `longest` (G12).
pub(super) fn grace(
    chosen: Option<Duration>,
    longest: Duration,
    is_awaited: bool,
) -> Option<Duration> {
    match chosen {
        _ if is_awaited => chosen,
        None => Some(longest),
        Some(grace) => Some(grace.min(longest)),
    }
}

#[cfg(test)]
#[path = "tests/arms.rs"]
pub(super) mod arms;
