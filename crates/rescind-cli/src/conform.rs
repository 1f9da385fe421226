//! `rescind conform`: tests how a server, a client or a relay cancels.

mod client;
mod doorway;
mod relay;
mod socket;
mod suite;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use protocol_core::Framing;
use rescind_conform::{CHECKS, Options, Target, client_page, page, relay_page};

use crate::address::Address;
use crate::credentials::CredentialArgs;
use crate::dialect::{DialectArgs, Spoken};
use crate::exit::Exit;
use crate::process::option;
use crate::terminal::spin;
use socket::Socket;
use suite::{SuiteArgs, opening, repeated, request, some_time};

/// Test how a server, a client or a relay cancels requests
#[derive(Debug, Args)]
pub struct ConformArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Server(Box<ServerArgs>),
    Client(Box<client::ClientArgs>),
    Relay(Box<relay::RelayArgs>),
    /// Print what is checked: levels, sources, steps and rules of each check
    Checks {
        /// The kind of peer; all kinds by default
        of: Option<Tested>,
    },
    /// Be the server that a tested client or relay starts
    #[command(hide = true)]
    Bridge {
        /// The address of its test
        address: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
enum Tested {
    Server,
    Client,
    Relay,
}

/// Prints the pages of checks, as Markdown.
fn print_checks(of: Option<Tested>) -> Result<ExitCode, Exit> {
    let pages: [(Tested, fn() -> String); 3] =
        [(Tested::Server, page), (Tested::Client, client_page), (Tested::Relay, relay_page)];
    let chosen = pages.iter().filter(|(tested, _)| of.is_none_or(|of| of == *tested));
    let text: String = chosen.map(|(_, page)| page()).collect();
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Exit::output)?;
    Ok(ExitCode::SUCCESS)
}

/// Test a server: start COMMAND anew for each check, and say what holds
///
/// Slow work is found among the tools of an MCP server, and by a generated document for a language server.
/// For other servers, name it by --slow. In its params "$MS" and "$S" stand for the milliseconds or seconds
/// that it is to take.
///
/// Exit codes: 0 everything holds, 1 something does not, 2 usage, 3 ended by a signal, or its caller is gone, 6 no
/// session could be opened, 7 standard output can't be written, 8 what was tried holds, but not every MUST could be
/// tried.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct ServerArgs {
    #[command(flatten)]
    dialect: DialectArgs,

    /// A request that takes its time
    #[arg(long, num_args = 2, value_names = ["METHOD", "PARAMS_JSON"])]
    slow: Option<Vec<String>>,

    /// A request that makes the server ask something of its client
    #[arg(long, num_args = 2, value_names = ["METHOD", "PARAMS_JSON"])]
    reverse: Option<Vec<String>>,

    /// A request whose result has the line finished or cancelled, by how the work of another ended: the one whose progress
    /// token stands for "$TOKEN" in its params
    #[arg(long, num_args = 2, value_names = ["METHOD", "PARAMS_JSON"])]
    witness: Option<Vec<String>>,

    /// Open sessions with the messages of this file, one JSON a line, instead of the dialect's opening
    #[arg(long, value_name = "FILE")]
    open: Option<PathBuf>,

    /// The language of the document that a language server is given: cpp, python, typescript, go or
    /// plaintext [default: by the server's name]
    #[arg(long, value_name = "NAME")]
    language: Option<String>,

    /// Call tools that are not declared read-only too, to find one that takes its time
    #[arg(long)]
    allow_tools: bool,

    /// The time that slow requests are asked to take
    #[arg(long, value_name = "DUR", value_parser = some_time, default_value = "1s")]
    slow_time: Duration,

    #[command(flatten)]
    suite: SuiteArgs,

    /// Test the server that runs at this WebSocket already, such as `ws://127.0.0.1:8080`, `wss://example.com`
    /// or `unix:FILE`. It tests MCP at `http://` and `https://`. Each check opens a connection or session of its own
    #[arg(long, value_name = "URL", conflicts_with_all = ["command", "cwd", "env", "exit_grace", "leave_detached"])]
    connect: Option<Address>,

    #[command(flatten)]
    credentials: CredentialArgs,

    /// The server to test, and its arguments
    #[arg(last = true, value_name = "COMMAND", required_unless_present_any = ["list", "connect"])]
    command: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  rescind conform server --dialect mcp -- node server.js
  rescind conform server --dialect lsp -- clangd
  rescind conform server --dialect abp --connect ws://127.0.0.1:8080
  rescind conform server --connect http://127.0.0.1:8080/mcp --witness tools/call '{\"name\":\"outcome\",\"arguments\":{\"token\":\"$TOKEN\"}}'
  rescind conform server --slow sleep '{\"ms\":\"$MS\"}' --reverse nested '{\"ms\":\"$MS\"}' -- rescind serve
  rescind conform server --dialect mcp --only cancel/one-read --seed 7 --json evidence.json -- node server.js";

