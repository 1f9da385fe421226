//! `@modelcontextprotocol/conformance`, the official suite, with our own `conformance_server` and `conformance_client`.
//!
//! The scenarios are those of its released version and of its newest alpha. Each passes without a warning in every
//! revision of MCP that it is for, or stands in [`OTHERS`] with the reason.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rescind_interop::peers::{CommandLine, conformance};
use serde_json::Value;

/// The npm package of the released version.
const RELEASED: &str = "@modelcontextprotocol/conformance";
/// The npm package of the newest alpha, which alone knows 2026-07-28.
const ALPHA: &str = "conformance-alpha";

/// The scenarios that a server passes.
const SERVER: [&str; 37] = [
    "caching",
    "completion-complete",
    "dns-rebinding-protection",
    "elicitation-sep1034-defaults",
    "elicitation-sep1330-enums",
    "http-header-validation",
    "json-schema-2020-12",
    "logging-set-level",
    "ping",
    "prompts-get-embedded-resource",
    "prompts-get-simple",
    "prompts-get-with-args",
    "prompts-get-with-image",
    "prompts-list",
    "resources-list",
    "resources-read-binary",
    "resources-read-text",
    "resources-subscribe",
    "resources-templates-read",
    "resources-unsubscribe",
    "sep-2164-resource-not-found",
    "server-initialize",
    "server-session-lifecycle",
    "server-sse-multiple-streams",
    "server-sse-polling",
    "server-stateless",
    "tools-call-audio",
    "tools-call-elicitation",
    "tools-call-embedded-resource",
    "tools-call-error",
    "tools-call-image",
    "tools-call-mixed-content",
    "tools-call-sampling",
    "tools-call-simple-text",
    "tools-call-with-logging",
    "tools-call-with-progress",
    "tools-list",
];

/// The scenarios that a client passes.
const CLIENT: [&str; 9] = [
    "elicitation-sep1034-client-defaults",
    "http-custom-headers",
    "http-standard-headers",
    "initialize",
    "json-schema-2020-12-preservation",
    "json-schema-ref-no-deref",
    "request-metadata",
    "sse-retry",
    "tools_call",
];

/// The beginnings of the names of all others, and why they don't apply.
const OTHERS: [(&str, &str); 8] = [
    ("auth/", "the library has a bearer token; the rest of OAuth is a program's or a proxy's"),
    ("authorization-", "they are for an authorization server"),
    ("http-custom-header-server-validation", "the library does not know the host's tools"),
    ("http-invalid-tool-headers", "not done: the host sees every tool that the server lists"),
    ("input-required-result-", "the program asks in a result; no request is nested"),
    ("sep-2322-client-request-state", "the program responds in a request; none is nested"),
    ("sep-2640-", "skills are an extension, and their contents the program's"),
    ("tasks-", "tasks are an extension here, and their contents the program's"),
];

/// One version of the suite.
#[derive(Clone, Copy)]
struct Suite {
    package: &'static str,
}

/// The role that a scenario tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Role {
    Server,
    Client,
    AuthorizationServer,
}

impl Role {
    fn passed(self) -> &'static [&'static str] {
        match self {
            Self::Server => &SERVER,
            Self::Client => &CLIENT,
            Self::AuthorizationServer => &[],
        }
    }
}

/// A scenario, and the revisions that it is for.
type Scenarios = BTreeMap<(Role, String), Vec<String>>;

impl Suite {
    fn command(self) -> Option<CommandLine> {
        conformance(self.package)
    }

    /// Returns every scenario that the suite lists.
    fn scenarios(self) -> Option<Scenarios> {
        let command = self.command()?;
        let output = Command::new(&command[0]).args(&command[1..]).arg("list").output();
        let output = output.expect("the suite starts");
        let listed = String::from_utf8(output.stdout).expect("it writes UTF-8");
        let (mut role, mut scenarios) = (None, Scenarios::new());
        for line in listed.lines() {
            if let Some((of, _)) = line.split_once(" scenarios") {
                role = Some(match of {
                    "Server" => Role::Server,
                    "Client" => Role::Client,
                    "Authorization server" => Role::AuthorizationServer,
                    _ => panic!("there is no role {of}"),
                });
            }
            let Some((name, revisions)) = line.trim_start_matches("  - ").split_once(" [") else {
                continue;
            };
            let revisions = revisions.trim_end_matches(']').split(',').map(String::from).collect();
            scenarios.insert((role.expect("a heading comes first"), name.into()), revisions);
        }
        Some(scenarios)
    }

    /// Runs all scenarios of one revision, or of all that are for servers, against our server, and judges them.
    fn judge_server(self, revision: Option<&str>) {
        let Some(scenarios) = self.scenarios() else { return };
        let (served, results) = (Served::new(), Results::new(self, revision.unwrap_or("all")));
        let mut arguments = vec!["server", "--url", &*served.address, "--suite", "all"];
        arguments.extend(revision.iter().flat_map(|revision| ["--spec-version", revision]));
        results.run(&arguments);
        let is_meant = |revisions: &Vec<String>| {
            revision.is_none_or(|revision| revisions.iter().any(|it| it == revision))
        };
        let meant = scenarios.iter().filter(|((role, name), revisions)| {
            *role == Role::Server && is_meant(revisions) && SERVER.contains(&&**name)
        });
        let meant: Vec<_> = meant.map(|((_, name), _)| name).collect();
        assert!(!meant.is_empty());
        for name in meant {
            let mut again = vec!["server", "--url", &*served.address, "--scenario", name];
            again.extend(revision.iter().flat_map(|revision| ["--spec-version", revision]));
            results.judge(&format!("server-{name}"), &again);
        }
    }

