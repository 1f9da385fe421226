//! A check of a client is data that one interpreter plays and one judge reads.

use crate::check::{Check, Id, Name};

/// A check of a client.
pub type ClientCheck = Check<ClientNeed, ClientStep, ClientRule>;

/// A thing that a check can't be done without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClientNeed {
    /// That the client cancels the held request, by itself or when it is triggered.
    Cancels,
    /// That it answers what it is asked while it waits for us.
    Answers,
    /// A request of ours that takes the client its time.
    Ask,
    /// That, where a request that is done at once proves nothing: the protocol wants silence.
    AskIfSilent,
    /// That it has declared that its own work can be cancelled, where the protocol wants that.
    Declared,
    /// A process, which can end and leave others behind.
    Process,
}

/// One step of ours, as the server.
#[derive(Clone, Copy, Debug)]
pub enum ClientStep {
    /// From the beginning on the request that opens the session is held.
    HoldOpening,
    /// From the beginning on nothing is declared that the protocol lets a server declare.
    DeclareNothing,
    /// Waits until a request is held.
    Held,
    /// Pulls the trigger, if there is one, and waits until the held request is cancelled.
    Cancelled,
    /// Pulls the trigger, if there is one, and lets the client read that; then waits twice as long as it took it
    /// to cancel.
    MayCancel,
    /// Ends the check if the held request is cancelled already: then nobody knows what the client had read.
    NotYetCancelled,
    /// Sends these in one write.
    Send(&'static [ClientItem]),
    /// Sends these so that all of them wait in one read of the client's.
    OneRead(&'static [ClientItem]),
    /// Makes a request that is done at once, and waits for its answer.
    Next,
    /// The same, but a client that ends as it does when nothing is wrong has shown as much.
    NextOrEnd,
    /// Waits until one of our requests is answered.
    Answered(Name),
    /// Waits until a cancelled request of ours is over. It is over once it is answered, or once the client has
    /// done the same work in full since then and answered the next request.
    Settled(Name),
    /// Sends each cancel that merely names nothing, and the next request after each.
    MalformedCancels(Name),
    /// Sends this many quick requests in one write, each followed by its cancel. Then waits until all are
    /// answered, or the next request is.
    Burst(usize),
    /// Stops reading, asks for more than fits into what is between the two; reads again.
    OutputFull,
    /// The client's input ends; waits until its output does.
    End,
}

/// One message of ours.
#[derive(Clone, Copy, Debug)]
pub enum ClientItem {
    /// An answer, to the held request or to nothing.
    Answer(Reply),
    /// A request that is done at once.
    Quick(Name, Id),
    /// A request that takes its time.
    Slow(Name),
    /// A request that is done at once, under the id of the held one.
    UnderTheirId(Name),
    /// A request of this method.
    Request(Name, &'static str),
    /// The cancel of a request of ours.
    Cancel(Name),
    /// A cancel of an id that we never used.
    CancelId(&'static str),
    /// A cancel under the id of the held request, where we have none.
    CancelTheirs,
    /// A notification of this method.
    Notification(&'static str),
}

/// A response of ours.
#[derive(Clone, Copy, Debug)]
pub enum Reply {
    /// The held request, with its result.
    Result,
    /// The held request, with an error.
    Error(i64),
    /// As the protocol wants a cancelled request answered.
    Cancelled,
    /// Not the held request, but the id that looks like its own and has the other type.
    OtherType,
    /// An id that the client never used.
    Unknown(&'static str),
    /// An error without an id.
    NoId,
}

/// A rule that is judged of a record.
#[derive(Clone, Copy, Debug)]
pub enum ClientRule {
    /// No request was cancelled twice.
    CancelledOnce,
    /// Every cancel names a request that was made before it, though perhaps as another type.
    NamesRequest,
    /// Every cancel names its request by the id as it was written.
    NamedAsWritten,
    /// The held request was not cancelled.
    NotCancelled,
    /// The held request was not cancelled once its answer had been read.
    NotCancelledAfterAnswer,
    /// The held request was still in flight in the end: the client has cancelled it.
    StillInFlight,
    /// No two requests in flight had one id, and in the protocols that forbid it no two at all.
    IdsUnique,
    /// A cancelled request of ours ended as the protocol wants: one answer under its id, or none at all.
    Ended(Name),
    /// A request of ours was answered once under its id.
    AnsweredOnce(Name),
    /// A request of ours was answered once, and not as cancelled.
    Undisturbed(Name),
    /// A request of ours was refused as an unknown method.
    UnknownMethod(Name),
    /// Of many requests none was answered twice, and every one at least once where the protocol wants that.
    AllEnded,
    /// Each next request was answered once.
    NextAnswered,
    /// Nothing was said under an id.
    NothingUnder(&'static str),
    /// While malformed cancels were sent that are notifications and merely name nothing, every answer was to a
    /// request.
    MalformedUnanswered,
    /// Everything that the client wrote is a message that it may write, and every answer one to a request.
    Clean,
    /// The client ended by itself after its input had.
    Exited,
    /// It left nothing running.
    NoOrphan,
}
