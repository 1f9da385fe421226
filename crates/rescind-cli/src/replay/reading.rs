//! The reading of a recording that is to be replayed, and the line at which it stops.

use std::path::{Path, PathBuf};

use protocol_record::line::Payloads;
use protocol_record::{Line, Unread};

use super::core::Stop;
use super::setup::NOT_KEPT;
use crate::terminal::{Line as Text, say};
use crate::view::files;

/// The point that a replay has reached.
pub(super) enum End {
    /// To its end.
    Whole,
    /// To where whoever wrote it was stopped.
    Cut,
    /// To a line, counted from 1, at which it did not go on.
    Stopped { path: PathBuf, line: u64, stop: Stop },
}

/// Reads the lines of a recording, in all of its files, until one stops the reading or the recording is refused. It is
/// refused if it has no payloads, or if its first file is gone.
pub(super) fn read(
    file: &Path,
    mut take: impl FnMut(&Line<'_>) -> Result<Result<(), Stop>, String>,
) -> Result<End, String> {
    let parts = files::parts(file)?;
    let refused = |why: String| format!("{}: {why}", parts[0].display());
    let gone = files::first_line(&parts[0])?.part - 1;
    if gone > 0 {
        return Err(refused(format!(
            "its first {gone} files are gone, and with them what everything began with; \
             --record-files and --record-size keep more"
        )));
    }
    let mut end = End::Cut;
    for path in &parts {
        let mut reader = files::reader(path, true)?;
        for line in 1.. {
            let taken = match reader.line() {
                Ok(None) => break,
                Ok(Some(Line::Recording(header))) if header.payloads == Payloads::Redacted => {
                    return Err(refused(NOT_KEPT.into()));
                }
                Ok(Some(it)) => {
                    end = if matches!(it, Line::End(_)) { End::Whole } else { End::Cut };
                    take(&it).map_err(refused)?
                }
                Err(Unread::Cut { .. }) => {
                    end = End::Cut;
                    Ok(())
                }
                Err(Unread::Line { .. }) => Err(Stop::Lacks("this is no line of a recording")),
                Err(error) => return Err(format!("{}: {error}", path.display())),
            };
            if let Err(stop) = taken {
                return Ok(End::Stopped { path: path.clone(), line, stop });
            }
        }
    }
    Ok(end)
}

/// Says what differs, and where.
pub(super) fn explain(path: &Path, line: u64, stop: &Stop) {
    let place = format!("{}, line {line}: ", path.display());
    match stop {
        Stop::Lacks(what) => say(Text::new().text(place).text(what)),
        Stop::Differs { recorded, decided } => {
            say(Text::new().text(place).text("the core decides otherwise"));
            let nothing = || "(nothing)".to_owned();
            let sides = [recorded, decided].map(|side| side.clone().unwrap_or_else(nothing));
            let [recorded, decided] = &sides;
            let same = recorded.bytes().zip(decided.bytes()).take_while(|(a, b)| a == b).count();
            say(Text::new().text("  recorded: ").text(around(recorded, same)));
            say(Text::new().text("  decided:  ").text(around(decided, same)));
        }
    }
}

/// A text, cut so that what is at this byte is seen.
fn around(text: &str, at: usize) -> String {
    /// So much of what is the same is shown before the difference.
    const BEFORE: usize = 200;
    let begin = (0..=at.saturating_sub(BEFORE)).rev().find(|begin| text.is_char_boundary(*begin));
    match begin {
        None | Some(0) => text.to_owned(),
        Some(begin) => format!("… {}", &text[begin..]),
    }
}
