//! `rescind conform`: tests how a server cancels.

use std::ffi::OsString;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use clap::{Args, Subcommand};
use protocol_core::Framing;
use rescind_conform::{
    CHECKS, Expected, Known, Opening, Options, Outcome, Program, Report, Request, Target, Verdict,
    Way, Whole, matrix,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::address::Address;
use crate::dialect::DialectArgs;
use crate::terminal::{VALUE, harmless, spin, stop_spinning};
use crate::{duration, exit, failure, output_error, usage_error};

mod socket;

use socket::Socket;

/// Test how a server cancels requests
#[derive(Debug, Args)]
pub struct ConformArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Server(Box<ServerArgs>),
}

/// Test a server: start COMMAND anew for each check, and say what holds
///
/// What takes a server its time is found out where that can be: among the tools of an MCP server, with a
/// generated document for a language server. Where it can't, name it by --slow; in its params "$MS" and "$S"
/// stand for how many milliseconds or seconds it is to take.
///
/// Exit codes: 0 everything holds, 1 something does not, 2 usage, 6 no session could be opened, 7 standard
/// output can't be written, 8 what was tried holds, but not every MUST could be tried.
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

    /// Run only this check, or those of this group; may be repeated
    #[arg(long, value_name = "ID")]
    only: Vec<String>,

    /// List the checks, and run none
    #[arg(long)]
    list: bool,

    /// Chooses ids, and which requests are cancelled where any will do
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// How many checks run at the same time
    #[arg(long, value_name = "N", default_value_t = 4)]
    jobs: usize,

    /// How long to wait for what has to come
    #[arg(long, value_name = "DUR", value_parser = duration, default_value = "20s")]
    patience: Duration,

    /// How long slow requests are asked to take
    #[arg(long, value_name = "DUR", value_parser = duration, default_value = "1s")]
    slow_time: Duration,

    /// Checks that are known to fail, one id a line: they count no more, and it is a failure if one passes
    #[arg(long, value_name = "FILE")]
    known_failing: Option<PathBuf>,

    /// Checks that fail now and then, one id a line: they don't count
    #[arg(long, value_name = "FILE")]
    known_flaky: Option<PathBuf>,

    /// Write everything into this file, with what both sides said
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write a report that continuous integration reads (`JUnit` XML)
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,

    /// Write a table for a README
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,

    /// Write a badge for a README, as an endpoint of shields.io
    #[arg(long, value_name = "FILE")]
    badge: Option<PathBuf>,

    /// Test the server that runs at this WebSocket already, such as `ws://127.0.0.1:8080`, `wss://example.com`
    /// or `unix:FILE`; each check opens a connection of its own
    #[arg(long, value_name = "URL", conflicts_with = "command")]
    connect: Option<Address>,

    /// Show the secret in this file, one line, as a bearer token
    #[arg(long, value_name = "FILE", requires = "connect")]
    token_file: Option<PathBuf>,

    /// Of a `wss://` server, take only a certificate that is signed by one in this file, of PEM [default:
    /// those that this machine trusts]
    #[arg(long, value_name = "FILE", requires = "connect")]
    ca: Option<PathBuf>,

    /// The server to test, and its arguments
    #[arg(last = true, value_name = "COMMAND", required_unless_present_any = ["list", "connect"])]
    command: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  rescind conform server --dialect mcp -- node server.js
  rescind conform server --dialect lsp -- clangd
  rescind conform server --dialect abp --connect ws://127.0.0.1:8080
  rescind conform server --slow sleep '{\"ms\":\"$MS\"}' --reverse nested '{\"ms\":\"$MS\"}' -- rescind serve
  rescind conform server --dialect mcp --only cancel/one-read --seed 7 --json evidence.json -- node server.js";

/// Runs the command.
#[must_use]
pub fn main(args: &ConformArgs) -> ExitCode {
    let What::Server(args) = &args.what;
    if args.list {
        return list().map_or_else(output_error, |()| ExitCode::SUCCESS);
    }
    let options = match args.options() {
        Ok(options) => options,
        Err(error) => return usage_error(error),
    };
    let target = args.target();
    let mut written = Ok(());
    spin("finding out what takes the server its time");
    let ran = rescind_conform::run(&*target, &options, |outcome| {
        spin(format_args!("after {}", outcome.id));
        written = written.as_ref().map_err(clone).and_then(|()| print(outcome, args));
    });
    stop_spinning();
    let report = match ran {
        Ok(report) => report,
        Err(error) => return failure(exit::UNREACHABLE, error),
    };
    if let Err(error) = written.and_then(|()| print_whole(&report)) {
        return output_error(error);
    }
    if let Err(error) = args.write_reports(&report) {
        return failure(exit::OUTPUT, error);
    }
    match report.whole() {
        Whole::Pass => ExitCode::SUCCESS,
        Whole::Fail => ExitCode::from(exit::ERROR),
        Whole::Incomplete => ExitCode::from(exit::INCOMPLETE),
    }
}

