//! Options that all tests share: the checks that run, how they run, and the reports about them.

use std::ffi::OsString;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use clap::Args;
use rescind_conform::{
    Expected, Known, Level, Opening, Outcome, Program, Progress, Report, Request, Row, Suite,
    Unreached, Verdict, Whole, column, matrix,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::duration;
use crate::ending::{self, end_at_once};
use crate::exit::{self, Exit};
use crate::process::{ProcessArgs, milliseconds, option};
use crate::record::Session;
use crate::terminal::{VALUE, harmless, print_json, spin, stop_spinning};

/// The time that a tested program has to end once its input is closed.
const GRACE: Duration = Duration::from_secs(10);

/// The checks that run, and the reports about them.
#[derive(Debug, Args)]
pub(super) struct SuiteArgs {
    /// Run only this check, or those of this group; may be repeated
    #[arg(long, value_name = "ID")]
    only: Vec<String>,

    /// List the checks, and run none
    #[arg(long)]
    pub(super) list: bool,

    /// Chooses ids, and which requests are cancelled where any will do
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// The number of checks at the same time [default: 4; of relays 8; with --connect 1]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,

    /// The wait for what has to come; it is longer for a server that is still at work [default: 10s]
    #[arg(long, value_name = "DUR", value_parser = duration)]
    patience: Option<Duration>,

    /// Checks that are known to fail, one id a line: they count no more, and it is a failure if one passes
    #[arg(long, value_name = "FILE")]
    known_failing: Option<PathBuf>,

    /// Checks that fail now and then, one id a line: they don't count
    #[arg(long, value_name = "FILE")]
    known_flaky: Option<PathBuf>,

    /// Write everything into this file, with what both sides said; in place of one report's file, - is standard output
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

    #[command(flatten)]
    process: ProcessArgs,
}

impl SuiteArgs {
    /// Sets what these options say about a run of these checks.
    pub(super) fn set<N, S, R>(
        &self,
        suite: &mut Suite,
        checks: &[Row<N, S, R>],
    ) -> Result<(), String> {
        let all: Vec<&str> = checks.iter().map(|check| check.id).collect();
        suite.seed = self.seed;
        suite.patience = self.patience.unwrap_or(suite.patience);
        suite.jobs = self.jobs.unwrap_or(suite.jobs);
        suite.only = self.only(&all)?;
        suite.known = self.known(&all)?;
        Ok(())
    }

    /// Refuses options for a program where there is none to start.
    pub(super) fn start_nothing(&self) -> Result<(), String> {
        match self.process.words().first() {
            Some(option) => Err(format!("{option}: there is no COMMAND to start")),
            None => Ok(()),
        }
    }

    /// Returns the program to test.
    pub(super) fn program(&self, command: &[OsString]) -> Program {
        let process = self.process.clone();
        Program::new(command.to_vec()).kept(move |command| process.child(command, GRACE))
    }

    /// The checks to run, of those that there are.
    fn only(&self, all: &[&str]) -> Result<Vec<String>, String> {
        for only in &self.only {
            let names = |id: &&&str| **id == only || id.split('/').next() == Some(only);
            if !all.iter().any(|id| names(&id)) {
                return Err(format!("there is no check {only:?}; --list lists them"));
            }
        }
        Ok(self.only.clone())
    }

    /// The checks that are known to fail.
    fn known(&self, all: &[&str]) -> Result<Known, String> {
        let read = |path: &Option<PathBuf>| path.as_deref().map_or(Ok(String::new()), read);
        Known::read_among(all, &read(&self.known_failing)?, &read(&self.known_flaky)?)
    }

    /// Runs the checks, prints what comes of each, and writes the reports. `replay` gives the command that runs
    /// one check as it was run here.
    pub(super) fn run(
        &self,
        name: &str,
        replay: impl Fn(&str) -> String,
        run: impl FnOnce(&mut dyn FnMut(Progress<'_>)) -> Result<Report, Unreached>,
    ) -> Result<ExitCode, Exit> {
        let mut out: Box<dyn Write> = match self.to_stdout() {
            0 => Box::new(anstream::stdout()),
            // A report has it for itself.
            1 => Box::new(anstream::stderr()),
            _ => return Err("only one report can be written to standard output".into()),
        };
        // Half a report is none, and no process is left.
        ending::watch(Arc::new(|cause| end_at_once(cause, &Session::default())));
        let mut written = Ok(());
        let ran = run(&mut |progress| {
            match (self.to_stdout(), progress) {
                (0, Progress::Checked(outcome)) => spin(format_args!("after {}", outcome.id)),
                // Lines for people are written to standard error then, where it is drawn.
                _ => stop_spinning(),
            }
            if written.is_ok() {
                written = match progress {
                    Progress::Lacks(why) => print_lack(&mut *out, why),
                    Progress::Checked(outcome) => print(&mut *out, outcome, || replay(outcome.id)),
                    _ => Ok(()),
                };
            }
        });
        stop_spinning();
        // Nothing that they have left detached is waited for.
        #[cfg(target_os = "linux")]
        protocol_child::kill_supervised();
        let report = ran.map_err(|error| Exit::new(exit::UNREACHABLE, error))?;
        written.and_then(|()| print_whole(&mut *out, &report)).map_err(Exit::output)?;
        self.write_reports(&report, name).map_err(|error| Exit::new(exit::OUTPUT, error))?;
        let code = match report.whole() {
            Whole::Pass => 0,
            Whole::Fail => exit::ERROR,
            Whole::Incomplete => exit::INCOMPLETE,
        };
        Ok(code.into())
    }

    /// The number of reports that go to standard output.
    fn to_stdout(&self) -> usize {
        let reports = [&self.json, &self.junit, &self.markdown, &self.badge];
        reports.into_iter().flatten().filter(|path| is_stdout(path)).count()
    }

    fn write_reports(&self, report: &Report, name: &str) -> Result<(), String> {
        let write = |path: &Option<PathBuf>, text: &dyn Fn() -> Result<String, String>| match path {
            Some(path) if is_stdout(path) => {
                print_json(text()?.trim_end()).map_err(|error| format!("standard output: {error}"))
            }
            Some(path) => {
                fs::write(path, text()?).map_err(|error| format!("{}: {error}", path.display()))
            }
            None => Ok(()),
        };
        write(&self.json, &|| Ok(format!("{:#}\n", report.to_json())))?;
        write(&self.junit, &|| report.to_junit(name))?;
        write(&self.markdown, &|| Ok(matrix(&[(name, column(report))])))?;
        write(&self.badge, &|| Ok(format!("{}\n", report.to_badge())))
    }

    /// The words that run one check of `command` again. `tested` is the subcommand of `conform`, and `options` are its own.
    pub(super) fn again(
        &self,
        tested: &str,
        options: Vec<String>,
        id: &str,
        command: &[OsString],
    ) -> String {
        let mut words = ["rescind", "conform", tested].map(String::from).to_vec();
        words.extend(options);
        words.extend(option("--patience", self.patience.map(milliseconds)));
        words.extend(self.process.words());
        let seed = self.seed.to_string();
        words.extend(["--only", id, "--seed", &seed].map(String::from));
        if !command.is_empty() {
            words.push("--".into());
        }
        words.extend(command.iter().map(|word| word.to_string_lossy().into_owned()));
        words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
    }
}

/// Returns the name of a tested program in reports.
pub(super) fn name(command: &[OsString]) -> String {
    command.first().map(|program| program.to_string_lossy().into_owned()).unwrap_or_default()
}

fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// The text of a file.
pub(super) fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Reads the time that a request is asked to take.
pub(super) fn some_time(text: &str) -> Result<Duration, String> {
    match duration(text) {
        Ok(time) if time.as_millis() == 0 => Err("shorter than a millisecond".into()),
        read => read,
    }
}

/// Returns an option and the values that it was given, as words of a command line.
pub(super) fn repeated(option: &str, values: &[String]) -> Vec<String> {
    [&[option.to_owned()], values].concat()
}

/// Reads a request of the command line.
pub(super) fn request(option: &str, words: Option<&[String]>) -> Result<Option<Request>, String> {
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

/// Reads the messages of a file that open a session.
pub(super) fn opening(path: &Path) -> Result<Vec<Opening>, String> {
    let text = read(path)?;
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

/// A word as a shell reads it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@+%".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.into(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Prints what holds for many checks.
fn print_lack(out: &mut dyn Write, why: &str) -> io::Result<()> {
    writeln!(out, "{}", harmless(why))?;
    out.flush()
}

/// Prints what came of a check, with the evidence of a failure.
fn print(
    out: &mut dyn Write,
    outcome: &Outcome,
    replay: impl FnOnce() -> String,
) -> io::Result<()> {
    /// Lines of a transcript that are shown, at its end.
    const LINES: usize = 12;
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
        "{style}{:13}{style:#} {:11} {:31} {}{known}",
        outcome.word(),
        outcome.level.as_str(),
        outcome.id,
        harmless(outcome.verdict.why().unwrap_or(outcome.title)),
    )?;
    if outcome.is_failure() {
        writeln!(out, "              {}", outcome.clause)?;
        let lines = &outcome.transcript.lines;
        for line in &lines[lines.len().saturating_sub(LINES)..] {
            let arrow = line.way.arrow();
            let shown: String = line.text.chars().take(VALUE).collect();
            let at = Duration::from_micros(line.at_us).as_secs_f64() * 1e3;
            writeln!(out, "{at:>13.3} ms {arrow} {}", harmless(&shown))?;
        }
        if let Some(last) = outcome.stderr.lines().last() {
            writeln!(out, "              its standard error ends: {}", harmless(last))?;
        }
        writeln!(out, "              {}", replay())?;
    }
    out.flush()
}

fn print_whole(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    for id in &report.stale {
        writeln!(out, "{id} is listed as known to fail, and does not")?;
    }
    let tested = ["server", "client", "relay"].iter().find_map(|side| report.facts.get(side));
    let names =
        [tested, report.facts.get("dialect")].into_iter().flatten().filter_map(Value::as_str);
    // A client of DAP or ABP says no name.
    let names = names.filter(|name| !name.is_empty());
    let of: String = names.map(|name| format!("{}; ", harmless(name))).collect();
    let took = report.took.as_secs_f64();
    writeln!(out, "{}: {} ({of}{took:.1} s)", report.whole().as_str(), report.summary())?;
    out.flush()
}

/// Lists checks by their ids, their clauses and what holds if they pass.
pub(super) fn list<N, S, R>(checks: &[Row<N, S, R>]) -> Result<ExitCode, Exit> {
    let is_terminal = io::stdout().is_terminal();
    let mut out = io::stdout().lock();
    let listed = checks.iter().try_for_each(|Row { id, clauses, title, .. }| {
        // Protocols differ: the strongest of them.
        let level = clauses.iter().map(|clause| clause.level).min();
        let level = level.map(Level::as_str).unwrap_or_default();
        if is_terminal {
            writeln!(out, "{id:31} {level:11} {title}")
        } else {
            writeln!(out, "{id}")
        }
    });
    listed.and_then(|()| out.flush()).map_err(Exit::output)?;
    Ok(ExitCode::SUCCESS)
}
