//! The process of a program that `call`, `relay`, `replay` and `conform` start, and words of a command line.

use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::Command;
#[cfg(target_os = "linux")]
use std::process::ExitCode;
#[cfg(target_os = "linux")]
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use protocol_child::{ChildCommand, Stderr};

#[cfg(target_os = "linux")]
use crate::exit::Exit;
#[cfg(target_os = "linux")]
use crate::note;
use crate::terminal::{Line, pass_on};

/// Returns the command of these words, if there are any.
pub(crate) fn command(words: &[OsString]) -> Option<Command> {
    let (program, arguments) = words.split_first()?;
    let mut command = Command::new(program);
    command.args(arguments);
    Some(command)
}

/// Returns an option and its value as words of a command line. Without a value there are none.
pub(crate) fn option(name: &str, value: Option<impl Display>) -> impl Iterator<Item = String> {
    value.into_iter().flat_map(|value| [name.to_owned(), value.to_string()])
}

/// Returns a duration as a command line has it.
pub(crate) fn milliseconds(duration: Duration) -> String {
    format!("{}ms", duration.as_millis())
}

/// The place in which a program runs, its environment, and its end.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "The process of COMMAND")]
pub(crate) struct ProcessArgs {
    /// Start COMMAND in this directory
    #[arg(long, value_name = "DIR", value_parser = directory)]
    cwd: Option<PathBuf>,

    /// Set a variable of COMMAND's environment; again for each
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(String, String)>,

    /// The time that COMMAND has to end once its input is closed, such as 10s. It has the same after SIGTERM
    /// [default: 500ms for a call, 2s behind a relay or a replay, 10s for a test]
    #[arg(long, value_name = "DUR", value_parser = crate::duration)]
    exit_grace: Option<Duration>,

    /// Leave processes that COMMAND has detached on purpose, with `setsid` or as a daemon. Without this
    /// nothing is left of it, on Linux; elsewhere these are left
    #[arg(long)]
    leave_detached: bool,
}

impl ProcessArgs {
    /// Returns the command to start, with this grace unless another is asked for.
    pub(crate) fn child(&self, command: Command, grace: Duration) -> ChildCommand {
        let grace = self.exit_grace.unwrap_or(grace);
        #[cfg(target_os = "linux")]
        let command = self.supervisor(&command, grace);
        let mut command = command;
        if let Some(directory) = &self.cwd {
            command.current_dir(directory);
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        let child = ChildCommand::new(command).grace(grace).stderr(stderr());
        #[cfg(target_os = "linux")]
        let child = child.supervisor();
        child
    }

    /// Returns the arguments that these options were read from, without the values of variables.
    pub(crate) fn words(&self) -> Vec<String> {
        let directory = self.cwd.as_ref().map(|directory| directory.display());
        let mut words: Vec<_> = option("--cwd", directory).collect();
        words.extend(self.env.iter().flat_map(|(name, _)| ["--env".into(), format!("{name}=…")]));
        words.extend(option("--exit-grace", self.exit_grace.map(milliseconds)));
        if self.leave_detached {
            words.push("--leave-detached".into());
        }
        words
    }

    /// Returns ourselves as the supervisor of the command.
    #[cfg(target_os = "linux")]
    fn supervisor(&self, command: &Command, grace: Duration) -> Command {
        use std::os::unix::process::CommandExt;

        // It is there even when the file of this program was replaced meanwhile.
        let mut supervisor = Command::new("/proc/self/exe");
        supervisor.arg0("rescind").arg("supervise");
        supervisor.arg("--grace").arg(format!("{}ns", grace.as_nanos()));
        if self.leave_detached {
            supervisor.arg("--leave-detached");
        }
        supervisor.arg("--").arg(command.get_program()).args(command.get_args());
        supervisor
    }
}

/// Passes on the lines of a server's standard error, as text where ours is a terminal.
fn stderr() -> Stderr {
    let is_terminal = io::stderr().is_terminal();
    Stderr::Lines(Box::new(move |line| {
        pass_on(if is_terminal { Line::new().message(line) } else { Line::as_it_is(line) });
    }))
}

/// The most characters of a command that name a process.
#[cfg(target_os = "linux")]
const NAMED: usize = 60;

/// Supervise a server for the command that started this
#[cfg(target_os = "linux")]
#[derive(Debug, Args)]
pub struct SuperviseArgs {
    /// The time that the server may take to end, and once more after SIGTERM
    #[arg(long, value_name = "DUR", value_parser = crate::duration)]
    grace: Duration,

    /// Leave processes that have a session of their own
    #[arg(long)]
    leave_detached: bool,

    /// The server, and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Supervises a server until nothing of it is left.
///
/// # Errors
///
/// It can't be started or supervised.
#[cfg(target_os = "linux")]
pub fn supervise(args: &SuperviseArgs) -> Result<ExitCode, Exit> {
    use protocol_child::{Detached, Supervision, supervise};
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

    // It ends last. A handler that does nothing is not inherited, as an ignored signal would be.
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        let _ = signal_hook::flag::register(signal, Arc::default());
    }
    let mut command = command(&args.command).ok_or("there is no COMMAND")?;
    let mut supervision = Supervision::default();
    supervision.grace = args.grace;
    if args.leave_detached {
        supervision.detached = Detached::Keep;
    }
    let supervised = supervise(&mut command, &supervision, &mut |ended| {
        // A relay behind this one has a supervisor of its own, which no server has detached.
        if ended.command.starts_with("rescind supervise ") {
            return;
        }
        let mut command: String = ended.command.chars().take(NAMED).collect();
        if command.len() < ended.command.len() {
            command.push('…');
        }
        note(format_args!("rescind: ended `{command}` ({}), which had detached itself", ended.id));
    });
    supervised.map_err(Exit::usage)?;
    Ok(ExitCode::SUCCESS)
}

fn directory(text: &str) -> Result<PathBuf, String> {
    let directory = PathBuf::from(text);
    match directory.metadata() {
        Ok(found) if found.is_dir() => Ok(directory),
        Ok(_) => Err("it is no directory".into()),
        Err(error) => Err(error.to_string()),
    }
}

fn variable(text: &str) -> Result<(String, String), &'static str> {
    match text.split_once('=') {
        Some(("", _)) | None => Err("it is no NAME=VALUE"),
        Some((name, value)) => Ok((name.into(), value.into())),
    }
}
