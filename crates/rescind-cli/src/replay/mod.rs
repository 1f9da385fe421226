//! `rescind replay`: a recording is done again, by the core or with a real server.

mod against;
mod core;
mod setup;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::Args;
use protocol_record::line::{Header, Payloads};
use protocol_record::{Line, Unread};

use self::against::{Asked, Pace, Script, play};
pub(crate) use self::core::framed;
use self::core::{Counts, Replay, Stop};
use self::setup::NOT_KEPT;
pub(crate) use self::setup::{RelaySetup, Setup, relay_options};
use crate::exit::{self, Exit};
use crate::note;
use crate::process::{self, ProcessArgs};
use crate::terminal::{Line as Text, harmless, say};
use crate::view::files;

/// Do again what a recording holds, and see that it goes the same way
///
/// Sets up the relay that made FILE, and gives its core the same messages at the same times. Its messages and
/// decisions are compared with the recorded ones, byte for byte. The first difference is shown from both sides,
/// with its line. The recording has to be made by `rescind relay --record FILE --payloads`.
///
/// With --against, the messages of the recorded client go to a real server. The kind of each response is compared:
/// a result, an error of the same code, or none. Differences within results are counted.
/// `rescind call --record FILE --payloads` makes a recording for that, too.
///
/// Exit codes: 0 it is all the same, 1 something differs, or the recording does not hold everything, 2 usage,
/// which includes a file that can't be replayed at all, 6 the server could not be started, 7 standard output
/// could not be written.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// The recording to replay
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Play the client's side to the server that COMMAND starts
    #[arg(long, requires = "command")]
    against: bool,

    /// When to say what the client said
    #[arg(long, value_name = "WHEN", default_value = "recorded", requires = "against")]
    pace: Pace,

    /// The wait for a response that there was in the recording
    #[arg(long, value_name = "DUR", default_value = "10s", value_parser = crate::duration, requires = "against")]
    wait: Duration,

    #[command(flatten)]
    process: ProcessArgs,

    /// The server to start, and its arguments
    #[arg(last = true, value_name = "COMMAND", requires = "against")]
    command: Vec<OsString>,
}

/// The time that a server may take to end once its input is closed.
const GRACE: Duration = Duration::from_secs(2);

/// The point that a replay has reached.
enum End {
    /// To its end.
    Whole,
    /// To where whoever wrote it was stopped.
    Cut,
    /// To a line, counted from 1, at which it did not go on.
    Stopped { path: PathBuf, line: u64, stop: Stop },
}

/// Runs the command.
///
/// # Errors
///
/// The reason that it did not do its work.
pub fn main(args: &ReplayArgs) -> Result<ExitCode, Exit> {
    if let Some(command) = process::command(&args.command) {
        return against(args, command);
    }
    let (counts, end) = replay(&args.file)?;
    let Counts { inputs, sent, verdicts } = counts;
    let told = format!("{inputs} inputs, {sent} messages sent, {verdicts} verdicts: ");
    let (told, code) = match &end {
        End::Whole => (told + "the same, byte for byte", ExitCode::SUCCESS),
        End::Cut => {
            (told + "the same as far as the recording goes, which has no end", ExitCode::SUCCESS)
        }
        End::Stopped { path, line, stop } => {
            explain(path, *line, stop);
            (told + "the same before that", ExitCode::from(exit::ERROR))
        }
    };
    writeln!(io::stdout().lock(), "{told}").map_err(Exit::output)?;
    Ok(code)
}

/// Plays the client's side to a server, and says which requests end otherwise.
fn against(args: &ReplayArgs, command: Command) -> Result<ExitCode, Exit> {
    let script = Script::read(&args.file);
    let mut script = script.map_err(|problem| format!("{}: {problem}", args.file.display()))?;
    let program = command.get_program().to_string_lossy().into_owned();
    let command = args.process.child(command, GRACE);
    let unreached = |error| Exit::new(exit::UNREACHABLE, format_args!("{program}: {error}"));
    let unknown = play(&mut script, command, args.pace, args.wait).map_err(unreached)?;
    for (method, count) in &unknown {
        note(format_args!("{program} asked for {method}, and had no answer: {count}"));
    }
    let (mut same, mut other, mut out) = (0, 0, String::new());
    for asked in script.requests.values() {
        let Asked { id, method, recorded, now } = asked;
        if recorded.is_like(now) {
            same += 1;
            other += u64::from(recorded != now);
        } else {
            let (recorded, now) = (recorded.describe(), now.describe());
            out += &format!("id {id} {}: recorded {recorded}, now {now}\n", harmless(method));
        }
    }
    let all = script.requests.len();
    out += &format!(
        "{all} requests: {same} ended in the same way, {other} of them with another result\n"
    );
    io::stdout().lock().write_all(out.as_bytes()).map_err(Exit::output)?;
    Ok(if same < all { exit::ERROR } else { 0 }.into())
}

/// Says what differs, and where.
fn explain(path: &Path, line: u64, stop: &Stop) {
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
        let mut reader = files::reader(&path, false)?;
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
            let counts = replay.map(|replay| replay.counts).unwrap_or_default();
            return Ok((counts, End::Stopped { path, line, stop }));
        }
    }
    Ok((replay.map(|replay| replay.counts).unwrap_or_default(), end))
}

/// The relay that the first header of a recording describes.
fn set_up(header: &Header<'_>) -> Result<Replay, String> {
    if header.payloads == Payloads::Redacted {
        return Err(NOT_KEPT.into());
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
