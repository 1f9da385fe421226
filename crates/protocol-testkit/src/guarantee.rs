//! The properties that are checked, by the numbers of `docs/ARCHITECTURE.md`.

use std::fmt;

/// A guarantee of the library, checked after everything that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Guarantee {
    /// An accepted call settles exactly once, and gives its data back.
    G1,
    /// A request gets one answer, or none where the dialect wants silence.
    G2,
    /// When a message was taken, every request that it cancels is marked.
    G3,
    /// A message that has not left is withdrawn; no cancel overtakes its request; one cancel a call.
    G4,
    /// Every way to give up is one transition with a recorded cause.
    G5,
    /// Cancelling a request cancels the calls made on its behalf.
    G6,
    /// The end settles every call and marks every request; `Closed` is last and comes once.
    G7,
    /// Memory is bounded, and what does not fit is said.
    G8,
    /// A bad message is answered where possible, and the connection lives.
    G9,
    /// The same inputs give the same outputs; an `Err` changed nothing.
    G10,
    /// The way in which bytes are split changes nothing. The time at which outputs are drained changes only
    /// which calls are still withdrawn, and which messages a cancel overtakes.
    G11,
    /// Late, duplicate and unknown responses are told apart; a cancelled call waits for its answer
    /// or its grace.
    G12,
}

impl Guarantee {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::G1,
        Self::G2,
        Self::G3,
        Self::G4,
        Self::G5,
        Self::G6,
        Self::G7,
        Self::G8,
        Self::G9,
        Self::G10,
        Self::G11,
        Self::G12,
    ];
}

impl fmt::Display for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A guarantee that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The guarantee that is broken.
    pub guarantee: Guarantee,
    /// The event that happened, and the one that was due.
    pub what: String,
}

impl Broken {
    /// Says that a guarantee did not hold.
    #[must_use]
    pub fn new(guarantee: Guarantee, what: impl Into<String>) -> Self {
        Self { guarantee, what: what.into() }
    }

    /// Fails unless `holds`; only then are words found for it.
    ///
    /// # Errors
    ///
    /// That guarantee, if it does not hold.
    pub fn unless(
        holds: bool,
        guarantee: Guarantee,
        what: impl FnOnce() -> String,
    ) -> Result<(), Self> {
        if holds { Ok(()) } else { Err(Self::new(guarantee, what())) }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.guarantee, self.what)
    }
}

impl std::error::Error for Broken {}
