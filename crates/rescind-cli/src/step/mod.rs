//! `rescind step`: the pure core as a filter.
//!
//! One JSON object a line in, one a line out, and no clock but the input's: for test vectors, for
//! fuzzers, and for hosts in any language. [`run`] is the whole command; a [`Session`] takes line
//! after line, for tests. A line is read by `command`, and what came of it is written by `output`.

mod args;
mod command;
mod compact;
mod error;
mod output;
mod session;

use std::io::{BufRead, Read, Write};

use crate::exit::{self, Exit};
use crate::note;
pub use args::{Side, StepArgs};
pub use error::InputProblem;
pub use session::Session;

/// The longest line that is taken, its end included. The longest message that is allowed takes less, in any of
/// the forms that a line may carry it in.
const LINE_BYTES: u64 = 128 << 20;

/// Takes line after line from `input` until it ends, and writes what came of each, at once, to
/// `output`. The end of `input` is not the end of the connection: nothing more is written.
///
/// # Errors
///
/// Returns the end of the command: for the first line that is no input, or if `output` fails. If `input` fails, the
/// reason is already on standard error. Faults of the peer or of the host are output, and no errors.
pub fn run(args: &StepArgs, mut input: impl BufRead, mut output: impl Write) -> Result<(), Exit> {
    let mut session = Session::new(args);
    let (mut line, mut lines) = (Vec::new(), Vec::new());
    for number in 1_u64.. {
        line.clear();
        lines.clear();
        let read = input.by_ref().take(LINE_BYTES + 1).read_until(b'\n', &mut line);
        let read = read.map_err(|error| {
            note(format_args!("rescind step: cannot read the input: {error}"));
            Exit::told(exit::ERROR)
        })?;
        if read == 0 {
            break;
        }
        let taken = if line.len() as u64 > LINE_BYTES {
            Err(InputProblem::new("the line is longer than 128 MiB"))
        } else {
            session.take(&line, &mut lines)
        };
        taken.map_err(|problem| problem.in_line(number))?;
        output.write_all(&lines).and_then(|()| output.flush()).map_err(Exit::output)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::args::HELP;
    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: StepArgs,
    }

    fn stepped(input: &str) -> Result<String, Exit> {
        let mut output = Vec::new();
        let args = Command::parse_from(["step"]).args;
        run(&args, input.as_bytes(), &mut output)?;
        Ok(String::from_utf8(output).unwrap())
    }

    #[test]
    fn the_example_of_the_help_is_true() {
        let example = HELP.split("\n\n").take(2).collect::<Vec<_>>();
        let input: String = example[0]
            .split('\'')
            .filter(|word| word.starts_with('{'))
            .map(|line| format!("{line}\n"))
            .collect();
        let output: String = example[1].lines().map(|line| format!("{}\n", line.trim())).collect();
        assert_eq!(input.lines().count(), 3);
        assert_eq!(stepped(&input).unwrap(), output);
    }

    #[test]
    fn empty_lines_are_skipped_and_counted() {
        assert_eq!(stepped("\n  \r\n").unwrap(), "");
        let error = stepped("\n\n{\"advance\": 1, \"hold\": true}\n").unwrap_err();
        assert_eq!(error.why.unwrap(), "line 3: advance and hold in one input; give one a line");
    }

    #[test]
    fn f71_an_endless_line_is_an_error_and_is_not_kept() {
        let mut endless = std::io::BufReader::new(std::io::repeat(b'x'));
        let args = Command::parse_from(["step"]).args;
        let error = run(&args, &mut endless, Vec::new()).unwrap_err();
        assert_eq!(error.why.unwrap(), "line 1: the line is longer than 128 MiB");
    }

    #[test]
    fn f71_the_longest_message_is_taken_however_it_is_written() {
        let escaped = "\\u0078".repeat(16 << 20);
        let output = stepped(&format!("{{\"receive\":\"{escaped}\"}}\n")).unwrap();
        assert!(output.starts_with("{\"event\":\"violation\",\"kind\":\"parse\"}"), "{output}");
    }

    #[test]
    fn a_call_without_a_name_gets_one_that_is_free() {
        let calls = [r#"{"call":{"method":"a","as":"c2"}}"#, r#"{"call":{"method":"b"}}"#];
        let taken = [calls[0], calls[1], calls[1], r#"{"cancel":"c3"}"#, r#"{"cancel":"c4"}"#];
        let output = stepped(&taken.join("\n")).unwrap();
        assert_eq!(output.matches(r#""kind":"request""#).count(), 3, "{output}");
        assert!(!output.contains("refused"), "{output}");
    }

    #[test]
    fn what_came_before_a_bad_line_is_written() {
        let mut output = Vec::new();
        let args = Command::parse_from(["step", "--dialect", "lsp", "--side", "server"]).args;
        let input = "{\"notify\":{\"method\":\"m\"}}\n{\"notify\":{}}\n".as_bytes();
        let error = run(&args, input, &mut output).unwrap_err();
        assert_eq!(error.why.unwrap(), "line 2, column 12: missing field `method`");
        assert!(output.ends_with(b"\"kind\":\"notification\"}\n"));
    }
}
