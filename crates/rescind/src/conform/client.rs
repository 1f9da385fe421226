//! `rescind conform client`: tests how a client cancels, and how it takes a server that is slow, late and hostile.

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use rescind_conform::{CLIENT_CHECKS, ClientOptions, ClientProgram, run_client};
use serde_json::Value;

use super::request;
use super::suite::{self, SuiteArgs};
use crate::dialect::DialectArgs;
use crate::terminal::spin;
use crate::{duration, exit, failure, usage_error};

/// Test a client: start COMMAND anew for each check, be its server, and say what holds
///
/// COMMAND speaks on its standard output and input. A client that starts its server itself has {server} among
/// its arguments: that stands for the command of the server to start. The first request that is not needed
/// to open a session is left unanswered, so that the client may cancel it by its own time-out, or when
/// it is told by --trigger. What can only be seen of a client that cancels is otherwise not exercised.
///
/// Exit codes: 0 everything holds, 1 something does not, 2 usage, 6 the client makes no request, 7 standard
/// output can't be written, 8 what was tried holds, but not every MUST could be tried.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ClientArgs {
    #[command(flatten)]
    dialect: DialectArgs,

    /// The method of the request to leave unanswered [default: the first that no opening needs]
    #[arg(long, value_name = "METHOD")]
    hold: Option<String>,

    /// Answer requests of this method with this; may be repeated
    #[arg(long, num_args = 2, value_names = ["METHOD", "RESULT_JSON"])]
    answer: Vec<String>,

    /// A notification that makes the client cancel its request
    #[arg(long, num_args = 2, value_names = ["METHOD", "PARAMS_JSON"])]
    trigger: Option<Vec<String>>,

    /// A request to the client that takes it time; in its params "$MS" and "$S" stand for how many
    /// milliseconds or seconds it is to take
    #[arg(long, num_args = 2, value_names = ["METHOD", "PARAMS_JSON"])]
    ask: Option<Vec<String>>,

    /// How long that request is asked to take
    #[arg(long, value_name = "DUR", value_parser = duration, default_value = "1s")]
    ask_time: Duration,

    #[command(flatten)]
    suite: SuiteArgs,

    /// The client to test, and its arguments
    #[arg(last = true, value_name = "COMMAND", required_unless_present = "list")]
    command: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  rescind conform client --dialect mcp -- python client.py {server}
  rescind conform client -- rescind call --cancel-after 1s sleep '{\"ms\":1}' -- {server}
  rescind conform client --trigger stop '{}' -- rescind call --cancel-on stop sleep '{\"ms\":1}' -- {server}
  rescind conform client --dialect lsp --hold textDocument/hover --answer textDocument/hover null -- editor {server}";

impl ClientArgs {
    pub(super) fn run(&self) -> ExitCode {
        if self.suite.list {
            return suite::list(CLIENT_CHECKS.iter().map(|it| (it.id, it.clauses, it.title)));
        }
        let options = match self.options() {
            Ok(options) => options,
            Err(error) => return usage_error(error),
        };
        let own = match env::current_exe() {
            Ok(own) => own.into(),
            Err(error) => return failure(exit::UNREACHABLE, error),
        };
        let bridge = vec![own, "conform".into(), "bridge".into()];
        let target = ClientProgram::new(self.command.clone(), bridge);
        spin("finding out what the client does");
        let name = suite::name(&self.command);
        self.suite.run(&name, |id| self.replay(id), |seen| run_client(&target, &options, seen))
    }

    fn options(&self) -> Result<ClientOptions, String> {
        let all: Vec<&str> = CLIENT_CHECKS.iter().map(|check| check.id).collect();
        let mut options = ClientOptions::new(self.dialect.spoken().dialect.clone());
        options.hold.clone_from(&self.hold);
        options.answers = self.answer.chunks_exact(2).map(answer).collect::<Result<_, _>>()?;
        options.trigger = request("--trigger", self.trigger.as_deref())?;
        options.ask = request("--ask", self.ask.as_deref())?;
        options.ask_ms = u64::try_from(self.ask_time.as_millis()).unwrap_or(u64::MAX);
        options.seed = self.suite.seed;
        options.patience = self.suite.patience;
        options.jobs = self.suite.jobs;
        options.only = self.suite.only(&all)?;
        options.known = self.suite.known(&all)?;
        Ok(options)
    }

    /// The command that runs one check as it was run here.
    fn replay(&self, id: &str) -> String {
        let mut words: Vec<String> = ["rescind", "conform", "client"].map(String::from).to_vec();
        words.extend(
            self.dialect.spoken().arguments().map(|word| word.to_string_lossy().into_owned()),
        );
        if let Some(hold) = &self.hold {
            words.extend(["--hold".into(), hold.clone()]);
        }
        for answer in self.answer.chunks_exact(2) {
            words.extend(["--answer".into()].into_iter().chain(answer.iter().cloned()));
        }
        for (option, given) in [("--trigger", &self.trigger), ("--ask", &self.ask)] {
            words.extend(
                given.iter().flat_map(|given| [vec![option.into()], given.clone()].concat()),
            );
        }
        if self.ask_time != Duration::from_secs(1) {
            words.extend(["--ask-time".into(), format!("{}ms", self.ask_time.as_millis())]);
        }
        self.suite.again(words, id, &self.command)
    }
}

fn answer(words: &[String]) -> Result<(String, Value), String> {
    let [method, result] = words else {
        return Err("--answer takes METHOD and RESULT_JSON".into());
    };
    let result =
        serde_json::from_str(result).map_err(|error| format!("--answer {method}: {error}"))?;
    Ok((method.clone(), result))
}

/// Is the server that a tested client starts: what moves the bytes between the two.
pub(super) fn bridge(address: &str) -> ExitCode {
    match rescind_conform::bridge(address) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure(exit::UNREACHABLE, format_args!("{address}: {error}")),
    }
}
