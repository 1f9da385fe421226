//! `rescind replay`: a recording is done again, by the core or with a real server.

mod core;
mod setup;

use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use protocol_record::line::{Header, Payloads};
use protocol_record::{Line, Reader, Unread};

use self::core::{Counts, Replay, Stop};
pub(crate) use self::setup::{RelaySetup, Setup};
use crate::terminal::{Line as Text, say};
use crate::view::files;
use crate::{exit, output_error, usage_error};

/// Do again what a recording holds, and see that it goes the same way
///
/// Sets up the relay that made FILE, gives its core the same messages at the same times, and compares
/// what it sends and decides with what was recorded, byte for byte. What differs first is shown, from
/// both sides, with its line. The recording has to be made by `rescind relay --record FILE --payloads`.
///
/// Exit codes: 0 it is all the same, 1 something differs, or the recording does not hold everything, 2 usage,
/// which includes a file that can't be replayed at all, 7 standard output could not be written.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// The recording
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Where and why it did not go on.
struct Stopped {
    path: PathBuf,
    /// From 1.
    line: u64,
    stop: Stop,
}

/// How far the recording could be replayed.
enum End {
    /// To its end.
    Whole,
    /// To where whoever wrote it was stopped.
    Cut,
    Stopped(Box<Stopped>),
}

/// Runs the command.
#[must_use]
pub fn main(args: &ReplayArgs) -> ExitCode {
    let (counts, end) = match replay(&args.file) {
        Ok(replayed) => replayed,
        Err(problem) => return usage_error(problem),
    };
    let Counts { inputs, sent, verdicts } = counts;
    let told = format!("{inputs} inputs, {sent} messages sent, {verdicts} verdicts: ");
    let (told, code) = match &end {
        End::Whole => (told + "the same, byte for byte", ExitCode::SUCCESS),
        End::Cut => {
            (told + "the same as far as the recording goes, which has no end", ExitCode::SUCCESS)
        }
        End::Stopped(_) => (told + "the same before that", ExitCode::from(exit::ERROR)),
    };
    if let End::Stopped(stopped) = &end {
        explain(stopped);
    }
    match writeln!(io::stdout().lock(), "{told}") {
        Ok(()) => code,
        Err(error) => output_error(error),
    }
}

/// Says what differs, and where.
fn explain(Stopped { path, line, stop }: &Stopped) {
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

fn replay(file: &Path) -> Result<(Counts, End), String> {
    let mut replay = None;
    let mut end = End::Cut;
    for path in files::parts(file)? {
        let file = File::open(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut reader = Reader::new(BufReader::with_capacity(256 << 10, file));
        for line in 1.. {
            let stop = match reader.line() {
                Ok(None) => break,
                Ok(Some(Line::Recording(header))) => {
                    if replay.is_none() {
                        let made = set_up(&header);
                        replay = Some(made.map_err(|why| format!("{}: {why}", path.display()))?);
                    }
                    continue;
                }
                Ok(Some(it)) => {
                    let replay = replay.as_mut().expect("the first line is a header");
                    end = if matches!(it, Line::End(_)) { End::Whole } else { End::Cut };
                    match replay.take(&it) {
                        Ok(()) => continue,
                        Err(stop) => stop,
                    }
                }
                Err(Unread::Cut { .. }) => {
                    end = End::Cut;
                    continue;
                }
                Err(Unread::Line { .. }) => Stop::Lacks("this is no line of a recording"),
                Err(error) => return Err(format!("{}: {error}", path.display())),
            };
            end = End::Stopped(Box::new(Stopped { path: path.clone(), line, stop }));
            break;
        }
        if matches!(end, End::Stopped(_)) {
            break;
        }
    }
    Ok((replay.map(|replay| replay.counts).unwrap_or_default(), end))
}

/// The relay that the first header of a recording describes.
fn set_up(header: &Header<'_>) -> Result<Replay, String> {
    if header.payloads == Payloads::Redacted {
        return Err("nothing but methods and ids was recorded: only a recording made with \
                    --payloads can be replayed"
            .into());
    }
    if header.part > 1 {
        return Err(format!(
            "its first {} files are gone, and with them what everything began with; \
             --record-files and --record-size keep more",
            header.part - 1
        ));
    }
    let Some(setup) = header.setup else {
        return Err("only what `rescind relay` recorded can be replayed: of other programs it \
                    is not known what they asked of the core"
            .into());
    };
    let Setup::Relay(setup) = serde_json::from_str(setup.get())
        .map_err(|error| format!("what it was set up with can't be read: {error}"))?;
    setup.options().map(Replay::new)
}
