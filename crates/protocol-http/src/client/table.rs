//! Every transition of a response stream, as the client sees it.

/// The phase of a response stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StreamPhase {
    /// The request is sent, and no head came.
    Sent,
    /// One JSON body comes.
    Body,
    /// Server-sent events come.
    Events,
    /// The response came, and the rest of the stream is read.
    Settled,
    /// The stream broke off, and the client asks for the rest of it.
    Resuming,
    /// Nothing more comes.
    Over,
}

/// An input of a response stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StreamInput {
    /// A head came, and the body is JSON. The status may be that of an error.
    JsonHead,
    /// A head came, and the body is events.
    EventsHead,
    /// A head came that says that the session is gone.
    SessionGone,
    /// Another head came, with which no response can come.
    OtherHead,
    /// The response to the request came.
    Response,
    /// The body ended or broke off, and its rest can be asked for.
    BrokenOff,
    /// The body ended or broke off, and nothing more can come.
    Ended,
}

/// The step that a transition takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StreamStep {
    /// Nothing is to be done.
    Nothing,
    /// Reads the body.
    Read,
    /// Asks for the rest of the stream, after the time to retry.
    Resume,
    /// Settles the call as lost.
    Lose,
    /// Settles every call as lost, for the session is gone.
    LoseSession,
    /// The pair can't occur.
    Impossible,
}

/// The result of an input: the next phase, and the step to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamTransition {
    /// The next phase.
    pub next: StreamPhase,
    /// The step to take.
    pub step: StreamStep,
}

const fn to(next: StreamPhase, step: StreamStep) -> StreamTransition {
    StreamTransition { next, step }
}

impl StreamPhase {
    /// Every phase, in the order of a stream.
    pub const ALL: [Self; 6] =
        [Self::Sent, Self::Body, Self::Events, Self::Settled, Self::Resuming, Self::Over];

    /// Returns the transition of an input.
    #[must_use]
    pub const fn on(self, input: StreamInput) -> StreamTransition {
        use StreamInput as I;
        use StreamPhase::{Body, Events, Over, Resuming, Sent, Settled};
        use StreamStep as Step;
        match (self, input) {
            // The head says what the body is.
            (Sent, I::JsonHead) => to(Body, Step::Read),
            (Sent | Resuming, I::EventsHead) => to(Events, Step::Read),
            // A head without a body to read brings no response.
            (Sent | Resuming, I::OtherHead) | (Resuming, I::JsonHead) => to(Over, Step::Lose),
            (Sent | Resuming, I::SessionGone) => to(Over, Step::LoseSession),
            // The endpoint tells a second response from the first.
            (Body | Events | Settled, I::Response) => to(Settled, Step::Nothing),
            // The end of a stream is its loss, unless the response came or the rest can still come.
            (Settled, I::BrokenOff | I::Ended) => to(Over, Step::Nothing),
            (Events | Resuming, I::BrokenOff) => to(Resuming, Step::Resume),
            (Sent | Body, I::BrokenOff) | (Sent | Body | Events | Resuming, I::Ended) => {
                to(Over, Step::Lose)
            }
            // A response has one head, which comes before its body.
            (
                Body | Events | Settled | Over,
                I::JsonHead | I::EventsHead | I::SessionGone | I::OtherHead,
            )
            | (Sent | Resuming, I::Response)
            | (Over, I::Response | I::BrokenOff | I::Ended) => to(self, Step::Impossible),
        }
    }
}
