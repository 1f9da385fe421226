//! Errors in the input of the command.

use std::fmt;
use std::io;

/// The reason that [`run`](super::run) ended early.
#[derive(Debug)]
#[non_exhaustive]
pub enum StepError {
    /// A line is no input of this command: wrong usage.
    Input {
        /// Counts lines from 1.
        line: u64,
        /// The problem with it.
        problem: InputProblem,
    },
    /// The input can't be read.
    Read(io::Error),
    /// The output can't be written.
    Write(io::Error),
}

/// The problem with a line. The session is as it was before.
#[derive(Debug)]
#[non_exhaustive]
pub enum InputProblem {
    /// It is not JSON, or a member is wrong.
    Json(serde_json::Error),
    /// It is longer than any message makes it.
    TooLong,
    /// It holds no command.
    NoCommand,
    /// It holds more than one command.
    TwoCommands(&'static str, &'static str),
    /// `reason` belongs to `cancel` and `end` alone.
    StrayReason,
    /// An answer holds a result or an error, and not both.
    ResultOrError,
    /// `at` is in the past.
    Past {
        /// The time it names, in milliseconds.
        at: u64,
        /// The time it is, in milliseconds.
        now: u64,
    },
}

impl fmt::Display for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input { line, problem: InputProblem::Json(error) } => {
                write!(f, "line {line}, column {}: {}", error.column(), without_position(error))
            }
            Self::Input { line, problem } => write!(f, "line {line}: {problem}"),
            Self::Read(error) => write!(f, "cannot read the input: {error}"),
            Self::Write(error) => write!(f, "cannot write the output: {error}"),
        }
    }
}

impl fmt::Display for InputProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(error) => f.write_str(&without_position(error)),
            Self::TooLong => f.write_str("the line is longer than 128 MiB"),
            Self::NoCommand => {
                f.write_str("no command; rescind step --help lists what an input can be")
            }
            Self::TwoCommands(first, second) => {
                write!(f, "{first} and {second} in one input; give one a line")
            }
            Self::StrayReason => f.write_str("reason belongs to cancel and end"),
            Self::ResultOrError => f.write_str("respond takes either a result or an error"),
            Self::Past { at, now } => {
                write!(f, "at {at} is in the past, it is {now}; time never runs backwards")
            }
        }
    }
}

/// The message alone: every input is line 1 to `serde_json`.
fn without_position(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    text.strip_suffix(&position).unwrap_or(&text).to_owned()
}

impl std::error::Error for StepError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Input { problem, .. } => Some(problem),
            Self::Read(error) | Self::Write(error) => Some(error),
        }
    }
}

impl std::error::Error for InputProblem {}
