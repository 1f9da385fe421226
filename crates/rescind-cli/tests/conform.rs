//! `rescind conform`: its verdicts on `rescind serve` and `rescind relay`, and the form of its reports.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::{env, fs};

use protocol_core::Dialect;
use rescind_conform::{client_page, page, relay_page};
use serde_json::Value;

use crate::support::{RESCIND, at_once, judged};

const SLOW: [&str; 3] = ["--slow", "sleep", r#"{"ms":"$MS"}"#];

fn conform(arguments: &[&str], server: &[&str]) -> Output {
    let mut command = Command::new(RESCIND);
    command.args(["conform", "server", "--slow-time", "500ms"]).args(arguments);
    command.args(["--", RESCIND, "serve"]).args(server);
    command.output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Returns the arguments with which everything that applies to a dialect is tried.
fn arguments(dialect: &'static str) -> Vec<&'static str> {
    let reverse = ["--reverse", "nested", r#"{"ms":"$MS"}"#];
    let of_tool = ["--reverse", "tools/call", r#"{"name":"nested","arguments":{"ms":"$MS"}}"#];
    match dialect {
        "jsonrpc" | "abp" | "dap" | "erlmcp" => SLOW.to_vec(),
        "mcp" | "mcp-2026-07-28" => vec!["--allow-tools"],
        mcp if mcp.starts_with("mcp") => [&["--allow-tools"][..], &of_tool].concat(),
        _ => [SLOW, reverse].concat(),
    }
}

/// Returns every protocol and revision. The changes for HTTP do not show on standard streams.
pub(crate) fn dialects() -> impl Iterator<Item = &'static str> {
    Dialect::PRESETS.iter().map(|it| &*it.name).filter(|name| !name.ends_with("-http"))
}

/// Returns whether it is this dialect's turn. `.ci/run` sets `RESCIND_TURN`, so that another is tried after
/// each commit.
pub(crate) fn has_turn(dialect: &str) -> bool {
    let turn = env::var("RESCIND_TURN").ok().map(|turn| turn.parse::<usize>().unwrap());
    turn.is_some_and(|turn| dialects().nth(turn % dialects().count()) == Some(dialect))
}

/// Silent dialects and others, with either framing, and the one whose messages have numbers.
const WITHOUT: [&str; 3] = ["lsp", "mcp-2026-07-28", "dap"];

/// Returns whether a dialect is tested on a runtime. With `RESCIND_EVERY_RUNTIME=1` each is tested on each.
/// With `RESCIND_EVERY_CHECK=1` each is tested on one, and some on the others. Without either, a sample is
/// tested.
fn is_tried(dialect: &str, runtime: &str) -> bool {
    let is_set = |variable| env::var_os(variable).is_some();
    let (every_check, is_sample) = (is_set("RESCIND_EVERY_CHECK"), WITHOUT.contains(&dialect));
    match runtime {
        _ if is_set("RESCIND_EVERY_RUNTIME") => true,
        "blocking" => every_check || is_sample || has_turn(dialect),
        "single" => every_check && dialect == "acp" || dialect == "erlmcp",
        "smol" => every_check && (is_sample || dialect == "acp") || dialect == "abp",
        _ => every_check && is_sample || dialect == "acp",
    }
}

/// The number of dialects that are tested at the same time.
pub(crate) const AT_ONCE: usize = 3;

/// Reasons for an open check: the server does one thing at a time, and its turns ask nothing.
const SERIAL: [&str; 7] = [
    "without the cancel the same is seen",
    "may have been over when the stop was read",
    "maybe before the stop was read",
    "the server asked nothing of us",
    "the server answers nothing else while it is at work",
    " s passed without an answer to the next request",
    " s passed without a request of the server",
];

/// Returns whether everything passes that can be tried. On a single thread that is not everything.
fn is_good(output: &Output, said: &str, runtime: &str) -> bool {
    let whole = said.lines().last().and_then(|last| last.split_once(':'));
    let is_late = |line: &&str| line.contains("the machine was too slow to tell");
    let late = said.lines().filter(is_late).count();
    let is_open = |line: &&str| ["not exercised", "unclear"].iter().any(|it| line.starts_with(it));
    let mut musts = said.lines().filter(is_open).filter(|line| line.contains(" MUST "));
    match (output.status.code(), whole) {
        (Some(0), Some(("pass", _))) => true,
        (Some(8), Some((_, summary))) if summary.contains(&format!(", {late} unclear, ")) => {
            musts.all(|must| is_late(&must))
        }
        (Some(8), Some(("incomplete", _))) if runtime == "single" => {
            let mut untried = said.lines().filter(is_open);
            untried.all(|line| SERIAL.iter().any(|why| line.contains(why)))
        }
        _ => false,
    }
}

fn serve_passes_everything_on(runtime: &str) {
    let passes = |dialect| {
        let arguments = [vec!["--dialect", dialect], arguments(dialect)].concat();
        let run = || conform(&arguments, &["--dialect", dialect, "--runtime", runtime]);
        // On a single thread some are never clear.
        let output = if runtime == "single" { run() } else { judged(run, text) };
        let said = text(&output);
        assert!(is_good(&output, &said, runtime), "{dialect} on {runtime}:\n{said}");
    };
    at_once(AT_ONCE, dialects().filter(|dialect| is_tried(dialect, runtime)), passes);
}

#[test]
fn serve_passes_everything_on_threads() {
    serve_passes_everything_on("blocking");
}

/// Everything passes that can be tried. A handler that does not look up keeps everything else waiting.
#[test]
fn serve_passes_everything_on_a_single_thread() {
    serve_passes_everything_on("single");
}

#[test]
fn serve_passes_everything_on_tokio() {
    serve_passes_everything_on("tokio");
}

#[test]
fn serve_passes_everything_on_smol() {
    serve_passes_everything_on("smol");
}

/// Tests `rescind serve`, or another subject, with no argument but the dialect.
fn plainly(what: &str, dialect: &str, subject: &[&str]) -> String {
    let mut command = Command::new(RESCIND);
    command.args(["conform", what, "--dialect", dialect, "--jobs", "8"]);
    command.args(["--", RESCIND]).args(subject);
    let output = judged(|| command.output().unwrap(), text);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(0), "{dialect}:\n{said}");
    said
}

/// Nothing that a protocol demands is left out. With `RESCIND_EVERY_CHECK=1` all dialects are tested. Without
/// it, one is tested for each way in which slow work is found.
#[test]
fn f115_serve_passes_every_must_without_an_argument() {
    let is_tried = |dialect: &&str| {
        let is_sample = ["acp", "mcp"].contains(dialect) || has_turn(dialect);
        is_sample || env::var_os("RESCIND_EVERY_CHECK").is_some()
    };
    at_once(AT_ONCE, dialects().filter(is_tried), |dialect| {
        let said = plainly("server", dialect, &["serve", "--dialect", dialect]);
        assert!(said.lines().last().unwrap().starts_with("pass: "), "{dialect}:\n{said}");
        let untried = said.lines().find(|line| line.starts_with("not exercised MUST"));
        assert_eq!(untried, None, "{dialect}");
    });
}

/// The checks of work that is stopped, in the dialects whose work goes on after its request.
const STOPPED: [(&str, &[&str]); 3] = [
    (
        "acp-v2",
        &[
            "stop/answer",
            "stop/running",
            "stop/twice",
            "stop/quiet",
            "stop/next",
            "stop/before",
            "stop/spares-others",
            "stop/uninserted",
        ],
    ),
    (
        "mcp-2025-11-25",
        &[
            "stop/answer",
            "stop/twice",
            "stop/quiet",
            "stop/next",
            "stop/before",
            "stop/spares-others",
        ],
    ),
    (
        "lsp",
        &[
            "stop/answer",
            "stop/sooner",
            "stop/twice",
            "stop/quiet",
            "stop/next",
            "stop/before",
            "stop/spares-others",
            "stop/own-token",
        ],
    ),
];

#[test]
fn serve_stops_each_kind_of_work() {
    at_once(AT_ONCE, STOPPED, |(dialect, checks)| {
        let only = ["--only", "stop", "--jobs", "8"];
        let mut command = Command::new(RESCIND);
        command.args(["conform", "server", "--dialect", dialect]).args(only);
        command.args(["--", RESCIND, "serve", "--dialect", dialect]);
        let said = text(&judged(|| command.output().unwrap(), text));
        let passes =
            |id: &&&str| said.lines().any(|it| it.starts_with("pass") && it.contains(**id));
        let untried: Vec<_> = checks.iter().filter(|id| !passes(id)).collect();
        assert!(untried.is_empty(), "{dialect}: {untried:?}\n{said}");
    });
}

#[test]
fn f115_the_first_line_says_that_nothing_slow_is_known_and_names_the_option() {
    // Nobody has a method of that name, and a stubborn machine is not asked for `sleep` then.
    let unknown = ["--slow", "no/such/method", "{}", "--only", "cancel/answer"];
    let said = text(&conform(&unknown, &[]));
    let first = said.lines().next().unwrap();
    let why = "the request of --slow is of no use: it is answered with error -32601 (";
    assert!(first.starts_with(why), "{said}");
    let answer = said.lines().nth(1).unwrap();
    assert!(answer.starts_with("not exercised MUST") && answer.contains(why), "{said}");
}

#[test]
fn what_could_not_be_tried_is_no_pass() {
    let slow = ["--slow", "echo", "{}"];
    let arguments = [&["--dialect", "mcp", "--only", "cancel/one-read"], &slow[..]].concat();
    let output = conform(&arguments, &["--dialect", "mcp"]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(8), "{said}");
    assert!(said.contains("\nnot exercised MUST"), "{said}");
    assert!(said.contains("incomplete: 0 pass, 0 fail, 1 not exercised"), "{said}");
}

/// A program that ends at once is not waited for, however patient the test is. The patience here is longer than
/// any test may take.
#[test]
fn what_ends_before_it_speaks_is_told_in_one_line_with_its_status() {
    let opening = "no session could be opened: ";
    for (what, command, why) in [
        ("server", &["false"][..], "initialize is not answered: the server ended (exit status: 1)"),
        ("client", &["false"], "the client ended before it made its request (exit status: 1)"),
        (
            "client",
            &["false", "{server}"],
            "the client ended before it started its server (exit status: 1)",
        ),
        ("relay", &["false"], "the relay ended before it started its server (exit status: 1)"),
        (
            "relay",
            &["sh", "-c", "echo not today >&2; exit 3"],
            "the relay ended before it started its server (exit status: 3)",
        ),
    ] {
        let mut tested = Command::new(RESCIND);
        tested.args(["conform", what, "--patience", "1h", "--"]).args(command);
        let output = tested.output().unwrap();
        assert_eq!(output.status.code(), Some(6), "{command:?}");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(why), "{command:?}: {error}");
        assert!(error.contains(opening) || command.contains(&"{server}"), "{command:?}: {error}");
        assert_eq!(error.contains("not today"), command.len() == 3, "{command:?}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

/// Returns a folder of this test's own.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// A dialect whose cancels may not be ignored.
const DRAFT: [&str; 2] = ["--dialect", "acp-draft"];
/// `stubborn` works on whatever it receives: it does not honour cancels.
const STUBBORN: [&str; 7] =
    [DRAFT[0], DRAFT[1], "--slow", "stubborn", r#"{"ms":"$MS"}"#, "--only", "honour/one-read"];

#[test]
fn the_program_prints_every_check_with_its_sources() {
    let printed = |of: &[&str]| {
        let output = Command::new(RESCIND).args(["conform", "checks"]).args(of).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        text(&output)
    };
    let pages = [("server", page()), ("client", client_page()), ("relay", relay_page())];
    for (of, page) in &pages {
        assert_eq!(printed(&[*of]), *page, "{of}");
    }
    assert_eq!(printed(&[]), pages.map(|(_, page)| page).concat());
}

#[test]
fn a_failure_has_its_evidence_in_every_report() {
    let folder = folder("conform-reports");
    let file = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let (json, junit, markdown, badge) =
        (file("a.json"), file("a.xml"), file("a.md"), file("a.badge"));
    let reports = ["--json", &json, "--junit", &junit, "--markdown", &markdown, "--badge", &badge];
    let process = ["--env", "KEY=secret", "--exit-grace", "20s", "--leave-detached"];
    let output = conform(&[&STUBBORN[..], &reports, &process, &["--seed", "5"]].concat(), &DRAFT);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("fail          SHOULD      honour/one-read"), "{said}");
    assert!(
        said.contains(
            "--slow-time 500ms --env 'KEY=…' --exit-grace 20000ms --leave-detached \
             --only honour/one-read --seed 5 -- "
        ),
        "the line that runs it again: {said}"
    );
    assert!(said.contains("$/cancelRequest"), "the last messages of both sides: {said}");

    let report: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!((&report["verdict"], &report["seed"]), (&"fail".into(), &5.into()));
    let check = &report["checks"][0];
    assert_eq!(check["runs"], serde_json::json!(["fail", "fail"]));
    let lines = check["transcript"].as_array().unwrap();
    assert!(lines.iter().any(|line| line["way"] == "received"), "{lines:?}");
    let xml = fs::read_to_string(&junit).unwrap();
    assert!(xml.contains("failures=\"1\"") && xml.contains("$/cancelRequest"), "{xml}");
    assert!(
        fs::read_to_string(&markdown)
            .unwrap()
            .contains("| `honour/one-read` | does not hold (SHOULD) |")
    );
    assert!(fs::read_to_string(&badge).unwrap().contains(r#""message":"0 of 1 checks""#));
}

#[test]
fn a_report_has_standard_output_for_itself() {
    let output = conform(&["--json", "-", "--only", "id/zero"], &[]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["checks"][0]["id"], "id/zero");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("pass          MUST        id/zero"), "{said}");

    let two = conform(&["--json", "-", "--badge", "-"], &[]);
    assert_eq!(two.status.code(), Some(2), "{}", text(&two));
    assert!(String::from_utf8_lossy(&two.stderr).contains("only one report"));
}

#[test]
fn what_is_known_does_not_count_and_a_stale_list_does() {
    let known = folder("conform-known").join("known.txt");
    fs::write(&known, "honour/one-read # it is stubborn\n").unwrap();
    let known = known.to_string_lossy();
    // In a table for people, what holds now and then varies.
    let table = folder("conform-known").join("table.md");
    let varies = ["--known-flaky", &known, "--markdown", &table.to_string_lossy()];
    for listed in [&["--known-failing", &known][..], &varies] {
        let output = conform(&[&STUBBORN[..], listed].concat(), &DRAFT);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    }
    assert!(fs::read_to_string(&table).unwrap().contains("| `honour/one-read` | varies |"));
    let stale = ["--only", "honour/one-read", "--known-failing", &known];
    let output = conform(&[&SLOW[..], &stale].concat(), &[]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("honour/one-read is listed as known to fail, and does not"));
}

#[test]
fn unknown_checks_are_wrong_usage() {
    for arguments in [["--only", "cancel/nothing"], ["--known-failing", "/nowhere"]] {
        assert_eq!(conform(&arguments, &[]).status.code(), Some(2));
    }
}

fn conform_relay(arguments: &[&str], relay: &[&str]) -> Output {
    let mut command = Command::new(RESCIND);
    command.args(["conform", "relay"]).args(arguments).arg("--").args(relay);
    judged(|| command.output().unwrap(), text)
}

/// All checks with `RESCIND_EVERY_CHECK=1`, and a sample of each group without.
const SAMPLE: [&str; 16] = [
    "--only",
    "relay-id/kinds",
    "--only",
    "relay-cancel/live",
    "--only",
    "relay-cancel/late",
    "--only",
    "relay-cancel/acknowledged",
    "--only",
    "relay-silence",
    "--only",
    "relay-answer/stray",
    "--only",
    "relay-form/unchanged",
    "--only",
    "relay-end/callee",
];

fn relay_passes(sides: &[&str]) {
    let sample: &[&str] =
        if env::var_os("RESCIND_EVERY_CHECK").is_some() { &[] } else { &SAMPLE[..] };
    let relay = [&[RESCIND, "relay"], sides, &["--"]].concat();
    let output = conform_relay(&[sides, sample].concat(), &relay);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(0), "{sides:?}:\n{said}");
    // A relay has no name of its own.
    let last = said.lines().last().unwrap();
    assert!(last.starts_with("pass: ") && last.contains(&format!("({RESCIND}; ")), "{said}");
}

#[test]
fn relay_passes_everything_in_every_dialect() {
    at_once(AT_ONCE, ["acp", "lsp", "mcp", "dap"], |dialect| {
        relay_passes(&["--dialect", dialect]);
    });
    if env::var_os("RESCIND_EVERY_CHECK").is_some() {
        for dialect in ["acp-v2", "acp-draft", "mcp-2024-11-05", "mcp-2025-03-26", "mcp-2025-11-25"]
        {
            relay_passes(&["--dialect", dialect]);
        }
    }
}

#[test]
fn relay_passes_everything_between_dialects() {
    relay_passes(&["--up", "lsp", "--down", "acp"]);
    if env::var_os("RESCIND_EVERY_CHECK").is_some() {
        relay_passes(&["--up", "acp", "--down", "mcp-2025-11-25"]);
        relay_passes(&["--up", "mcp-2025-11-25", "--down", "acp"]);
    }
}

#[test]
fn a_relay_takes_its_server_where_it_wants_it() {
    let one = ["--only", "relay-cancel/live"];
    for relay in [
        &[RESCIND, "relay", "--", RESCIND, "relay", "--", "{server}"][..],
        &["sh", "-c", &format!("exec {RESCIND} relay -- {{server}}")],
    ] {
        let output = conform_relay(&one, relay);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    }
}

/// A relay that loses cancels on purpose.
#[test]
fn a_failure_of_a_relay_has_its_evidence() {
    let relay = [RESCIND, "relay", "--fault", "drop cancel", "--"];
    let output = conform_relay(&["--only", "relay-cancel/live", "--seed", "3"], &relay);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("fail          SHOULD      relay-cancel/live"), "{said}");
    assert!(said.contains("the cancel of 11003 arrived 0 times"), "{said}");
    assert!(said.contains("--> client: {"), "{said}");
    assert!(
        said.contains("rescind conform relay --dialect acp --only relay-cancel/live --seed 3 -- ")
    );
}

#[test]
fn a_relay_of_what_has_no_checks_is_told_in_one_line() {
    let output = conform_relay(&["--dialect", "abp"], &["false"]);
    assert_eq!(output.status.code(), Some(6));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("there are no checks for a relay that speaks abp"), "{error}");
}
