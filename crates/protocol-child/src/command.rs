//! A command to spawn, and the options of its process.

use std::fmt;
use std::io;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use crate::group::Started;
#[cfg(windows)]
use crate::group::job as keeper;
#[cfg(target_os = "linux")]
use crate::group::supervised;
#[cfg(unix)]
use crate::group::watched as keeper;
use crate::process::{Owner, Process};
use crate::stderr::Stderr;

/// The longest grace, a year. A moment that is so far away can still be told.
const LONGEST_GRACE: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A command to spawn, and the options of its process. A [`Command`] alone is one with every default.
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
    /// Spawns it in a group, with a keeper that ends the group when this program is killed.
    spawn: fn(&mut Command, Duration) -> io::Result<Started>,
}

/// A process that was spawned.
#[derive(Debug)]
#[non_exhaustive]
pub struct Spawned {
    /// The owner, which ends the process when it is dropped.
    pub owner: Owner,
    /// The standard input of the process.
    pub stdin: ChildStdin,
    /// The standard output of the process.
    pub stdout: ChildStdout,
}

impl ChildCommand {
    /// Creates a command with every default: two seconds of grace, and our own standard error.
    pub fn new(command: Command) -> Self {
        let grace = Duration::from_secs(2);
        Self { command, grace, stderr: Stderr::Inherit, spawn: keeper::spawn }
    }

    /// Sets the time that the process has to end once its input is closed, and once more after `SIGTERM`. At
    /// most a year.
    pub fn grace(self, grace: Duration) -> Self {
        Self { grace: grace.min(LONGEST_GRACE), ..self }
    }

    /// Declares that the command is a supervisor: a program that calls [`supervise`](crate::supervise) at once,
    /// such as the host itself with an argument for that.
    ///
    /// Then nothing is left of what the supervisor's command starts, however it detaches itself. The process of
    /// the connection is that command. This program becomes a subreaper: orphans become its children, and this
    /// crate reaps those of its groups. If a supervisor fails or is killed, this program ends all its descendants in
    /// other sessions, but for what this crate has spawned.
    #[cfg(target_os = "linux")]
    pub fn supervisor(self) -> Self {
        Self { spawn: supervised::spawn, ..self }
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
/// A terminal's Ctrl-C does not reach it there, so its owner decides when it ends.
///
/// # Errors
///
/// The process, its watchdog or a thread that waits for it can't be started. A supervisor that does not report in 30
/// seconds is one of those. Nothing is left running then.
pub fn spawn(command: impl Into<ChildCommand>) -> io::Result<Spawned> {
    let ChildCommand { mut command, grace, stderr, spawn } = command.into();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr.stdio());
    let Started { group, id, stdin, stdout, stderr: errors } = spawn(&mut command, grace)?;
    let process = Process::new(id, group, grace);
    let owner = process.start(&stdout, errors.map(|errors| (errors, stderr)))?;
    Ok(Spawned { owner, stdin, stdout })
}
