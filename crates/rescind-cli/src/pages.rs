//! `rescind completions` and `rescind man`: what a shell and `man` know of the command line.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::{Shell, generate};
use clap_mangen::{Man, generate_to};

use crate::{shown_error, usage_error};

/// Print what a shell needs to complete commands and options
///
/// For bash: `rescind completions bash > ~/.local/share/bash-completion/completions/rescind`
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell to write completions for
    shell: Shell,
}

/// Print the manual page, or write one for each command into a directory
///
/// `rescind man | man -l -` shows it.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Where to write `rescind.1`, `rescind-call.1` and so on; it is made if it is not there
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
}

/// Runs `completions` for this command line.
#[must_use]
pub fn completions(args: &CompletionsArgs, mut command: Command) -> ExitCode {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    generate(args.shell, &mut command, name, &mut script);
    print(&script)
}

/// Runs `man` for this command line.
#[must_use]
pub fn man(args: &ManArgs, command: Command) -> ExitCode {
    // To ask for help is described with the commands, and is none.
    let command = command.disable_help_subcommand(true);
    let Some(directory) = &args.directory else {
        let mut page = Vec::new();
        return match Man::new(command).render(&mut page) {
            Ok(()) => print(&page),
            Err(error) => shown_error(error),
        };
    };
    match write(command, directory) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => usage_error(format_args!("{}: {error}", directory.display())),
    }
}

fn write(command: Command, directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    generate_to(command, directory)
}

fn print(bytes: &[u8]) -> ExitCode {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => shown_error(error),
    }
}
