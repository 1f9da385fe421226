//! Errors in the input of the command.

use std::error::Error;
use std::fmt;
use std::io;

use crate::input;

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
pub struct InputProblem {
    text: String,
    /// The column of the error, if the line is no JSON or a member is wrong. The line is always 1 to `serde_json`.
    column: Option<usize>,
}

impl InputProblem {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), column: None }
    }
}

impl From<serde_json::Error> for InputProblem {
    fn from(error: serde_json::Error) -> Self {
        Self { text: input::reason(&error), column: Some(error.column()) }
    }
}

impl fmt::Display for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input { line, problem: InputProblem { text, column: Some(column) } } => {
                write!(f, "line {line}, column {column}: {text}")
            }
            Self::Input { line, problem } => write!(f, "line {line}: {problem}"),
            Self::Read(error) => write!(f, "cannot read the input: {error}"),
            Self::Write(error) => write!(f, "cannot write the output: {error}"),
        }
    }
}

impl fmt::Display for InputProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for StepError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Input { problem, .. } => Some(problem),
            Self::Read(error) | Self::Write(error) => Some(error),
        }
    }
}

impl Error for InputProblem {}
