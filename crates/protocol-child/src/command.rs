//! A command to spawn, and the options of its process.

use std::fmt;
use std::io;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use crate::group::{self, Started};
use crate::process::{Owner, Process};
use crate::stderr::Stderr;

/// A longer grace is this one: a moment after it can still be told.
const LONGEST_GRACE: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A command to spawn, and how its process is kept. A [`Command`] alone is one with every default.
///
/// ```
/// use protocol_child::{ChildCommand, Stderr};
/// use std::process::Command;
/// use std::time::Duration;
///
/// let server = ChildCommand::new(Command::new("clangd"))
///     .grace(Duration::from_secs(5))
///     .stderr(Stderr::Last { bytes: 4096 });
/// # let _ = server;
/// ```
#[must_use = "nothing is spawned yet"]
pub struct ChildCommand {
    command: Command,
    grace: Duration,
    stderr: Stderr,
    keeper: Keeper,
}

/// The program that ends a process when this one is killed.
#[derive(Clone, Copy, Debug)]
enum Keeper {
    /// A small shell, beside the process.
    Watchdog,
    /// The command itself, above the process.
    #[cfg(target_os = "linux")]
    Supervisor,
}

/// A process that was spawned.
#[derive(Debug)]
#[non_exhaustive]
pub struct Spawned {
    /// Ends it when it is dropped.
    pub owner: Owner,
    /// Its standard input.
    pub stdin: ChildStdin,
    /// Its standard output.
    pub stdout: ChildStdout,
}

impl ChildCommand {
    /// Every default: two seconds of grace, standard error is ours.
    pub fn new(command: Command) -> Self {
        let grace = Duration::from_secs(2);
        Self { command, grace, stderr: Stderr::Inherit, keeper: Keeper::Watchdog }
    }

    /// Sets the time that the process has to end once its input is closed, and once more after `SIGTERM`. At
    /// most a year.
    pub fn grace(self, grace: Duration) -> Self {
        Self { grace: grace.min(LONGEST_GRACE), ..self }
    }

    /// Declares that the command is a supervisor: a program that calls [`supervise`](crate::supervise) at once,
    /// such as the host itself with an argument for that.
    ///
    /// Then nothing is left of what the supervisor's command starts, however it detaches itself, and the process
    /// of the connection is that command. This program becomes a subreaper.
    #[cfg(target_os = "linux")]
    pub fn supervisor(self) -> Self {
        Self { keeper: Keeper::Supervisor, ..self }
    }

    /// Sets the destination of its standard error.
    pub fn stderr(self, stderr: Stderr) -> Self {
        Self { stderr, ..self }
    }
}

impl From<Command> for ChildCommand {
    fn from(command: Command) -> Self {
        Self::new(command)
    }
}

impl fmt::Debug for ChildCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildCommand")
            .field("program", &self.command.get_program())
            .field("grace", &self.grace)
            .field("stderr", &self.stderr)
            .finish_non_exhaustive()
    }
}

/// Spawns a command, with its standard input and output as pipes, in a process group of its own.
///
/// A terminal's Ctrl-C does not reach it there: it ends when its owner lets it.
///
/// # Errors
///
/// Those of spawning, of the process, of its watchdog and of the threads that wait for it. Nothing is
/// left running then.
pub fn spawn(command: impl Into<ChildCommand>) -> io::Result<Spawned> {
    let ChildCommand { mut command, grace, stderr, keeper } = command.into();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr.stdio());
    let started = match keeper {
        Keeper::Watchdog => group::spawn(&mut command, grace)?,
        #[cfg(target_os = "linux")]
        Keeper::Supervisor => group::spawn_supervised(&mut command)?,
    };
    let Started { group, child, stdin, stdout, stderr: errors } = started;
    let process = Process::new(child, group, grace);
    let owner = process.start(&stdout, errors.map(|errors| (errors, stderr)))?;
    Ok(Spawned { owner, stdin, stdout })
}