    /// Runs each scenario for clients, in each revision that it is for, with our client, and judges it.
    fn judge_client(self, revisions: &[Option<&str>]) {
        let Some(scenarios) = self.scenarios() else { return };
        for revision in revisions {
            let results = Results::new(self, &format!("client-{}", revision.unwrap_or("all")));
            let is_meant = |of: &[String]| revision.is_none_or(|it| of.iter().any(|of| of == it));
            let mut judged = 0;
            for ((_, name), of) in scenarios.iter().filter(|((role, _), _)| *role == Role::Client) {
                if !CLIENT.contains(&&**name) || !is_meant(of) {
                    continue;
                }
                let client = env!("CARGO_BIN_EXE_conformance_client");
                let mut arguments = vec!["client", "--command", client, "--scenario", name];
                arguments.extend(revision.iter().flat_map(|it| ["--spec-version", it]));
                results.run(&arguments);
                results.judge(name, &arguments);
                judged += 1;
            }
            assert!(judged > 0);
        }
    }
}

/// `conformance_server`, which ends with this.
struct Served {
    child: Child,
    address: String,
}

impl Served {
    fn new() -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_conformance_server"))
            .stdout(Stdio::piped())
            .spawn()
            .expect("it was built");
        let mut address = String::new();
        let stdout = child.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut address).expect("it writes its address");
        Self { child, address: address.trim().into() }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended, which its client has noticed then.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder for the results of some scenarios.
struct Results {
    suite: Suite,
    folder: PathBuf,
}

impl Results {
    fn new(suite: Suite, name: &str) -> Self {
        let name = format!("{}-{name}", suite.package.replace('/', "-"));
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("conformance").join(name);
        // It may not be there yet.
        let _ = fs::remove_dir_all(&folder);
        Self { suite, folder }
    }

    /// Runs the suite. Its exit status is ignored, for its results are judged.
    fn run(&self, arguments: &[&str]) {
        let command = self.suite.command().expect("it was there");
        let output = Command::new(&command[0])
            .args(&command[1..])
            .args(arguments)
            .arg("--output-dir")
            .arg(&self.folder)
            .output();
        output.expect("the suite starts");
    }

    /// Panics unless a scenario passes. One that fails runs again, twice at most: the suite measures times, and a busy
    /// machine is late.
    fn judge(&self, scenario: &str, again: &[&str]) {
        let mut judged = self.read(scenario);
        for _ in 0..2 {
            if let Err(failed) = &judged {
                println!("{scenario} runs again: {failed}");
                self.run(again);
                judged = self.read(scenario);
            }
        }
        match judged {
            Ok(passed) => println!("{scenario}: {passed} checks passed"),
            Err(failed) => panic!("{scenario} failed three times: {failed}"),
        }
    }

    /// Reads the result of a scenario that was run once, and takes it away. Returns the checks that passed.
    fn read(&self, scenario: &str) -> Result<usize, String> {
        let folders = fs::read_dir(&self.folder).expect("the suite wrote results");
        // The name of a folder ends with the time of its start.
        let is_of =
            |name: &str| name.strip_prefix(scenario).is_some_and(|it| it.starts_with("-20"));
        let folders = folders.map(|entry| entry.expect("it can be read"));
        let folders = folders.filter(|entry| is_of(&entry.file_name().to_string_lossy()));
        let folders: Vec<_> = folders.map(|entry| entry.path()).collect();
        let [folder] = &folders[..] else { return Err(format!("{} results", folders.len())) };
        let checks = fs::read(folder.join("checks.json"));
        fs::remove_dir_all(folder).expect("it is ours");
        let checks = checks.map_err(|error| error.to_string())?;
        let checks: Vec<Value> = serde_json::from_slice(&checks).expect("they are JSON");
        let is_bad = |check: &&Value| check["status"] == "FAILURE" || check["status"] == "WARNING";
        if let Some(bad) = checks.iter().find(is_bad) {
            return Err(format!("{bad:#}"));
        }
        match checks.iter().filter(|check| check["status"] == "SUCCESS").count() {
            0 => Err("nothing was checked".into()),
            passed => Ok(passed),
        }
    }
}

const SUITES: [Suite; 2] = [Suite { package: RELEASED }, Suite { package: ALPHA }];

/// A scenario that a new version of the suite brings fails this, and so does one that it no longer has.
#[test]
fn each_scenario_passes_or_has_a_reason() {
    let mut seen = BTreeSet::new();
    for suite in SUITES {
        let Some(scenarios) = suite.scenarios() else { return };
        for (role, name) in scenarios.keys() {
            let passes = role.passed().iter().find(|it| *it == name).copied();
            let other =
                OTHERS.iter().map(|(beginning, _)| *beginning).find(|it| name.starts_with(it));
            assert!(passes.is_some() != other.is_some(), "{role:?} {name}: {passes:?}, {other:?}");
            seen.extend(passes.map(|it| (Some(*role), it)).or(other.map(|it| (None, it))));
        }
    }
    let passes = [Role::Server, Role::Client]
        .map(|role| role.passed().iter().map(move |it| (Some(role), *it)));
    let named = passes.into_iter().flatten().chain(OTHERS.map(|(beginning, _)| (None, beginning)));
    assert_eq!(seen, named.collect());
}

#[test]
fn the_server_passes_the_released_suite() {
    SUITES[0].judge_server(None);
}

#[test]
fn the_server_passes_the_alpha_in_each_revision() {
    for revision in ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"] {
        SUITES[1].judge_server(Some(revision));
    }
}

#[test]
fn the_client_passes_the_released_suite() {
    SUITES[0].judge_client(&[None]);
}

#[test]
fn the_client_passes_the_alpha_in_each_revision() {
    SUITES[1].judge_client(&[Some("2025-06-18"), Some("2025-11-25"), Some("2026-07-28")]);
}
