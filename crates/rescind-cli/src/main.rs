//! The `rescind` command line: see `rescind --help`.
#![forbid(unsafe_code)]

use std::io::{Write, stdin, stdout};
use std::process::ExitCode;

use clap::error::ErrorKind::{DisplayHelpOnMissingArgumentOrSubcommand, UnknownArgument};
use clap::{ColorChoice, CommandFactory, Parser, Subcommand};
use rescind_cli::call::{self, CallArgs};
use rescind_cli::conform::{self, ConformArgs};
use rescind_cli::dialect::list;
use rescind_cli::exit::Exit;
use rescind_cli::export::{self, ExportArgs};
use rescind_cli::pages::{self, CompletionsArgs, ManArgs};
#[cfg(target_os = "linux")]
use rescind_cli::process;
use rescind_cli::relay::{self, RelayArgs};
use rescind_cli::replay::{self, ReplayArgs};
use rescind_cli::serve::{self, ServeArgs};
use rescind_cli::stats::{self, StatsArgs};
use rescind_cli::step::{self, StepArgs};
use rescind_cli::terminal;
use rescind_cli::view::{self, ViewArgs};

/// Cancels requests over JSON-RPC, and shows how the other side takes it.
#[derive(Debug, Parser)]
#[command(name = "rescind", version, propagate_version = true, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,

    /// When to colour what is written to standard error; `NO_COLOR` is respected
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    color: ColorChoice,
}

#[derive(Debug, Subcommand)]
enum Command {
    Call(CallArgs),
    Conform(ConformArgs),
    Relay(Box<RelayArgs>),
    Serve(ServeArgs),
    Step(StepArgs),
    View(ViewArgs),
    Stats(StatsArgs),
    Replay(ReplayArgs),
    Export(ExportArgs),
    /// List the dialects that can be spoken
    Dialects,
    Completions(CompletionsArgs),
    Man(ManArgs),
}

/// The command that this program starts for each server. It is apart from the others, or shells would complete it.
#[cfg(target_os = "linux")]
#[derive(Debug, Parser)]
enum Own {
    Supervise(process::SuperviseArgs),
}

const EXAMPLES: &str = "\
Examples:
  Cancel a slow request to the built-in peer after 300 ms:
    rescind call --cancel-after 300ms sleep '{\"ms\":10000}'
  Call a real language server, and cancel in the same write:
    rescind call --dialect lsp --open open.jsonl --cancel-after 0 textDocument/hover \\
        '{…}' -- clangd
  Stand in front of a server, and see afterwards what took long or was cancelled:
    rescind relay --dialect lsp --record session.jsonl -- clangd
    rescind view session.jsonl '~cancel | ~slow 1s'
  Feed one message to the pure core and see what it decides:
    printf '%s\\n' '{\"receive\":{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"}}' | rescind step";

/// Shows help or the version, and returns the exit code.
fn shown(error: &clap::Error) -> Result<ExitCode, Exit> {
    error.print().and_then(|()| stdout().flush()).map_err(Exit::output)?;
    Ok(u8::try_from(error.exit_code()).unwrap_or_default().into())
}

/// Returns the fault, without the usage that clap shows below it.
fn in_one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let text = text.split("\nUsage:").next().unwrap_or_default();
    let text = text.split("\nFor more information").next().unwrap_or_default();
    let words: Vec<&str> = text.trim_start_matches("error:").split_whitespace().collect();
    let text = words.join(" ");
    // A server's command without the mark before it is the likeliest argument that nobody expects.
    let is_command = error.kind() == UnknownArgument && !text.contains("'-");
    if is_command { format!("{text}; `--` stands before the command of a server") } else { text }
}

fn main() -> ExitCode {
    let code = parsed().unwrap_or_else(Exit::report);
    terminal::finish();
    code
}

/// Runs the command that the command line names.
fn parsed() -> Result<ExitCode, Exit> {
    #[cfg(target_os = "linux")]
    if let Ok(Own::Supervise(args)) = Own::try_parse() {
        terminal::tracing::subscribe();
        return process::supervise(&args);
    }
    match Cli::try_parse() {
        Ok(cli) => run(cli),
        Err(error) if !error.use_stderr() => shown(&error),
        Err(error) if error.kind() == DisplayHelpOnMissingArgumentOrSubcommand => shown(&error),
        Err(error) => Err(in_one_line(&error).into()),
    }
}

fn run(cli: Cli) -> Result<ExitCode, Exit> {
    match cli.color {
        ColorChoice::Auto => {}
        ColorChoice::Always => anstream::ColorChoice::Always.write_global(),
        ColorChoice::Never => anstream::ColorChoice::Never.write_global(),
    }
    terminal::tracing::subscribe();
    match cli.command {
        Command::Call(args) => call::main(&args),
        Command::Conform(args) => conform::main(&args),
        Command::Relay(args) => relay::main(&args),
        Command::Dialects => list::print(),
        Command::Completions(args) => pages::completions(&args, Cli::command()),
        Command::Man(args) => pages::man(&args, Cli::command()),
        Command::Serve(args) => serve::main(&args),
        Command::View(args) => view::main(&args),
        Command::Replay(args) => replay::main(&args),
        Command::Stats(args) => stats::main(&args),
        Command::Export(args) => export::main(&args),
        Command::Step(args) => {
            step::run(&args, stdin().lock(), stdout().lock()).map(|()| ExitCode::SUCCESS)
        }
    }
}
