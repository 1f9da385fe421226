//! The refusals of the registry.

use core::error::Error;
use core::fmt;

/// A refused registration. Nothing has changed, and the data comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterError<T> {
    /// The reason of the refusal.
    pub problem: RegisterProblem,
    /// The host's data on the operation.
    pub data: T,
}

/// The reason why a registration was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum RegisterProblem {
    /// The kind is not declared in this registry.
    UnknownKind,
    /// As many operations are live as [`Limits::operations`](crate::Limits::operations) allows.
    TooMany,
    /// Another live operation has this token, so the source of entropy has repeated itself.
    TokenInUse,
}

/// As many kinds are declared as [`Limits::kinds`](crate::Limits::kinds) allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyKinds;

/// No live operation of this registry has that id.
///
/// It never existed, it has ended, or it belongs to another registry. On the wire this is error
/// -32001.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotFound;

/// The reason why a worker has to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckError {
    /// The operation was cancelled.
    Cancelled,
    /// No live operation has that id; see [`NotFound`].
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
            Self::TokenInUse => "another live operation has that token",
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
