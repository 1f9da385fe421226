//! The reasons why a check stops short or a rule does not hold.

/// The reason why nothing is said on a machine that is late.
pub(crate) const TOO_LATE: &str = "the machine was too slow to tell";

/// The reason why the rest of the steps is not done.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Stop {
    /// The check can't be done with this server.
    NotExercised(String),
    /// It can, and this time nothing was seen: what is looked at was over too soon, or the machine too slow for it.
    Missed(String),
    /// The server did not do for long what it has to.
    Stuck(String),
    /// The server ended, and was not asked to.
    Ended(String),
}

impl Stop {
    /// Nothing is said, since the machine was late.
    pub(crate) fn too_late() -> Self {
        Self::Missed(TOO_LATE.into())
    }

    /// Returns the reason in words.
    pub(crate) fn why(&self) -> &str {
        match self {
            Self::NotExercised(why) | Self::Missed(why) | Self::Stuck(why) | Self::Ended(why) => {
                why
            }
        }
    }
}

/// Can't be done with this server, for this reason.
pub(crate) fn lacks<T>(why: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::NotExercised(why.into()))
}

/// Was not seen this time, for this reason.
pub(crate) fn missed<T>(why: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Missed(why.into()))
}

/// The reason why a rule is not seen to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The record breaks the rule.
    Broken(String),
    /// The record shows neither that it holds nor that it is broken.
    Unclear(String),
}

/// Is broken for this reason.
pub(crate) fn broken(why: String) -> Result<(), Fault> {
    Err(Fault::Broken(why))
}

/// Neither holds nor is broken, for this reason.
pub(crate) fn unclear(why: impl Into<String>) -> Result<(), Fault> {
    Err(Fault::Unclear(why.into()))
}

impl<T: Into<String>> From<T> for Fault {
    fn from(why: T) -> Self {
        Self::Broken(why.into())
    }
}

/// Holds if nothing was found, or is broken for this reason.
pub(crate) fn none<T>(found: Option<T>, why: impl FnOnce(T) -> String) -> Result<(), Fault> {
    found.map_or(Ok(()), |found| broken(why(found)))
}

/// Holds, or is broken for this reason.
pub(crate) fn holds_if(holds: bool, why: impl FnOnce() -> String) -> Result<(), Fault> {
    if holds { Ok(()) } else { broken(why()) }
}
