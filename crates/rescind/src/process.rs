//! The process of a server that `call` and `relay` start.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use clap::Args;
use protocol_child::ChildCommand;

/// Where a server runs, what it finds there, and how it is ended.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "The server's process")]
pub(crate) struct ProcessArgs {
    /// Start the server in this directory
    #[arg(long, value_name = "DIR", value_parser = directory)]
    cwd: Option<PathBuf>,

    /// Set a variable of the server's environment; again for each
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(String, String)>,

    /// How long the server may take to end once its input is closed, and once more after SIGTERM, such as
    /// 10s [default: 500ms for a call, 2s behind a relay]
    #[arg(long, value_name = "DUR", value_parser = crate::duration)]
    exit_grace: Option<Duration>,
}

impl ProcessArgs {
    /// What is to be started, with this grace unless another is asked for.
    pub(crate) fn child(&self, mut command: Command, grace: Duration) -> ChildCommand {
        if let Some(directory) = &self.cwd {
            command.current_dir(directory);
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        ChildCommand::new(command).grace(self.exit_grace.unwrap_or(grace))
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
