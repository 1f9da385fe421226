//! Runs `tests/vectors/<dialect>/*.jsonl` through `rescind step`, byte for byte.
//!
//! A vector begins with a line that says what it shows, which bugs (B) and guarantees (G) it holds,
//! which rule of which protocol asks for it, and which side of the dialect it is. Then come
//! `{"in": INPUT}` lines, each followed by the `{"out": OUTPUT}` lines that it makes.
//! `BLESS=1 cargo test --test vectors` rewrites the outputs; read the difference before you commit it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod committed;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use libtest_mimic::{Arguments, Trial};
use protocol_core::Dialect;
use rescind_cli::step::{Session, StepArgs};
use serde::Deserialize;
use serde_json::value::RawValue;

/// Makes a test of each file, named by its path.
fn main() -> ExitCode {
    let names = names();
    let coverage = names.clone();
    let mut tests: Vec<Trial> =
        names.into_iter().map(|name| trial(&name.clone(), move || run(&name))).collect();
    tests.push(trial("every_bug_and_guarantee_has_a_vector_named_for_it", move || {
        every_bug_and_guarantee_is_shown(&coverage);
    }));
    tests.push(trial("every_preset_has_vectors", every_preset_has_vectors));
    libtest_mimic::run(&Arguments::from_args(), tests).exit_code()
}

fn trial(name: &str, test: impl FnOnce() + Send + 'static) -> Trial {
    Trial::test(name, move || {
        test();
        Ok(())
    })
}

/// The rows of the list of bugs that one connection can't show, and what shows them instead.
const SHOWN_ELSEWHERE: &[(u8, &str)] = &[
    (6, "handlers are the adapters' business"),
    (25, "takes two connections: the relay"),
    (26, "takes two connections: the relay"),
    (27, "dropping handles is the adapters' business"),
];

/// The rows that there are.
const BUGS: u8 = 33;
const GUARANTEES: u8 = 12;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    /// One sentence: what it shows.
    vector: String,
    /// Which bugs and guarantees: `B9`, `G3`.
    rules: Vec<String>,
    dialect: String,
    /// Which rule of which protocol, or which reader of the wire, asks for it.
    cites: String,
    /// Which side it is, where the dialect tells its sides apart.
    #[serde(default = "client")]
    side: String,
}

fn client() -> String {
    "client".into()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    #[serde(borrow, rename = "in")]
    input: Option<&'a RawValue>,
    #[serde(borrow, rename = "out")]
    _output: Option<&'a RawValue>,
}

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    args: StepArgs,
}

fn every_bug_and_guarantee_is_shown(names: &[String]) {
    let named = |prefix: String| {
        let mut names = names.iter().map(|name| name.rsplit('/').next().unwrap());
        names.any(|name| name.starts_with(&prefix))
    };
    for bug in 1..=BUGS {
        let elsewhere = SHOWN_ELSEWHERE.iter().find(|(row, _)| *row == bug);
        match elsewhere {
            None => assert!(named(format!("b{bug:02}_")), "B{bug} has no vector"),
            Some((_, why)) => assert!(!named(format!("b{bug:02}_")), "B{bug} has one, yet: {why}"),
        }
    }
    for guarantee in 1..=GUARANTEES {
        assert!(named(format!("g{guarantee:02}_")), "G{guarantee} has no vector");
    }
}

fn every_preset_has_vectors() {
    let mut presets: Vec<_> = Dialect::PRESETS.iter().map(|preset| &*preset.name).collect();
    let mut directories: Vec<String> = entries(&directory()).collect();
    presets.sort_unstable();
    directories.sort_unstable();
    assert_eq!(directories, presets);
}

/// The vectors by their paths: a directory for each dialect.
fn names() -> Vec<String> {
    let mut found = Vec::new();
    for dialect in entries(&directory()) {
        for file in entries(&directory().join(&dialect)) {
            let name = file.strip_suffix(".jsonl").expect("only vectors are here");
            found.push(format!("{dialect}/{name}"));
        }
    }
    found.sort();
    found
}

fn entries(directory: &Path) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap())
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors")
}

/// Replays one vector and compares the whole transcript.
fn run(name: &str) {
    let path = directory().join(name).with_extension("jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let (first, rest) = text.split_once('\n').unwrap();
    let header: Header = serde_json::from_str(first).unwrap();
    check_header(name, &header);

    let transcript = transcript(&header, rest);
    assert_eq!(transcript, self::transcript(&header, rest), "G10: the same again");
    if let Err(difference) = committed::check(&path, &format!("{first}\n{transcript}")) {
        panic!("{}\n{difference}", header.vector);
    }
}

fn check_header(name: &str, header: &Header) {
    assert!(header.vector.ends_with('.'), "a vector says what it shows in one sentence");
    assert!(!header.cites.is_empty());
    for rule in &header.rules {
        let (kind, number) = rule.split_at(1);
        let last = if kind == "B" { BUGS } else { GUARANTEES };
        let known = ["B", "G"].contains(&kind) && (1..=last).contains(&number.parse().unwrap());
        assert!(known, "{rule} is neither a bug nor a guarantee");
    }
    let (directory, name) = name.split_once('/').unwrap();
    assert_eq!(directory, header.dialect, "a directory holds one dialect");
    let prefix = name.split('_').next().unwrap().to_uppercase();
    let is_rule = prefix.len() == 3 && prefix.starts_with(['B', 'G']);
    if is_rule && prefix[1..].parse::<u8>().is_ok() {
        let rule = format!("{}{}", &prefix[..1], prefix[1..].trim_start_matches('0'));
        assert!(header.rules.contains(&rule), "the name says {rule}");
    }
}

/// The inputs among `lines` as they stand, each with the outputs that it really makes.
fn transcript(header: &Header, lines: &str) -> String {
    let args = ["step", "--dialect", &header.dialect, "--side", &header.side];
    let mut session = Session::new(&Command::parse_from(args).args);
    let mut transcript = String::new();
    for line in lines.lines() {
        let parsed: Line<'_> =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        let Some(input) = parsed.input else { continue };
        let mut outputs = Vec::new();
        session
            .take(input.get().as_bytes(), &mut outputs)
            .unwrap_or_else(|problem| panic!("{line}: {problem}"));
        transcript.push_str(line);
        transcript.push('\n');
        for output in String::from_utf8(outputs).unwrap().lines() {
            serde_json::from_str::<&RawValue>(output).expect("every output is JSON");
            transcript.push_str(&format!("{{\"out\": {output}}}\n"));
        }
    }
    transcript
}
