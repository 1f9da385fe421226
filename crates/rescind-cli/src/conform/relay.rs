//! `rescind conform relay`: tests how a relay, a proxy or a multiplexer passes cancels on.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use rescind_conform::{Progress, RELAY_CHECKS, RelayOptions, RelayProgram, run_relay};

use super::suite::{self, SuiteArgs, opening};
use crate::dialect::{NameParser, Spoken};
use crate::exit::{self, Exit};
use crate::process::option;
use crate::terminal::spin;

/// Test a relay: start COMMAND anew for each check, be its client and its server, and say what holds
///
/// COMMAND is that of the relay, without its server's: that is added at the end of it, or takes the place of the
/// argument {server}. Within an argument {server} becomes that command in one piece, as a shell reads it. What is
/// started by it is this program, so that both sides of the relay are seen.
///
/// Exit codes: 0 everything holds, 1 something does not, 2 usage, 3 ended by a signal, or its caller is gone, 6 no
/// session could be opened, 7 standard output can't be written, 8 what was tried holds, but not every MUST could be
/// tried.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct RelayArgs {
    /// The protocol that both sides of the relay speak: acp, lsp or mcp, or a revision of one;
    /// `rescind dialects` lists them
    #[arg(long, value_name = "NAME", default_value = "acp", value_parser = NameParser, hide_possible_values = true)]
    dialect: Spoken,

    /// The protocol that the relay speaks with its client
    #[arg(long, value_name = "NAME", requires = "down", conflicts_with = "dialect", value_parser = NameParser, hide_possible_values = true)]
    up: Option<Spoken>,

    /// The protocol that the relay speaks with its server
    #[arg(long, value_name = "NAME", requires = "up", conflicts_with = "dialect", value_parser = NameParser, hide_possible_values = true)]
    down: Option<Spoken>,

    /// Open sessions with the messages of this file, one JSON a line, instead of the dialect's opening; none
    /// if it is empty
    #[arg(long, value_name = "FILE")]
    open: Option<PathBuf>,

    #[command(flatten)]
    suite: SuiteArgs,

    /// The relay to test, and its arguments
    #[arg(last = true, value_name = "COMMAND", required_unless_present = "list")]
    command: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  rescind conform relay --dialect mcp -- rescind relay --dialect mcp --
  rescind conform relay --up lsp --down acp -- rescind relay --up lsp --down acp --
  rescind conform relay --dialect lsp -- sh -c 'multiplexer --server {server}'";

impl RelayArgs {
    pub(super) fn run(&self) -> Result<ExitCode, Exit> {
        if self.suite.list {
            return suite::list(RELAY_CHECKS);
        }
        let options = self.options()?;
        let own = env::current_exe().map_err(|error| Exit::new(exit::UNREACHABLE, error))?.into();
        let bridge = vec![own, "conform".into(), "bridge".into()];
        let relay = RelayProgram::new(self.suite.program(&self.command), bridge);
        spin("opening a session through the relay");
        let name = suite::name(&self.command);
        self.suite.run(
            &name,
            |id| self.replay(id),
            |seen| {
                let seen = |outcome: &_| seen(Progress::Checked(outcome));
                let mut report = run_relay(&relay, &options, seen)?;
                report.facts["relay"] = name.as_str().into();
                Ok(report)
            },
        )
    }

    fn sides(&self) -> [&Spoken; 2] {
        [&self.up, &self.down].map(|side| side.as_ref().unwrap_or(&self.dialect))
    }

    fn options(&self) -> Result<RelayOptions, String> {
        let [near, far] = self.sides().map(|side| side.dialect.clone());
        let mut options = RelayOptions::new(near, far);
        options.open = self.open.as_deref().map(opening).transpose()?;
        self.suite.set(&mut options.suite, RELAY_CHECKS)?;
        Ok(options)
    }

    /// The command that runs one check as it was run here.
    fn replay(&self, id: &str) -> String {
        let [near, far] = self.sides().map(|side| side.dialect.name.to_string());
        let mut words = match self.up {
            Some(_) => vec!["--up".into(), near, "--down".into(), far],
            None => vec!["--dialect".into(), near],
        };
        words.extend(option("--open", self.open.as_ref().map(|open| open.display())));
        self.suite.again("relay", words, id, &self.command)
    }
}
