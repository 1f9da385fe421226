//! Every transition of an exchange.
//!
//! An exchange is one request that was posted, or one batch, with all that belongs to it. A stream is one HTTP response.
//! An exchange has one stream at a time, and may get another one when the first is lost.

use crate::rules::OnLoss;

/// The phase of an exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// No head was sent, and the client accepts events.
    Fresh,
    /// No head was sent, and the client accepts one JSON body only.
    Single,
    /// A stream of events is open.
    Open,
    /// The stream is lost. The request goes on, until its time to resume has passed if it has one.
    #[default]
    Adrift,
    /// Nothing more is sent.
    Over,
}

/// An input of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// It is time for what the phase waits for: a head, a comment, or the cancel of what was not resumed.
    Due,
    /// The endpoint sent a message that is not the last one.
    Update,
    /// The endpoint sent the last response. It has this status if it is the whole body.
    Last(u16),
    /// No response comes: the requests were cancelled and get none, or the session is over.
    Ended,
    /// The stream closed, with this meaning.
    Lost(OnLoss),
    /// The client asks for the stream again.
    Resumed,
}

/// The step that a transition takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing is to be done.
    Nothing,
    /// Sends parts of a stream of events: the head, an event, and the end.
    Send { head: bool, event: bool, end: bool },
    /// Sends a comment.
    SendComment,
    /// Sends the message as the whole body, with this status. Without a message there is no body.
    SendBody(u16),
    /// Keeps the event for a stream that may come.
    Keep,
    /// Cancels the requests.
    Cancel,
    /// Sends the head of a stream that goes on, with what is kept for it behind.
    Attach,
    /// The pair can't occur.
    Impossible,
}

impl Phase {
    /// Returns the next phase after an input, and the step to it.
    pub(crate) const fn on(self, input: Input) -> (Self, Step) {
        use Input as I;
        use Phase::{Adrift, Fresh, Open, Over, Single};
        match (self, input) {
            // The head tells proxies and the client that the request is at work.
            (Fresh, I::Due) => (Open, Step::Send { head: true, event: false, end: false }),
            (Open, I::Due) => (Open, Step::SendComment),
            (Adrift, I::Due) => (Adrift, Step::Cancel),
            // Messages go to the stream, or wait for one. A JSON body has no room for them.
            (Fresh, I::Update) => (Open, Step::Send { head: true, event: true, end: false }),
            (Open, I::Update) => (Open, Step::Send { head: false, event: true, end: false }),
            (Adrift, I::Update) => (Adrift, Step::Keep),
            (Single, I::Update) => (Single, Step::Nothing),
            // The last response ends the exchange, once.
            (Fresh, I::Last(200)) => (Over, Step::Send { head: true, event: true, end: true }),
            (Fresh | Single, I::Last(status)) => (Over, Step::SendBody(status)),
            (Open, I::Last(_)) => (Over, Step::Send { head: false, event: true, end: true }),
            (Adrift, I::Last(_)) => (Over, Step::Keep),
            // Silence ends it, too: nobody is to wait for a response that never comes.
            (Fresh | Single, I::Ended) => (Over, Step::SendBody(202)),
            (Open, I::Ended) => (Over, Step::Send { head: false, event: false, end: true }),
            (Adrift, I::Ended) => (Over, Step::Nothing),
            // A lost stream is what the dialect or the host says.
            (Fresh | Single | Open, I::Lost(OnLoss::CancelNow)) => (Adrift, Step::Cancel),
            (Fresh | Single | Open, I::Lost(OnLoss::CancelAfter(_) | OnLoss::GoOn)) => {
                (Adrift, Step::Nothing)
            }
            // A client that comes back has the rest of the stream. A newer stream replaces one that is open, for the
            // client knows better than we do whether it is alive.
            (Fresh | Single | Open | Adrift, I::Resumed) => (Open, Step::Attach),
            // An input that crosses the end of an exchange changes nothing.
            (Over, I::Update | I::Last(_) | I::Ended) => (Over, Step::Nothing),
            // A stream closes before the exchange is over, and only once. What is over is resumed from the store.
            (Adrift | Over, I::Lost(_)) | (Over, I::Resumed) => (self, Step::Impossible),
            // Neither waits for a time.
            (Single | Over, I::Due) => (self, Step::Impossible),
        }
    }
}