fn clone(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), error.to_string())
}

impl ServerArgs {
    fn target(&self) -> Box<dyn Target> {
        match &self.connect {
            Some(address) => Box::new(Socket {
                address: address.clone(),
                token_file: self.token_file.clone(),
                ca: self.ca.clone(),
            }),
            None => Box::new(Program::new(self.command.clone())),
        }
    }

    /// What the reports call the server.
    fn name(&self) -> String {
        match &self.connect {
            Some(address) => address.to_string(),
            None => self
                .command
                .first()
                .map(|program| program.to_string_lossy().into_owned())
                .unwrap_or_default(),
        }
    }

    fn options(&self) -> Result<Options, String> {
        let read = |path: &Option<PathBuf>| match path {
            Some(path) => {
                fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
            }
            None => Ok(String::new()),
        };
        let mut options = Options::new(self.dialect.spoken().dialect.clone());
        if self.connect.is_some() {
            // Messages are whole there, and lines on the way to it.
            options.dialect.framing = Framing::Newline;
        }
        options.slow = request("--slow", self.slow.as_deref())?;
        options.reverse = request("--reverse", self.reverse.as_deref())?;
        options.open =
            self.open.as_deref().map(|path| opening(path, &read(&self.open)?)).transpose()?;
        options.language.clone_from(&self.language);
        options.allow_tools = self.allow_tools;
        options.seed = self.seed;
        options.patience = self.patience;
        options.slow_ms = u64::try_from(self.slow_time.as_millis()).unwrap_or(u64::MAX);
        options.jobs = self.jobs;
        options.only.clone_from(&self.only);
        for only in &self.only {
            let names = |id: &str| id == only || id.split('/').next() == Some(only);
            if !CHECKS.iter().any(|check| names(check.id)) {
                return Err(format!("there is no check {only:?}; --list lists them"));
            }
        }
        options.known = Known::read(&read(&self.known_failing)?, &read(&self.known_flaky)?)?;
        Ok(options)
    }

    fn write_reports(&self, report: &Report) -> Result<(), String> {
        let name = self.name();
        let write = |path: &Option<PathBuf>, text: &dyn Fn() -> Result<String, String>| match path {
            Some(path) => {
                fs::write(path, text()?).map_err(|error| format!("{}: {error}", path.display()))
            }
            None => Ok(()),
        };
        write(&self.json, &|| Ok(format!("{:#}\n", report.to_json())))?;
        write(&self.junit, &|| report.to_junit(&name))?;
        write(&self.markdown, &|| Ok(matrix(&[(&name, report)])))?;
        write(&self.badge, &|| Ok(format!("{}\n", report.to_badge())))
    }

    /// The command that runs one check as it was run here.
    fn replay(&self, id: &str) -> String {
        let mut words: Vec<String> = ["rescind", "conform", "server"].map(String::from).to_vec();
        words.extend(
            self.dialect.spoken().arguments().map(|word| word.to_string_lossy().into_owned()),
        );
        for (option, values) in [("--slow", &self.slow), ("--reverse", &self.reverse)] {
            words.extend(
                values.iter().flat_map(|values| [vec![option.into()], values.clone()].concat()),
            );
        }
        if let Some(open) = &self.open {
            words.extend(["--open".into(), open.display().to_string()]);
        }
        if let Some(language) = &self.language {
            words.extend(["--language".into(), language.clone()]);
        }
        if self.allow_tools {
            words.push("--allow-tools".into());
        }
        let defaults = Options::new(self.dialect.spoken().dialect.clone());
        if self.patience != defaults.patience {
            words.extend(["--patience".into(), format!("{}ms", self.patience.as_millis())]);
        }
        if self.slow_time != Duration::from_millis(defaults.slow_ms) {
            words.extend(["--slow-time".into(), format!("{}ms", self.slow_time.as_millis())]);
        }
        words.extend(["--only".into(), id.into(), "--seed".into(), self.seed.to_string()]);
        if let Some(address) = &self.connect {
            words.extend(["--connect".into(), address.to_string()]);
            for (option, file) in [("--token-file", &self.token_file), ("--ca", &self.ca)] {
                words.extend(
                    file.iter().flat_map(|file| [option.into(), file.display().to_string()]),
                );
            }
            return words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
        }
        words.push("--".into());
        words.extend(self.command.iter().map(|word| word.to_string_lossy().into_owned()));
        words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
    }
}

