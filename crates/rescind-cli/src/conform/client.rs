//! `rescind conform client`: tests how a client cancels, and how it takes a server that is slow, late and hostile.

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use protocol_core::Framing;
use rescind_conform::{
    CLIENT_CHECKS, ClientListener, ClientOptions, ClientProgram, ConnectingClient, Progress,
    SERVER, Target, run_client,
};
use serde_json::Value;

use super::doorway::Doorway;
use super::suite::{self, SuiteArgs, repeated, request, some_time};
use crate::address::Address;
use crate::dialect::DialectArgs;
use crate::exit::{self, Exit};
use crate::note;
use crate::process::option;
use crate::terminal::spin;

/// Test a client: start COMMAND anew for each check, be its server, and say what holds
///
/// COMMAND speaks on its standard output and input. A client that starts its server itself has {server} among
/// its arguments. That stands for the command of the server to start, and with --listen for the address of a
/// WebSocket to connect to.
///
/// The first request that is not needed to open a session gets no response. So the client may cancel it by its
/// own time-out, or when --trigger tells it. Without a cancel, the checks that need one are not exercised.
///
/// Exit codes: 0 everything holds, 1 something does not, 2 usage, 3 ended by a signal, or its caller is gone, 6 the
/// client makes no request, 7 standard output can't be written, 8 what was tried holds, but not every MUST could be
/// tried.
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

    /// The time that the request is asked to take
    #[arg(long, value_name = "DUR", value_parser = some_time, default_value = "1s")]
    ask_time: Duration,

    #[command(flatten)]
    suite: SuiteArgs,

    /// Test a client that connects to a WebSocket, and listen there, such as on `ws://127.0.0.1:8080`; port 0
    /// is any that is free. Without COMMAND whoever connects is tested, anew for each check, and one check
    /// runs at a time
    #[arg(long, value_name = "URL")]
    listen: Option<Address>,

    /// The client to test, and its arguments
    #[arg(last = true, value_name = "COMMAND", required_unless_present_any = ["list", "listen"])]
    command: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  rescind conform client --dialect mcp -- python client.py {server}
  rescind conform client -- rescind call --cancel-after 1s sleep '{\"ms\":1}' -- {server}
  rescind conform client --trigger stop '{}' -- rescind call --cancel-on stop sleep '{\"ms\":1}' -- {server}
  rescind conform client --listen ws://127.0.0.1:0 -- rescind call --cancel-after 1s sleep '{\"ms\":1}' --connect {server}
  rescind conform client --dialect lsp --hold textDocument/hover --answer textDocument/hover null -- editor {server}";

impl ClientArgs {
    pub(super) fn run(&self) -> Result<ExitCode, Exit> {
        if self.suite.list {
            return suite::list(CLIENT_CHECKS);
        }
        let options = self.options()?;
        let target = self.target().map_err(|error| Exit::new(exit::UNREACHABLE, error))?;
        spin("finding out what the client does");
        let name = match &self.listen {
            Some(_) if self.command.is_empty() => "client".into(),
            _ => suite::name(&self.command),
        };
        self.suite.run(
            &name,
            |id| self.replay(id),
            |seen| run_client(&*target, &options, |outcome| seen(Progress::Checked(outcome))),
        )
    }

    fn target(&self) -> Result<Box<dyn Target>, String> {
        let program = self.suite.program(&self.command);
        let Some(address) = &self.listen else {
            let own = env::current_exe().map_err(|error| error.to_string())?;
            let bridge = vec![own.into(), "conform".into(), "bridge".into()];
            return Ok(Box::new(ClientProgram::new(program, bridge)));
        };
        let refused = |error| format!("can't listen on {address}: {error}");
        let doorway = Doorway::open(address, !self.command.is_empty()).map_err(refused)?;
        if self.command.is_empty() {
            note(format_args!("listening on {}", doorway.address()));
        }
        Ok(Box::new(ConnectingClient::new(program, doorway)))
    }

    fn options(&self) -> Result<ClientOptions, String> {
        let mut options = ClientOptions::new(self.dialect.spoken().dialect);
        if let Some(address) = &self.listen {
            if address.is_http {
                return Err("clients connect to ws://HOST:PORT".into());
            }
            // Messages are whole there, and lines on the way to it.
            options.dialect.framing = Framing::Newline;
            let names_it = |word: &OsString| word.to_string_lossy().contains(SERVER);
            if !self.command.is_empty() && !self.command.iter().any(names_it) {
                return Err(format!("--listen: COMMAND has no {SERVER}, where the address goes"));
            }
        }
        options.hold.clone_from(&self.hold);
        options.answers = self.answer.as_chunks().0.iter().map(answer).collect::<Result<_, _>>()?;
        options.trigger = request("--trigger", self.trigger.as_deref())?;
        options.ask = request("--ask", self.ask.as_deref())?;
        options.ask_ms = u64::try_from(self.ask_time.as_millis()).unwrap_or(u64::MAX);
        self.suite.set(&mut options.suite, CLIENT_CHECKS)?;
        if self.command.is_empty() {
            self.suite.start_nothing()?;
            // The next to connect is the client of the check that runs.
            options.suite.jobs = 1;
        }
        Ok(options)
    }

    /// The command that runs one check as it was run here.
    fn replay(&self, id: &str) -> String {
        let mut words = self.dialect.spoken().words();
        words.extend(option("--hold", self.hold.as_ref()));
        words.extend(self.answer.chunks(2).flat_map(|answer| repeated("--answer", answer)));
        words.extend(self.trigger.iter().flat_map(|given| repeated("--trigger", given)));
        words.extend(self.ask.iter().flat_map(|given| repeated("--ask", given)));
        words.extend(option("--listen", self.listen.as_ref()));
        if self.ask_time != Duration::from_secs(1) {
            words.extend(["--ask-time".into(), format!("{}ms", self.ask_time.as_millis())]);
        }
        self.suite.again("client", words, id, &self.command)
    }
}

fn answer([method, result]: &[String; 2]) -> Result<(String, Value), String> {
    let result =
        serde_json::from_str(result).map_err(|error| format!("--answer {method}: {error}"))?;
    Ok((method.clone(), result))
}

/// Is the server that a tested client or relay starts: what moves the bytes between the two.
pub(super) fn bridge(address: &str) -> Result<ExitCode, Exit> {
    let unreached = |error| Exit::new(exit::UNREACHABLE, format_args!("{address}: {error}"));
    rescind_conform::bridge(address).map_err(unreached)?;
    Ok(ExitCode::SUCCESS)
}
