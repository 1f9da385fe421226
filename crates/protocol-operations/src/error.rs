use core::error::Error;
use core::fmt;

/// An operation could not be registered. Nothing has changed, and the data comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterError<T> {
    /// Why not.
    pub problem: RegisterProblem,
    /// What the host gave with the operation.
    pub data: T,
}

/// Why an operation could not be registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum RegisterProblem {
    /// The registry was not told of that kind: it is another registry's, or misspelt.
    UnknownKind,
    /// [`Limits::operations`](crate::Limits::operations) are live.
    TooMany,
    /// A live operation has that token: the entropy was used before.
    TokenInUse,
}

/// [`Limits::kinds`](crate::Limits::kinds) are declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyKinds;

/// There is no such operation: there never was, or it has ended. On the wire this is error -32001.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotFound;

/// Why work should not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckError {
    /// The operation was cancelled.
    Cancelled,
    /// There is no such operation.
    NotFound,
}

impl<T> fmt::Display for RegisterError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the operation was not registered")
    }
}

impl<T: fmt::Debug> Error for RegisterError<T> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.problem)
    }
}

impl fmt::Display for RegisterProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownKind => "the registry does not know that kind of operation",
            Self::TooMany => "too many operations are live (limits.operations)",
            Self::TokenInUse => "a live operation has that token",
        })
    }
}

impl fmt::Display for TooManyKinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("too many kinds of operations are declared (limits.kinds)")
    }
}

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Operation not found")
    }
}

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cancelled => f.write_str("Operation cancelled"),
            Self::NotFound => NotFound.fmt(f),
        }
    }
}

impl Error for RegisterProblem {}
impl Error for TooManyKinds {}
impl Error for NotFound {}
impl Error for CheckError {}
