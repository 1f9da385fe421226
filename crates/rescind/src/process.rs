//! The process of a server that `call` and `relay` start.

use std::path::PathBuf;
use std::process::Command;

use clap::Args;

/// Where a server runs, and what it finds there.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "The server's process")]
pub(crate) struct ProcessArgs {
    /// Start the server in this directory
    #[arg(long, value_name = "DIR", value_parser = directory)]
    cwd: Option<PathBuf>,

    /// Set a variable of the server's environment; again for each
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(String, String)>,
}

impl ProcessArgs {
    /// Sets up what is about to be started.
    pub(crate) fn set_up(&self, command: &mut Command) {
        if let Some(directory) = &self.cwd {
            command.current_dir(directory);
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
    }
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
