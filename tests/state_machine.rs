//! Renders `docs/state-machine.md` from the transition tables of the core and compares it with the
//! committed file: a changed behaviour shows up there as a changed cell. `BLESS=1` rewrites it.
//!
//! The tables are no part of the core's public face, so their file is compiled in here. What a phase,
//! an input or a step means is said once, where it is declared there; this takes it from the comments.

mod committed;
#[path = "../crates/protocol-core/src/machine/table.rs"]
#[allow(dead_code, unreachable_pub, reason = "the core uses more of it")]
mod table;

use std::fmt::{Debug, Write};
use std::path::Path;

use table::{CALL_TABLE, LIFE_TABLE, REQUEST_TABLE, Transition};

/// The file of the tables, with a comment on each of their words.
const SOURCE: &str = include_str!("../crates/protocol-core/src/machine/table.rs");

#[test]
fn the_page_shows_the_tables() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/state-machine.md");
    if let Err(difference) = committed::check(&path, &document()) {
        panic!("the tables and their page differ; BLESS=1 renders it anew\n{difference}");
    }
}

fn document() -> String {
    let calls = Section {
        title: "A call",
        about: CALL,
        phases: words("CallPhase"),
        inputs: words("CallInput"),
        steps: words("CallStep"),
        table: CALL_TABLE.iter().map(|row| &row[..]).collect(),
        groups: CALL_GROUPS,
        end: Some("settled"),
        beside: None,
    };
    let requests = Section {
        title: "A request",
        about: REQUEST,
        phases: words("RequestPhase"),
        inputs: words("RequestInput"),
        steps: words("RequestStep"),
        table: REQUEST_TABLE.iter().map(|row| &row[..]).collect(),
        groups: REQUEST_GROUPS,
        end: None,
        beside: Some("Answered --> [*] : its calls have settled"),
    };
    let life = Section {
        title: "The connection",
        about: LIFE,
        phases: words("Life"),
        inputs: words("LifeInput"),
        steps: words("LifeStep"),
        table: LIFE_TABLE.iter().map(|row| &row[..]).collect(),
        groups: &[],
        end: None,
        beside: Some("[*] --> Open : there is no session"),
    };
    format!("{HEAD}\n{}\n{}\n{}", calls.render(), requests.render(), life.render())
}

const HEAD: &str = "\
# The state machine

Generated from `crates/protocol-core/src/machine/table.rs` by
`BLESS=1 cargo test -p rescind-tests --test state_machine`. Do not edit it by hand.

Everything that a call, a request or a connection can do is a cell of one of three tables. `Machine` keeps the
phase of each in its row. When something happens it looks up the cell of that phase and that input, carries out
the step, and goes to the next phase. It decides nothing else: timers, causes, parents and what the dialect says
only choose which input it is.

In a table there is a row for each input and a column for each phase. `Step → Next` says what is done and which
phase comes next. `Step` alone leaves the phase as it is, `→ Next` alone does nothing else, and a dot means that
nothing happens at all. A drawing shows every transition that leaves its phase, as `input / step`, and none that
stays. The guarantees (G) are listed in [ARCHITECTURE.md](ARCHITECTURE.md), the bugs (B) in
[testing.md](testing.md#the-bugs).
";

const CALL: &str = "\
A request that we sent. Its row is gone once it is settled, and it settles once (G1). Where cancels are requests of
their own, the cancel of a call has a number of its own; an answer to that number is an acknowledgement. What is
cancelled and awaited by nobody, because a timer ran out or its grace is zero, gets two inputs: the cancel, and then
`Forget`.";

const REQUEST: &str = "\
A request that the peer sent. It is answered once, or its answer is withheld where the dialect wants silence (G2).
An `Answered` request keeps its row until every call that was made on its behalf has settled, which is at once if
there is none (G6).";

const LIFE: &str = "\
The connection as a whole, and what it still takes.";

/// Inputs that are told apart by their circumstances only, under one name.
const CALL_GROUPS: &[(&str, &[&str])] = &[
    ("any cancel", &["Cancel", "CancelOperation", "CancelRefused"]),
    ("any answer", &["Answered", "Token", "CancelError"]),
    ("any other answer", &["Answered", "Token"]),
];

const REQUEST_GROUPS: &[(&str, &[&str])] =
    &[("any answer", &["Respond", "RespondUnlessCancelled", "RespondAsCancelled"])];

/// The words of one enum of the tables, in their order, and what each means.
fn words(of: &str) -> Vec<(&'static str, String)> {
    let (_, after) = SOURCE.split_once(&format!("enum {of} {{\n")).expect("it is declared there");
    let (body, _) = after.split_once("\n}").expect("each enum ends");
    let (mut words, mut comment) = (Vec::new(), Vec::new());
    for line in body.lines().map(str::trim) {
        match (line.strip_prefix("///"), line.strip_suffix(',')) {
            (Some(text), _) => comment.push(text.trim()),
            (None, Some(word)) => {
                assert!(!comment.is_empty(), "{of}::{word} has no comment");
                words.push((word, comment.join(" ")));
                comment.clear();
            }
            (None, None) => panic!("neither a comment nor a word: {line}"),
        }
    }
    words
}

fn list(title: &str, words: &[(&str, String)]) -> String {
    let items = words.iter().map(|(word, meaning)| format!("- **{word}**: {meaning}\n"));
    format!("{title}:\n\n{}", items.collect::<String>())
}

/// One of the tables, and what its words mean.
struct Section<'a, P, S> {
    title: &'a str,
    about: &'a str,
    phases: Vec<(&'a str, String)>,
    inputs: Vec<(&'a str, String)>,
    steps: Vec<(&'a str, String)>,
    /// A row for each phase, a column for each input.
    table: Vec<&'a [Transition<P, S>]>,
    groups: &'a [(&'a str, &'a [&'a str])],
    /// What it is to have no row any more.
    end: Option<&'a str>,
    /// What the drawing shows and no cell holds.
    beside: Option<&'a str>,
}

