//! The arguments of `rescind relay`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::ArgPredicate;
use clap::{Args, ValueEnum};
use protocol_child::ChildCommand;

use super::fault::FaultArgs;
use super::guard::GuardArgs;
use super::stuck::StuckArgs;
use crate::address::Address;
use crate::admission::ClientArgs;
use crate::dialect::{NameParser, Spoken, file_parser};
use crate::duration;
use crate::process::{self, ProcessArgs};
use crate::record::RecordArgs;

/// The time that a server has to end once its input is closed.
const GRACE: Duration = Duration::from_secs(2);

/// Relay between a client on standard input and output and a server
///
/// Spawns COMMAND, or connects to --connect, and passes messages on in both directions. A request has an id of its
/// own on each connection, and its response comes back under the id of the request. A cancel becomes a cancel of
/// the request that it means. The two may speak different dialects: --up is the client's, --down the server's.
///
/// A message that breaks a rule gets a response and is not passed on. That, and all else that could
/// not be passed on, is reported on standard error. With --deadline, --idle or --cap no request takes for ever.
///
/// It ends when one of them hangs up and every request in flight has its response. A client that ends its input
/// may still be reading, so its requests still get responses for a while (--answer-after-end). Then they are
/// cancelled, and the server has a while to respond to that (--grace). After that it has two seconds to end
/// (--exit-grace). The rest of it, and of all that it started, is sent SIGTERM, and SIGKILL as long after that.
/// This holds when the relay itself is killed, too.
///
/// The first SIGTERM, SIGINT or SIGHUP ends it in the same way, without --answer-after-end and with a second
/// for --grace. A second signal ends it at once. Exit codes: 0 the server succeeded (always with --listen), 1 it failed or was
/// killed, 2 usage, 6 it could not be started or reached, 7 standard output could not be written,
/// or was not read to the end.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct RelayArgs {
    /// The protocol that both sides speak: jsonrpc, acp, lsp, mcp, abp, dap or erlmcp, or a revision of
    /// one; `rescind dialects` lists them. With --listen and --connect it is mcp-http
    #[arg(long, value_name = "NAME", default_value = "acp", default_value_ifs([("listen", ArgPredicate::IsPresent, "mcp-http"), ("connect", ArgPredicate::IsPresent, "mcp-http")]), value_parser = NameParser, hide_possible_values = true)]
    pub(super) dialect: Spoken,

    /// Both sides speak the dialect that this JSON file describes: `{"base": NAME}`, and whatever
    /// differs from that one
    #[arg(long, value_name = "FILE", conflicts_with = "dialect", value_parser = file_parser())]
    dialect_file: Option<Spoken>,

    /// The protocol that the client speaks
    #[arg(long, value_name = "NAME", group = "client", requires = "server", conflicts_with_all = ["dialect", "dialect_file"], value_parser = NameParser, hide_possible_values = true)]
    up: Option<Spoken>,

    /// The client speaks the dialect that this JSON file describes
    #[arg(long, value_name = "FILE", group = "client", requires = "server", conflicts_with_all = ["dialect", "dialect_file"], value_parser = file_parser())]
    up_file: Option<Spoken>,

    /// The protocol that the server speaks
    #[arg(long, value_name = "NAME", group = "server", requires = "client", conflicts_with_all = ["dialect", "dialect_file"], value_parser = NameParser, hide_possible_values = true)]
    down: Option<Spoken>,

    /// The server speaks the dialect that this JSON file describes
    #[arg(long, value_name = "FILE", group = "server", requires = "client", conflicts_with_all = ["dialect", "dialect_file"], value_parser = file_parser())]
    down_file: Option<Spoken>,

    /// The runtime that moves the bytes
    #[arg(long, value_name = "NAME", default_value = "tokio")]
    pub(super) runtime: Runtime,

    /// The time in which the requests of a client whose input has ended still get responses, such as
    /// 300ms or 30s; then they are cancelled. 0 is for a client that ends its input only when it is gone
    #[arg(long, value_name = "DUR", default_value = "5s", value_parser = duration)]
    pub(super) answer_after_end: Duration,

    /// The time in which the server may respond to requests that were cancelled because the client is gone
    #[arg(long, value_name = "DUR", default_value = "30s", value_parser = duration)]
    pub(super) grace: Duration,

    /// Print every message with its side, direction and milliseconds
    #[arg(long)]
    pub(super) trace: bool,

    /// Don't say at the end what was recorded
    #[arg(long)]
    pub(super) quiet: bool,

    /// Relay for whoever opens a session there, such as `http://127.0.0.1:8080/mcp`: MCP over HTTP, in the
    /// revisions of `--dialect mcp-http` or one of them, or ACP with `--dialect acp`. Each session has a server.
    /// With port 0 the system chooses one. The address is printed to standard error. A signal cancels and answers what is in flight
    #[arg(long, value_name = "URL", conflicts_with_all = ["runtime", "dialect_file", "client", "server", "answer_after_end", "trace", "on_stuck", "fault", "ca"], group = "address")]
    pub(super) listen: Option<Address>,

    /// Relay to the server there instead of spawning COMMAND, such as `http://127.0.0.1:8080/mcp` or
    /// `https://example.com/mcp`: MCP over HTTP, in the revision that the client speaks, or ACP with `--dialect
    /// acp`. With --token-file the server is shown that secret
    #[arg(long, value_name = "URL", conflicts_with_all = ["command", "runtime", "dialect_file", "client", "server", "on_stuck", "fault", "cwd", "env", "exit_grace", "leave_detached", "servers", "session_idle", "allow_origin", "allow_anyone", "connections", "memory"], group = "address")]
    pub(super) connect: Option<Address>,

    /// Of an `https://` server, take only a certificate that is signed by one in this file, of PEM [default:
    /// those that this machine trusts]
    #[arg(long, value_name = "FILE", requires = "connect")]
    pub(super) ca: Option<PathBuf>,

    /// Servers at the same time. A session has one until it has ended, and one session more is refused
    #[arg(long, value_name = "COUNT", default_value_t = 64, requires = "listen")]
    pub(super) servers: u16,

    /// End a session, with its server, whose client waits for nothing and says nothing for this long
    #[arg(long, value_name = "DUR", default_value = "30m", value_parser = duration, requires = "listen")]
    pub(super) session_idle: Duration,

    #[command(flatten)]
    pub(super) clients: ClientArgs,

    #[command(flatten)]
    pub(super) guard: GuardArgs,

    #[command(flatten)]
    pub(super) stuck: StuckArgs,

    #[command(flatten)]
    pub(super) faults: FaultArgs,

    #[command(flatten)]
    pub(super) process: ProcessArgs,

    #[command(flatten)]
    pub(super) record: RecordArgs,

    /// The server to spawn, and its arguments
    #[arg(last = true, required_unless_present = "connect", value_name = "COMMAND")]
    pub(super) command: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  Cancel a slow request through two hops:
    rescind call --cancel-after 300ms sleep '{\"ms\":10000}' -- \\
        rescind relay -- rescind relay -- rescind serve
  Put an LSP client in front of an ACP server, and see both conversations:
    rescind call --dialect lsp echo '[1]' -- \\
        rescind relay --up lsp --down acp --trace -- rescind serve
  Be a server on standard streams that is one of MCP over HTTP:
    rescind relay --connect https://example.com/mcp --token-file secret.txt";

/// The runtime that moves the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Runtime {
    /// tokio's current-thread runtime
    Tokio,
    /// The executor of smol
    Smol,
}

impl RelayArgs {
    /// Returns the dialects of the client and of the server.
    pub(super) fn sides(&self) -> [&Spoken; 2] {
        let both = self.dialect_file.as_ref().unwrap_or(&self.dialect);
        [(&self.up, &self.up_file), (&self.down, &self.down_file)]
            .map(|(named, file)| named.as_ref().or(file.as_ref()).unwrap_or(both))
    }

    /// Returns the command that starts a server.
    pub(super) fn server(&self) -> ChildCommand {
        let command = process::command(&self.command).expect("clap asks for one");
        self.process.child(command, GRACE)
    }
}
