//! `rescind conform` on real servers and relays.
//!
//! [`peers`] lists them, and [`run_all`] tests several at the same time. [`truths`] are the verdicts that are known,
//! and [`pages`] records those that were seen.

pub mod pages;
mod peers;
mod truths;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use protocol_core::Dialect;
use rescind_conform::{
    Expected, Known, Options, Outcome, Program, RelayOptions, RelayProgram, Report, Request,
    Unreached, run, run_relay,
};
use serde_json::{Value, json};

use crate::peers::{CommandLine, rescind};
pub use peers::peers;
pub use truths::truths;

/// A server or a relay, and how it is run.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its name and version.
    pub name: &'static str,
    /// The dialect that it speaks.
    pub dialect: Dialect,
    /// Its command, if it is installed.
    pub command: Option<CommandLine>,
    /// Its kind, which decides the options of its test.
    pub how: How,
    /// The checks that hold in one run and not in the next, since it leaves them to chance; one a line.
    pub varying: &'static str,
}

/// The kind of a peer, by the way it is tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// It is a server that says all that is needed.
    Server,
    /// Its tools are not declared read-only, and may be called all the same.
    AnyTool,
    /// Its document is in this language.
    Language(&'static str),
    /// It is a server made for our tests, whose tool `sleep` has no schema.
    Tool,
    /// It is an agent made for our tests, which has the methods `sleep` and `nested`, and no others.
    Agent,
    /// It is a language server made for our tests, with a command that asks its client something.
    Asking,
    /// It is a relay, which is given the command of its server.
    Relay,
}

/// A call of the tool `sleep`.
fn tool() -> Value {
    json!({ "name": "sleep", "arguments": { "ms": "$MS" } })
}

impl How {
    /// As on the command line of `rescind conform`.
    #[must_use]
    pub fn arguments(self) -> String {
        match self {
            Self::Server | Self::Relay => String::new(),
            Self::AnyTool => "--allow-tools ".into(),
            Self::Tool => format!("--slow tools/call '{}' ", tool()),
            Self::Language(name) => format!("--language {name} "),
            Self::Agent => {
                r#"--open /dev/null --slow sleep '{"ms":"$MS"}' --reverse nested '{"ms":"$MS"}' "#
                    .into()
            }
            Self::Asking => {
                r#"--reverse workspace/executeCommand '{"command":"ask","arguments":[]}' "#.into()
            }
        }
    }

    /// Returns the word for the kind of program that is tested.
    #[must_use]
    pub const fn tested(self) -> &'static str {
        match self {
            Self::Relay => "relay",
            _ => "server",
        }
    }
}

impl Peer {
    fn options(&self) -> Options {
        let mut options = Options::new(self.dialect.clone());
        let lasting = |method| Some(Request::new(method, json!({ "ms": "$MS" })));
        match self.how {
            How::Server | How::Relay => {}
            How::AnyTool => options.allow_tools = true,
            How::Language(name) => options.language = Some(name.into()),
            How::Tool => options.slow = Some(Request::new("tools/call", tool())),
            How::Agent => {
                options.open = Some(vec![]);
                (options.slow, options.reverse) = (lasting("sleep"), lasting("nested"));
            }
            How::Asking => {
                let params = json!({ "command": "ask", "arguments": [] });
                options.reverse = Some(Request::new("workspace/executeCommand", params));
            }
        }
        options
    }

    /// Makes the checks that are named, or all. `None` if it is not installed.
    ///
    /// # Errors
    ///
    /// It can't be tested.
    pub fn test(&self, only: &[String]) -> Result<Option<Report>, Unreached> {
        let Some(command) = &self.command else { return Ok(None) };
        let command = command.iter().map(Into::into).collect();
        if self.how == How::Relay {
            let bridge = [rescind(), "conform", "bridge"].map(Into::into).to_vec();
            let mut options = RelayOptions::new(self.dialect.clone(), self.dialect.clone());
            options.suite.only = only.to_vec();
            return run_relay(&RelayProgram::new(Program::new(command), bridge), &options, |_| {})
                .map(Some);
        }
        let mut options = self.options();
        options.suite.only = only.to_vec();
        options.suite.known = Known::read("", self.varying).expect("it names checks");
        run(&Program::new(command), &options, |_| {}).map(Some)
    }
}

/// Tests each that is installed, as many at the same time as `width` says. `take` gets each report as soon as it is
/// done, with the place of its peer. Nothing is kept: a report holds transcripts of up to 30 MB.
///
/// # Panics
///
/// If one can't be tested.
pub fn run_all(peers: &[Peer], width: usize, take: impl Fn(usize, Report) + Sync) {
    let next = AtomicUsize::new(0);
    let test_the_next = || {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let peer = peers.get(number)?;
        let report = peer.test(&[]).unwrap_or_else(|error| panic!("{}: {error}", peer.name));
        report.into_iter().for_each(|report| take(number, report));
        Some(())
    };
    thread::scope(|scope| {
        for _ in 0..width.max(1) {
            scope.spawn(|| while test_the_next().is_some() {});
        }
    });
}

/// The checks that do not hold, nor are known to hold now and then.
#[must_use]
pub fn failed(report: &Report) -> Vec<&Outcome> {
    let fails =
        |outcome: &&Outcome| outcome.verdict.as_str() == "fail" && outcome.known != Expected::Flaky;
    report.outcomes.iter().filter(fails).collect()
}