/// Runs the command.
///
/// # Errors
///
/// The reason that it did not do its work.
pub fn main(args: &ConformArgs) -> Result<ExitCode, Exit> {
    match &args.what {
        What::Server(args) => args.run(),
        What::Client(args) => args.run(),
        What::Bridge { address } => client::bridge(address),
        What::Relay(args) => args.run(),
        What::Checks { of } => print_checks(*of),
    }
}

impl ServerArgs {
    fn run(&self) -> Result<ExitCode, Exit> {
        if self.suite.list {
            return suite::list(&CHECKS);
        }
        let options = self.options()?;
        let target = self.target()?;
        spin("finding out what takes the server its time");
        let name = match &self.connect {
            Some(address) => address.to_string(),
            None => suite::name(&self.command),
        };
        self.suite.run(
            &name,
            |id| self.replay(id),
            |seen| rescind_conform::run(&*target, &options, seen),
        )
    }

    fn spoken(&self) -> Spoken {
        self.dialect.spoken_at(self.connect.as_ref())
    }

    fn target(&self) -> Result<Box<dyn Target>, String> {
        let Some(address) = &self.connect else {
            return Ok(Box::new(self.suite.program(&self.command)));
        };
        let (address, credentials) = (address.clone(), self.credentials.clone());
        let trust = credentials.trust(&address)?;
        Ok(Box::new(Socket { address, trust, credentials }))
    }

    fn options(&self) -> Result<Options, String> {
        let spoken = self.spoken();
        if self.connect.as_ref().is_some_and(|address| address.is_http) {
            spoken.http_revisions()?;
            if !spoken.dialect.name.starts_with("mcp") {
                return Err(
                    "an http:// address is for --dialect mcp-http, or a revision of it".into()
                );
            }
        }
        let mut options = Options::new(spoken.dialect);
        if self.connect.is_some() {
            // Messages are whole there, and lines on the way to it.
            options.dialect.framing = Framing::Newline;
        }
        options.slow = request("--slow", self.slow.as_deref())?;
        options.reverse = request("--reverse", self.reverse.as_deref())?;
        options.witness = request("--witness", self.witness.as_deref())?;
        options.open = self.open.as_deref().map(opening).transpose()?;
        options.language.clone_from(&self.language);
        options.allow_tools = self.allow_tools;
        options.slow_ms = u64::try_from(self.slow_time.as_millis()).unwrap_or(u64::MAX);
        if self.connect.is_some() {
            // All of them share one server.
            options.suite.jobs = 1;
        }
        self.suite.set(&mut options.suite, &CHECKS)?;
        Ok(options)
    }

    /// The command that runs one check as it was run here.
    fn replay(&self, id: &str) -> String {
        let mut words = self.spoken().words();
        words.extend(self.slow.iter().flat_map(|given| repeated("--slow", given)));
        words.extend(self.reverse.iter().flat_map(|given| repeated("--reverse", given)));
        words.extend(self.witness.iter().flat_map(|given| repeated("--witness", given)));
        words.extend(option("--open", self.open.as_ref().map(|open| open.display())));
        words.extend(option("--language", self.language.as_ref()));
        if self.allow_tools {
            words.push("--allow-tools".into());
        }
        let defaults = Options::new(self.spoken().dialect);
        if self.slow_time != Duration::from_millis(defaults.slow_ms) {
            words.extend(["--slow-time".into(), format!("{}ms", self.slow_time.as_millis())]);
        }
        words.extend(option("--connect", self.connect.as_ref()));
        words.extend(self.credentials.words());
        self.suite.again("server", words, id, &self.command)
    }
}
