//! Errors in the input of the command.

use std::error::Error;
use std::fmt;

use crate::exit::Exit;
use crate::input;

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

    /// Returns the exit for a problem in this line. Lines count from 1.
    pub(super) fn in_line(self, line: u64) -> Exit {
        let column = self.column.map(|column| format!(", column {column}")).unwrap_or_default();
        Exit::usage(format_args!("line {line}{column}: {self}"))
    }
}

impl From<serde_json::Error> for InputProblem {
    fn from(error: serde_json::Error) -> Self {
        Self { text: input::reason(&error), column: Some(error.column()) }
    }
}

impl fmt::Display for InputProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for InputProblem {}
