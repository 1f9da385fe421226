//! `rescind replay`: a recording is done again, by the core or with a real server.

mod against;
mod core;
mod reading;
mod setup;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::Args;
use protocol_record::Line;
use protocol_record::line::Header;

use self::against::{Asked, Pace, Script, play};
pub(crate) use self::core::framed;
use self::core::{Counts, Replay};
use self::reading::{End, explain, read};
pub(crate) use self::setup::{RelaySetup, Setup, relay_options};
use crate::exit::{self, Exit};
use crate::note;
use crate::process::{self, ProcessArgs};
use crate::terminal::{counted, harmless};

/// Do again what a recording holds, and see that it goes the same way
///
/// Sets up the relay that made FILE, and gives its core the same messages at the same times. Its messages and
/// decisions are compared with the recorded ones, byte for byte. The first difference is shown from both sides,
/// with its line. The recording has to be made by `rescind relay --record FILE --payloads`.
///
/// With --against, the messages of the recorded client go to a real server. The kind of each response is compared:
/// a result, an error of the same code, a malformed one, or none. Differences within results are counted.
/// `rescind call --record FILE --payloads` makes a recording for that, too.
///
/// Exit codes: 0 it is all the same, 1 something differs, or the recording does not hold everything, 2 usage,
/// which includes a file that can't be replayed at all, 6 the server could not be started, 7 standard output
/// could not be written.
#[derive(Debug, Args)]
#[command(mut_group("ProcessArgs", |process| process.requires("against")))]
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
    let [inputs, sent, verdicts] =
        [(inputs, "input"), (sent, "message"), (verdicts, "verdict")].map(|(n, of)| counted(n, of));
    let told = format!("{inputs}, {sent} sent, {verdicts}: ");
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
    let mut script = Script::read(&args.file)?;
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

fn replay(file: &Path) -> Result<(Counts, End), String> {
    let mut replay = None;
    let end = read(file, |line| {
        if let (Line::Recording(header), None) = (line, &replay) {
            replay = Some(set_up(header)?);
        }
        Ok(replay.as_mut().map_or(Ok(()), |replay: &mut Replay| replay.take(line)))
    })?;
    Ok((replay.map(|replay| replay.counts).unwrap_or_default(), end))
}

/// The relay that the first header of a recording describes.
fn set_up(header: &Header<'_>) -> Result<Replay, String> {
    let Some(setup) = header.setup else {
        return Err("only what `rescind relay` recorded can be replayed: of other programs it \
                    is not known what they asked of the core"
            .into());
    };
    let Setup::Relay(setup) = serde_json::from_str(setup.get())
        .map_err(|error| format!("what it was set up with can't be read: {error}"))?;
    setup.options().map(Replay::new)
}