/// A word as a shell reads it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@+%".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.into(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

fn request(option: &str, words: Option<&[String]>) -> Result<Option<Request>, String> {
    let Some([method, params]) = words else { return Ok(None) };
    let params: Value =
        serde_json::from_str(params).map_err(|error| format!("{option} {method}: {error}"))?;
    Ok(Some(Request::new(method, params)))
}

#[derive(Deserialize)]
struct Message {
    id: Option<Value>,
    method: String,
    #[serde(default)]
    params: Value,
}

fn opening(path: &Path, text: &str) -> Result<Vec<Opening>, String> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let messages = lines.map(|(number, line)| {
        let Message { id, method, params } = serde_json::from_str(line)
            .map_err(|error| format!("--open {}, line {}: {error}", path.display(), number + 1))?;
        let params = if params.is_null() { json!({}) } else { params };
        Ok(match id {
            Some(_) => Opening::request(method, params),
            None => Opening::notification(method, params),
        })
    });
    messages.collect()
}

/// Prints on standard output what came of a check, with the evidence of a failure.
fn print(outcome: &Outcome, args: &ServerArgs) -> io::Result<()> {
    /// Lines of a transcript that are shown, at its end.
    const LINES: usize = 12;
    let mut out = anstream::stdout().lock();
    let colour = match (&outcome.verdict, outcome.is_failure()) {
        (Verdict::NotApplicable, _) => return Ok(()),
        (Verdict::Pass, _) => AnsiColor::Green,
        (_, true) => AnsiColor::Red,
        _ => AnsiColor::Yellow,
    };
    let style = Style::new().fg_color(Some(colour.into()));
    let known = match outcome.known {
        Expected::Pass => "",
        Expected::Failing => " (known to fail)",
        Expected::Flaky => " (known to fail now and then)",
    };
    writeln!(
        out,
        "{style}{:13}{style:#} {:11} {:24} {}{known}",
        outcome.verdict.as_str(),
        outcome.level.as_str(),
        outcome.id,
        harmless(outcome.verdict.why().unwrap_or(outcome.title)),
    )?;
    if outcome.is_failure() {
        writeln!(out, "              {}", outcome.clause)?;
        let lines = &outcome.transcript.lines;
        for line in &lines[lines.len().saturating_sub(LINES)..] {
            let arrow = match line.way {
                Way::Sent => "-->",
                Way::Received => "<--",
                Way::Note => "   ",
            };
            let shown: String = line.text.chars().take(VALUE).collect();
            let at = Duration::from_micros(line.at_us).as_secs_f64() * 1e3;
            writeln!(out, "{at:>13.3} ms {arrow} {}", harmless(&shown))?;
        }
        if let Some(last) = outcome.stderr.lines().last() {
            writeln!(out, "              its standard error ends: {}", harmless(last))?;
        }
        writeln!(out, "              {}", args.replay(outcome.id))?;
    }
    out.flush()
}

fn print_whole(report: &Report) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for id in &report.stale {
        writeln!(out, "{id} is listed as known to fail, and does not")?;
    }
    let server = harmless(report.facts["server"].as_str().unwrap_or_default());
    let (dialect, whole) =
        (report.facts["dialect"].as_str().unwrap_or_default(), report.whole().as_str());
    let took = report.took.as_secs_f64();
    writeln!(out, "{whole}: {} ({server}; {dialect}; {took:.1} s)", report.summary())?;
    out.flush()
}

fn list() -> io::Result<()> {
    let is_terminal = io::stdout().is_terminal();
    let mut out = io::stdout().lock();
    for check in CHECKS {
        let levels: Vec<_> = check.clauses.iter().map(|clause| clause.level.as_str()).collect();
        let level = levels.first().copied().unwrap_or_default();
        if is_terminal {
            writeln!(out, "{:24} {level:11} {}", check.id, check.title)?;
        } else {
            writeln!(out, "{}", check.id)?;
        }
    }
    out.flush()
}
