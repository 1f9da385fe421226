//! The options of `rescind call`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::value::RawValue;

use super::params;
use super::runtime::Runtime;
use super::trigger::TriggerArgs;
use crate::address::Address;
use crate::credentials::CredentialArgs;
use crate::dialect::DialectArgs;
use crate::duration;
use crate::process::ProcessArgs;
use crate::record::RecordArgs;

/// Call a method of a server, and cancel it
///
/// Spawns COMMAND, opens as the dialect asks for, calls METHOD and prints the result on standard
/// output; everything else goes to standard error. Ctrl-C sends the dialect's cancel and waits for
/// the answer; a second Ctrl-C gives up.
///
/// Without COMMAND the call goes to the built-in peer; `rescind serve --help` lists its methods,
/// which it serves by their names in every dialect. A tool of another MCP server is called by
/// METHOD tools/call and its name among the params. An MCP server that turns out to speak another
/// revision than the dialect's is spoken to in its own, and started again if it does not take that.
///
/// Exit codes: 0 result, 1 error response, 2 usage, 3 cancelled, 4 timed out, 5 connection lost,
/// 6 could not start or connect, 7 the result could not be written.
#[derive(Debug, Args)]
pub struct CallArgs {
    /// The method to call
    pub(super) method: String,

    /// Its params: a JSON array or object, @FILE for one in a file, or - for one on standard input
    #[arg(value_name = "PARAMS_JSON", value_parser = params::read)]
    pub(super) params: Option<Box<RawValue>>,

    #[command(flatten)]
    pub(super) dialect: DialectArgs,

    /// The runtime that moves the bytes
    #[arg(long, value_name = "NAME", default_value = "blocking")]
    pub(super) runtime: Runtime,

    /// Cancel this long after the call, such as 300ms or 2s; with 0 both leave in one write
    #[arg(long, value_name = "DUR", value_parser = duration)]
    pub(super) cancel_after: Option<Duration>,

    /// Stop the work that the call began this long after it, such as 300ms: session/cancel for a prompt of
    /// ACP. A call that began none is cancelled. Nothing is stopped once the response has come
    #[arg(long, value_name = "DUR", value_parser = duration, conflicts_with_all = ["cancel_after", "cancel_on", "cancel_after_notifications"])]
    pub(super) stop_after: Option<Duration>,

    #[command(flatten)]
    pub(super) trigger: TriggerArgs,

    /// Give up after this long, wherever it is: connecting, opening, or calling; a call is cancelled
    #[arg(long, value_name = "DUR", value_parser = duration)]
    pub(super) timeout: Option<Duration>,

    /// Wait at most this long for the answer to a cancel [default: as the dialect does]
    #[arg(long, value_name = "DUR", value_parser = duration)]
    pub(super) grace: Option<Duration>,

    /// Send the messages of this file, one JSON a line, instead of the dialect's opening. Requests
    /// among them are awaited; notifications after the last request leave together with the call
    /// when --cancel-after is 0
    #[arg(long, value_name = "FILE")]
    pub(super) open: Option<PathBuf>,

    /// Send this notification before the call, after the opening; again for each
    #[arg(long, num_args = 2, value_names = ["METHOD", "PARAMS_JSON"])]
    pub(super) notify: Vec<String>,

    /// Print every message with its direction and milliseconds
    #[arg(long)]
    pub(super) trace: bool,

    /// Print one JSON object on standard output that says what became of the call
    #[arg(long)]
    pub(super) json: bool,

    /// Connect to the server at URL instead of spawning COMMAND. A WebSocket has `ws://`, `wss://` or `unix:FILE`.
    /// Behind `http://` or `https://` is a server of MCP, unless `--dialect` names `acp` or `acp-v2`
    #[arg(long, value_name = "URL", conflicts_with_all = ["command", "runtime", "ProcessArgs"])]
    pub(super) connect: Option<Address>,

    #[command(flatten)]
    pub(super) credentials: CredentialArgs,

    #[command(flatten)]
    pub(super) process: ProcessArgs,

    #[command(flatten)]
    pub(super) record: RecordArgs,

    /// The server to spawn, and its arguments [default: the built-in peer]
    #[arg(last = true, value_name = "COMMAND")]
    pub(super) command: Vec<OsString>,
}