impl<P: Copy + Debug + PartialEq, S: Copy + Debug + PartialEq> Section<'_, P, S> {
    fn render(&self) -> String {
        assert_eq!(self.table.len(), self.phases.len(), "a row for each phase");
        assert_eq!(self.table[0].len(), self.inputs.len(), "a column for each input");
        let mut out = format!("## {}\n\n{}\n\n", self.title, self.about);
        self.drawing_into(&mut out).expect("a String takes everything");
        self.table_into(&mut out).expect("a String takes everything");
        let lists = [("Phases", &self.phases), ("Inputs", &self.inputs), ("Steps", &self.steps)];
        out + &lists.map(|(title, words)| list(title, words)).join("\n")
    }

    fn table_into(&self, out: &mut String) -> std::fmt::Result {
        write!(out, "| |")?;
        for (phase, _) in &self.phases {
            write!(out, " {phase} |")?;
        }
        writeln!(out, "\n|---|{}", "---|".repeat(self.phases.len()))?;
        for (column, (input, _)) in self.inputs.iter().enumerate() {
            write!(out, "| **{input}** |")?;
            for ((phase, _), row) in self.phases.iter().zip(&self.table) {
                write!(out, " {} |", self.cell(phase, row[column]))?;
            }
            writeln!(out)?;
        }
        writeln!(out)
    }

    fn cell(&self, phase: &str, Transition { next, step }: Transition<P, S>) -> String {
        let next = self.name(next);
        match (name_of_step(step), next == phase) {
            (None, true) => "·".into(),
            (None, false) => format!("→ {next}"),
            (Some(step), true) => step,
            (Some(step), false) => format!("{step} → {next}"),
        }
    }

    fn drawing_into(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "```mermaid\nstateDiagram-v2\n    [*] --> {}", self.phases[0].0)?;
        for ((phase, _), row) in self.phases.iter().zip(&self.table) {
            let mut edges: Vec<(Transition<P, S>, Vec<&str>)> = Vec::new();
            for ((input, _), cell) in self.inputs.iter().zip(*row) {
                match edges.iter_mut().find(|(known, _)| known == cell) {
                    Some((_, inputs)) => inputs.push(input),
                    None => edges.push((*cell, vec![*input])),
                }
            }
            for (Transition { next, step }, inputs) in edges {
                let next = next.map_or("[*]".to_owned(), |next| format!("{next:?}"));
                let step = name_of_step(step).map(|step| format!(" / {step}")).unwrap_or_default();
                if next != *phase {
                    writeln!(out, "    {phase} --> {next} : {}{step}", self.in_few_words(inputs))?;
                }
            }
        }
        if let Some(beside) = self.beside {
            writeln!(out, "    {beside}")?;
        }
        writeln!(out, "```\n")
    }

    /// The inputs of one edge; those that make up a group, as that.
    fn in_few_words(&self, mut inputs: Vec<&str>) -> String {
        let mut words = Vec::new();
        for (name, group) in self.groups {
            if group.iter().all(|input| inputs.contains(input)) {
                inputs.retain(|input| !group.contains(input));
                words.push(*name);
            }
        }
        words.extend(inputs);
        words.join(", ")
    }

    fn name(&self, phase: Option<P>) -> String {
        let end = || self.end.expect("only rows that go have an end").to_owned();
        phase.map_or_else(end, |phase| format!("{phase:?}"))
    }
}

/// The name of a step, if it does anything.
fn name_of_step<S: Debug>(step: S) -> Option<String> {
    Some(format!("{step:?}")).filter(|step| step != "Nothing")
}
