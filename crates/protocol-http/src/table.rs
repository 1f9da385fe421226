//! Every transition of an exchange.
//!
//! An exchange is one request that was posted, or one batch, with all that belongs to it. A stream is one HTTP response.
//! An exchange has one stream at a time, and may get another one when the first is lost.

/// The phase of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// No head was sent, and the client accepts events.
    Fresh,
    /// No head was sent, and the client accepts one JSON body only.
    Single,
    /// A stream of events is open.
    Open,
    /// The stream is lost, and the request goes on.
    Adrift,
    /// The stream is lost. The request is cancelled unless another stream comes in time.
    Waiting,
    /// Nothing more is sent.
    Over,
}

/// An input of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Input {
    /// It is time for the head.
    HeadDue,
    /// It is time for a comment.
    CommentDue,
    /// The endpoint sent a message that is not the last one.
    Update,
    /// The endpoint sent the last response.
    Last,
    /// The endpoint sent the last response, and it has a status of its own.
    LastWithStatus,
    /// The requests were cancelled and get no response.
    Silenced,
    /// The stream closed, and that is a cancel.
    LostNow,
    /// The stream closed, and that is a cancel after a while.
    LostLater,
    /// The stream closed, and that is no cancel.
    LostOnly,
    /// The time to resume has passed.
    LossDue,
    /// The client asks for the stream again.
    Resumed,
    /// The session is over.
    Ended,
}

/// The step that a transition takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// Nothing is to be done.
    Nothing,
    /// Sends the head of a stream of events.
    SendHead,
    /// Sends a comment.
    SendComment,
    /// Sends an event.
    SendEvent,
    /// Sends the head, and an event.
    SendHeadAndEvent,
    /// Sends an event, and closes the stream.
    SendLast,
    /// Sends the head and an event, and closes the stream.
    SendHeadAndLast,
    /// Sends the message as the whole body.
    SendBody,
    /// Sends the message as the whole body, with its status.
    SendBodyWithStatus,
    /// Keeps the event for a stream that may come.
    Keep,
    /// Drops the message, for which a JSON body has no room.
    Drop,
    /// Closes the stream.
    Close,
    /// Sends status 202 without a body, since no message will come.
    SendNothing,
    /// Cancels the requests.
    Cancel,
    /// Starts the time to resume.
    StartTimer,
    /// Attaches the stream, and sends what is kept for it.
    Attach,
    /// Closes the stream, which another one replaces, and attaches that.
    Replace,
    /// The pair can't occur.
    Impossible,
}

/// The result of an input: the next phase, and the step to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The next phase.
    pub next: Phase,
    /// The step to take.
    pub step: Step,
}

const fn to(next: Phase, step: Step) -> Transition {
    Transition { next, step }
}

impl Phase {
    /// Every phase, in the order of an exchange.
    pub const ALL: [Self; 6] =
        [Self::Fresh, Self::Single, Self::Open, Self::Adrift, Self::Waiting, Self::Over];

    /// Returns whether a stream is attached.
    #[must_use]
    pub const fn has_stream(self) -> bool {
        matches!(self, Self::Fresh | Self::Single | Self::Open)
    }

    /// Returns the transition of an input.
    #[must_use]
    pub const fn on(self, input: Input) -> Transition {
        use Input as I;
        use Phase::{Adrift, Fresh, Open, Over, Single, Waiting};
        match (self, input) {
            // The head tells proxies and the client that the request is at work.
            (Fresh, I::HeadDue) => to(Open, Step::SendHead),
            (Open, I::CommentDue) => to(Open, Step::SendComment),
            // Messages go to the stream, or wait for one.
            (Fresh, I::Update) => to(Open, Step::SendHeadAndEvent),
            (Open, I::Update) => to(Open, Step::SendEvent),
            (Adrift | Waiting, I::Update) => to(self, Step::Keep),
            (Single, I::Update) => to(Single, Step::Drop),
            // The last response ends the exchange, once.
            (Fresh, I::Last) => to(Over, Step::SendHeadAndLast),
            (Fresh | Single, I::LastWithStatus) => to(Over, Step::SendBodyWithStatus),
            (Single, I::Last) => to(Over, Step::SendBody),
            (Open, I::Last | I::LastWithStatus) => to(Over, Step::SendLast),
            (Adrift | Waiting, I::Last | I::LastWithStatus) => to(Over, Step::Keep),
            // Silence ends it, too: nobody is to wait for a response that never comes.
            (Fresh | Single, I::Silenced) => to(Over, Step::SendNothing),
            (Open, I::Silenced) => to(Over, Step::Close),
            (Adrift | Waiting, I::Silenced) => to(Over, Step::Nothing),
            // A lost stream is what the dialect or the host says.
            (Fresh | Single | Open, I::LostNow) => to(Adrift, Step::Cancel),
            (Fresh | Single | Open, I::LostLater) => to(Waiting, Step::StartTimer),
            (Fresh | Single | Open, I::LostOnly) => to(Adrift, Step::Nothing),
            (Waiting, I::LossDue) => to(Adrift, Step::Cancel),
            // A client that comes back has the rest of the stream. A newer stream replaces one that is open, for the
            // client knows better than we do whether it is alive.
            (Adrift | Waiting, I::Resumed) => to(Open, Step::Attach),
            (Fresh | Single | Open, I::Resumed) => to(Open, Step::Replace),
            // The end of the session closes what is open. The endpoint cancels.
            (Fresh | Single, I::Ended) => to(Over, Step::SendNothing),
            (Open, I::Ended) => to(Over, Step::Close),
            (Adrift | Waiting, I::Ended) => to(Over, Step::Nothing),
            // What crosses the end of an exchange changes nothing.
            (Over, I::Update | I::Last | I::LastWithStatus | I::Silenced | I::Ended) => {
                to(Over, Step::Nothing)
            }
            // A stream closes after the exchange is over, and only once. What is over is resumed from the store.
            (Over, I::LostNow | I::LostLater | I::LostOnly | I::Resumed) => {
                to(Over, Step::Impossible)
            }
            (Adrift | Waiting, I::LostNow | I::LostLater | I::LostOnly) => {
                to(self, Step::Impossible)
            }
            // Each timer runs in one phase.
            (Single | Open | Adrift | Waiting | Over, I::HeadDue)
            | (Fresh | Single | Adrift | Waiting | Over, I::CommentDue)
            | (Fresh | Single | Open | Adrift | Over, I::LossDue) => to(self, Step::Impossible),
        }
    }
}
