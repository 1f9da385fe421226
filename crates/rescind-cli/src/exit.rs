//! Exit codes of the program, apart from 0.

/// An error response, or a failed server.
pub(crate) const ERROR: u8 = 1;
/// Wrong usage, as clap has it.
pub(crate) const USAGE: u8 = 2;
/// The call was cancelled, or given up.
pub(crate) const CANCELLED: u8 = 3;
/// The call timed out.
pub(crate) const TIMED_OUT: u8 = 4;
/// The connection was lost.
pub(crate) const LOST: u8 = 5;
/// The server could not be started or connected to.
pub(crate) const UNREACHABLE: u8 = 6;
/// Standard output can't be written.
pub(crate) const OUTPUT: u8 = 7;
/// Everything tested holds, but not all that has to was tested.
pub(crate) const INCOMPLETE: u8 = 8;
