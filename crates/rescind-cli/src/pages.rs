//! `rescind completions` and `rescind man`: what a shell and `man` know of the command line.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::{Shell, generate};
use clap_mangen::{Man, generate_to};

use crate::exit::Exit;

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
    /// The folder for `rescind.1`, `rescind-call.1` and so on; it is made if it is not there
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
}

/// Runs `completions` for this command line.
///
/// # Errors
///
/// Standard output can't be written.
pub fn completions(args: &CompletionsArgs, mut command: Command) -> Result<ExitCode, Exit> {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    generate(args.shell, &mut command, name, &mut script);
    print(&script)
}

/// Runs `man` for this command line.
///
/// # Errors
///
/// The pages can't be written.
pub fn man(args: &ManArgs, command: Command) -> Result<ExitCode, Exit> {
    // To ask for help is described with the commands, and is none.
    let command = command.disable_help_subcommand(true);
    let Some(directory) = &args.directory else {
        let mut page = Vec::new();
        Man::new(command).render(&mut page).map_err(Exit::shown)?;
        return print(&page);
    };
    let written = fs::create_dir_all(directory).and_then(|()| generate_to(command, directory));
    written.map_err(|error| format!("{}: {error}", directory.display()))?;
    Ok(ExitCode::SUCCESS)
}

fn print(bytes: &[u8]) -> Result<ExitCode, Exit> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(Exit::shown)?;
    Ok(ExitCode::SUCCESS)
}
