//! Runs `tests/vectors/<dialect>/*.jsonl` through `rescind step`, byte for byte.
//!
//! A vector begins with a header line, whose members [`Header`] describes. Then come `{"in": INPUT}` lines, each
//! followed by the `{"out": OUTPUT}` lines that it makes. `{revision}` stands for the date in the name of the dialect.
//! `BLESS=1 cargo test --test vectors` rewrites the outputs; read the difference before you commit it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod committed;

use std::collections::BTreeSet;
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
    let (vectors, coverage) = (names.clone(), names.clone());
    let mut tests: Vec<Trial> =
        vectors.into_iter().map(|name| trial(&name.clone(), move || run(&name))).collect();
    tests.push(trial("every_bug_and_guarantee_has_a_vector_named_for_it", move || {
        every_bug_and_guarantee_is_shown(&coverage);
    }));
    tests.push(trial("every_preset_has_vectors", move || every_preset_has_vectors(&names)));
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
    /// The bugs and guarantees that it holds: `B9`, `G3`.
    rules: Vec<String>,
    /// All those in which it is the same conversation; the first names the folder.
    dialects: Vec<String>,
    /// The rule of a protocol, or the reader of the wire, that asks for it.
    cites: String,
    /// The side that it is, if the dialect tells its sides apart.
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

fn every_preset_has_vectors(names: &[String]) {
    let dialects: BTreeSet<_> = names.iter().flat_map(|name| read(name).0.dialects).collect();
    let presets = Dialect::PRESETS.iter().map(|preset| preset.name.to_string()).collect();
    assert_eq!(dialects, presets);
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

fn path_of(name: &str) -> PathBuf {
    directory().join(name).with_extension("jsonl")
}

/// The header of a vector, parsed and as it stands, and the lines below it.
fn read(name: &str) -> (Header, String, String) {
    let text = fs::read_to_string(path_of(name)).unwrap();
    let (first, rest) = text.split_once('\n').unwrap();
    (serde_json::from_str(first).unwrap(), first.to_owned(), rest.to_owned())
}

const REVISION: &str = "{revision}";

/// Replays one vector in each of its dialects and compares the whole transcript.
fn run(name: &str) {
    let (header, first, rest) = read(name);
    check_header(name, &header);

    for dialect in &header.dialects {
        let transcript = transcript(dialect, &header.side, &rest);
        let again = self::transcript(dialect, &header.side, &rest);
        assert_eq!(transcript, again, "G10: the same again");
        let found = format!("{first}\n{transcript}");
        if let Err(difference) = committed::check(&path_of(name), &found) {
            panic!("{}, in {dialect}\n{difference}", header.vector);
        }
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
    assert_eq!(directory, header.dialects[0], "the first dialect names the folder");
    let prefix = name.split('_').next().unwrap().to_uppercase();
    let is_rule = prefix.len() == 3 && prefix.starts_with(['B', 'G']);
    if is_rule && prefix[1..].parse::<u8>().is_ok() {
        let rule = format!("{}{}", &prefix[..1], prefix[1..].trim_start_matches('0'));
        assert!(header.rules.contains(&rule), "the name says {rule}");
    }
}

/// The date of a revision, if the dialect's name has one.
fn revision(dialect: &str) -> &str {
    let name = dialect.trim_start_matches("mcp-");
    name.strip_suffix("-http").unwrap_or(name)
}

/// The inputs among `lines` as they stand, each with the outputs that it really makes.
fn transcript(dialect: &str, side: &str, lines: &str) -> String {
    let is_one_of_several = lines.contains(REVISION);
    let lines = lines.replace(REVISION, revision(dialect));
    let args = ["step", "--dialect", dialect, "--side", side];
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
    if is_one_of_several {
        transcript = transcript.replace(revision(dialect), REVISION);
    }
    transcript
}
