//! Everything that is printed for people goes through here, to standard error.
//!
//! A [`Line`] shows what others say as text, so that no terminal obeys it (`text`). Printing one only
//! queues it (`log`): whoever prints may be the one who moves the bytes of a connection, and must not
//! wait for somebody to read standard error.

mod budget;
mod log;
mod spinner;
mod text;
pub mod tracing;

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::panic::Location;

use self::budget::Kind;
pub(crate) use self::log::Log;
pub use self::text::Line;
pub(crate) use self::text::{VALUE, harmless, harmless_json};

/// Prints a line of text, as `say` does.
#[track_caller]
pub fn note(line: impl Display) {
    say(Line::new().text(line));
}

/// Prints a line. All lines that are printed at one place of the program share a budget of so many a second;
/// the rest is counted.
#[track_caller]
pub(crate) fn say(line: Line) {
    Log::of_this_process().push(line.finish(), Some(Kind::event(Location::caller())));
}

/// Prints a line that a server wrote for whoever started it. Its budget is larger than that of others.
#[track_caller]
pub(crate) fn pass_on(line: Line) {
    Log::of_this_process().push(line.finish(), Some(Kind::server(Location::caller())));
}

/// Prints a line that was asked for, as by `--trace`: there may be as many as are read.
pub(crate) fn show(line: Line) {
    Log::of_this_process().push(line.finish(), None);
}

/// Shows on a terminal that this is waited for; lines are printed around it.
pub(crate) fn spin(what: impl Display) {
    let what = Line::new().text(what).finish();
    Log::of_this_process().spin(Some(what.trim_end().into()));
}

/// Nothing is waited for any more.
pub(crate) fn stop_spinning() {
    Log::of_this_process().spin(None);
}

/// Waits until what was printed is written, as long as somebody reads it.
pub fn finish() {
    Log::of_this_process().finish();
}

/// Returns a number and the name of its things, such as `2 requests`.
pub(crate) fn counted(number: u64, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{plural}")
}

/// Prints JSON on standard output: as it is, or with what a terminal would obey shown as text.
///
/// # Errors
///
/// It can't be written.
pub(crate) fn print_json(json: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    if stdout.is_terminal() {
        writeln!(stdout, "{}", harmless_json(json))?;
    } else {
        writeln!(stdout, "{json}")?;
    }
    stdout.flush()
}
